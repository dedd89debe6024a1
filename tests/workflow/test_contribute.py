"""From a file of data to the one file that leaves."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fedica.errors import DataError, FedicaError, InputError, OptionError
from fedica.exchange import keygen, read_contribution, write_study
from fedica.local import LocalICA
from fedica.records import Study
from fedica.server.trust import SAMPLES_NEEDED
from fedica.workflow import contribute
from fedica.workflow.agreed import declared_samples

NAMES = [f"f{i}" for i in range(6)]


def test_what_is_written_is_what_the_fit_finds(tmp_path, data_file, small_federation):
    """The file holds the atoms of LocalICA on the data, and the list of what leaves is the whole file."""
    sent = contribute(data_file, tmp_path / "client-1.safetensors", n_components=4)
    back = read_contribution(tmp_path / "client-1.safetensors")
    fit = LocalICA(4, random_state=0).fit(small_federation.clients[0].X)
    np.testing.assert_allclose(back.atoms, fit.contribution("a").atoms, atol=1e-9)
    assert (back.client, back.n_samples, back.features) == ("client-1", 2000, tuple(NAMES))
    assert (tmp_path / "client-1.safetensors").read_bytes() == sent.data
    fields = {field.name: field.value for field in sent.leaves}
    assert fields.keys() == {
        *("atoms", "client", "features", "fedica", "format"),
        *("independence", "mixing", "n_samples", "solver", "version"),
    }
    assert sum(field.n_bytes for field in sent.leaves) < len(sent.data)
    assert str(data_file.name).encode() not in sent.data


def test_nothing_is_written_when_only_looking(tmp_path, data_file):
    """The list is there, the file is not."""
    sent = contribute(data_file, tmp_path / "a.safetensors", n_components=4, write=False)
    assert sent.path is None
    assert not (tmp_path / "a.safetensors").exists()
    assert {field.name for field in sent.leaves} >= {"atoms"}


def test_names_that_leave_are_shown_before_anything_is_written(tmp_path, data_file):
    """A barcode among them is seen in time; names that a study fixed are known to all."""
    shown = []

    def show(names):
        shown.append((names, (tmp_path / "a.safetensors").exists()))

    contribute(data_file, tmp_path / "a.safetensors", n_components=4, show_names=show)
    assert shown == [(tuple(NAMES), False)]
    contribute(data_file, tmp_path / "a.safetensors", n_components=4, study=Study("s", NAMES), show_names=show)
    assert len(shown) == 1


def test_a_study_is_followed(tmp_path, data_file, small_federation):
    """Order of features, common scales, components, and how samples are declared."""
    order = NAMES[::-1]
    scales = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    study = Study("s", order, scales=scales, n_components=4, declare_samples="rounded", min_samples=1000)
    write_study(study, tmp_path / "study.json")
    sent = contribute(data_file, tmp_path / "a.safetensors", study=tmp_path / "study.json").contribution
    fit = LocalICA(4, random_state=0).fit(small_federation.clients[0].X[:, ::-1] * scales)
    np.testing.assert_allclose(sent.atoms, fit.contribution("a").atoms, atol=1e-9)
    assert (sent.study, sent.features, sent.n_samples) == ("s", tuple(order), 2000)


def test_single_precision_is_the_same_message_the_second_time(tmp_path, data_file):
    """Its number stays; what was sent in double precision before is another message."""
    path = tmp_path / "a.safetensors"
    serials = [contribute(data_file, path, n_components=4, float32=True).contribution.serial for _ in range(2)]
    assert serials == [None, None]
    assert contribute(data_file, path, n_components=4).contribution.serial == 1


@pytest.mark.parametrize("asked_by", ["the study", "the client"])
def test_strengths_leave_where_they_are_asked_for_and_that_is_said(tmp_path, data_file, small_federation, asked_by):
    """They are in the file, what they tell is among what leaves, and covariances are no longer among what stays."""
    study = Study("s", NAMES, strengths="yes") if asked_by == "the study" else None
    strengths = None if asked_by == "the study" else True
    plain = contribute(data_file, tmp_path / "a.safetensors", n_components=4)
    sent = contribute(data_file, tmp_path / "a.safetensors", n_components=4, study=study, strengths=strengths)
    fit = LocalICA(4, random_state=0).fit(small_federation.clients[0].X)
    read = read_contribution(tmp_path / "a.safetensors")
    np.testing.assert_allclose(read.gram, fit.contribution("a", strengths=True).gram, rtol=1e-9)
    assert read.noise_floor == pytest.approx(fit.whitening_.noise_floor)
    assert {field.name for field in sent.leaves} - {field.name for field in plain.leaves} >= {"gram", "noise_floor"}
    assert plain.tells == ()
    assert "covariances of all features, at 4 dimensions" in sent.tells[0]
    assert "the recovered sources, and every mean of the data" in sent.stays
    assert "the recovered sources, and every mean, variance and covariance of the data" in plain.stays


def test_half_the_rank_of_the_data_is_sent_where_spans_are_pooled(tmp_path):
    """Maps with strengths, where nobody gave a number: rank 8 of 9 scans is 4 maps; without strengths all 8."""
    scans = np.random.default_rng(0).laplace(size=(9, 60))
    np.save(tmp_path / "scans.npy", scans)
    counts = [
        contribute(tmp_path / "scans.npy", client="a", independence="features", **asked).contribution.n_atoms
        for asked in ({"strengths": True}, {}, {"strengths": True, "n_components": 7})
    ]
    assert counts == [4, 8, 7]


@pytest.mark.parametrize(
    ("study", "options", "complaint"),
    [
        ({"features": [*NAMES, "f9"]}, {}, "1 of 7 wanted features is not there: 'f9'"),
        ({"min_samples": 5000}, {}, "expected at least 5000 samples, got 2000"),
        ({}, {"min_samples": 3000}, "at least 3000 samples"),
        ({"n_components": 3}, {"n_components": 4}, "has 3 components; 4 were asked for"),
        ({}, {"independence": "features"}, "has independence 'samples'"),
        ({}, {"mixing": "orthogonal"}, "has mixing 'general'"),
        ({}, {"features": ["f1", "zz"]}, "has no feature 'zz'"),
        ({}, {"strengths": True}, "study 's' has strengths 'no'; the other was asked for"),
        ({"strengths": "yes"}, {"strengths": False}, "study 's' has strengths 'yes'; the other was asked for"),
    ],
)
def test_what_does_not_fit_the_study_is_refused(tmp_path, data_file, study, options, complaint):
    """With the numbers, and nothing is written."""
    record = Study("s", **{"features": NAMES, **study})
    with pytest.raises(FedicaError, match=complaint):
        contribute(data_file, tmp_path / "a.safetensors", study=record, **options)
    assert not (tmp_path / "a.safetensors").exists()


def test_a_client_that_lacks_features_of_the_study_says_so_and_contributes(tmp_path, data_file):
    """With the list of those that it has; the study's order holds."""
    study = Study("s", [*NAMES, "f9"], n_components=4)
    sent = contribute(data_file, tmp_path / "a.safetensors", study=study, features=NAMES[::-1]).contribution
    assert sent.features == tuple(NAMES)


