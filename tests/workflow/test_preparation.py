"""How data is prepared belongs to the study; fitted decompositions; how many persons data is from."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app
from fedica.errors import DataError, FedicaError, FormatError, InputError, OptionError
from fedica.exchange import read_contribution, read_folder, read_study, write_contribution, write_study
from fedica.readers import ReadOptions
from fedica.records import Contribution, Study, ordered_by_content
from fedica.workflow import apply_global, combine, contribute, new_study
from fedica.workflow.preparation import study_options

sys.path.append(str(Path(__file__).parents[1] / "readers"))


def table(path, seed=0, transpose=False):
    """Write three sources in four genes; genes x samples if transposed."""
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(400, 3)) @ np.random.default_rng(9).standard_normal((3, 4))
    names, rows = ["g1", "g2", "g3", "g4"], X
    if transpose:
        names, rows = ["", *(f"sample{k}" for k in range(400))], X.T
    lines = [f"g{k + 1}," * transpose + ",".join(f"{x:.5f}" for x in row) for k, row in enumerate(rows)]
    path.write_text("\n".join([",".join(names), *lines, ""]))
    return path


def test_a_study_fixes_the_transposition(tmp_path):
    """Clients of an expression study need no option; one whose table lies the other way says so."""
    turned, plain = table(tmp_path / "a.csv", transpose=True), table(tmp_path / "b.csv", 1)
    study, _ = new_study(tmp_path / "s.json", "genes", data=turned, options=ReadOptions(transpose=True))
    assert study.preprocessing == {"transpose": "yes"}
    path = tmp_path / "s.json"
    sent = contribute(turned, client="a", study=path).contribution
    assert sent.features == ("g1", "g2", "g3", "g4")
    assert dict(sent.preprocessing) == {"transpose": "yes"}
    assert contribute(plain, client="b", study=path, options=ReadOptions(transpose=False)).contribution.n_features == 4
    with pytest.raises(FedicaError):
        contribute(plain, client="b", study=path)


def test_options_that_contradict_the_study_are_refused():
    """What the study does not mention has its default; formats that do not use a step are not concerned."""
    study = Study("eeg", ["Fz", "Cz"], preprocessing={"highpass": "0.5", "reference": "keep"})
    used = study_options(ReadOptions(), study, ["a.edf"])
    assert (used.highpass, used.reference, used.channel_types) == (0.5, "keep", "eeg")
    assert study_options(ReadOptions(highpass=0.5), study, ["a.edf"]) == used
    with pytest.raises(OptionError, match=r"study 'eeg' has highpass 0\.5; --highpass asks for 2\. Leave it out"):
        study_options(ReadOptions(highpass=2.0), study, ["a.edf"])
    with pytest.raises(OptionError, match="has channel_types eeg; --channel-types asks for meg"):
        study_options(ReadOptions(channel_types="meg"), study, ["a.edf"])
    assert study_options(ReadOptions(), study, ["a.csv"]) == ReadOptions()
    free = Study("free", ["Fz", "Cz"])
    assert study_options(ReadOptions(highpass=2.0), free, ["a.edf"]).highpass == 2.0


@pytest.mark.parametrize("step", [{"highpass": "slow"}, {"detrend": "perhaps"}, {"polish": "yes"}])
def test_a_step_that_is_unknown_is_refused(step):
    """Misspelt by hand."""
    with pytest.raises(FormatError, match="which is unknown"):
        study_options(ReadOptions(), Study("s", ["a"], preprocessing=step), ["a.edf"])


def test_a_study_keeps_its_preparation_in_its_file(tmp_path):
    """And what a person edits by hand is checked."""
    study = Study("s", ["a", "b"], preprocessing={"highpass": "1"}, min_persons=5)
    write_study(study, tmp_path / "s.json")
    back = read_study(tmp_path / "s.json")
    assert (dict(back.preprocessing), back.min_persons) == ({"highpass": "1"}, 5)
    fields = json.loads((tmp_path / "s.json").read_text())
    (tmp_path / "s.json").write_text(json.dumps({**fields, "preprocessing": "none"}))
    with pytest.raises(FormatError, match="'preprocessing' must be dict"):
        read_study(tmp_path / "s.json")


def test_images_need_no_mask_where_the_study_has_the_grid(tmp_path):
    """A study of a mask is of maps; its voxels and grid are the mask, also for apply; a mirrored image is refused."""
    pytest.importorskip("nilearn")
    from images_simulated import AFFINE, MASK, run_of, save

    save(tmp_path / "mask.nii.gz", MASK, dtype=np.uint8)
    runs = [save_run(tmp_path / f"{k}.nii.gz", run_of(k), save) for k in range(3)]
    study, _ = new_study(tmp_path / "s.json", "rest", data=tmp_path / "mask.nii.gz", n_components=3)
    assert study.independence == "features"
    assert dict(study.preprocessing) == {"detrend": "yes", "standardize": "yes"}
    path = tmp_path / "s.json"
    masked = ReadOptions(mask=tmp_path / "mask.nii.gz")
    for k, run in enumerate(runs):
        with_mask = contribute(run, client="a", study=path, options=masked).contribution
        without = contribute(run, tmp_path / f"{k}.safetensors", client=f"c{k}", study=path).contribution
        np.testing.assert_array_equal(without.atoms, with_mask.atoms)
    combine([tmp_path / f"{k}.safetensors" for k in range(3)], tmp_path / "out", study=path)
    assert apply_global(tmp_path / "out", runs[0], study=path).recovered.sources.shape[1] == 3
    save(tmp_path / "flipped.nii.gz", run_of(0), affine=np.diag([-1.0, 1, 1, 1]) @ AFFINE)
    with pytest.raises(DataError, match="must have the grid of the mask"):
        contribute(tmp_path / "flipped.nii.gz", client="d", study=path)


def test_the_coordinator_hears_who_prepared_otherwise(tmp_path):
    """Other values, and silence, are named; the result is computed."""
    study = Study("s", ["a", "b", "c"], preprocessing={"highpass": "1", "reference": "average"})
    said = {"x": study.preprocessing, "y": {"highpass": "2", "reference": "average"}, "z": None}
    for client, own in said.items():
        atoms = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
        sent = Contribution(client, atoms, 500, features=study.features, study="s", preprocessing=own)
        write_contribution(sent, tmp_path / f"{client}.safetensors")
    notes = combine([tmp_path / f"{client}.safetensors" for client in said], study=study).notes
    assert "client 'y' prepared its data otherwise than the study says: highpass is 2, not 1." in notes
    assert "'z' did not tell how the data was prepared, which the study fixes." in notes
    assert not any("'x'" in note for note in notes)


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """The current folder has EEG (eeg.fif) and MEG (meg.fif), low-passed at 60 Hz by the device."""
    mne = pytest.importorskip("mne")
    from eeg_simulated import dipole_maps, simulated_raw

    monkeypatch.chdir(tmp_path)
    raw = simulated_raw(dipole_maps(3), n_samples=2000, extra=False).filter(None, 60, verbose="ERROR")
    raw.save("eeg_raw.fif", verbose="ERROR")
    info = mne.create_info([f"MEG{k}" for k in range(19)], 200.0, ["mag"] * 10 + ["grad"] * 9)
    mne.io.RawArray(raw.get_data() * 1e-8, info, verbose="ERROR").save("meg_raw.fif", verbose="ERROR")
    np.savetxt("eeg.csv", raw.get_data().T * 1e6, delimiter=",", header=",".join(raw.ch_names), comments="")
    return raw


def run(line, code=0):
    result = CliRunner().invoke(app, line.split(" "), prog_name="fedica")
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.mark.parametrize(("name", "types", "lowpass"), [("eeg", "eeg", "60"), ("meg", "meg", "0")])
def test_a_study_of_a_recording_says_everything_that_clients_need(recordings, name, types, lowpass):
    """Filters, reference and types of channels, of MEG too; the command that is printed for clients works as it is."""
    said = run(f"study new --id rest --from {name}_raw.fif --components 3 -o study.json")
    assert dict(read_study("study.json").preprocessing) == {
        "channel_types": types,
        "highpass": "1",
        "lowpass": lowpass,
        "reference": "average",
    }
    command = re.search(r"each runs: fedica (local DATA .* -o CLIENT\.safetensors)", said)[1]
    run(command.replace("DATA", f"{name}_raw.fif").replace("CLIENT", "a"))
    sent = read_contribution("a.safetensors")
    assert (sent.n_features, dict(sent.preprocessing)) == (19, dict(read_study("study.json").preprocessing))


def test_a_study_refuses_or_names_clients_that_differ(recordings):
    """By default refused, by fedica local and by fedica aggregate; where the study says so, named by both."""
    run("study new --id rest --from eeg_raw.fif --components 3 -o strict.json")
    run("study new --id rest --from eeg_raw.fif --components 3 --other-preprocessing name -o mild.json")
    assert "Leave it out" in run("local eeg_raw.fif --study strict.json --highpass 2 -o b.safetensors", 1)
    assert "it does not tell how. The study refuses that" in run(
        "local eeg.csv --study strict.json -o c.safetensors", 1
    )
    for client in ("a", "d"):
        run(f"local eeg_raw.fif --study strict.json --random-state 1 --client {client} -o {client}.safetensors")
    said = run("local eeg_raw.fif --study mild.json --highpass 2 -o b.safetensors")
    assert "not prepared as study 'rest' says: highpass is 2, not 1. The coordinator will see that." in said
    run("local eeg.csv --study mild.json -o c.safetensors")
    inbox = "a.safetensors b.safetensors c.safetensors d.safetensors"
    said = run(f"aggregate {inbox} --study mild.json -o mild")
    assert "Client 'b' prepared its data otherwise than the study says: highpass is 2, not 1." in said
    assert "'c' did not tell how the data was prepared" in said
    assert len(read_folder("mild").aggregate.clients) == 4
    said = run(f"aggregate {inbox} --study strict.json -o strict")
    result = read_folder("strict").aggregate
    assert result.clients == ("a", "d")
    assert [(x.client, x.kind) for x in result.rejected] == [("b", "other-preprocessing"), ("c", "other-preprocessing")]
    assert "client 'b' prepared its data otherwise than study 'rest' says: highpass is 2, not 1." in said
    assert "client 'c' does not tell how its data was prepared, which study 'rest' fixes." in said


def test_a_filter_that_the_recording_had_before_is_noted(recordings):
    """Where it takes away more than the study asks for; not where it is what the study or the client asks for."""
    run("study new --id rest --from eeg_raw.fif --lowpass 0 --components 3 -o open.json")
    run("study new --id rest --from eeg_raw.fif --components 3 --other-preprocessing name -o same.json")
    said = run("local eeg_raw.fif --study open.json -o a.safetensors")
    assert "was low-pass filtered at 60 Hz, as it says itself; study 'rest' asks for no low-pass filter" in said
    for options in ("", " --highpass 2 --lowpass 40"):
        assert "as it says itself; study" not in run(f"local eeg_raw.fif --study same.json{options} -o a.safetensors")
    recordings.filter(2, 30, verbose="ERROR").save("narrow_raw.fif", verbose="ERROR")
    said = run("local narrow_raw.fif --study same.json -o a.safetensors")
    assert "was high-pass filtered at 2 Hz, as it says itself; study 'rest' asks for 1 Hz" in said
    assert "was low-pass filtered at 30 Hz, as it says itself; study 'rest' asks for 60 Hz" in said


def test_without_a_study_different_preparations_are_named(recordings):
    """What was applied, or found in the recording, is declared; nobody is refused, and silence is no difference."""
    for client, options in (("a", ""), ("b", ""), ("c", " --highpass 2 --lowpass 40"), ("d", " --highpass 0.5")):
        run(f"local eeg_raw.fif{options} --components 3 -o {client}.safetensors")
    run("local eeg.csv --components 3 -o e.safetensors")
    told = [read_contribution(f"{client}.safetensors").preprocessing for client in "acde"]
    common = {"reference": "average", "channel_types": "eeg"}
    assert dict(told[0]) == {**common, "highpass": "1", "lowpass": "60"}
    assert dict(told[1]) == {**common, "highpass": "2", "lowpass": "40"}
    assert dict(told[2]) == {**common, "highpass": "0.5", "lowpass": "60"}
    assert told[3] is None
    said = run(f"aggregate {' '.join(f'{client}.safetensors' for client in 'abcde')} -o different")
    assert "differently: highpass is 1 ('a', 'b'), 0.5 ('d'), 2 ('c')." in said
    assert "differently: lowpass is 60 ('a', 'b', 'd'), 40 ('c')." in said
    assert "reference is" not in said
    assert read_folder("different").aggregate.clients == tuple("abcde")
    assert "differently" not in run("aggregate a.safetensors b.safetensors e.safetensors -o alike")


def test_hostile_declarations_make_short_notes(tmp_path):
    """Values of clients are other people's text: cut, escaped, and few of them."""
    atoms = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    for k in range(8):
        told = {"highpass": f"{k}\x1b[2J" + "9" * 500, **{f"step {j}": f"{j}{k}" for j in range(50)}}
        write_contribution(Contribution(f"c{k}", atoms, 500, preprocessing=told), tmp_path / f"{k}.safetensors")
    [note] = [note for note in combine(tmp_path).notes if "differently" in note]
    assert "and 5 other values" in note
    assert "\x1b" not in note
    assert len(note) < 500


