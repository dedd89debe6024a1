"""A damaged file is one sentence, whatever somebody else's library raises; a small one never takes all memory."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import scipy.io

from fedica.errors import DataError, FedicaError, FormatError
from fedica.readers import ReadOptions, read_data, registry
from fedica.readers.masks import load_mask

X = np.random.default_rng(0).standard_normal((30, 4))


def _npy(path):
    np.save(path, X)


def _npz(path):
    np.savez_compressed(path, X=X, features=list("abcd"))


def _mat(path):
    scipy.io.savemat(path, {"X": X, "features": list("abcd")})


def _csv(path):
    np.savetxt(path, X, delimiter=",", header="a,b,c,d", comments="")


def _h5ad(path):
    anndata, pd = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    anndata.AnnData(X.astype(np.float32), var=pd.DataFrame(index=list("abcd"))).write_h5ad(path)


def _parquet(path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas").DataFrame(X, columns=list("abcd")).to_parquet(path)


def _nifti(path):
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    nibabel.save(nibabel.Nifti1Image(np.random.default_rng(1).random((4, 4, 4, 9)), np.eye(4)), path)


def _mutants(data, rng):
    """Cut, flip bits, set bytes, repeat and drop parts."""
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 20))):
            changed[rng.randrange(min(len(data), 400) if rng.random() < 0.5 else len(data))] = rng.randrange(256)
        yield bytes(changed)
        yield data[: rng.randrange(len(data))]
        at = rng.randrange(len(data))
        yield data[:at] + data[at + rng.choice((1, 7, 200)) :]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.npy", _npy),
        ("a.npz", _npz),
        ("a.csv", _csv),
        ("a.mat", _mat),
        ("a.h5ad", _h5ad),
        ("a.parquet", _parquet),
        ("a.nii.gz", _nifti),
    ],
)
def test_a_damaged_file_is_read_or_refused(tmp_path, name, write):
    """180 damaged files of each format: a table, or a sentence that begins with the path."""
    path, options = tmp_path / name, ReadOptions()
    write(path)
    whole = path.read_bytes()
    if name.endswith(".nii.gz"):
        nibabel = pytest.importorskip("nibabel")
        nibabel.save(nibabel.Nifti1Image(np.ones((4, 4, 4), np.uint8), np.eye(4)), tmp_path / "mask.nii.gz")
        options = ReadOptions(mask=tmp_path / "mask.nii.gz")
    raw = gzip.decompress(whole) if name.endswith(".gz") else None
    said = []
    for mutant in _mutants(whole if raw is None else raw, random.Random(3)):  # noqa: S311 - damage, not secrets
        path.write_bytes(mutant if raw is None else gzip.compress(mutant, 1))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_data(path, options=options)
        except FedicaError as error:
            said.append(str(error))
    assert len(said) > 20
    assert [sentence for sentence in said if not sentence.startswith(str(path))] == []


@pytest.mark.parametrize("damage", [(b"(30, 4)", b"(30, 4 "), (b"\x93NUMPY", b"\x93NUMBY")], ids=["header", "magic"])
def test_an_array_that_is_damaged_inside_a_whole_archive_is_refused(tmp_path, damage):
    """The zip is sound; numpy raises tokenize.TokenError on the first, and returns bytes for the second."""
    _npy(tmp_path / "X.npy")
    content = (tmp_path / "X.npy").read_bytes()
    assert damage[0] in content
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", content.replace(*damage))
    with pytest.raises(FedicaError) as refused:
        read_data(tmp_path / "a.npz")
    assert str(refused.value).startswith(str(tmp_path / "a.npz"))


@pytest.mark.parametrize("at", [-8, -40], ids=["checksum", "body"])
def test_a_damaged_image_without_a_mask_is_refused(tmp_path, at):
    """The mask is computed by nilearn, which meets what gzip and zlib raise before any reader of ours does."""
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    head = np.zeros((6, 6, 6, 9), np.float32)
    head[1:5, 1:5, 1:5] = 500 + np.random.default_rng(1).random((4, 4, 4, 9))
    path = tmp_path / "a.nii.gz"
    nibabel.save(nibabel.Nifti1Image(head, np.eye(4)), path)
    whole = bytearray(path.read_bytes())
    whole[at] ^= 0xFF
    path.write_bytes(bytes(whole))
    with pytest.raises(FedicaError) as refused:
        read_data(path, options=ReadOptions())
    assert str(refused.value).startswith(str(path))


def test_what_no_reader_expects_is_a_sentence_too(tmp_path, monkeypatch):
    """tokenize.TokenError, zlib.error, IORegistryError: a library can raise anything on a damaged file."""
    _npy(tmp_path / "a.npy")

    class TokenError(Exception):
        pass

    def fail(*arguments):
        raise TokenError("('EOF in multi-line statement',\n(2, 0))")

    reader = registry.READERS[".npy"]
    monkeypatch.setitem(registry.READERS, ".npy", type(reader)(**{**vars(reader), "how": fail}))
    with pytest.raises(FormatError, match=r"a\.npy: it cannot be read as what its suffix says \(TokenError: \('EOF in"):
        read_data(tmp_path / "a.npy")


def _zeros(path, shape, n_bytes):
    """Write a compressed image of this shape, of which the numbers are zeros; the first is one."""
    nibabel = pytest.importorskip("nibabel")
    header = nibabel.Nifti1Header()
    header.set_data_shape(shape)
    header.set_data_dtype(np.uint8)
    header["magic"], header["vox_offset"] = b"n+1", 352
    header.set_sform(np.eye(4), code=1)
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(header.binaryblock + bytes(4) + b"\1")
        for start in range(1, n_bytes, 2**24):
            stream.write(bytes(min(2**24, n_bytes - start)))


@pytest.mark.parametrize("shape", [(1900, 1900, 1900), (2049, 1, 1), (2048, 2048, 24)])
def test_a_mask_of_gigabytes_is_refused_by_its_header(tmp_path, shape):
    """A compressed file of a few megabytes; nothing of it is unpacked."""
    pytest.importorskip("nilearn")
    _zeros(tmp_path / "mask.nii.gz", shape, 1)
    with pytest.raises(DataError, match="a mask has at most 100000000 voxels, and 2048 along each axis; got"):
        load_mask(tmp_path / "mask.nii.gz")


def _megabytes_to_load(path, n_voxels):
    """Load a mask in a process of its own: so many voxels, or refused if None; tell the memory that it took."""
    code = (
        "import resource; from fedica.errors import DataError\n"
        "from fedica.readers.masks import load_mask, nibabel; nibabel('this')\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = used()\n"
        f"try: found = load_mask({str(path)!r}).n_voxels\n"
        "except DataError: found = None\n"
        "print(found, (used() - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    found, megabytes = done.stdout.split()
    assert found == str(n_voxels)
    return int(megabytes)


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_the_largest_mask_is_read_plane_by_plane(tmp_path):
    """A hundred million voxels take a byte each, and not eight."""
    pytest.importorskip("nilearn")
    _zeros(tmp_path / "mask.nii.gz", (500, 500, 400), 10**8)
    assert _megabytes_to_load(tmp_path / "mask.nii.gz", 1) < 300


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_a_whole_mask_of_three_megabytes_takes_no_gigabytes(tmp_path):
    """Nothing is wrong with the file but what it holds: 600 million zeros, in which 0.1.0 drowned."""
    pytest.importorskip("nilearn")
    _zeros(tmp_path / "mask.nii.gz", (1000, 1000, 600), 6 * 10**8)
    assert (tmp_path / "mask.nii.gz").stat().st_size < 3e6
    assert _megabytes_to_load(tmp_path / "mask.nii.gz", None) < 100
