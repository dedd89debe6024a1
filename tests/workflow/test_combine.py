"""From the clients' files to the result folder."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from fedica.errors import ContributionError, FedicaError, InputError
from fedica.exchange import keygen, read_aggregate, read_folder, read_signing_key, write_contribution
from fedica.exchange.aggregates import aggregate_to_bytes
from fedica.exchange.details import DETAILS
from fedica.records import Contribution, Study
from fedica.report import headline
from fedica.report.provenance import command
from fedica.server import aggregate
from fedica.simulate import atoms_federation
from fedica.workflow import combine, export

NAMES = [f"f{i}" for i in range(6)]


def add(inbox, contribution, **options):
    write_contribution(contribution, inbox / f"{contribution.client}.safetensors", **options)


def stranger(seed=0, client="stranger"):
    atoms = np.linalg.qr(np.random.default_rng(seed).standard_normal((6, 4)))[0]
    return Contribution(client, atoms, 2000, features=NAMES)


def test_files_give_what_the_library_gives(tmp_path, inbox, small_contributions):
    """The folder holds the aggregate of the contributions, and their provenance."""
    combined = combine(inbox, tmp_path / "result", n_components=4)
    direct = aggregate(small_contributions, 4)
    np.testing.assert_allclose(combined.aggregate.mixing, direct.mixing, rtol=0, atol=1e-14)
    folder = read_folder(tmp_path / "result")
    np.testing.assert_array_equal(folder.aggregate.mixing, combined.aggregate.mixing)
    assert [origin.client for origin in folder.provenance] == list(direct.clients)


def test_a_bad_file_is_left_out_and_named_or_stops_everything(tmp_path, inbox):
    """As --require-all says; nothing is then written."""
    (inbox / "junk.safetensors").write_bytes(b"junk")
    combined = combine(inbox, tmp_path / "result", n_components=4)
    assert [x.source for x in combined.aggregate.rejected] == [str(inbox / "junk.safetensors")]
    with pytest.raises(ContributionError, match=r"all are required.*junk"):
        combine(inbox, tmp_path / "strict", n_components=4, require_all=True)
    assert not (tmp_path / "strict").exists()


def test_withdrawing_a_client_is_as_if_it_had_never_come(tmp_path, inbox, small_contributions):
    """Up to the order of components, which stays; and what changed is told."""
    add(inbox, stranger())
    combined = combine(inbox, tmp_path / "result", n_components=4, exclude=["stranger"])
    direct = aggregate(small_contributions, 4)
    assert combined.left == ("stranger",)
    assert sorted(combined.change.places.tolist()) == [0, 1, 2, 3]
    cosines = np.abs(direct.mixing.T @ combined.aggregate.mixing).max(axis=0)
    np.testing.assert_allclose(cosines, 1, atol=1e-12)
    assert "withdrawn" in combined.aggregate.rejected[0].reason
    with pytest.raises(InputError, match="no contribution of client 'nobody'"):
        combine(inbox, exclude=["nobody"])


def test_it_fails_closed(tmp_path, inbox):
    """Too few clients or an outlying one: one sentence, and no folder."""
    with pytest.raises(InputError, match="at least 6 clients are wanted; 5 can be used"):
        combine(inbox, tmp_path / "result", min_clients=6)
    combine(inbox, tmp_path / "fine", n_components=4, fail_on="outlying")
    add(inbox, stranger())
    with pytest.raises(ContributionError, match=r"1 of 6 clients is outlying: 'stranger'.*Nothing was written"):
        combine(inbox, tmp_path / "result", n_components=4, fail_on="outlying")
    with pytest.raises(InputError, match="at least 2 clients"):
        combine(inbox / "client-1.safetensors", tmp_path / "result")
    assert not (tmp_path / "result").exists()


def test_only_what_trusted_keys_signed_comes_in(tmp_path, inbox, small_contributions):
    """Unsigned, signed by another's key, or to another study: each is refused by name, the rest go on or not."""
    study = Study("s", NAMES, n_components=4)
    for contribution in small_contributions:
        keygen(contribution.client, tmp_path / "private")
        public = tmp_path / "private" / f"{contribution.client}.pub"
        (tmp_path / "keys").mkdir(exist_ok=True)
        (tmp_path / "keys" / public.name).write_bytes(public.read_bytes())
        key = read_signing_key(tmp_path / "private" / f"{contribution.client}.key")
        add(inbox, replace(contribution, study="s"), key=key)
    options = {"trust_keys": tmp_path / "keys", "study": study}
    assert len(combine(inbox, **options, require_all=True).aggregate.clients) == 5

    add(inbox, replace(small_contributions[0], study="s"))  # unsigned
    key = read_signing_key(tmp_path / "private" / f"{small_contributions[1].client}.key")
    add(inbox, replace(small_contributions[1], study="other"), key=key)  # replayed from another study
    forged = replace(key, client=None)
    add(inbox, replace(small_contributions[2], study="s"), key=forged)  # signed by another client's trusted key
    combined = combine(inbox, **options)
    refused = {x.client: x.reason for x in combined.aggregate.rejected}
    assert set(refused) == {c.client for c in small_contributions[:3]}
    assert "signed" in refused["client-1"]
    assert "another study" in refused["client-2"]
    assert [x.kind for x in combined.aggregate.rejected] == ["other-study", "unsigned", "other-key"]
    with pytest.raises(InputError, match="all are required, and 2 clients with a trusted key sent nothing: 'client-1'"):
        combine(inbox, **options, require_all=True)
    (inbox / "client-5.safetensors").unlink()
    assert any("'client-5'" in note for note in combine(inbox, **options, min_clients=1).notes)