def test_what_a_study_does_not_name_is_no_difference(recordings):
    """Written by hand, with one step; and how a table lies is its owner's affair."""
    study = Study("rest", recordings.ch_names, preprocessing={"highpass": "0.5"}, other_preprocessing="refuse")
    sent = contribute("eeg_raw.fif", client="a", study=study).contribution
    assert dict(sent.preprocessing) == {"highpass": "0.5"}
    genes = Study("genes", ["g1"], preprocessing={"transpose": "yes"}, other_preprocessing="refuse")
    assert genes.other_step(None) is None
    Path("names.txt").write_text("a\nb\n")
    with pytest.raises(OptionError, match="--other-preprocessing needs --from DATA"):
        new_study("s.json", "s", names="names.txt", other_preprocessing="refuse")


def save_run(path, run, save):
    save(path, run)
    return path


def test_a_study_may_ask_for_persons(tmp_path):
    """Fewer, or data that does not tell, are refused; their number is declared as that of samples is."""
    path = table(tmp_path / "a.csv")
    lines = path.read_text().split("\n")
    who = ["who", *(f"p{k % 23}" for k in range(400))]
    path.write_text("\n".join(f"{name},{line}" for name, line in zip(who, lines, strict=False)))
    study = Study("s", ["g1", "g2", "g3", "g4"], min_persons=20, declare_samples="rounded")
    counted = ReadOptions(person="who")
    assert contribute(path, client="a", study=study, options=counted).contribution.persons == 20
    assert contribute(path, client="a", options=counted).contribution.persons == 23
    with pytest.raises(DataError, match="asks for data of at least 20 persons; got data that does not tell"):
        contribute(path, client="a", study=study)
    with pytest.raises(DataError, match="at least 30 persons; got 23"):
        contribute(path, client="a", study=Study("s", study.features, min_persons=30), options=counted)


