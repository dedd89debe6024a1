"""Array types, and checks of arrays and scalars: each ``check_*`` returns the clean value or raises one clear sentence.

A leaf of the package: it imports nothing of fedica but the errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd
from sklearn.utils import check_random_state

from fedica.errors import DataError, InputError, OptionError

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
PathLike = str | os.PathLike[str]
RandomState = int | np.random.RandomState | np.random.Generator | None

NEAR_ZERO = 1e-12
"""Columns shorter than this, where lengths are about one, have no direction."""
MIN_SCALE = 1e-100
"""Numbers below this, or above its inverse, are scaled before they are squared."""
UNIT_TOL = 1e-9
"""Columns whose norm is this near to one count as unit and are kept bit for bit."""

_Choice = TypeVar("_Choice")


def unit(columns: Array) -> Array:
    """Scale every column to norm one; a column of norm near zero stays as it is.

    columns : (d, m), of norm about one. A column is near zero when its norm is below 1e-12.
    """
    norms = np.linalg.norm(columns, axis=0)
    return np.asarray(columns / np.where(norms < NEAR_ZERO, 1.0, norms), dtype=np.float64)


def unit_of_any_scale(columns: Array) -> Array:
    """Scale every column to norm one, in whatever unit the numbers are: tesla are very small ones.

    columns : (d, m). A column is near zero, and stays so, when its norm is below 1e-12 of the largest entry.
    """
    largest = max(float(columns.max(initial=0.0)), -float(columns.min(initial=0.0)))
    if largest > 0 and not MIN_SCALE < largest < 1 / MIN_SCALE:
        return unit_of_any_scale(np.ldexp(columns, -np.frexp(largest)[1]))  # by a power of two, which is exact
    norms = np.sqrt(np.einsum("dm,dm->m", columns, columns, dtype=np.float64))  # one pass: this runs in every sweep
    return np.asarray(columns / np.where(norms < NEAR_ZERO * largest, largest or 1.0, norms), dtype=np.float64)


def fix_signs(columns: Array) -> tuple[Array, Array]:
    """Make the largest entry of every column positive; return the columns and the sign each was multiplied by.

    columns : (d, m). Among entries that tie (to rounding) the first decides, so that rounding cannot flip a column.
    """
    magnitude = np.abs(columns)
    near_largest = magnitude >= (1 - 1e-9) * magnitude.max(axis=0, keepdims=True)
    first = np.argmax(near_largest, axis=0)
    signs = np.where(columns[first, np.arange(columns.shape[1])] < 0, -1.0, 1.0)
    return columns * signs, signs


def polar(matrix: Array) -> Array:
    """Nearest matrix with orthonormal columns, in Frobenius norm. matrix : (d, r), d >= r."""
    left, _, right = svd(matrix, full_matrices=False)
    return np.asarray(left @ right, dtype=np.float64)


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of the array that cannot be written to, for frozen records."""
    view = array.view()
    view.flags.writeable = False
    return view


def generator(random_state: RandomState) -> np.random.Generator:
    """Return a numpy Generator for anything that scikit-learn accepts as ``random_state``."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
    return np.random.default_rng(check_int(random_state, "random_state", minimum=0))


def check_finite_matrix(values: object, who: str, shape: str) -> Array:
    """Return values as a two-dimensional float64 array without NaN or infinity.

    who : start of the message, ``"client 'a': data"``. shape : expected, in words, ``"(n_samples, n_features)"``.
    """
    array = _as_numbers(values, who, shape)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{who} must have shape {shape}, neither of them zero; got {array.shape}.")
    finite = np.isfinite(array)
    if not finite.all():
        n_nan, n_bad = int(np.isnan(array).sum()), int((~finite).sum())
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            f"{who} must be finite; got {n_nan} NaN and {n_bad - n_nan} infinite values, the first at row {row}, "
            f"column {column}. Fill or drop them."
        )
    return array


def check_unmasked(values: object, who: str) -> None:
    """Refuse an array with masked values: numpy would use what lies under the mask."""
    if isinstance(values, np.ma.MaskedArray) and (n_masked := int(np.ma.getmaskarray(values).sum())):
        raise InputError(f"{who} must have no masked values; got {n_masked}. Fill or drop them.")


def _as_numbers(values: object, who: str, shape: str) -> Array:
    """Return an array of real numbers without masked ones; messages show no value of it."""
    check_unmasked(values, who)
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "cmM":
            return np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{who} must be numbers of shape {shape}; got {_describe(values)}.") from None
    if raw.dtype.kind == "c":
        raise InputError(f"{who} must be real; got complex numbers. Give the real part, or the modulus.")
    raise InputError(f"{who} must be numbers; got dates or times ({raw.dtype}). Leave them out.")


def check_data(X: object, who: str = "data") -> Array:
    """Return X as finite float64 of shape (n_samples, n_features) with at least two samples."""
    try:
        array = check_finite_matrix(X, who, "(n_samples, n_features)")
    except InputError as error:
        raise DataError(str(error)) from error
    if array.shape[0] < 2:
        raise DataError(f"{who} must have at least 2 samples (rows); got {array.shape[0]}.")
    return array


def check_atoms(atoms: object, who: str) -> Array:
    """Return atoms as float64 of shape (d, r_k) with unit columns; refuse a column that is zero beside the largest.

    Columns that are unit already, to `UNIT_TOL`, are kept bit for bit.
    """
    array = check_finite_matrix(atoms, who, "(n_features, n_atoms)")
    largest = max(float(array.max()), -float(array.min())) or 1.0
    if not MIN_SCALE < largest < 1 / MIN_SCALE:  # squares of these would be zero, or infinite
        array = array / largest
    norms = column_norms(array)
    zero = np.flatnonzero(norms <= NEAR_ZERO * norms.max())
    if zero.size:
        raise InputError(
            f"{who} must be directions; atom {zero[0]} is zero (norm {norms[zero[0]]:.1e}; the largest is "
            f"{norms.max():.1e}). Drop it, or fit fewer components."
        )
    return array if are_unit(norms) else np.asarray(array / norms, dtype=np.float64)


def column_norms(columns: Array) -> Array:
    """Return the norm of every column, (m,); unlike numpy's, without a second array of the size of this one."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", columns, columns)))


def are_unit(norms: Array) -> bool:
    """Whether columns of these norms count as unit, all of them."""
    return bool(np.all(np.abs(norms - 1) <= UNIT_TOL))


def check_int(value: object, name: str, *, minimum: int, maximum: int | None = None) -> int:
    """Return value as an int between the bounds."""
    expected = f"a whole number of at least {minimum}" + ("" if maximum is None else f" and at most {maximum}")
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise OptionError(f"{name} must be {expected}; got {value!r}.")
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise OptionError(f"{name} must be {expected}; got {number}.")
    return number


def check_number(value: object, name: str, *, above: float = -np.inf, below: float = np.inf) -> float:
    """Return value as a float strictly between the bounds."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if not above < number < below:
        raise OptionError(f"{name} must be a number above {above:g} and below {below:g}; got {value!r}.")
    return number


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return value if it is one of the choices."""
    names = tuple(choices)
    if not isinstance(value, str) or value not in names:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, names))}; got {value!r:.100}.")
    return value


def pick(value: object, name: str, table: Mapping[str, _Choice]) -> _Choice:
    """Return the entry of the table whose name is value."""
    return table[check_choice(value, name, table)]


def _describe(value: object) -> str:
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{type(value).__name__} of {dtype}"