@pytest.fixture
def signed(tmp_path, inbox, small_contributions):
    """The five files, signed for study s, and what the coordinator knows."""
    private = {}
    for contribution in small_contributions:
        secret, public = keygen(contribution.client, tmp_path / "private")
        (tmp_path / "keys").mkdir(exist_ok=True)
        (tmp_path / "keys" / public.name).write_bytes(public.read_bytes())
        private[contribution.client] = read_signing_key(secret)
        add(inbox, replace(contribution, study="s"), key=private[contribution.client])
    return private, {"trust_keys": tmp_path / "keys", "study": Study("s", NAMES, n_components=4)}


def test_an_older_signed_message_does_not_knock_a_client_out(tmp_path, inbox, small_contributions, signed):
    """The highest number counts, and that is said; so it is whatever the files are called, and for another study."""
    private, options = signed
    own = replace(small_contributions[0], study="s")
    older = replace(own, atoms=own.atoms[:, ::-1] + 0.01, serial=2)
    for name, message in (("0", replace(own, serial=5)), ("z", older), ("y", replace(older, study="old", serial=9))):
        write_contribution(message, inbox / f"{name}.safetensors", key=private[own.client])
    combined = combine(inbox, **options)
    assert len(combined.aggregate.clients) == 5
    assert [x.kind for x in combined.aggregate.rejected] == ["other-study"]
    assert "client 'client-1' sent messages of 3 different numbers: number 5, the highest, counts." in combined.notes
    (provenance,) = [x for x in combined.provenance if x.client == own.client]
    assert provenance.source == str(inbox / "0.safetensors")
    write_contribution(replace(older, serial=5), inbox / "x.safetensors", key=private[own.client])
    assert "duplicate-name" in {x.kind for x in combine(inbox, **options).aggregate.rejected}


def test_without_keys_a_number_is_no_reason_to_believe_a_message(inbox, small_contributions):
    """Anybody can write a higher one: both are refused."""
    own = small_contributions[0]
    write_contribution(replace(own, atoms=own.atoms + 0.01, serial=7), inbox / "later.safetensors")
    combined = combine(inbox, n_components=4)
    assert [(x.client, x.kind) for x in combined.aggregate.rejected] == [("client-1", "duplicate-name")]


def test_an_unsigned_file_in_an_absent_clients_name_is_not_its_message(inbox, small_contributions, signed):
    """The client is named as absent all the same."""
    _, options = signed
    add(inbox, replace(small_contributions[0], study="s"))  # unsigned, in the place of the signed one
    notes = combine(inbox, **options).notes
    assert "1 client with a trusted key sent nothing: 'client-1'." in notes


def test_two_insiders_with_another_grid_refuse_nobody(inbox, small_contributions, signed):
    """With a study and keys, and everybody else silent or of one grid."""
    private, options = signed
    for grid, contribution in zip(("2 mm", "3 mm"), small_contributions[:2], strict=True):
        add(inbox, replace(contribution, study="s", grid=grid), key=private[contribution.client])
    combined = combine(inbox, **options)
    assert len(combined.aggregate.clients) == 5
    assert combined.aggregate.terms.mixing == "general"