def test_a_fitted_decomposition_is_sent_as_it_is(tmp_path):
    """With the study's channels; the number of samples is declared as the study says; other options are refused."""
    mne = pytest.importorskip("mne")
    from eeg_simulated import dipole_maps, simulated_raw

    from fedica.interop import from_mne

    raw = simulated_raw(dipole_maps(3), 0, n_samples=3000, extra=False)
    ica = mne.preprocessing.ICA(3, random_state=0, max_iter=500, verbose="ERROR").fit(raw, verbose="ERROR")
    path = tmp_path / "x-ica.fif"
    ica.save(path, verbose="ERROR")
    sent = contribute(path, tmp_path / "x.safetensors").contribution
    assert dict(sent.preprocessing) == {"channel_types": "eeg", "highpass": "0", "lowpass": "0", "reference": "average"}
    np.testing.assert_allclose(sent.atoms, ordered_by_content(from_mne(ica, "x")).atoms, atol=1e-12)
    assert (sent.client, sent.persons) == ("x", 1)
    study = Study("s", raw.ch_names[:8], declare_samples="no")
    small = contribute(path, client="x", study=study, n_components=2).contribution
    assert (small.n_samples, small.n_atoms, small.n_features, small.study) == (None, 2, 8, "s")
    with pytest.raises(OptionError, match="--highpass says nothing about a fitted decomposition"):
        contribute(path, client="x", options=ReadOptions(highpass=2.0))
    with pytest.raises(InputError, match="a decomposition is sent alone; got 2 files"):
        contribute([path, tmp_path / "raw.fif"], client="x")
    path.write_bytes(b"no")
    with pytest.raises(FormatError, match="not a decomposition that MNE saved"):
        contribute(path, client="x")


