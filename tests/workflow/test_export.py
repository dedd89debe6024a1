"""An aggregate for other tools: the name of the output tells the format; each is read back by its own library."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import Contribution, aggregate
from fedica.cli import app
from fedica.errors import FormatError, InputError, OptionError
from fedica.exchange import write_aggregate
from fedica.workflow import export

pd = pytest.importorskip("pandas")

CHANNELS = ("Fz", "Cz", "Pz", "Oz")


def outcome(independence: str = "samples", features=CHANNELS):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((len(features), 2))
    return aggregate(
        [
            Contribution(
                f"client-{k}",
                truth + 0.01 * rng.standard_normal(truth.shape),
                100,
                features=features,
                independence=independence,
            )
            for k in range(4)
        ],
        2,
    )


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.csv", lambda path: pd.read_csv(path, index_col="feature", float_precision="round_trip")),
        ("a.parquet", lambda path: pd.read_parquet(path).set_index("feature")),
        ("a.feather", lambda path: pd.read_feather(path).set_index("feature")),
    ],
)
def test_tables_have_the_mixing_matrix_to_the_last_bit(tmp_path, name, read):
    """One row a feature, by its name."""
    if not name.endswith(".csv"):
        pytest.importorskip("pyarrow")
    assert export(outcome(), tmp_path / name).paths == (str(tmp_path / name),)
    frame = read(tmp_path / name)
    np.testing.assert_array_equal(frame.to_numpy(), outcome().mixing)
    assert tuple(frame.index) == CHANNELS
    assert list(frame.columns) == ["component_0", "component_1"]


@pytest.mark.parametrize("target", ["", "desc-ICA_mixing.tsv", "sub-01_task-rest_desc-ICA_mixing.tsv"])
def test_bids_by_folder_or_by_name(tmp_path, target):
    """The names are those that were asked for."""
    exported = export(outcome(), tmp_path / target)
    prefix = "sub-01_task-rest_" if "sub" in target else ""
    frame = pd.read_csv(tmp_path / f"{prefix}desc-ICA_mixing.tsv", sep="\t", float_precision="round_trip")
    np.testing.assert_array_equal(frame.iloc[:, 1:].to_numpy(), outcome().mixing)
    assert all(os.path.exists(path) for path in exported.paths)
    assert exported.notes == ()


def test_bids_says_where_the_aggregate_is_when_another_matrix_was_asked_for(tmp_path):
    """Over features, the aggregate is the components."""
    exported = export(outcome("features"), tmp_path / "sub-01_desc-ICA_mixing.tsv")
    assert str(tmp_path / "sub-01_desc-ICA_components.tsv") in exported.paths
    assert not (tmp_path / "sub-01_desc-ICA_mixing.tsv").exists()
    assert "the aggregate is in sub-01_desc-ICA_components.tsv" in exported.notes[0]


@pytest.mark.parametrize("name", ["maps.nii", "maps.nii.gz"])
def test_maps_as_an_image(tmp_path, name):
    """What nibabel loads has the maps inside the mask, and zero outside."""
    nib = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from fedica.readers.voxels import voxel_names

    inside = np.zeros((3, 2, 2), dtype=bool)
    inside[1:, :, 0] = True
    nib.Nifti1Image(inside.astype(np.uint8), np.eye(4)).to_filename(tmp_path / "mask.nii.gz")
    result = outcome("features", tuple(voxel_names(inside)))
    export(result, tmp_path / name, mask=tmp_path / "mask.nii.gz")
    values = nib.load(tmp_path / name).get_fdata()
    np.testing.assert_allclose(values[inside], result.mixing, atol=1e-12)
    assert not values[~inside].any()


def test_a_decomposition_for_mne(tmp_path):
    """Saved like a recording that has the channels; MNE reads it, and its maps are ours."""
    mne = pytest.importorskip("mne")
    info = mne.create_info(["Oz", *CHANNELS[:3], "STI"], 100.0, ["eeg"] * 4 + ["stim"])
    raw = mne.io.RawArray(np.random.default_rng(0).standard_normal((5, 300)) * 1e-5, info, verbose="ERROR")
    raw.save(tmp_path / "like_raw.fif", verbose="ERROR")
    export(outcome(), tmp_path / "group-ica.fif", like=tmp_path / "like_raw.fif")
    ica = mne.preprocessing.read_ica(tmp_path / "group-ica.fif", verbose="ERROR")
    maps = ica.get_components()
    maps /= np.linalg.norm(maps, axis=0)
    ours = outcome().mixing[[CHANNELS.index(name) for name in ica.ch_names]]
    np.testing.assert_allclose(np.abs(maps.T @ ours).diagonal(), 1, atol=1e-10)
    assert sorted(os.listdir(tmp_path)) == ["group-ica.fif", "like_raw.fif"]
    (tmp_path / "bad.edf").write_text("no")
    with pytest.raises(FormatError, match=r"bad\.edf: MNE cannot read it"):
        export(outcome(), tmp_path / "group-ica.fif", like=tmp_path / "bad.edf")


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("a.xlsx", {}, r"does not tell what to write. Let it end in \.csv"),
        ("a.tsv", {}, "does not tell what to write"),
        ("a.fif", {}, "does not tell what to write"),
        ("a.csv", {"mask": "mask.nii"}, "--mask says nothing about a table"),
        ("a.nii.gz", {}, "an image of component maps needs --mask"),
        ("a-ica.fif", {}, "a decomposition of MNE needs --like"),
        ("no/a.csv", {}, "there is no folder"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(tmp_path, name, options, complaint):
    """A name that tells nothing, an option that does nothing, one that lacks."""
    with pytest.raises((OptionError, InputError), match=complaint):
        export(outcome(), tmp_path / name, **options)
    assert os.listdir(tmp_path) == []


def test_the_command(tmp_path):
    """From a result folder; names of what was written on stdout; --json for programs; exit code 1 with a sentence."""
    (tmp_path / "result").mkdir()
    write_aggregate(outcome(), tmp_path / "result" / "aggregate.safetensors")
    run = CliRunner().invoke(app, ["export", str(tmp_path / "result"), "-o", str(tmp_path / "a.csv")])
    assert (run.exit_code, run.stdout) == (0, f"{tmp_path / 'a.csv'}\n")
    bids = ["export", str(tmp_path / "result" / "aggregate.safetensors"), "--json", "-o", str(tmp_path / "result")]
    run = CliRunner().invoke(app, bids)
    assert str(tmp_path / "result" / "desc-ICA_mixing.tsv") in json.loads(run.stdout)["paths"]
    run = CliRunner().invoke(app, ["export", str(tmp_path / "result"), "-o", str(tmp_path / "a.doc")])
    assert run.exit_code == 1
    assert "does not tell what to write" in run.stderr
