"""NIfTI images: what nilearn's own masker gives, a sentence for whatever is wrong, and maps there and back."""

from __future__ import annotations

import gzip
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import Contribution, LocalICA, aggregate
from fedica.cli import app
from fedica.errors import DataError, FormatError, InputError, MissingExtraError, OptionError
from fedica.exchange import public_part, read_aggregate, read_folder, read_study, write_contribution
from fedica.readers import ReadOptions, Sheet, as_table, from_canica, from_nifti, read_data, to_nifti
from fedica.readers.select import choose_columns
from fedica.readers.voxels import voxel_names
from fedica.workflow import contribute

nib = pytest.importorskip("nibabel")
pytest.importorskip("nilearn")

SHAPE = (13, 15, 11)
AFFINE = np.array([[-3.0, 0, 0, 15], [0, 3, 0, -18], [0, 0, 4, -16], [0, 0, 0, 1]])
MNI = 4  # the code of sform for MNI space
CENTRE = (np.array(SHAPE) - 1) / 2
RAW = ReadOptions(standardize=False, detrend=False)


def ellipsoid(shape=SHAPE, size=0.47):
    """A head: (nx, ny, nz), true inside."""
    grid = np.indices(shape)
    scaled = [(grid[axis] - (n - 1) / 2) / (size * n) for axis, n in enumerate(shape)]
    return sum(x**2 for x in scaled) < 1


MASK = ellipsoid()


def networks():
    """Independent maps over the voxels of the mask: (n_voxels, 3), unit columns, a blob each."""
    places, rng = np.argwhere(MASK), np.random.default_rng(0)
    peaks = [[2, 7, 5], [10, 7, 5], [6, 12, 5]]
    maps = np.column_stack([np.exp(-((places - peak) ** 2).sum(axis=1) / 2.5) for peak in peaks])
    maps += 0.02 * rng.standard_normal(maps.shape)
    return maps / np.linalg.norm(maps, axis=0)


NOISE, STRENGTH = 3.0, 40.0


def scaled_networks():
    """The same where every voxel has been scaled to variance one, which weakens what is strong."""
    maps = networks()
    maps = maps / np.sqrt(STRENGTH**2 * (maps**2).sum(axis=1, keepdims=True) + NOISE**2)
    return maps / np.linalg.norm(maps, axis=0)


def likeness(found):
    """Least cosine over the components (d, 3), each to the network that it is most like; each is another one."""
    cosines = np.abs(found.T @ scaled_networks())
    assert sorted(cosines.argmax(axis=1)) == [0, 1, 2]
    return cosines.max(axis=1).min()


def run_of(seed, n_volumes=60):
    """An image over time: baseline, drift, and networks with time courses of their own; float64 (nx, ny, nz, t)."""
    rng = np.random.default_rng(seed)
    maps = networks()
    series = STRENGTH * rng.standard_normal((n_volumes, maps.shape[1])) @ maps.T
    series += np.linspace(0, 5, n_volumes)[:, None] + NOISE * rng.standard_normal(series.shape)
    data = np.zeros((*SHAPE, n_volumes))
    data[MASK] = 1000 + series.T
    return data


def save(path, data, *, affine=AFFINE, dtype=np.float32):
    """Write an image as scanners and their tools do."""
    image = nib.Nifti1Image(np.asarray(data, dtype=dtype), affine)
    image.set_sform(affine, code=MNI)
    image.header.set_xyzt_units("mm", "sec")
    nib.save(image, path)
    return path


@pytest.fixture
def mask_file(tmp_path):
    return save(tmp_path / "mask.nii.gz", MASK, dtype=np.uint8)


@pytest.fixture
def run_file(tmp_path):
    return save(tmp_path / "run.nii.gz", run_of(0))


@pytest.mark.parametrize("name", ["run.nii", "run.nii.gz", "RUN.NII.GZ"])
def test_the_voxels_inside_the_mask_are_the_features(tmp_path, mask_file, name):
    """A volume a row, a voxel a column, named by its indices, as they are when nothing is asked for."""
    data = run_of(1)
    table = read_data(
        save(tmp_path / name, data), options=ReadOptions(mask=mask_file, standardize=False, detrend=False)
    )
    np.testing.assert_array_equal(table.values, data[MASK].T.astype(np.float32))
    assert table.values.dtype == np.float32
    assert table.features == voxel_names(MASK)
    i, j, k = map(int, table.features[100].split(","))
    np.testing.assert_array_equal(table.values[:, 100], data[i, j, k].astype(np.float32))
    assert f"60 volumes; {MASK.sum()} of {MASK.size} voxels are inside the mask." in table.notes