def test_what_few_clients_have_is_withheld_and_told_of(tmp_path, inbox, small_contributions):
    """The result and the details keep all components; the public file, the table and the export have the others."""
    whole = aggregate(small_contributions, 4)
    for k in range(2, 5):  # these three lack the last component
        own = small_contributions[k]
        add(inbox, replace(own, atoms=own.atoms[:, whole.labels[whole.client_of_atom == k] < 3]))
    combined = combine(inbox, tmp_path / "result", n_components=4)
    folder = read_folder(tmp_path / "result")
    n_withheld = folder.summary["n_withheld"]
    assert n_withheld >= 1
    assert combined.aggregate.n_components == folder.aggregate.n_components == 4
    np.testing.assert_array_equal(folder.public.mixing, combined.aggregate.mixing[:, : 4 - n_withheld])
    are = "is" if n_withheld == 1 else "are"
    assert any(f"{n_withheld} of 4 components {are} withheld" in note for note in combined.notes)
    again = combine(inbox, tmp_path / "again", n_components=4, like=tmp_path / "result")
    assert again.change.places.tolist() == [0, 1, 2, 3]
    exported = export(tmp_path / "result", tmp_path / "mixing.csv")
    assert "withheld" in exported.notes[0]
    assert (tmp_path / "mixing.csv").read_bytes() == (tmp_path / "result" / "mixing.csv").read_bytes()
    everything = combine(inbox, tmp_path / "all", n_components=4, min_support=1)
    assert read_folder(tmp_path / "all").public.n_components == 4
    assert not any("withheld" in note for note in everything.notes)


def test_two_clients_have_no_public_file_unless_told_so(tmp_path, inbox, small_contributions):
    """A column of two clients' result could be one client's own atom."""
    pair = [inbox / f"{c.client}.safetensors" for c in small_contributions[:2]]
    combined = combine(pair, tmp_path / "result", n_components=4)
    assert not (tmp_path / "result" / "aggregate.safetensors").exists()
    assert any("4 of 4 components are withheld from the clients" in note for note in combined.notes)
    combine(pair, tmp_path / "result", n_components=4, min_support=2)
    assert read_aggregate(tmp_path / "result" / "aggregate.safetensors").n_components == 4


def test_contributions_to_another_study_or_on_other_terms_are_left_out(inbox, small_contributions):
    """The study decides, not the majority."""
    with pytest.raises(InputError, match=r"no contribution can be used: 5 .* were refused.*another study"):
        combine(inbox, study=Study("s", NAMES))
    for contribution in small_contributions:
        add(inbox, replace(contribution, study="s", mixing="orthogonal" if contribution.client > "client-3" else None))
    combined = combine(inbox, study=Study("s", NAMES, n_components=4))
    assert [x.client for x in combined.aggregate.rejected] == ["client-4", "client-5"]


def test_a_replay_beside_a_clients_own_file_is_refused_and_named(inbox, small_contributions):
    """A file for another study takes nothing from its client, and the rejection names that file."""
    for contribution in small_contributions:
        add(inbox, replace(contribution, study="s"))
    write_contribution(replace(small_contributions[2], study="old"), inbox / "a-replay.safetensors")
    combined = combine(inbox, study=Study("s", NAMES, n_components=4))
    assert len(combined.aggregate.clients) == 5
    (refused,) = combined.aggregate.rejected
    assert (refused.client, refused.kind) == (small_contributions[2].client, "other-study")
    assert refused.source == str(inbox / "a-replay.safetensors")


def test_a_late_client_changes_no_order_and_no_sign(tmp_path, inbox, small_contributions):
    """Like the old result, whatever order and signs that had; who joined is told."""
    last = inbox / "client-5.safetensors"
    late = last.read_bytes()
    last.unlink()
    old = combine(inbox, tmp_path / "old", n_components=4).aggregate
    turned = replace(old, mixing=-old.mixing[:, ::-1])  # an order and signs that nobody would choose
    from fedica.exchange import write_aggregate

    write_aggregate(turned, tmp_path / "odd.safetensors")
    last.write_bytes(late)
    for like, reference in ((tmp_path / "old", old), (tmp_path / "odd.safetensors", turned)):
        combined = combine(inbox, n_components=4, like=like)
        now = combined.aggregate
        assert (np.sum(now.mixing * reference.mixing, axis=0) > 0.99).all()
        assert combined.change.places.tolist() == [0, 1, 2, 3]
        found = now.labels >= 0
        along = np.sum(now.atoms[:, found] * now.mixing[:, now.labels[found]], axis=0)
        assert (along * now.signs[found] > 0).all()
    assert combine(inbox, n_components=4, like=tmp_path / "old").joined == ("client-5",)


