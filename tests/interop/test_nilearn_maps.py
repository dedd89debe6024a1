"""Component maps: CanICA and images as contributions, results as images, and a federation of hospitals by commands."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import Contribution, LocalICA, aggregate
from fedica.cli import app
from fedica.errors import DataError, InputError, OptionError
from fedica.exchange import (
    public_part,
    read_aggregate,
    read_folder,
    read_study,
    write_aggregate,
    write_contribution,
)
from fedica.interop import from_canica, from_nifti, to_nifti
from fedica.local import dual_regression
from fedica.readers import ReadOptions, read_data
from fedica.readers.grids import check_grid
from fedica.readers.voxels import voxel_names
from fedica.server.admission import screen
from fedica.workflow import apply_global, contribute, export, new_study
from fedica.workflow.own_maps import check_maps

nib = pytest.importorskip("nibabel")
pytest.importorskip("nilearn")
from images_simulated import AFFINE, MASK, MNI, SHAPE, likeness, networks, run_of, save  # noqa: E402 - needs nibabel

RAW = ReadOptions(standardize=False, detrend=False)


@pytest.fixture
def mask_file(tmp_path):
    return save(tmp_path / "mask.nii.gz", MASK, dtype=np.uint8)


@pytest.fixture
def run_file(tmp_path):
    return save(tmp_path / "run.nii.gz", run_of(0))


def fitted_canica(*seeds):
    """A CanICA of nilearn, fitted to the runs of these seeds."""
    from nilearn.decomposition import CanICA

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = CanICA(
            n_components=3,
            mask=nib.Nifti1Image(MASK.astype(np.uint8), AFFINE),
            smoothing_fwhm=None,
            threshold=None,
            random_state=0,
            standardize="zscore_sample",
        )
        return fitted.fit([nib.Nifti1Image(run_of(seed).astype(np.float32), AFFINE) for seed in seeds])


@pytest.fixture(scope="module")
def canica():
    return fitted_canica(0, 1)


def test_canica_is_a_contribution(canica, tmp_path):
    """Its maps up to length, over the voxels that the reader names; it can be sent, and it found the networks."""
    contribution = from_canica(canica, "hospital-1", n_samples=120)
    maps = canica.components_.T.astype(np.float64)
    np.testing.assert_allclose(contribution.atoms, maps / np.linalg.norm(maps, axis=0), atol=1e-12)
    assert contribution.features == voxel_names(MASK)
    assert (contribution.independence, contribution.n_samples, contribution.solver) == ("features", 120, "CanICA")
    write_contribution(contribution, tmp_path / "sent.safetensors")
    assert likeness(contribution.atoms) > 0.8


def test_canica_and_our_own_fits_are_aggregated_together(canica, mask_file, tmp_path):
    """Results that exist need not be fitted again, and together they are nearer to the truth than each alone."""
    sent = [from_canica(canica, "canica-0"), from_canica(fitted_canica(2, 3), "canica-1")]
    for seed in (15, 16, 17):
        table = read_data(save(tmp_path / f"{seed}.nii", run_of(seed)), options=ReadOptions(mask=mask_file))
        local = LocalICA(3, independence="features", random_state=0).fit(table.values)
        sent.append(local.contribution(f"own-{seed}", features=table.features))
    result = aggregate(sent, 3)
    assert result.support.tolist() == [5, 5, 5]
    assert likeness(result.mixing) > max(0.95, *(likeness(one.atoms) for one in sent))


def test_maps_that_a_threshold_left_empty_are_left_out_with_a_warning(canica):
    """A map of zeros has no direction."""

    class Fitted:
        mask_img_ = canica.mask_img_
        components_ = np.vstack([canica.components_[:1], np.zeros_like(canica.components_[:1])])

    with pytest.warns(UserWarning, match="1 of 2 maps are zero everywhere; they were left out"):
        assert from_canica(Fitted, "a").n_atoms == 1
    Fitted.components_ = np.zeros_like(canica.components_)
    with pytest.raises(InputError, match="every one of the 3 maps is zero"):
        from_canica(Fitted, "a")


def test_what_is_not_fitted_or_lies_on_a_surface_is_refused():
    """With a sentence that names the client."""
    from nilearn.decomposition import CanICA

    with pytest.raises(InputError, match=r"client 'a': a fitted CanICA was expected.*Call its fit first"):
        from_canica(CanICA(), "a")

    class Surface:
        components_, mask_img_ = np.eye(3), object()

    with pytest.raises(InputError, match="fitted to surfaces"):
        from_canica(Surface(), "a")


def of_networks(features="voxels"):
    """An aggregate whose components are the networks."""
    rng, names = np.random.default_rng(0), voxel_names(MASK) if features == "voxels" else features
    noise = 0.01 / np.sqrt(MASK.sum())
    return aggregate(
        [
            Contribution(f"c{k}", networks() + noise * rng.standard_normal((MASK.sum(), 3)), 60, features=names)
            for k in range(4)
        ],
        3,
    )


@pytest.mark.parametrize("name", ["maps.nii", "maps.nii.gz"])
def test_maps_go_to_an_image_and_back_exactly(tmp_path, mask_file, name):
    """To the last bit; the image is where the mask is, in the space that it says, and zero outside."""
    result = of_networks()
    to_nifti(result, mask_file).to_filename(tmp_path / name)
    image = nib.load(tmp_path / name)
    assert image.shape == (*SHAPE, 3)
    np.testing.assert_array_equal(image.affine, AFFINE)
    assert int(image.header["sform_code"]) == MNI
    assert image.header.get_xyzt_units()[0] == "mm"
    assert np.all(image.get_fdata()[~MASK] == 0)
    np.testing.assert_array_equal(image.get_fdata()[MASK], result.mixing)
    back = from_nifti(tmp_path / name, mask_file, "melodic", n_samples=7)
    np.testing.assert_array_equal(back.atoms, result.mixing)
    assert (back.features, back.n_samples, back.independence) == (voxel_names(MASK), 7, "features")


def test_images_in_memory_and_every_kind_of_result_will_do(mask_file):
    """Aggregate, its public part, a contribution; with names of voxels, or without and as many as the mask has."""
    result, mask = of_networks(), nib.load(mask_file)
    wanted = to_nifti(result, mask_file).get_fdata()
    for one in (public_part(result), from_nifti(to_nifti(result, mask), mask, "a"), of_networks(features=None)):
        np.testing.assert_array_equal(to_nifti(one, mask).get_fdata(), wanted)
    single = nib.Nifti1Image(wanted[..., 1], AFFINE)
    np.testing.assert_array_equal(from_nifti(single, mask, "a").atoms[:, 0], result.mixing[:, 1])


def test_voxels_that_nobody_has_are_zero(mask_file):
    """Where a study uses some voxels of the mask, the others stay empty; the rest lies in its place."""
    names = ("5,6,4", "2,6,4")
    image = to_nifti(Contribution("a", np.array([[0.6, 0.8], [0.8, -0.6]]), 5, features=names), mask_file).get_fdata()
    assert np.count_nonzero(image) == 4
    np.testing.assert_array_equal(image[5, 6, 4], [0.6, 0.8])
    np.testing.assert_array_equal(image[2, 6, 4], [0.8, -0.6])


def test_a_real_scan_with_an_oblique_grid():
    """The example that comes with nibabel: tilted, placed by its quaternion alone; maps come back to its place."""
    from nibabel.testing import data_path

    file = Path(data_path) / "example4d.nii.gz"
    table = read_data(file, options=RAW)
    scan = nib.load(file)
    assert not np.allclose(scan.affine[:3, :3], np.diag(np.diag(scan.affine[:3, :3])))
    index = np.array([name.split(",") for name in table.features], dtype=int)
    np.testing.assert_array_equal(table.values, scan.get_fdata()[tuple(index.T)].T)
    assert 0.1 < len(index) / np.prod(scan.shape[:3]) < 0.5  # the head, and not the air
    inside = np.zeros(scan.shape[:3], dtype=np.uint8)
    inside[tuple(index.T)] = 1
    mask = nib.Nifti1Image(inside, scan.affine, scan.header)
    one = Contribution("a", table.values[:1].T, 2, features=table.features, independence="features")
    maps = nib.Nifti1Image.from_bytes(to_nifti(one, mask).to_bytes())
    np.testing.assert_allclose(maps.affine, scan.affine, atol=1e-4)
    assert [int(maps.header[code]) for code in ("sform_code", "qform_code")] == [
        int(scan.header[code]) for code in ("sform_code", "qform_code")
    ]
    np.testing.assert_array_equal(from_nifti(maps, mask, "a").atoms, one.atoms)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (("Fp1", "Fp2"), "must be voxels, named by their indices such as '31,40,22'; got 'Fp1'"),
        (("5,6,4", "0,0,0"), "1 of 2 voxels are not inside .*, the first is '0,0,0'"),
        (("5,6,4", "500,6,4"), "1 of 2 voxels are not inside"),
        (None, "2 features without names; .* has .* voxels"),
    ],
)
def test_what_is_no_map_over_the_mask_is_refused(mask_file, features, sentence):
    """The mask of another study puts nothing in a wrong place."""
    with pytest.raises(InputError, match=sentence):
        to_nifti(Contribution("a", np.eye(2), 5, features=features), mask_file)


def test_maps_in_another_grid_or_with_holes_are_refused(mask_file):
    """As for data."""
    maps = to_nifti(of_networks(), mask_file)
    moved = AFFINE + np.eye(4, k=3)
    with pytest.raises(DataError, match="its affine is not that of"):
        from_nifti(nib.Nifti1Image(maps.get_fdata(), moved), mask_file, "a")
    holes = maps.get_fdata()
    holes[5, 6, 4, 1] = np.nan
    with pytest.raises(DataError, match=r"1 of the .* voxels inside the mask are NaN"):
        from_nifti(nib.Nifti1Image(holes, AFFINE), mask_file, "a")
    with pytest.raises(DataError, match="three dimensions"):
        from_nifti(nib.Nifti1Image(np.zeros((*SHAPE, 1, 2)), AFFINE), mask_file, "a")


def test_four_hospitals_from_images_to_maps(tmp_path, mask_file):
    """With the commands alone: mask and images in, the networks out; and the report shows slices of them."""
    run, inbox, study = CliRunner(), tmp_path / "inbox", tmp_path / "study.json"
    inbox.mkdir()
    options = ["--independence", "features", "--components", "3", "-o", str(study)]
    made = run.invoke(app, ["study", "new", "--id", "rest", "--from", str(mask_file), *options])
    assert made.exit_code == 0, made.output
    assert read_study(study).features == voxel_names(MASK)
    for seed in range(4):
        data = save(tmp_path / f"sub-{seed}_bold.nii.gz", run_of(10 + seed))
        common = ["--study", str(study), "--mask", str(mask_file)]
        sent = run.invoke(app, ["local", str(data), "-o", str(inbox / f"hospital-{seed}.safetensors"), *common])
        assert sent.exit_code == 0, sent.output
        assert "temporal ICA" not in sent.output
    done = run.invoke(app, ["aggregate", str(inbox), "-o", str(tmp_path / "result"), "--report"])
    assert done.exit_code == 0, done.output
    assert read_folder(tmp_path / "result").aggregate.n_components == 3
    image = to_nifti(read_aggregate(tmp_path / "result" / "aggregate.safetensors"), mask_file)
    assert likeness(image.get_fdata()[MASK]) > 0.95
    page = (tmp_path / "result" / "report.html").read_text(encoding="utf-8")
    assert page.count("as three slices through its peak") == 3


def test_a_client_with_a_mask_in_another_place_is_refused_by_the_server(tmp_path, run_file, mask_file):
    """Its voxels have the same names and are other places; the grid travels along, so that this is seen."""
    elsewhere = AFFINE.copy()
    elsewhere[1, 3] += 6
    sent = []
    for name, affine in (("a", AFFINE), ("b", AFFINE), ("moved", elsewhere)):
        mask = save(tmp_path / f"{name}-mask.nii", MASK, affine=affine, dtype=np.uint8)
        run = save(tmp_path / f"{name}.nii", run_of(len(sent)), affine=affine)
        done = contribute(run, client=name, options=ReadOptions(mask=mask), independence="features", n_components=3)
        sent.append(done.contribution)
    assert sent[0].grid == "13 x 15 x 11 voxels; -3 0 0 15; 0 3 0 -18; 0 0 4 -16"
    result = aggregate(sent, 3, on_bad="reject")
    assert [x.client for x in result.rejected] == ["moved"]
    assert "declares grid" in result.rejected[0].reason
    maps = from_nifti(to_nifti(result, mask_file), mask_file, "maps")
    assert maps.grid == sent[0].grid


MIRRORED = np.diag([-1.0, 1, 1, 1]) @ AFFINE  # left and right swapped in mm; the voxels have the same indices


def federation(tmp_path, mask_file):
    """The aggregate of three hospitals with the mask."""
    runs = [save(tmp_path / f"r{seed}.nii", run_of(seed)) for seed in range(3)]
    settings = {"independence": "features", "n_components": 3}
    sent = [contribute(x, client=x.stem, options=ReadOptions(mask=mask_file), **settings) for x in runs]
    return aggregate([x.contribution for x in sent], 3)


def test_left_and_right_cannot_be_swapped_unnoticed(tmp_path, mask_file):
    """The aggregate carries the grid: a mirrored mask is refused in export, a mirrored run in apply."""
    result = public_part(federation(tmp_path, mask_file))
    write_aggregate(result, tmp_path / "aggregate.safetensors")
    mirrored = save(tmp_path / "mirrored.nii", MASK, affine=MIRRORED, dtype=np.uint8)
    with pytest.raises(DataError, match=r"mirrored\.nii: .*must have the grid of the components.*sides, are swapped"):
        export(tmp_path / "aggregate.safetensors", tmp_path / "maps.nii", mask=mirrored)
    export(tmp_path / "aggregate.safetensors", tmp_path / "maps.nii", mask=mask_file)
    run = save(tmp_path / "run.nii", run_of(7), affine=MIRRORED)
    with pytest.raises(DataError, match=r"run\.nii: .*must have the grid of the aggregate.*sides, are swapped"):
        apply_global(tmp_path / "aggregate.safetensors", run, options=ReadOptions(mask=mirrored))
    right = save(tmp_path / "right.nii", run_of(7))
    apply_global(tmp_path / "aggregate.safetensors", right, options=ReadOptions(mask=mask_file))
    assert result.terms.grid == "13 x 15 x 11 voxels; -3 0 0 15; 0 3 0 -18; 0 0 4 -16"


def test_own_maps_of_a_person_are_read_by_the_maskers_of_nilearn(tmp_path, mask_file):
    """By the command: time courses, own maps, and their z-values; the same numbers as by `dual_regression`."""
    from nilearn.maskers import NiftiMapsMasker, NiftiMasker

    write_aggregate(public_part(federation(tmp_path, mask_file)), tmp_path / "aggregate.safetensors")
    run = save(tmp_path / "bold.nii.gz", run_of(7))
    words = f"apply {tmp_path} {run} --mask {mask_file} --maps {tmp_path}/own.nii.gz -o {tmp_path}/courses.csv --json"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["maps"] == [f"{tmp_path}/own.nii.gz", f"{tmp_path}/own_Z.nii.gz"]
    X = read_data(run, options=ReadOptions(mask=mask_file)).values.astype(float)
    own = dual_regression(X, read_aggregate(tmp_path / "aggregate.safetensors").mixing)
    masker = NiftiMasker(mask_img=str(mask_file), standardize=False).fit()
    for name, wanted in (("own", own.maps), ("own_Z", own.z)):
        np.testing.assert_allclose(masker.transform(str(tmp_path / f"{name}.nii.gz")).T, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "courses.csv", delimiter=",", skiprows=1), own.time_courses)
    mapped = NiftiMapsMasker(str(tmp_path / "own.nii.gz"), standardize=False).fit_transform(str(run))
    assert mapped.shape == own.time_courses.shape


@pytest.mark.parametrize(
    ("maps", "independence", "mask", "complaint"),
    [
        ("own.nii.gz", "samples", "mask.nii", "independent over samples. Leave --maps out"),
        ("own.txt", "features", "mask.nii", "written as .nii.gz, .nii, .csv"),
        ("own.nii", "features", None, "needs --mask"),
    ],
)
def test_own_maps_that_cannot_be_written_are_one_sentence(maps, independence, mask, complaint):
    """Before anything is read."""
    with pytest.raises(OptionError, match=complaint):
        check_maps(maps, independence, ReadOptions(mask=mask))


def test_a_study_carries_the_grid_of_its_mask(tmp_path, mask_file):
    """A client with a mirrored mask and run sends nothing, and the server refuses one that did."""
    study, _ = new_study(tmp_path / "study.json", "rest", data=mask_file, independence="features")
    assert read_study(tmp_path / "study.json").grid == study.grid
    mirrored = save(tmp_path / "mirrored.nii", MASK, affine=MIRRORED, dtype=np.uint8)
    run = save(tmp_path / "run.nii", run_of(7), affine=MIRRORED)
    with pytest.raises(DataError, match="grid of the study"):
        contribute(run, client="x", study=study, options=ReadOptions(mask=mirrored))
    good = contribute(
        save(tmp_path / "good.nii", run_of(7)),
        client="good",
        study=study,
        n_components=3,
        options=ReadOptions(mask=mask_file),
    ).contribution
    others = [replace(good, client=f"odd-{k}", grid="1 x 1 x 1 voxels", atoms=good.atoms[:, ::-1]) for k in range(3)]
    assert [x.client for x in screen([good, *others], study=study).rejected] == ["odd-0", "odd-1", "odd-2"]


@pytest.mark.parametrize(
    ("own", "agreed"),
    [
        ("4 x 4 x 4 voxels; 2 0 0 1; 0 2 0 1; 0 0 2 1", "4 x 4 x 4 voxels; 2 0 0 1.001; 0 2 0 1; 0 0 1.999 1"),
        (None, "4 x 4 x 4 voxels; 2 0 0 1; 0 2 0 1; 0 0 2 1"),
        ("one of another tool", "one of another tool"),
    ],
)
def test_grids_that_are_the_same(own, agreed):
    """Up to rounding; where one is not known nothing is refused."""
    check_grid(own, agreed, "a.nii", "the study")


def test_who_forgets_that_maps_are_wanted_is_told(tmp_path, run_file, mask_file):
    """Independence over volumes is another model; it is done, with a note."""
    done = contribute(run_file, tmp_path / "a.safetensors", options=ReadOptions(mask=mask_file), n_components=2)
    assert any("give --independence features" in note for note in done.notes)


def test_maps_of_other_tools_bring_their_strengths_where_the_data_is_given(tmp_path, mask_file, run_file):
    """The covariance of the data's part in the span of the maps, and the median variance; none without the data."""
    local = LocalICA(3, independence="features", random_state=0)
    X = read_data(run_file, options=ReadOptions(mask=mask_file)).values.astype(float)
    own = local.fit(X).contribution("a", strengths=True)
    to_nifti(own, mask_file).to_filename(tmp_path / "maps.nii.gz")
    taken = from_nifti(tmp_path / "maps.nii.gz", mask_file, "a", scans=X)
    np.testing.assert_allclose(taken.gram, own.gram, rtol=0, atol=1e-6 * np.abs(own.gram).max())
    assert taken.noise_floor == pytest.approx(own.noise_floor, rel=1e-6)
    assert from_nifti(tmp_path / "maps.nii.gz", mask_file, "a").gram is None
    canica = fitted_canica(0)
    sent = from_canica(canica, "b", imgs=[str(run_file)])
    scans = canica.masker_.transform([str(run_file)])[0].astype(float)
    inside = np.linalg.qr(sent.atoms)[0]
    wanted = inside.T @ np.cov(scans.T, bias=True) @ inside
    found = inside.T @ (sent.atoms @ sent.gram @ sent.atoms.T) @ inside
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())
    assert from_canica(canica, "b").gram is None