@pytest.mark.parametrize(
    ("how", "n_samples", "told"),
    [
        ("exactly", 1234, 1234),
        ("no", 1234, None),
        ("rounded", 1234, 1000),
        ("rounded", 96, 100),
        ("rounded", 7, 7),
        ("rounded", 25_000_001, 30_000_000),
    ],
)
def test_how_samples_are_declared(how, n_samples, told):
    """Exactly, to one digit, or not at all."""
    assert declared_samples(n_samples, Study("s", ["a"], declare_samples=how)) == told


def test_the_client_is_named_by_option_key_or_file(tmp_path, data_file):
    """Never by the data's file; a key signs in its owner's name alone."""
    private, _ = keygen("clinic", tmp_path)
    signed = contribute(data_file, tmp_path / "a.safetensors", key=private, n_components=2)
    assert signed.contribution.client == "clinic"
    assert {"key", "signature"} <= {field.name for field in signed.leaves}
    assert contribute(data_file, tmp_path / "b.safetensors", n_components=2).contribution.client == "b"
    assert contribute(data_file, client="c", n_components=2).contribution.client == "c"
    with pytest.raises(OptionError, match="needs a name"):
        contribute(data_file, n_components=2)
    with pytest.raises(InputError, match="clinic"):
        contribute(data_file, tmp_path / "c.safetensors", key=private, client="other", n_components=2)


