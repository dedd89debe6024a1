"""What new users with their own data ran into in 0.1.0, one test for each; commands and names that 0.1.0 had, too."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import FederatedICA, LocalICA, aggregate, read_contribution
from fedica.cli import app
from fedica.errors import FedicaError

sys.path.append(str(Path(__file__).parents[1] / "readers"))

RNG = np.random.default_rng(0)
MIXED = RNG.laplace(size=(240, 3)) @ RNG.standard_normal((3, 4))
NAMES = ("Kalium", "Hb", "Leuko", "CRP")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(line, code=0):
    """Run a command, and return what it prints as one line."""
    result = CliRunner().invoke(app, line.split(" "), prog_name="fedica")
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def write(name, values=MIXED, names=NAMES, sep=",", labels=None, corner=""):
    """Write a text table, with a label in front of each row if there are labels."""
    rows = [list(map(str, names)), *([f"{x:.6g}" if isinstance(x, float) else str(x) for x in row] for row in values)]
    if labels is not None:
        rows = [[label, *row] for label, row in zip((corner, *labels), rows, strict=True)]
    Path(name).write_text("".join(sep.join(row) + "\n" for row in rows))
    return name


@pytest.mark.parametrize("names", [range(4), (2001, 2002, 2003, 2004)])
def test_1_a_header_of_numbers_is_no_sample(names):
    """As pandas writes an array without its index."""
    run(f"local {write('a.csv', names=names)} --components 3 -o a.safetensors")
    assert read_contribution("a.safetensors").n_samples == 240


def test_2_left_is_not_right():
    """A mirrored mask does not place the maps, and a mirrored image is not applied to."""
    pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from images_simulated import AFFINE, MASK, run_of, save

    save("mask.nii.gz", MASK, dtype=np.uint8)
    mirrored = np.diag([-1.0, 1, 1, 1]) @ AFFINE
    save("mirrored_mask.nii.gz", MASK, affine=mirrored, dtype=np.uint8)
    save("mirrored.nii.gz", run_of(3), affine=mirrored)
    for k in range(4):
        save(f"{k}.nii.gz", run_of(k))
        run(f"local {k}.nii.gz --mask mask.nii.gz --independence features --components 3 -o {k}.safetensors")
    run("aggregate 0.safetensors 1.safetensors 2.safetensors 3.safetensors -o result")
    assert "swapped" in run("export result --mask mirrored_mask.nii.gz -o maps.nii.gz", 1)
    run("apply result mirrored.nii.gz --mask mirrored_mask.nii.gz -o times.csv", 1)


@pytest.mark.parametrize("corner", ["", "gene"])
def test_3_barcodes_of_patients_do_not_leave(corner):
    """Genes x samples, the usual orientation of expression tables, is asked about."""
    genes = [f"ENSG{k:011}" for k in range(40)]
    patients = [f"TCGA-02-{k:04}-01A" for k in range(6)]
    values = RNG.uniform(3, 14, (40, 1)) + RNG.normal(0, 0.5, (40, 6))
    write("a.tsv", values, patients, "\t", genes, corner)
    assert "--transpose" in run("local a.tsv -o a.safetensors", 1)
    assert not Path("a.safetensors").exists()


def test_3_symbols_of_genes_over_columns_of_any_name_are_asked_about():
    """Nothing but the labels tells: the column is not named, and the values say the contrary."""
    genes = ["TP53", "EGFR", "KRAS", "MYC", "BRCA1", "BRCA2", "PTEN", "RB1", "CDKN2A", "VHL"]
    values = RNG.normal(0, 1, (10, 5)) + RNG.uniform(0, 90, 5)
    write("a.csv", values, ("north", "west", "east", "south", "centre"), labels=genes)
    assert "--transpose" in run("local a.csv -o a.safetensors", 1)


def test_4_who_and_when_stay():
    """Identifiers in other languages, days as a spreadsheet counts them, postcodes; and numbers that never repeat."""
    names = ["Fallnummer", "Geburtsdatum", "Postleitzahl", "code postal", "lfd", *NAMES]
    who = [RNG.choice(10**6, 240, replace=False), *RNG.integers(15_000, 45_000, (3, 240)), 7 + RNG.permutation(240)]
    rows = [[*map(int, ids), *map(float, x)] for ids, x in zip(np.transpose(who), MIXED, strict=True)]
    run(f"local {write('a.csv', rows, names)} --components 3 -o a.safetensors")
    assert read_contribution("a.safetensors").features == NAMES


def test_5_one_unit_does_not_hide_the_others():
    """The note says how much of the variance is one feature's, and what to do."""
    said = run(f"local {write('a.csv', MIXED * [1, 1, 1e5, 1])} --components 3 -o a.safetensors")
    assert "'Leuko' has 100% of the variance" in said
    assert "fedica study new --scales robust" in said