def test_new_and_lost_components_are_told(tmp_path, inbox):
    """Asking for fewer components loses one; the others keep their order."""
    combine(inbox, tmp_path / "old", n_components=4)
    combined = combine(inbox, n_components=3, like=tmp_path / "old")
    assert len(combined.change.gone) + (combined.change.places >= 0).sum() == 4
    assert combined.change.gone


def test_nothing_public_depends_on_names(tmp_path, small_contributions):
    """Two clients swap their names, with features missing: not a bit of the public file changes."""
    parts = [
        replace(c, features=NAMES[:5], atoms=c.atoms[:5]) if k == 1 else c for k, c in enumerate(small_contributions)
    ]
    names = [c.client for c in parts]
    public = []
    for order in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [4, 3, 0, 1, 2]):
        folder = tmp_path / str(order)
        folder.mkdir()
        for contribution, k in zip(parts, order, strict=True):
            add(folder, replace(contribution, client=names[k]))
        public.append(aggregate_to_bytes(combine(folder, n_components=4).aggregate))
    assert public[0] == public[1] == public[2]


def test_clients_with_other_features_are_told_of(tmp_path, inbox, small_contributions):
    """Reordered: put right in silence. Lacking some: filled, with a note. Other names: refused."""
    shuffled = [3, 1, 5, 0, 2, 4]
    one, two, three = small_contributions[:3]
    add(inbox, replace(one, features=[NAMES[k] for k in shuffled], atoms=one.atoms[shuffled]))
    assert combine(inbox, n_components=4, require_all=True).notes == ()
    add(inbox, replace(two, features=NAMES[1:], atoms=two.atoms[1:]))
    add(inbox, replace(three, features=[f"x{i}" for i in range(6)]))
    combined = combine(inbox, tmp_path / "result", n_components=4)
    assert [x.client for x in combined.aggregate.rejected] == ["client-3"]
    assert "0 of the 6 features" in combined.aggregate.rejected[0].reason
    assert any("'client-2' lacks 1 of 6 features ('f0')" in note for note in combined.notes)
    assert read_folder(tmp_path / "result").summary["options"]["n_clients_filled"] == 1
    assert read_aggregate(tmp_path / "result" / "aggregate.safetensors").terms.features == tuple(NAMES)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"affinity": "magic"}, "affinity"),
        ({"weights": "magic"}, "weights"),
        ({"fail_on": "magic"}, "fail_on"),
        ({"n_components": 99}, "99 components were wanted"),
        ({"min_clients": 0}, "min_clients"),
        ({"like": "no-such-result"}, "no-such-result"),
        ({"trust_keys": "no-such-folder"}, "no-such-folder"),
        ({"study": "no-such-file"}, "no-such-file"),
    ],
)
def test_bad_options_are_sentences(inbox, options, complaint):
    """Each names what is wrong."""
    with pytest.raises(FedicaError, match=complaint):
        combine(inbox, **options)


def test_atoms_of_a_large_inbox_wait_in_files(inbox, monkeypatch):
    """What is read is not held in memory as a whole, and gives the same result."""
    from fedica.blocks import spool
    from fedica.records import StoredAtoms
    from fedica.workflow.gates import read_inbox

    in_memory = combine(inbox, n_components=4).aggregate
    monkeypatch.setattr(spool, "SPOOL_BYTES", 0)
    received, _ = read_inbox(inbox, None)
    stored = [isinstance(item.contribution.atoms, StoredAtoms) for item in received]
    assert stored == [False, True, True, True, True]
    assert [item.provenance.client for item in received] == [item.contribution.client for item in received]
    from_files = combine(inbox, n_components=4).aggregate  # to rounding: BLAS sums as the memory is aligned
    np.testing.assert_allclose(from_files.mixing, in_memory.mixing, rtol=0, atol=1e-14)