def test_whole_numbers_with_a_scale_are_read_with_it(tmp_path, mask_file):
    """As scanners save them: 16 bits, a slope and an intercept."""
    stored = np.random.default_rng(0).integers(-3000, 3000, (*SHAPE, 5)).astype(np.int16)
    image = nib.Nifti1Image(stored, AFFINE)
    image.header.set_slope_inter(0.25, 100)
    nib.save(image, tmp_path / "run.nii.gz")
    table = read_data(tmp_path / "run.nii.gz", options=ReadOptions(mask=mask_file, standardize=False, detrend=False))
    raw = nib.load(tmp_path / "run.nii.gz").get_fdata()[MASK].T
    np.testing.assert_allclose(table.values, raw, rtol=1e-6)
    assert np.abs(table.values - 100).max() > 500


@pytest.mark.parametrize("smoothing", [None, 6.0])
@pytest.mark.parametrize(("detrend", "standardize"), [(True, True), (True, False), (False, True)])
def test_it_is_what_the_masker_of_nilearn_gives(run_file, mask_file, smoothing, detrend, standardize):
    """To single precision, whatever is asked for; and each thing done is told."""
    from nilearn.maskers import NiftiMasker

    options = ReadOptions(mask=mask_file, smoothing=smoothing, detrend=detrend, standardize=standardize)
    table = read_data(run_file, options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        masker = NiftiMasker(
            nib.load(mask_file),
            smoothing_fwhm=smoothing,
            detrend=detrend,
            standardize="zscore_sample" if standardize else None,
        )
        wanted = masker.fit_transform(nib.load(run_file))
    np.testing.assert_allclose(table.values, wanted, atol=2e-3 if standardize else 5e-3)
    told = " ".join(table.notes)
    assert ("trend" in told) is detrend
    assert ("variance one" in told) is standardize
    assert ("Gaussian of 6 mm" in told) is (smoothing is not None)


def test_an_image_in_memory_is_read_as_its_file_is(run_file, mask_file):
    """With the same options and the same notes."""
    options = ReadOptions(mask=mask_file, smoothing=5)
    from_file, from_memory = read_data(run_file, options=options), as_table(nib.load(run_file), options=options)
    np.testing.assert_array_equal(from_file.values, from_memory.values)
    assert (from_file.features, from_file.notes) == (from_memory.features, from_memory.notes)
    with pytest.raises(DataError, match=r"^the image: .*four dimensions"):
        as_table(nib.load(mask_file))


def test_voxels_that_do_not_vary_are_zero_and_not_rounding(tmp_path, mask_file):
    """Scaled to variance one, the rounding errors of a constant would be a feature like any other."""
    data = run_of(2)
    data[5, 6, 4] = 1234.567
    table = read_data(save(tmp_path / "run.nii", data), options=ReadOptions(mask=mask_file))
    assert np.all(table.values[:, table.features.index("5,6,4")] == 0)
    assert f"1 of {MASK.sum()} voxels do not vary over time; they are zero." in table.notes
    np.testing.assert_allclose(table.values.std(axis=0, ddof=1).max(), 1, atol=1e-5)


def test_what_is_not_finite_outside_the_mask_does_not_matter(tmp_path, mask_file):
    """SPM writes NaN around the brain; smoothing takes it as zero and says so."""
    data = run_of(3)
    clean = read_data(save(tmp_path / "run.nii", data), options=ReadOptions(mask=mask_file, smoothing=5))
    data[~MASK] = np.nan
    plain = read_data(save(tmp_path / "nan.nii", data), options=ReadOptions(mask=mask_file))
    assert np.isfinite(plain.values).all()
    smooth = read_data(tmp_path / "nan.nii", options=ReadOptions(mask=mask_file, smoothing=5))
    np.testing.assert_array_equal(smooth.values, clean.values)
    assert any("taken as zero" in note for note in smooth.notes)


def test_a_study_fixes_the_voxels_and_their_order(run_file, mask_file):
    """Some voxels of the mask, in the order of the study; a voxel outside the mask is lacking."""
    wanted = ["5,6,4", "2,6,4", "8,6,4"]
    table = read_data(run_file, columns=wanted, options=ReadOptions(mask=mask_file))
    everything = read_data(run_file, options=ReadOptions(mask=mask_file))
    assert table.features == tuple(wanted)
    for k, name in enumerate(wanted):
        np.testing.assert_array_equal(table.values[:, k], everything.values[:, everything.features.index(name)])
    with pytest.raises(DataError, match=r"1 of 4 wanted features are not there: '0,0,0'"):
        read_data(run_file, columns=[*wanted, "0,0,0"], options=ReadOptions(mask=mask_file))
    with pytest.raises(DataError, match=r"only the mask tells whether the grid is the same. Give it with --mask"):
        read_data(run_file, columns=wanted)


def test_the_voxels_of_a_whole_brain_are_chosen_in_one_pass():
    """60,000 by name, half of them wanted, in another order: a moment, not minutes."""
    names = voxel_names(np.ones((40, 40, 40), dtype=bool))[:60_000]
    sheet = Sheet(np.arange(120_000.0).reshape(2, -1), names, {}, measured=True)
    start = time.perf_counter()
    values, chosen, left_out, _ = choose_columns(sheet, Path("run.nii"), names[::-2], lacking_ok=False, keep=None)
    everything, _, _, _ = choose_columns(sheet, Path("run.nii"), None, lacking_ok=False, keep=None)
    assert time.perf_counter() - start < 5
    np.testing.assert_array_equal(values, sheet.values[:, ::-2])
    assert (chosen, len(left_out)) == (names[::-2], 30_000)
    np.testing.assert_array_equal(everything, sheet.values)


def test_without_a_mask_one_client_alone_gets_that_of_nilearn(run_file):
    """And is told that a federation needs a common one."""
    from nilearn.masking import compute_epi_mask

    table = read_data(run_file)
    computed = compute_epi_mask(nib.load(run_file)).get_fdata() > 0
    assert table.features == voxel_names(computed)
    assert any("every client needs the same mask" in note for note in table.notes)


def test_memory_is_that_of_the_mask_not_of_the_image(tmp_path):
    """An image of 30 MB of numbers, of which the mask takes 2%."""
    shape = (40, 40, 40)
    small = ellipsoid(shape, 0.17)
    assert 0.01 < small.mean() < 0.03
    mask_file = save(tmp_path / "mask.nii.gz", small, dtype=np.uint8)
    data = np.random.default_rng(0).integers(0, 50, (*shape, 60)).astype(np.uint8)
    run = save(tmp_path / "run.nii.gz", data, dtype=np.uint8)
    read_data(run, options=ReadOptions(mask=mask_file))  # imports
    tracemalloc.start()
    read_data(run, options=ReadOptions(mask=mask_file))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.4 * 8 * data.size


def _truncated(path, data):
    whole = save(path.with_name(f"whole-{path.name}"), data).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _nan(path, data):
    data[5, 6, 4, 7] = np.nan
    save(path, data)


def _moved(path, data):
    affine = AFFINE.copy()
    affine[0, 3] += 3
    save(path, data, affine=affine)


@pytest.mark.parametrize(
    ("name", "make", "error", "sentence"),
    [
        ("run.nii.gz", lambda path, data: save(path, data[..., 0]), DataError, "four dimensions.*13 x 15 x 11 came"),
        ("run.nii.gz", lambda path, data: save(path, data[..., :1]), DataError, "One volume alone has no components"),
        (
            "run.nii.gz",
            lambda path, data: save(path, data[:-1]),
            DataError,
            "it has 12 x 15 x 11 voxels.*resample_to_img",
        ),
        ("run.nii.gz", _moved, DataError, "its affine is not that of.*3 mm off.*resample_to_img"),
        (
            "run.nii.gz",
            _nan,
            DataError,
            "1 of the .* voxels inside the mask are NaN .* in volume 7, the first is 5,6,4",
        ),
        ("run.nii.gz", _truncated, FormatError, "or not all of one"),
        ("run.nii", _truncated, FormatError, "or not all of one"),
        ("run.nii", lambda path, data: path.write_text("a,b\n1,2\n" * 200), FormatError, "no NIfTI image"),
        ("run.nii.gz", lambda path, data: path.write_text("a,b\n1,2\n" * 200), FormatError, "no NIfTI image"),
        (
            "run.nii.gz",
            lambda path, data: path.write_bytes(gzip.compress(b"text" * 500)),
            FormatError,
            "no NIfTI image",
        ),
        ("run.nii", lambda path, data: path.write_bytes(b""), FormatError, "no NIfTI image"),
        ("run.nii", lambda path, data: save(path, data, dtype=np.complex64), DataError, "real numbers; complex64 came"),
    ],
)
def test_an_image_that_cannot_be_used_is_one_sentence(tmp_path, mask_file, name, make, error, sentence):
    """Which names the file."""
    path = tmp_path / name
    make(path, run_of(0, n_volumes=10))
    with pytest.raises(error, match=sentence) as caught:
        read_data(path, options=ReadOptions(mask=mask_file))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda path: save(path, np.zeros(SHAPE)), DataError, "the mask is empty: no voxel of 13 x 15 x 11 is inside"),
        (
            lambda path: save(path, np.random.default_rng(0).random(SHAPE)),
            DataError,
            "2145 values other than zero came",
        ),
        (lambda path: save(path, run_of(0)), DataError, "one volume of three dimensions; 13 x 15 x 11 x 60"),
        (lambda path: path.write_text("no image"), FormatError, "no NIfTI image"),
        (lambda path: None, FormatError, "No such file"),
    ],
)
def test_a_mask_that_cannot_be_used_is_one_sentence(tmp_path, run_file, make, error, sentence):
    """Which names the mask."""
    path = tmp_path / "bad.nii.gz"
    make(path)
    with pytest.raises(error, match=sentence) as caught:
        read_data(run_file, options=ReadOptions(mask=path))
    assert str(path) in str(caught.value)


