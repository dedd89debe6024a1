"""An aggregate as a DataFrame and as BIDS files, read back by the libraries that people read them with."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from fedica import Contribution, aggregate, read_aggregate, write_aggregate
from fedica.errors import InputError, MissingExtraError, OptionError
from fedica.interop import to_frame, write_bids
from fedica.local import recover
from fedica.server.aggregate import aggregate as server_aggregate

pd = pytest.importorskip("pandas")

NAMES = ("Fz", "Cz", "Pz", "n/a", "=Oz", 'with "quotes"')


def result(independence: str = "samples", features: tuple[str, ...] | None = NAMES, d: int = 6):
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.standard_normal((d, 3)))[0]
    clients = [
        Contribution(
            f"secret-{k}",
            truth[:, rng.permutation(3)] + 0.01 * rng.standard_normal((d, 3)),
            100,
            features=features,
            independence=independence,
            study="our study",
        )
        for k in range(5)
    ]
    return aggregate(clients, 3)


def table(path):
    """Read a table as pandas users do; names must stay what they are."""
    return pd.read_csv(
        path, sep="\t", keep_default_na=False, float_precision="round_trip", na_values={"spread": ["n/a"]}
    )


def names_of(paths):
    return sorted(path.name for path in paths)


def test_frame_is_the_mixing_matrix_with_its_labels():
    """Rows and columns are called as in the result folder's mixing.csv; a public aggregate gives the same."""
    frame = to_frame(result())
    np.testing.assert_array_equal(frame.to_numpy(), result().mixing)
    assert list(frame.index) == list(NAMES)
    assert list(frame.columns) == ["component_0", "component_1", "component_2"]
    assert frame.attrs["support"] == [5, 5, 5]
    assert list(to_frame(result(features=None)).index) == [f"feature_{k}" for k in range(6)]
    frame.iloc[0, 0] = 7  # a copy: an aggregate does not change


def test_frame_of_a_file_is_that_of_the_aggregate(tmp_path):
    """What a client gets back can be looked at in the same way."""
    write_aggregate(result(), tmp_path / "a.safetensors")
    pd.testing.assert_frame_equal(to_frame(read_aggregate(tmp_path / "a.safetensors")), to_frame(result()))


def test_without_pandas_the_extra_is_named(monkeypatch):
    """One sentence."""
    outcome = result()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"fedica\[tables\]"):
        to_frame(outcome)


def test_over_samples_the_aggregate_is_the_mixing_matrix(tmp_path):
    """EEG: channels x components, to the last bit; the sources of a client are the components."""
    outcome = result()
    X = np.random.default_rng(1).standard_normal((2500, 6))
    recovered = recover(X, outcome.mixing)
    paths = write_bids(outcome, tmp_path / "sub-01_task-rest", sources=recovered, sfreq=240)
    parts = ("components.json", "components.tsv", "metrics.json", "metrics.tsv", "mixing.json", "mixing.tsv")
    assert names_of(paths) == [f"sub-01_task-rest_desc-ICA_{part}" for part in parts]
    assert names_of(tmp_path.iterdir()) == names_of(paths)
    mixing = table(tmp_path / "sub-01_task-rest_desc-ICA_mixing.tsv")
    assert list(mixing.columns) == ["name", "ICA_00", "ICA_01", "ICA_02"]
    assert tuple(name.removeprefix("'") for name in mixing["name"]) == NAMES  # "=Oz" must not be a formula
    np.testing.assert_array_equal(mixing.iloc[:, 1:].to_numpy(dtype=float), outcome.mixing)
    sources = table(tmp_path / "sub-01_task-rest_desc-ICA_components.tsv")
    np.testing.assert_array_equal(sources.to_numpy(), recovered.sources)
    X_back = sources.to_numpy() @ mixing.iloc[:, 1:].to_numpy().T + recovered.mean
    np.testing.assert_allclose(X_back, recovered.sources @ recovered.mixing.T + recovered.mean)
    about = json.loads((tmp_path / "sub-01_task-rest_desc-ICA_components.json").read_text())
    assert (about["SamplingFrequency"], about["StartTime"]) == (240, 0)
    assert "Independent sources" in about["Description"]


def test_over_features_the_aggregate_is_the_components(tmp_path):
    """As tedana and MELODIC have it: mixing.tsv has the time courses, one row a sample."""
    outcome = result("features")
    sources = np.random.default_rng(1).standard_normal((50, 3))
    write_bids(outcome, tmp_path / "sub-01", sources=sources)
    maps = table(tmp_path / "sub-01_desc-ICA_components.tsv")
    np.testing.assert_array_equal(maps.iloc[:, 1:].to_numpy(dtype=float), outcome.mixing)
    np.testing.assert_array_equal(table(tmp_path / "sub-01_desc-ICA_mixing.tsv").to_numpy(), sources)
    about = json.loads((tmp_path / "sub-01_desc-ICA_components.json").read_text())
    assert about["IndependentOver"] == "features"