def test_what_is_noticed_is_said(tmp_path, small_federation):
    """Left-out columns, constant columns and few samples become notes, not warnings."""
    X = small_federation.clients[0].X[:60]
    path = tmp_path / "data.csv"
    table = np.column_stack([np.arange(60), X, np.ones(60)])
    np.savetxt(path, table, delimiter=",", header="id,a,b,c,d,e,f,flat", comments="")
    sent = contribute(path, tmp_path / "x.safetensors", n_components=4)
    said = " ".join(sent.notes)
    assert "'id'" in said
    assert "flat" in said
    assert "60 samples are few for 4 components" in said
    assert any("'id'" in line for line in sent.stays)


def test_a_missing_folder_is_noticed_before_the_work(tmp_path, data_file):
    """Not after an hour of fitting."""
    told = []
    with pytest.raises(InputError, match="there is no folder"):
        contribute(data_file, tmp_path / "no" / "a.safetensors", progress=told.append)
    assert told == []


def test_progress_is_told(tmp_path, data_file):
    """Reading, fitting, writing."""
    told = []
    contribute(data_file, tmp_path / "a.safetensors", n_components=2, progress=told.append)
    assert [text.split()[0] for text in told] == ["reading", "fitting", "writing"]


def test_too_few_rows_are_a_sentence(tmp_path):
    """One sample is no data."""
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="at least 2 samples"):
        contribute(tmp_path / "a.csv", tmp_path / "a.safetensors")


def test_data_of_low_rank_sends_fewer_atoms_than_the_study_has(tmp_path, small_federation):
    """With a note; but a number of components that was asked for is kept to."""
    client = small_federation.clients[0]
    np.save(tmp_path / "two.npy", client.sources[:, :2] @ small_federation.mixing[:, :2].T)
    study = Study("s", NAMES, n_components=4)
    sent = contribute(tmp_path / "two.npy", client="a", study=study)
    assert sent.contribution.n_atoms == 2
    assert any("2 independent directions, fewer than the 4 components" in note for note in sent.notes)
    with pytest.raises(DataError, match="rank"):
        contribute(tmp_path / "two.npy", client="a", study=study, n_components=4)


def test_messages_of_a_client_are_numbered_by_the_file_that_they_replace(tmp_path, data_file):
    """The first has no number; the same again has the same bytes; another one has the next number; or as told."""
    path = tmp_path / "a.safetensors"
    first = contribute(data_file, path, n_components=4)
    assert first.contribution.serial is None
    assert contribute(data_file, path, n_components=4).data == first.data
    second = contribute(data_file, path, n_components=3)
    assert second.contribution.serial == 1
    assert contribute(data_file, path, n_components=3).data == second.data
    assert contribute(data_file, path, n_components=4).contribution.serial == 2
    assert contribute(data_file, path, n_components=4, serial=7).contribution.serial == 7
    assert contribute(data_file, path, n_components=3, client="b").contribution.serial is None


def test_a_key_that_others_can_read_and_an_identifier_of_the_study_are_told_of(tmp_path, small_federation):
    """The client hears of both before it sends."""
    private, _ = keygen("a", tmp_path)
    private.chmod(0o644)
    names = ["patient_id", *NAMES[1:]]
    np.savetxt(tmp_path / "d.csv", small_federation.clients[0].X, delimiter=",", header=",".join(names), comments="")
    notes = contribute(tmp_path / "d.csv", study=Study("s", names), n_components=4, key=private).notes
    assert any("other users of this machine can use this private key" in note for note in notes)
    assert any("study 's' has the feature 'patient_id', which is an identifier, by its name" in note for note in notes)


@pytest.mark.parametrize("page", ["questions.md", "choosing.md"])
def test_the_pages_say_the_number_of_samples_that_the_commands_say(page):
    """One constant."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    assert {"choosing.md": {"40", "20"}, "questions.md": {"40"}}[page] == set(re.findall(r"(\d+) r²", text))
    assert f"{SAMPLES_NEEDED:.0f} r²" in text