@pytest.mark.parametrize(
    ("highpass", "lowpass", "told"),
    [(1.0, 60.0, ""), (2.0, 40.0, ""), (0.5, 60.0, "highpass is 0.5, not 1"), (1.0, None, "lowpass is 0, not 60")],
)
def test_a_decomposition_tells_how_its_recording_was_prepared(tmp_path, highpass, lowpass, told):
    """A study that fixes the preparation takes it where filters of the recording suffice, and says what does not."""
    mne = pytest.importorskip("mne")
    from eeg_simulated import dipole_maps, simulated_raw

    raw = simulated_raw(dipole_maps(3), 0, n_samples=3000, extra=False).filter(highpass, lowpass, verbose="ERROR")
    mne.preprocessing.ICA(3, random_state=0, max_iter=500, verbose="ERROR").fit(raw, verbose="ERROR").save(
        tmp_path / "x-ica.fif", verbose="ERROR"
    )
    steps = {"channel_types": "eeg", "highpass": "1", "lowpass": "60", "reference": "average"}
    study = Study("s", raw.ch_names, preprocessing=steps, other_preprocessing="refuse")
    if told:
        with pytest.raises(DataError, match=f"not prepared as study 's' says: {told}"):
            contribute(tmp_path / "x-ica.fif", client="x", study=study)
    else:
        sent = contribute(tmp_path / "x-ica.fif", client="x", study=study).contribution
        assert dict(sent.preprocessing) == steps