def test_a_large_inbox_of_single_precision_is_on_the_disk_twice_at_most(tmp_path, monkeypatch):
    """The messages and one temporary file of their size, for whatever is done: also group ICA, names in any order.

    The files are read once; besides, group ICA reads their maps at most nine times.
    """
    from fedica.blocks import spool

    rng, n_clients, shape = np.random.default_rng(0), 50, (3000, 8)
    maps, inbox = np.linalg.qr(rng.standard_normal((3000, 4)) ** 3)[0], tmp_path / "inbox"
    inbox.mkdir()
    for k in rng.permutation(n_clients):
        own = 0.02 * rng.standard_normal(shape)
        own[:, :4] += maps
        sent = Contribution(f"person-{k}", own, 99, independence="features", gram=np.diag(8.0 - np.arange(8)))
        write_contribution(sent, inbox / f"{rng.integers(2**60)}.safetensors", float32=True)
    in_memory = combine(inbox, n_components=4, method="group").aggregate
    files, read, plain, plain_rows = [], [], spool.TemporaryFile, spool._File.rows
    monkeypatch.setattr(spool, "SPOOL_BYTES", 0)
    monkeypatch.setattr(spool, "TemporaryFile", lambda: files.append(plain()) or files[-1])
    monkeypatch.setattr(spool._File, "rows", lambda *given: read.append(plain_rows(*given)) or read[-1])
    monkeypatch.setattr("fedica.server.group.spans.MAX_HELD_BYTES", 0)
    monkeypatch.setattr("fedica.exchange.details.DETAILS", replace(DETAILS, max_numbers=10**6))
    large = combine(inbox, tmp_path / "result", n_components=4, method="group")
    (file,) = files
    n_stored = 4 * shape[0] * shape[1] * (n_clients - 1)  # the first one is in memory
    assert os.fstat(file.fileno()).st_size == n_stored
    headline(large.aggregate)
    assert sum(rows.nbytes for rows in read) <= 9 * n_stored
    assert sum(x.stat().st_size for x in (tmp_path / "result").iterdir()) < n_stored / 10
    np.testing.assert_allclose(np.abs(large.aggregate.mixing.T @ in_memory.mixing), np.eye(4), rtol=0, atol=1e-6)
    assert large.aggregate.clients == in_memory.clients
    assert np.array_equal(large.aggregate.atoms, in_memory.atoms)


def test_features_of_a_large_inbox_are_filled_too(inbox, small_contributions, monkeypatch):
    """Atoms in a file are put in order, cut and filled as those in memory."""
    from fedica.blocks import spool

    one, two = small_contributions[:2]
    shuffled = [3, 1, 5, 0, 2, 4]
    add(inbox, replace(one, features=[NAMES[k] for k in shuffled], atoms=one.atoms[shuffled]))
    add(inbox, replace(two, features=NAMES[1:], atoms=two.atoms[1:]))
    in_memory = combine(inbox, n_components=4).aggregate
    monkeypatch.setattr(spool, "SPOOL_BYTES", -1)
    np.testing.assert_allclose(combine(inbox, n_components=4).aggregate.mixing, in_memory.mixing, rtol=0, atol=1e-12)


def test_features_that_clients_share_are_in_memory_once(inbox):
    """The same texts, not equal copies: thousands of voxels have long names."""
    from fedica.workflow.gates import read_inbox

    first, *others = [item.contribution.features for item in read_inbox(inbox, None)[0]]
    assert all(name is other for names in others for name, other in zip(first, names, strict=True))


def test_which_components_replicate_is_tested_when_asked(tmp_path):
    """Twelve clients, twenty dimensions per component: the folder keeps the answer and how to repeat it."""
    sent = atoms_federation(12, 3, n_features=60, error=0.1).contributions
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for one in sent:
        write_contribution(one, inbox / f"{one.client}.safetensors")
    assert combine(inbox, n_components=3).aggregate.replicates is None
    few = combine(sorted(inbox.iterdir())[:5], n_components=3, replication=True)
    assert "replication was not tested: that takes six clients or more whose atoms are matched." in few.notes
    combine(inbox, tmp_path / "result", n_components=3, replication=True)
    folder = read_folder(tmp_path / "result")
    assert folder.aggregate.replicates.any()
    assert "replicate" in str(headline(folder.aggregate))
    assert "--replication" in command(folder.aggregate, folder.provenance, None)
