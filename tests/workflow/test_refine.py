"""Second messages through files: from a client's data to a refined result folder."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app
from fedica.errors import ContributionError, DataError, InputError, PolicyError
from fedica.evaluate import recovery_error
from fedica.exchange import keygen, read_folder, read_scores, read_study, write_contribution, write_scores, write_study
from fedica.local import LocalICA, score
from fedica.records import Study
from fedica.simulate import federation
from fedica.workflow import apply_global, combine, inspect_file, refine_result, send_scores

NAMES = [f"f{i}" for i in range(4)]


@pytest.fixture(scope="module")
def fed():
    """Twelve clients of 150 samples of four Laplace sources: weak ones."""
    return federation(12, 4, n_samples=150, law="laplace", condition=3.0, random_state=11)


@pytest.fixture(scope="module")
def place(fed, tmp_path_factory):
    """Their data as csv files, and the result of their first messages."""
    folder = tmp_path_factory.mktemp("fed")
    (folder / "inbox").mkdir()
    for client in fed.clients:
        np.savetxt(folder / f"{client.name}.csv", client.X, delimiter=",", header=",".join(NAMES), comments="")
        sent = LocalICA(4, random_state=0).fit(client.X).contribution(client.name, features=NAMES)
        write_contribution(sent, folder / "inbox" / f"{client.name}.safetensors")
    combine(folder / "inbox", folder / "result", n_components=4)
    return folder


@pytest.fixture
def second(fed, place, tmp_path):
    """A folder of their second messages."""
    folder = tmp_path / "second"
    folder.mkdir()
    for client in fed.clients:
        send_scores(place / "result", place / f"{client.name}.csv", folder / f"{client.name}.safetensors")
    return folder


def test_second_messages_refine_the_result(fed, place, second, tmp_path):
    """The new folder holds a better matrix, the first answers' clients and trust, and what changed."""
    refined = refine_result(place / "result", second, tmp_path / "better")
    before, after = read_folder(place / "result"), read_folder(tmp_path / "better")
    error = [recovery_error(x.aggregate.mixing, fed.mixing).relative for x in (before, after)]
    assert error[1] < 0.9 * error[0]
    assert after.public.round == 2
    assert after.summary["refinement"]["taken"]
    assert after.aggregate.clients == before.aggregate.clients
    assert after.provenance == before.provenance
    np.testing.assert_array_equal(refined.change.angles, after.aggregate.refinement.turned)
    assert read_folder(place / "result").aggregate.refinement is None  # the first answer is left alone


def test_the_refined_result_is_applied(fed, place, second, tmp_path):
    """Sources are least squares with the turned matrix."""
    refine_result(place / "result", second, tmp_path / "better")
    after = read_folder(tmp_path / "better")
    client = fed.clients[0]
    found = apply_global(after.public, place / f"{client.name}.csv").recovered.sources
    wanted = (client.X - client.X.mean(axis=0)) @ np.linalg.pinv(after.aggregate.mixing).T
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_a_third_message_goes_on_from_there(fed, place, second, tmp_path):
    """And a message for the first answer is then refused by name, with its file."""
    refine_result(place / "result", second, tmp_path / "two")
    (tmp_path / "third").mkdir()
    for client in fed.clients[1:]:
        file = tmp_path / "third" / f"{client.name}.safetensors"
        send_scores(tmp_path / "two", place / f"{client.name}.csv", file)
    old = second / f"{fed.clients[0].name}.safetensors"
    result = refine_result(tmp_path / "two", [tmp_path / "third", old]).aggregate
    assert result.refinement.round == 3
    assert [(x.client, x.kind, x.source) for x in result.rejected] == [
        (fed.clients[0].name, "other-aggregate", str(old))
    ]
    with pytest.raises(ContributionError, match="all are required"):
        refine_result(tmp_path / "two", [tmp_path / "third", old], require_all=True)


def test_what_leaves_is_what_is_in_the_file(fed, place, tmp_path):
    """Field by field; a dry run writes nothing; the same data gives the same bytes as `score`."""
    data, output = place / f"{fed.clients[0].name}.csv", tmp_path / "a.safetensors"
    sent = send_scores(place / "result", data, output, write=False)
    assert not output.exists()
    assert sent.path is None
    sent = send_scores(place / "result", data, output)
    assert sent.data == output.read_bytes()
    assert sent.leaves == inspect_file(output).fields
    assert {field.name for field in sent.leaves} == {
        *("covariance", "products", "slopes", "scale", "client", "components", "n_samples", "refines", "nonlinearity"),
        *("format", "version", "fedica"),
    }
    assert any("150 samples of 4 features" in line for line in sent.stays)
    own = score(np.loadtxt(data, delimiter=",", skiprows=1), read_folder(place / "result").public, client="a")
    assert np.array_equal(own.products, read_scores(output).products)


def test_columns_are_found_by_name(fed, place, tmp_path):
    """In another order and among others; a client that lacks a feature that it needs is told so."""
    X = fed.clients[0].X
    table = np.column_stack([X[:, 2], X[:, 0], X[:, 3], X[:, 1], X[:, 0] ** 2])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header="f2,f0,f3,f1,other", comments="")
    mixed = send_scores(place / "result", tmp_path / "x.csv", client="a").scores
    plain = send_scores(place / "result", place / f"{fed.clients[0].name}.csv", client="a").scores
    np.testing.assert_allclose(mixed.products, plain.products, atol=1e-12)
    np.savetxt(tmp_path / "less.csv", X[:, :3], delimiter=",", header="f0,f1,f2", comments="")
    with pytest.raises(DataError, match="cannot tell 4 components apart"):
        send_scores(place / "result", tmp_path / "less.csv", client="a")