def test_masks_of_one_volume_and_of_any_value_are_masks(tmp_path, run_file, mask_file):
    """4D with one volume; 255 inside; NaN outside."""
    usual = read_data(run_file, options=ReadOptions(mask=mask_file))
    strange = np.where(MASK, 255.0, np.nan)[..., None]
    same = read_data(run_file, options=ReadOptions(mask=save(tmp_path / "255.nii", strange)))
    assert same.features == usual.features


def test_an_image_without_a_brain_has_no_mask_of_its_own(tmp_path):
    """Nilearn finds nothing in so few voxels, and the sentence says what to give."""
    few = np.random.default_rng(0).random((2, 2, 2, 4))
    with pytest.raises(DataError, match=r"Give .*--mask"):
        read_data(save(tmp_path / "run.nii", few))


def test_options_of_other_formats_are_refused(run_file):
    """A high-pass is for recordings."""
    with pytest.raises(OptionError, match="--highpass says nothing about a NIfTI image"):
        read_data(run_file, options=ReadOptions(highpass=2))


@pytest.mark.parametrize("lacking", ["nibabel", "nilearn"])
def test_without_nilearn_the_sentence_says_how_to_install_it(run_file, mask_file, monkeypatch, lacking):
    """For the reader and for maps."""
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedica\[fmri\]'"):
        read_data(run_file, options=ReadOptions(mask=mask_file))
    with pytest.raises(MissingExtraError, match=r"pip install 'fedica\[fmri\]'"):
        to_nifti(Contribution("a", np.eye(3), 5), mask_file)


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

    with pytest.raises(InputError, match=r"client 'a': a fitted CanICA was wanted.*Call its fit first"):
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
        (("Fp1", "Fp2"), "must be voxels, named by their indices such as '31,40,22'; 'Fp1' came"),
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
    assert sent[0].extra["grid"] == "13 x 15 x 11 voxels; -3 0 0 15; 0 3 0 -18; 0 0 4 -16"
    result = aggregate(sent, 3, on_bad="reject")
    assert [x.client for x in result.rejected] == ["moved"]
    assert "declares grid" in result.rejected[0].reason
    maps = from_nifti(to_nifti(result, mask_file), mask_file, "maps")
    assert maps.extra == sent[0].extra


def test_who_forgets_that_maps_are_wanted_is_told(tmp_path, run_file, mask_file):
    """Independence over volumes is another model; it is done, with a note."""
    done = contribute(run_file, tmp_path / "a.safetensors", options=ReadOptions(mask=mask_file), n_components=2)
    assert any("give --independence features" in note for note in done.notes)
