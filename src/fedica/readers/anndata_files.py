"""AnnData files (.h5ad) of single-cell data: one row per cell, one column per gene; needs anndata."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError, FormatError, InputError, OptionError
from fedica.extras import import_extra
from fedica.formats import ReadOptions
from fedica.progress import counting
from fedica.readers.sheet import Sheet

MAX_DENSE = 8 * 2**30
"""Most bytes that a sparse matrix may take as a dense one."""
_BLOCK_NUMBERS = 4_000_000


def read_h5ad(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read ``X`` or a layer of an AnnData file; the features are its ``var_names``.

    Only the matrix and the names are read. A sparse matrix is made dense, if it then takes at most
    `MAX_DENSE` bytes.
    """
    h5py, io = (import_extra(name, f"{path}: reading .h5ad", "tables", "anndata") for name in ("h5py", "anndata.io"))
    source = str(path)
    try:
        with h5py.File(path, "r") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anndata warns of old files
            if "var" not in file or "obs" not in file:
                raise FormatError(f"{source}: it is an HDF5 file, but not one of AnnData (it has no 'obs' and 'var').")
            has_x = "X" in file and file["X"].attrs.get("encoding-type") != "null"
            matrix, where = _find_matrix(file["X"] if has_x else None, file.get("layers", {}), options.layer, source)
            if not isinstance(matrix, h5py.Dataset):
                matrix = io.sparse_dataset(matrix)
            return _read_matrix(matrix, io.read_elem(file["var"]).index, columns, source, where)
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:150]
        raise FormatError(f"{source}: it is not an AnnData file that can be read ({reason}).") from error


def anndata_sheet(adata: Any, columns: Sequence[str] | None, options: ReadOptions, source: str) -> Sheet:
    """Return ``X`` or a layer of a live AnnData, as `read_h5ad` returns that of a file."""
    matrix, where = _find_matrix(adata.X, adata.layers, options.layer, source)
    return _read_matrix(matrix, adata.var_names, columns, source, where)


def _read_matrix(matrix: Any, var_names: Any, columns: Sequence[str] | None, source: str, where: str) -> Sheet:
    names = tuple(map(str, var_names))
    _check_shape(matrix, names, source, where)
    wanted = None if columns is None else set(columns)
    kept = [k for k, name in enumerate(names) if wanted is None or name in wanted]
    sparse = hasattr(matrix, "to_memory") or hasattr(matrix, "toarray")
    values, note = _made_dense(matrix, kept, source, where) if sparse else (_dense(matrix, kept), "")
    notes = tuple(sentence for sentence in (note, _counts_note(values, where)) if sentence)
    left_out = {} if wanted is None else {name: "not wanted" for name in names if name not in wanted}
    return Sheet(values, tuple(names[k] for k in kept), left_out, notes, measured=True)


def _find_matrix(x: Any, layers: Any, layer: str | None, source: str) -> tuple[Any, str]:
    """Return the matrix, and its name in messages."""
    listed = ", ".join(map(repr, list(layers)[:8])) or "none"
    if layer is not None:
        if layer not in layers:
            raise OptionError(f"{source}: there is no layer {layer!r}; its layers: {listed}.")
        return layers[layer], f"the layer {layer!r}"
    if x is None:
        raise DataError(f"{source}: it has no matrix X. Choose a layer with --layer; its layers: {listed}.")
    return x, "X"


def _check_shape(matrix: Any, names: Sequence[str], source: str, where: str) -> None:
    if len(matrix.shape) != 2 or matrix.shape[1] != len(names) or min(matrix.shape) == 0:
        raise DataError(
            f"{source}: {where} must have one row per sample and one column for each of the {len(names)} var_names, "
            f"neither of them zero; got the shape {tuple(matrix.shape)}."
        )
    if np.dtype(matrix.dtype).kind not in "fiub":
        raise DataError(f"{source}: {where} must hold real numbers; it holds {matrix.dtype}.")


def _dtype(matrix: Any) -> np.dtype[Any]:
    """Return the precision to keep the numbers in: single if the file has no more."""
    return np.dtype(np.float32 if matrix.dtype == np.float32 else np.float64)


def _dense(matrix: Any, kept: list[int]) -> NDArray[Any]:
    """Read a stored array in blocks of rows, so that columns that are not wanted take no memory."""
    n_rows, n_columns = matrix.shape
    values = np.empty((n_rows, len(kept)), dtype=_dtype(matrix))
    rows = max(1, _BLOCK_NUMBERS // n_columns)
    for start in counting(range(0, n_rows, rows), -(-n_rows // rows)):
        block = matrix[start : start + rows]
        values[start : start + rows] = block if len(kept) == n_columns else block[:, kept]
    return values


def _made_dense(matrix: Any, kept: list[int], source: str, where: str) -> tuple[NDArray[Any], str]:
    dtype, n_rows = _dtype(matrix), matrix.shape[0]
    size = n_rows * len(kept) * dtype.itemsize
    if size > MAX_DENSE:
        raise DataError(
            f"{source}: {where} is sparse; ICA needs its zeros too, and {n_rows} x {len(kept)} numbers take "
            f"{size / 2**30:.0f} GB (at most {MAX_DENSE / 2**30:.0f} are taken). Choose fewer features, such as the "
            "most variable genes: list them in a file, for fedica local --features."
        )
    held = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix
    share = held.nnz / max(1, held.shape[0] * held.shape[1])
    chosen = held if len(kept) == held.shape[1] else held[:, kept]
    values = np.asarray(chosen.astype(dtype).toarray())
    return values, (
        f"{where} is sparse ({share:.1%} of its values are not zero); it was made dense, {size / 2**20:.1f} MB."
    )


def _counts_note(values: NDArray[Any], where: str) -> str:
    """Return a note that ICA needs normalised counts, if the first rows look like raw ones."""
    some = values[: max(1, _BLOCK_NUMBERS // values.shape[1])] if values.shape[1] else values
    if some.size == 0 or not np.all(some == np.trunc(some)) or some.max() <= 1 or some.min() < 0:
        return ""
    return (
        f"{where} holds whole numbers, as raw counts are; a few large ones will dominate ICA. Normalise them, and take "
        "the logarithm, in the same way at every client."
    )