def test_6_a_study_of_voxels_asks_for_maps():
    """The command that it prints for clients works as it stands."""
    pytest.importorskip("nilearn")
    from images_simulated import MASK, run_of, save

    save("mask.nii.gz", MASK, dtype=np.uint8)
    save("bold.nii.gz", run_of(0))
    said = run("study new --id rest --from mask.nii.gz --components 3 -o fmri.json")
    command = re.search(r"fedica (local DATA .* -o CLIENT\.safetensors)", said)[1]
    run(command.replace("DATA", "bold.nii.gz").replace("CLIENT", "a"))
    assert read_contribution("a.safetensors").independence == "features"


def recording(name="a.vhdr", seed=0, rate=None):
    """Write a recording of BrainVision, and return it."""
    mne = pytest.importorskip("mne")
    from eeg_simulated import dipole_maps, simulated_raw

    raw = simulated_raw(dipole_maps(3), seed, n_samples=2000, extra=False)
    if rate is not None:
        raw.resample(rate, verbose="ERROR")
    mne.export.export_raw(name, raw, verbose="ERROR")
    return raw


def test_6_another_filter_than_the_study_says_is_refused():
    """What the coordinator's recording was prepared with holds for all."""
    recording()
    run("study new --id rest --from a.vhdr --components 3 -o eeg.json")
    assert "has highpass 1" in run("local a.vhdr --study eeg.json --highpass 2 -o b.safetensors", 1)


def test_6_without_a_study_another_filter_is_named():
    """The coordinator hears of it; nobody is refused."""
    recording()
    run("local a.vhdr --components 3 -o a.safetensors")
    run("local a.vhdr --components 3 --highpass 4 -o b.safetensors")
    said = run("aggregate a.safetensors b.safetensors -o result")
    assert "Clients prepared their data differently: highpass is 1 ('a'), 4 ('b')." in said


def test_6_a_filter_of_the_recording_itself_is_noted():
    """The study asks for no low-pass; the recording had one before."""
    raw = recording()
    run("study new --id rest --from a.vhdr --components 3 -o study.json")
    raw.filter(None, 40, verbose="ERROR").save("b_raw.fif", verbose="ERROR")
    said = run("local b_raw.fif --study study.json -o b.safetensors")
    assert "low-pass filtered at 40 Hz, as it says itself; study 'rest' asks for no low-pass filter" in said


def test_6_a_contribution_is_no_study():
    """The sentence says what the file is, and what is wanted."""
    run(f"local {write('a.csv')} --components 3 -o a.safetensors")
    said = run("local a.csv --study a.safetensors -o b.safetensors", 1)
    assert "a.safetensors: expected a fedica.study file, which is text; this is a contribution" in said
    assert "Give the .json file that fedica study new wrote." in said


def test_7_clients_in_place_of_y_are_noticed():
    """One client alone is warned of, and sources have variance one whoever recovers them."""
    clients = np.repeat(np.arange(3), 80)
    with pytest.warns(UserWarning, match="groups="):
        FederatedICA(3).fit(MIXED, clients)
    fed = FederatedICA(3).fit(MIXED, groups=clients)
    for sources in (fed.transform(MIXED), LocalICA(3).fit(MIXED).transform(MIXED)):
        np.testing.assert_allclose(sources.std(axis=0), 1.0)


def excel():
    workbook = pytest.importorskip("openpyxl").Workbook()
    for row in [NAMES, *MIXED.tolist()]:
        workbook.active.append(row)
    workbook.save("a.xlsx")
    return "a.xlsx"


def matlab():
    from scipy.io import savemat

    savemat("a.mat", {"X": MIXED})
    return "a.mat"


def thousands():
    cells = [[f"{1000 + x:,.2f}".translate(str.maketrans(",.", ".,")) for x in row] for row in MIXED]
    return write("a.csv", cells, sep=";")


def an_empty_column():
    return write("a.csv", [[*row, ""] for row in MIXED], [*NAMES, "leer"])


def two_files():
    return f"{write('1.csv', MIXED[:120])} {write('2.csv', MIXED[120:])}"


def persons():
    return write("a.csv", labels=[f"p{k // 4}" for k in range(240)], corner="who") + " --person who"


@pytest.mark.parametrize("data", [excel, matlab, thousands, an_empty_column, two_files, persons])
def test_8_what_people_have_is_read(data):
    """Workbooks, MATLAB's files, separated thousands, a column without values, several files, rows of persons."""
    run(f"local {data()} --components 3 -o a.safetensors")
    sent = read_contribution("a.safetensors")
    assert (sent.n_samples, sent.n_features) == (240, 4)
    assert data is not persons or sent.persons == 60


def test_8_recordings_of_different_rates_are_not_joined():
    """The sentence says which rates, and what to do."""
    recording("a.vhdr")
    recording("b.vhdr", rate=100)
    said = run("local a.vhdr b.vhdr -o a.safetensors", 1)
    assert "a.vhdr is sampled at 200 Hz, this one at 100 Hz. Resample them to one rate first" in said


