"""AnnData files and objects: X or a layer, dense or sparse, with genes as features."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from fedica import LocalICA
from fedica.errors import DataError, FormatError, OptionError
from fedica.readers import ReadOptions, as_table, read_data
from fedica.readers import anndata_files as reader_room

ad = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")
h5py = pytest.importorskip("h5py")

GENES = ["IDS", "TP53", "day", "ENSG00000141510.5"]
"""The first is a gene, though it looks like an identifier; the third like a date."""


def cells(x: object, **layers: object) -> ad.AnnData:
    obs = pd.DataFrame({"batch": ["a", "b", "a", "b", "a"]}, index=[f"cell{k}" for k in range(5)])
    return ad.AnnData(X=x, obs=obs, var=pd.DataFrame(index=GENES), layers=layers)


def numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((5, 4))


def write(adata: ad.AnnData, path: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata.write_h5ad(path)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_x_from_a_file_and_from_memory(tmp_path, kind, dtype):
    """Dense or sparse, single or double: the same numbers; the genes are the features, whatever they are called."""
    x = numbers().astype(dtype)
    x[np.abs(x) < 0.5] = 0
    adata = cells(kind(x))
    for table in (read_data(write(adata, tmp_path / "a.h5ad")), as_table(adata)):
        np.testing.assert_array_equal(table.values, x)
        assert table.values.dtype == dtype
        assert table.features == tuple(GENES)
        assert not table.left_out
        is_sparse = kind is not np.asarray
        assert [f"X is sparse ({np.mean(x != 0):.1%}" in note for note in table.notes] == [True] * is_sparse


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_wanted_genes_in_the_wanted_order(tmp_path, kind):
    """As a study lists them."""
    x = numbers()
    path = write(cells(kind(x)), tmp_path / "a.h5ad")
    np.testing.assert_array_equal(read_data(path, columns=[GENES[3], "IDS"]).values, x[:, [3, 0]])
    with pytest.raises(DataError, match="1 of 2 wanted features is not there: 'BRCA1'"):
        read_data(path, columns=["BRCA1", "IDS"])


def test_large_arrays_are_read_in_blocks(tmp_path, monkeypatch):
    """Whatever the size of a block, the numbers are the same."""
    monkeypatch.setattr(reader_room, "_BLOCK_NUMBERS", 9)
    x = numbers()
    path = write(cells(x), tmp_path / "a.h5ad")
    np.testing.assert_array_equal(read_data(path).values, x)
    np.testing.assert_array_equal(read_data(path, columns=["day"]).values, x[:, [2]])


def test_a_layer_instead_of_x(tmp_path):
    """By name; one that is not there is refused with those that are; so is a file without X, and another format."""
    x, layer = numbers(), numbers() * 2
    path = write(cells(x, scaled=layer), tmp_path / "a.h5ad")
    np.testing.assert_array_equal(read_data(path, options=ReadOptions(layer="scaled")).values, layer)
    np.testing.assert_array_equal(as_table(cells(x, scaled=layer), options=ReadOptions(layer="scaled")).values, layer)
    with pytest.raises(OptionError, match="no layer 'counts'; its layers: 'scaled'"):
        read_data(path, options=ReadOptions(layer="counts"))
    without = write(cells(None, scaled=layer), tmp_path / "b.h5ad")
    with pytest.raises(DataError, match=r"no matrix X\. Choose a layer with --layer; its layers: 'scaled'"):
        read_data(without)
    np.testing.assert_array_equal(read_data(without, options=ReadOptions(layer="scaled")).values, layer)
    np.save(tmp_path / "a.npy", x)
    with pytest.raises(OptionError, match=r"--layer says nothing about a numpy array; it is for \.h5ad"):
        read_data(tmp_path / "a.npy", options=ReadOptions(layer="scaled"))


def test_counts_are_read_with_a_word_of_advice(tmp_path):
    """Raw counts are no data for ICA."""
    counts = np.random.default_rng(0).poisson(3, size=(5, 4))
    table = read_data(write(cells(counts), tmp_path / "a.h5ad"))
    np.testing.assert_array_equal(table.values, counts)
    assert "raw counts" in table.notes[0]
    assert not read_data(write(cells(np.log1p(counts)), tmp_path / "a.h5ad")).notes


def test_an_absurdly_large_sparse_matrix_is_refused_before_memory_is_taken(tmp_path, monkeypatch):
    """Two million cells of 30,000 genes; of a few genes it can be read."""
    huge = sparse.csr_matrix((2_000_000, 30_000), dtype=np.float32)
    with pytest.raises(DataError, match=r"2000000 x 30000 numbers take 224 GB .* most variable genes"):
        reader_room._made_dense(huge, list(range(30_000)), "a.h5ad", "X")
    assert reader_room._made_dense(huge, [3, 5], "a.h5ad", "X")[0].shape == (2_000_000, 2)
    monkeypatch.setattr(reader_room, "MAX_DENSE", 100)
    with pytest.raises(DataError, match="is sparse; ICA needs its zeros too"):
        read_data(write(cells(sparse.csr_matrix(numbers())), tmp_path / "a.h5ad"))


def test_missing_values(tmp_path):
    """Refused with the gene's name, or dropped with the cell."""
    x = numbers()
    x[2, 1] = np.nan
    path = write(cells(x), tmp_path / "a.h5ad")
    with pytest.raises(DataError, match="'TP53' 1"):
        read_data(path)
    assert read_data(path, drop_missing=True).n_dropped == 1


def test_two_genes_of_one_name(tmp_path):
    """As symbols sometimes are."""
    adata = cells(numbers())
    adata.var_names = pd.Index(["A", "B", "A", "C"])
    with pytest.raises(DataError, match="two columns are called 'A'"):
        read_data(write(adata, tmp_path / "a.h5ad"))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.8, 0.99])
def test_a_file_that_was_cut_short(tmp_path, share):
    """Wherever: one sentence."""
    path = write(cells(numbers()), tmp_path / "a.h5ad")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FormatError, match="not an AnnData file that can be read"):
        read_data(path)


def test_another_kind_of_file(tmp_path):
    """A text of that name; HDF5 of another kind; a matrix of texts; one that does not fit its genes."""
    path = tmp_path / "a.h5ad"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="not an AnnData file that can be read"):
        read_data(path)
    with h5py.File(path, "w") as file:
        file["matrix"] = numbers()
    with pytest.raises(FormatError, match="an HDF5 file, but not one of AnnData"):
        read_data(path)
    for wrong, complaint in (
        (numbers()[:, :3], r"4 var_names.*got the shape \(5, 3\)"),
        (np.full((5, 4), b"x"), "real numbers"),
    ):
        write(cells(numbers()), path)
        with h5py.File(path, "a") as file:
            del file["X"]
            file["X"] = wrong
        with pytest.raises(DataError, match=complaint):
            read_data(path)


def test_a_client_of_single_cells_from_file_to_contribution(tmp_path):
    """What is read can be fitted, and its features travel along."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((4, 2))
    x = sparse.csr_matrix(rng.laplace(size=(500, 2)) @ mixing.T)
    path = write(ad.AnnData(X=x, var=pd.DataFrame(index=GENES)), tmp_path / "a.h5ad")
    table = read_data(path)
    local = LocalICA(2, random_state=0).fit(table.values)
    assert local.contribution("lab", features=table.features).features == tuple(GENES)
    cosines = np.abs(local.atoms_.T @ (mixing / np.linalg.norm(mixing, axis=0)))
    assert cosines.max(axis=0).min() > 0.98
