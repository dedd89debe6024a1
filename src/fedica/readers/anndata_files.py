"""AnnData files (.h5ad), as single-cell people have them: one cell a row, one gene a column; needs anndata."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError, FormatError, MissingExtraError, OptionError
from fedica.readers.options import ReadOptions
from fedica.readers.sheet import Sheet

MAX_DENSE = 8 * 2**30
"""Most bytes that a sparse matrix may take once its zeros are written out."""
_BLOCK_NUMBERS = 4_000_000


def read_h5ad(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read ``X`` or a layer of an AnnData file; the features are its ``var_names``.

    Only the matrix and the names are read. A sparse matrix is written out with its zeros, unless that is absurd.
    """
    try:
        import h5py  # noqa: PLC0415 - an extra
        from anndata import io  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError(
            f"{path}: reading .h5ad needs anndata. Install it with: pip install 'fedica[tables]'"
        ) from None
    try:
        with h5py.File(path, "r") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what anndata says of old files is not for whoever reads one
            if "var" not in file or "obs" not in file:
                raise FormatError(f"{path}: it is an HDF5 file, but not one of AnnData (it has no 'obs' and 'var').")
            names = tuple(map(str, io.read_elem(file["var"]).index))
            matrix, where = _find_matrix(file, options.layer, path)
            if not isinstance(matrix, h5py.Dataset):
                matrix = io.sparse_dataset(matrix)
            _check_shape(matrix, names, path, where)
            kept = _places(names, columns)
            if isinstance(matrix, h5py.Dataset):
                values, note = _dense(matrix, kept), ""
            else:
                values, note = _written_out(matrix, kept, path, where)
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError | FormatError | OptionError):
            raise
        reason = " ".join(str(error).split())[:150]
        raise FormatError(f"{path}: it is not an AnnData file that can be read ({reason}).") from error
    notes = tuple(sentence for sentence in (note, _note_of_counts(values, where)) if sentence)
    left_out = {name: "not wanted" for k, name in enumerate(names) if k not in set(kept)}
    return Sheet(values, tuple(names[k] for k in kept), left_out, notes, measured=True)


def _find_matrix(file: Any, layer: str | None, path: Path) -> tuple[Any, str]:
    """Return the matrix, and what it is called in sentences."""
    layers = list(file["layers"]) if "layers" in file else []
    listed = ", ".join(map(repr, layers[:8])) or "none"
    if layer is not None:
        if layer not in layers:
            raise OptionError(f"{path}: there is no layer {layer!r}; its layers: {listed}.")
        return file["layers"][layer], f"the layer {layer!r}"
    if "X" not in file or file["X"].attrs.get("encoding-type") == "null":
        raise DataError(f"{path}: it has no matrix X. Choose a layer with --layer; its layers: {listed}.")
    return file["X"], "X"


def _check_shape(matrix: Any, names: Sequence[str], path: Path, where: str) -> None:
    if len(matrix.shape) != 2 or matrix.shape[1] != len(names) or min(matrix.shape) == 0:
        raise DataError(
            f"{path}: {where} must have one row a sample and one column for each of the {len(names)} var_names, "
            f"neither of them zero; the shape {tuple(matrix.shape)} came."
        )
    if np.dtype(matrix.dtype).kind not in "fiub":
        raise DataError(f"{path}: {where} must hold real numbers; it holds {matrix.dtype}.")


def _places(names: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    wanted = None if columns is None else set(columns)
    return [k for k, name in enumerate(names) if wanted is None or name in wanted]


def _dtype(matrix: Any) -> np.dtype[Any]:
    """Return what the numbers are kept in: single precision if the file has no more."""
    return np.dtype(np.float32 if matrix.dtype == np.float32 else np.float64)


def _dense(matrix: Any, kept: list[int]) -> NDArray[Any]:
    """Read a stored array in blocks of rows, so that columns that are not wanted never fill the memory."""
    n_rows, n_columns = matrix.shape
    values = np.empty((n_rows, len(kept)), dtype=_dtype(matrix))
    rows = max(1, _BLOCK_NUMBERS // n_columns)
    for start in range(0, n_rows, rows):
        block = matrix[start : start + rows]
        values[start : start + rows] = block if len(kept) == n_columns else block[:, kept]
    return values


def _written_out(matrix: Any, kept: list[int], path: Path, where: str) -> tuple[NDArray[Any], str]:
    dtype, n_rows = _dtype(matrix), matrix.shape[0]
    size = n_rows * len(kept) * dtype.itemsize
    if size > MAX_DENSE:
        raise DataError(
            f"{path}: {where} is sparse; ICA needs its zeros too, and {n_rows} x {len(kept)} numbers take "
            f"{size / 2**30:.0f} GB (at most {MAX_DENSE / 2**30:.0f} are taken). Choose fewer features, such as the "
            "most variable genes: list them in a file and give it with --features."
        )
    held = matrix.to_memory()
    share = held.nnz / max(1, held.shape[0] * held.shape[1])
    chosen = held if len(kept) == held.shape[1] else held[:, kept]
    values = np.asarray(chosen.astype(dtype).toarray())
    return values, (
        f"{where} is sparse ({share:.1%} of its values are not zero); it was written out with its zeros, "
        f"{size / 2**20:.1f} MB."
    )


def _note_of_counts(values: NDArray[Any], where: str) -> str:
    """Say that raw counts are no data for ICA, where the first rows look like them."""
    some = values[: max(1, _BLOCK_NUMBERS // values.shape[1])] if values.shape[1] else values
    if some.size == 0 or not np.all(some == np.trunc(some)) or some.max() <= 1 or some.min() < 0:
        return ""
    return (
        f"{where} holds whole numbers, as raw counts are; a few large ones will lead ICA. Normalise them, and take the "
        "logarithm, in the same way at every client."
    )