def test_8_a_fitted_decomposition_is_sent():
    """As MNE saved it."""
    mne = pytest.importorskip("mne")
    ica = mne.preprocessing.ICA(3, random_state=0, verbose="ERROR").fit(recording(), verbose="ERROR")
    ica.save("x-ica.fif", verbose="ERROR")
    run("local x-ica.fif -o x.safetensors")
    assert read_contribution("x.safetensors").n_atoms == 3


def test_8_folders_of_bids_are_joined():
    """Their subjects are counted."""
    for k in (1, 2):
        folder = Path(f"sub-{k}/eeg")
        folder.mkdir(parents=True)
        recording(folder / f"sub-{k}_task-rest_eeg.vhdr", k)
    run("local sub-1 sub-2 --bids --components 3 -o a.safetensors")
    sent = read_contribution("a.safetensors")
    assert (sent.n_samples, sent.persons) == (4000, 2)


def federation(n_clients=3):
    """Write the contributions of clients that have samples of their own, and return the names of the files."""
    rng, mixing = np.random.default_rng(1), np.random.default_rng(2).standard_normal((3, 4))
    for k in range(n_clients):
        write("a.csv", rng.laplace(size=(900, 3)) @ mixing, labels=[f"p{k}" for k in range(900)], corner="who")
        run(f"local a.csv --components 3 -o {k}.safetensors")
    return " ".join(f"{k}.safetensors" for k in range(n_clients))


def test_8_sources_keep_the_labels_of_their_rows():
    """In the table that apply writes."""
    run(f"aggregate {federation()} -o result")
    run("apply result a.csv -o sources.csv")
    assert Path("sources.csv").read_text().split("\n")[1].startswith('"p0",')


def test_8_names_are_spelt_in_many_ways():
    """A study's names are asked about."""
    run(f"study new --id s --from {write('a.csv')} -o s.json")
    write("b.csv", names=["kalium", " HB", "leuko", "Crp"])
    assert "Did you mean 'kalium' for 'Kalium', 'HB' for 'Hb'" in run("local b.csv --study s.json -o b.safetensors", 1)


def test_8_columns_are_renamed():
    """By a table of two names per line."""
    run(f"study new --id s --from {write('a.csv')} -o s.json")
    write("b.csv", names=["kalium", " HB", "leuko", "Crp"])
    Path("names.csv").write_text("kalium,Kalium\nHB,Hb\nleuko,Leuko\nCrp,CRP\n")
    run("local b.csv --study s.json --rename names.csv -o b.safetensors")


@pytest.mark.parametrize("what", ['<nav class="contents"', 'type="search"', "Save as", "Clients’ own atoms"])
def test_9_the_report_has(what):
    """Contents, search, pictures to save, and what each client sent."""
    run(f"aggregate {federation()} -o result --report")
    assert what in Path("result/report.html").read_text(encoding="utf-8")


def test_9_an_aggregate_in_a_notebook():
    """It shows itself, and transforms data."""
    result = aggregate([LocalICA(3, random_state=k).fit(MIXED).contribution(str(k)) for k in range(3)], 3)
    assert "<table>" in result._repr_html_()
    np.testing.assert_allclose(result.transform(MIXED).std(axis=0), 1.0)


def test_10_the_command_gives_one_judgement():
    """That of the report's headline."""
    assert "6 of 6 clients agree on 3 components." in run(f"aggregate {federation(6)} -o result")


def test_10_an_exit_code_of_its_own():
    """The result is written, with exit code 3, where a client is not to be relied on."""
    inbox = federation(6)
    write("odd.csv", RNG.laplace(size=(240, 4)))
    run("local odd.csv --components 3 -o odd.safetensors")
    run(f"aggregate {inbox} odd.safetensors -o strict --fail-on outlying", 3)
    assert Path("strict/aggregate.safetensors").exists()


def test_12_no_file_is_called_like_stdout():
    """A dash is refused."""
    run(f"local {write('a.csv')} -o -", 1)
    assert not Path("-").exists()


def test_12_tables_keep_to_columns(monkeypatch):
    """The environment's width holds in a pipe, too."""
    federation(1)
    monkeypatch.setenv("COLUMNS", "40")
    shown = CliRunner().invoke(app, ["inspect", "0.safetensors"]).stdout
    assert max(len(line) for line in shown.split("\n") if line.startswith(" ")) <= 40


def test_12_types_of_channels_in_capitals():
    """EEG is eeg, for a study too."""
    recording()
    run("local a.vhdr --channel-types EEG --components 3 -o e.safetensors")
    run("study new --id s --from a.vhdr --components 3 -o s.json")
    run("local a.vhdr --channel-types EEG --study s.json -o e.safetensors")


def test_12_objects_of_other_tools_in_fit():
    """The sentence says what to call."""
    for data in (pytest.importorskip("anndata").AnnData(MIXED), recording()):
        with pytest.raises(FedicaError, match="as_table"):
            LocalICA(3).fit(data)


def test_12_a_loop_warns_once():
    """Twelve clients that do not converge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for k in range(12):
            LocalICA(3, solver="fastica", max_iter=1, tol=1e-14).fit(MIXED[k:])
    assert len(caught) == 1