def test_the_study_holds(fed, place, tmp_path):
    """Its id goes along, its scales are applied, its rule on samples decides; messages of others are refused."""
    study = Study("s", features=NAMES, scales=[1.0, 10.0, 1.0, 1.0], independence="samples", declare_samples="rounded")
    write_study(study, tmp_path / "study.json")
    public = read_folder(place / "result").public
    of_study = replace(public, terms=replace(public.terms, study="s"))
    data = place / f"{fed.clients[0].name}.csv"
    sent = send_scores(of_study, data, client="a", study=tmp_path / "study.json")
    assert sent.scores.study == "s"
    assert sent.scores.n_samples == 200
    assert any("exact number of samples, 150" in line for line in sent.stays)
    X = fed.clients[0].X * [1.0, 10.0, 1.0, 1.0]
    np.testing.assert_allclose(sent.scores.products, score(X, of_study, client="a").products, atol=1e-12)
    with pytest.raises(InputError, match="belongs to study 's'"):
        send_scores(of_study, data, client="a")
    with pytest.raises(PolicyError, match="declare_samples"):
        send_scores(of_study, data, client="a", study=replace(study, declare_samples="no"))
    assert read_study(tmp_path / "study.json").id == "s"


def test_only_trusted_signatures_count(fed, place, second, tmp_path):
    """One client's message is signed; with trusted keys the others are refused, each with the reason."""
    keys = tmp_path / "keys"
    keys.mkdir()
    name = fed.clients[0].name
    private, _ = keygen(name, keys)
    send_scores(place / "result", place / f"{name}.csv", second / f"{name}.safetensors", key=private)
    result = refine_result(place / "result", second, trust_keys=keys, min_clients=1).aggregate
    assert result.refinement.counted == (name,)
    assert not result.refinement.taken  # one of twelve
    assert len(result.rejected) == 11
    with pytest.raises(InputError, match="at least 2 clients are wanted; 1 can be used"):
        refine_result(place / "result", second, trust_keys=keys)


def test_an_older_signed_second_message_does_not_knock_a_client_out(fed, place, second, tmp_path):
    """A client corrects its message in place: the number counts up, the highest counts, and that is said."""
    keys, name, other = tmp_path / "keys", fed.clients[0].name, fed.clients[1].name
    private = {client: keygen(client, keys)[0] for client in (name, other)}
    files = {client: second / f"{client}.safetensors" for client in (name, other)}
    for client, file in files.items():
        send_scores(place / "result", place / f"{client}.csv", file, key=private[client])
    old = files[name].read_bytes()
    again = send_scores(place / "result", place / f"{name}.csv", files[name], key=private[name])
    assert (again.data, again.scores.serial) == (old, None)  # equal inputs, equal bytes
    corrected = send_scores(place / "result", place / f"{other}.csv", files[name], client=name, key=private[name])
    assert (corrected.scores.serial, read_scores(files[name]).serial) == (1, 1)
    (second / "zz-older.safetensors").write_bytes(old)
    options = {"trust_keys": keys, "min_clients": 1}
    combined = refine_result(place / "result", second, **options)
    assert combined.aggregate.refinement.counted == (name, other)
    assert f"client {name!r} sent messages of 2 different numbers: number 1, the highest, counts." in combined.notes
    told = send_scores(place / "result", place / f"{name}.csv", second / "x.safetensors", client=name, serial=7)
    assert told.scores.serial == 7


def test_hostile_messages_do_not_count(fed, place, second):
    """Three of twelve clients score data of another mixing matrix; nobody else is left out."""
    public = read_folder(place / "result").public
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    for client in fed.clients[:3]:
        bad = replace(score(10 * client.X @ turned, public, client=client.name), n_samples=10**6)
        write_scores(bad, second / f"{client.name}.safetensors")
    result = refine_result(place / "result", second).aggregate
    assert result.refinement.left_out == tuple(client.name for client in fed.clients[:3])


def test_the_commands(fed, place, tmp_path):
    """`refine` lists what leaves; `aggregate --refine` says what was turned, and refuses options of a first answer."""
    (tmp_path / "second").mkdir()
    for client in fed.clients:
        arguments = ["refine", place / "result", place / f"{client.name}.csv"]
        output = tmp_path / "second" / f"{client.name}.safetensors"
        ran = CliRunner().invoke(app, [*map(str, arguments), "-o", str(output)])
        assert ran.exit_code == 0, ran.output
    assert "What leaves:" in ran.output
    assert "second-order information" in ran.output
    assert "What does not leave:" in ran.output
    command = ["aggregate", str(tmp_path / "second"), "--refine", str(place / "result"), "-o", str(tmp_path / "two")]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    assert "Message 2 of each client: the components were turned. 12 of 12 clients agree" in ran.output
    ran = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(ran.stdout)["refinement"]["round"] == 2
    ran = CliRunner().invoke(app, [*command, "--components", "3"])
    assert ran.exit_code == 1
    assert "--components decides on the first answer" in ran.output


def test_an_inbox_of_first_messages_is_no_inbox_of_second_ones(place, tmp_path):
    """Each is refused for what it is, and nothing is written."""
    with pytest.raises(InputError, match=r"12 were refused.*expected a fedica\.scores file"):
        refine_result(place / "result", place / "inbox", tmp_path / "two")
    assert not (tmp_path / "two").exists()