def test_sidecars_describe_every_column_and_no_client(tmp_path):
    """Each column of each table has its words; how the matrix came about; nobody's name."""
    for path in write_bids(result(), tmp_path, sources=np.zeros((3, 3))):
        assert "secret" not in path.read_text()
        if path.suffix == ".tsv":
            about = json.loads(path.with_suffix(".json").read_text())
            assert set(table(path).columns) <= set(about)
    about = json.loads((tmp_path / "desc-ICA_mixing.json").read_text())
    assert about["Method"] == "fedica consensus"
    assert about["NumberOfClients"] == 5
    assert about["Study"] == "our study"
    assert about["ICA_00"]["Description"].startswith("Found by 5 of 5 clients; median angle")
    metrics = table(tmp_path / "desc-ICA_metrics.tsv")
    assert list(metrics["Component"]) == ["ICA_00", "ICA_01", "ICA_02"]
    np.testing.assert_array_equal(metrics["spread"], result().spread)


def test_a_folder_becomes_a_derivative_of_its_own(tmp_path):
    """With a description, unless it has one already."""
    write_bids(result(), tmp_path)
    description = json.loads((tmp_path / "dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative"
    assert description["GeneratedBy"][0]["Name"] == "fedica"
    (tmp_path / "dataset_description.json").write_text("mine")
    write_bids(result(), tmp_path)
    assert (tmp_path / "dataset_description.json").read_text() == "mine"


def test_a_client_with_fewer_components(tmp_path):
    """Only the columns that it has, under their own names."""
    outcome = result()
    X = np.random.default_rng(1).laplace(size=(200, 2)) @ outcome.mixing[:, [0, 2]].T
    recovered = recover(X, outcome.mixing, atoms=outcome.mixing[:, [0, 2]])
    write_bids(outcome, tmp_path / "sub-01", sources=recovered)
    assert list(table(tmp_path / "sub-01_desc-ICA_components.tsv").columns) == ["ICA_00", "ICA_02"]


def test_components_that_cancel_are_written_with_a_word(tmp_path):
    """Spread or direction that means nothing is n/a or said, and the JSON stays JSON."""
    one = Contribution("a", np.eye(3)[:, :2], 10)
    other = Contribution("b", -np.eye(3)[:, :2], 10)
    write_bids(server_aggregate([one, other], 2, method="naive-mean"), tmp_path)
    about = json.loads((tmp_path / "desc-ICA_mixing.json").read_text())
    assert "its direction means nothing" in about["ICA_00"]["Description"]
    assert list(table(tmp_path / "desc-ICA_metrics.tsv")["degenerate"]) == [True, True]


def test_maps_over_voxels_as_an_image(tmp_path):
    """With the mask, components.nii.gz: what nibabel loads has the maps inside the mask."""
    nib = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from fedica.readers.voxels import voxel_names

    inside = np.zeros((3, 2, 2), dtype=bool)
    inside[1:, :, 0] = True
    mask = nib.Nifti1Image(inside.astype(np.uint8), np.diag([2.0, 2, 2, 1]))
    outcome = result("features", tuple(voxel_names(inside)), d=4)
    paths = write_bids(outcome, tmp_path / "group_task-rest", mask=mask, sources=np.ones((5, 3)), sfreq=0.5)
    assert "group_task-rest_desc-ICA_components.nii.gz" in names_of(paths)
    image = nib.load(tmp_path / "group_task-rest_desc-ICA_components.nii.gz")
    np.testing.assert_allclose(image.get_fdata()[inside], outcome.mixing, atol=1e-12)
    assert not (tmp_path / "group_task-rest_desc-ICA_components.tsv").exists()
    assert table(tmp_path / "group_task-rest_desc-ICA_mixing.tsv").shape == (5, 3)


@pytest.mark.parametrize(
    ("target", "options", "complaint"),
    [
        ("sub-01 rest", {}, "entities joined by underscores"),
        ("sub-01_desc-mine", {}, "without desc-"),
        ("no/sub-01", {}, "cannot be written"),
        ("no/", {}, "no such folder"),
        ("sub-01", {"sfreq": 100}, "sfreq is the sampling frequency of sources; give these too"),
        ("sub-01", {"sources": np.zeros((5, 2))}, "each of the 3 components, got 2"),
        ("sub-01", {"sources": np.zeros((5, 3)), "sfreq": -1}, "sfreq"),
        ("sub-01", {"mask": "mask.nii.gz"}, "mask is for components that are independent over voxels"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(tmp_path, target, options, complaint):
    """A wrong name, a folder that is not there, sources that do not fit."""
    with pytest.raises((InputError, OptionError), match=complaint):
        write_bids(result(), f"{tmp_path}/{target}", **options)


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
@pytest.mark.parametrize("independence", ["samples", "features"])
def test_sources_of_one_client_are_its_owners_alone(tmp_path, independence):
    """The aggregate may be read by others, whatever the umask; one client's sources may not."""
    found = result(independence)
    old = os.umask(0)
    try:
        paths = write_bids(found, tmp_path, sources=np.ones((7, found.n_components)))
    finally:
        os.umask(old)
    private = {path.name for path in paths if path.stat().st_mode & 0o077 == 0}
    assert private == {f"desc-ICA_{'components' if independence == 'samples' else 'mixing'}.tsv"}
