"""NIfTI images: what nilearn's own masker gives, and a sentence for whatever is wrong."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedica import Contribution
from fedica.errors import DataError, FormatError, MissingExtraError, OptionError
from fedica.interop import to_nifti
from fedica.readers import ReadOptions, Sheet, as_table, read_data
from fedica.readers.select import choose_columns
from fedica.readers.voxels import voxel_names

nib = pytest.importorskip("nibabel")
pytest.importorskip("nilearn")
from images_simulated import AFFINE, MASK, SHAPE, ellipsoid, run_of, save  # noqa: E402 - needs nibabel


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
    with pytest.raises(DataError, match=r"1 of 4 wanted features is not there: '0,0,0'"):
        read_data(run_file, columns=[*wanted, "0,0,0"], options=ReadOptions(mask=mask_file))
    with pytest.raises(DataError, match=r"only the mask tells whether the grid is the same. Give it with --mask"):
        read_data(run_file, columns=wanted)


class CountedName(str):
    """A name that counts how often any name is compared."""

    comparisons = 0

    def __eq__(self, other):
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_voxels_of_a_whole_brain_are_chosen_in_one_pass():
    """60,000 by name, half of them wanted, in another order: a few comparisons per name, not one per pair."""
    names = tuple(map(CountedName, voxel_names(np.ones((40, 40, 40), dtype=bool))[:60_000]))
    sheet = Sheet(np.arange(120_000.0).reshape(2, -1), names, {}, measured=True)
    CountedName.comparisons = 0
    values, chosen, left_out, _ = choose_columns(sheet, Path("run.nii"), names[::-2], lacking_ok=False, keep=None)
    everything, _, _, _ = choose_columns(sheet, Path("run.nii"), None, lacking_ok=False, keep=None)
    assert CountedName.comparisons < 5 * len(names)
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
        ("run.nii.gz", lambda path, data: save(path, data[..., 0]), DataError, "four dimensions.*got 13 x 15 x 11"),
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
        ("run.nii", lambda path, data: save(path, data, dtype=np.complex64), DataError, "real numbers, got complex64"),
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
            "got values other than zero from",
        ),
        (lambda path: save(path, run_of(0)), DataError, "one volume of three dimensions, got 13 x 15 x 11 x 60"),
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