def test_files_and_recordings_are_of_one_person(recordings, tmp_path):
    """Unless something says otherwise, which a note tells of; a single table may be of anybody."""
    assert contribute("eeg_raw.fif", client="a").contribution.persons == 1
    tables = [table(tmp_path / "1.csv"), table(tmp_path / "2.csv")]
    made = contribute(tables, client="a")
    assert made.contribution.persons == 1
    assert any("count as one person; --bids counts subjects, --person COLUMN" in note for note in made.notes)
    assert contribute(tables[0], client="a").contribution.persons is None


def test_arrays_that_may_lie_the_other_way_round_are_noted(tmp_path):
    """Channels by times, as MATLAB has them; no note on spatial ICA, where there are more features than samples."""
    np.save(tmp_path / "a.npy", np.random.default_rng(0).laplace(size=(6, 300)))
    notes = contribute(tmp_path / "a.npy", client="a", n_components=2).notes
    assert any("6 rows were read as samples, the 300 columns as features" in x and "--transpose" in x for x in notes)
    turned = contribute(tmp_path / "a.npy", client="a", options=ReadOptions(transpose=True)).notes
    maps = contribute(tmp_path / "a.npy", client="a", n_components=2, independence="features").notes
    assert not any("other way round" in note for note in (*turned, *maps))
