"""Validators shared by the records: each returns the clean value or raises one clear sentence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from fedica.arrays import Array, check_choice, check_finite_matrix, check_int, check_number, readonly
from fedica.errors import InputError

INDEPENDENCE = ("samples", "features")
MIXING = ("general", "orthogonal")
MAX_NAME = 200
"""The longest client or study name, in characters."""
MAX_TEXT = 1000
"""The longest text that describes something, in characters."""
MAX_PREPROCESSING = 10_000
"""The most characters of all names and values of ``preprocessing`` together."""
MAX_EXTRA = 65_536
"""The most bytes of ``extra`` as JSON."""
GRAM_TOL = 1e-9
"""How far a Gram matrix may be from symmetric and positive semidefinite, relative to its largest entry."""


def check_name(name: object, what: str) -> str:
    """Return a client's or study's name if it can be printed, stored in a file and used as a file's name."""
    return _check_printable(name, what, MAX_NAME)


def check_text(text: object, what: str) -> str:
    """Return a text if it is not empty, not too long, and can be printed."""
    return _check_printable(text, what, MAX_TEXT)


def _check_printable(text: object, what: str, max_length: int) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{what} must be a text that is not empty; got {text!r:.100}.")
    if len(text) > max_length:
        raise InputError(f"{what} may have at most {max_length} characters; got {len(text)} ({text[:40]!r}...).")
    if text.isprintable():  # nearly all, and much faster: there may be a hundred thousand of them
        return text
    if any(ord(letter) < 32 or 0x7F <= ord(letter) <= 0x9F or 0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        raise InputError(f"{what} may not contain control characters; got {text!r}.")
    return text


def check_features(features: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the feature names as a tuple of distinct texts."""
    if isinstance(features, str):
        raise InputError(f"{what} must be a list of names; got the single text {features!r}.")
    names = tuple(str(f) for f in features)
    if not names:
        raise InputError(f"{what} must name at least one feature; got none.")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"{what} must be distinct; got {twice!r} more than once.")
    return names


def check_independence(value: object, what: str) -> str:
    """Return what the sources are independent over."""
    return check_choice(value, what, INDEPENDENCE)


def check_mixing(value: object, what: str) -> str:
    """Return what is known of the mixing matrix."""
    return check_choice(value, what, MIXING)


def check_positive(value: object, what: str) -> int:
    """Return a whole number of at least one."""
    return check_int(value, what, minimum=1)


def check_natural(value: object, what: str) -> int:
    """Return a whole number of at least zero."""
    return check_int(value, what, minimum=0)


def check_not_negative(value: object, what: str) -> float:
    """Return a finite number of at least zero."""
    number = check_number(value, what)
    if number < 0:
        raise InputError(f"{what} must be at least 0; got {number:g}.")
    return number


def check_indices(values: object, what: str) -> tuple[int, ...] | None:
    """Return distinct whole numbers in ascending order; ``None`` if there are none."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{what} must be a list of whole numbers; got {values!r:.100}.")
    indices = sorted(check_int(value, f"a number of {what}", minimum=0) for value in values)
    if len(set(indices)) < len(indices):
        raise InputError(f"{what} must be distinct whole numbers; got {indices[:20]}.")
    return tuple(indices) or None


def check_gram(gram: object, what: str) -> Array:
    """Return a Gram matrix: square, finite, symmetric and positive semidefinite to rounding."""
    array = check_finite_matrix(gram, what, "(n_atoms, n_atoms)")
    if array.shape[0] != array.shape[1]:
        raise InputError(f"{what} must be a square matrix; got shape {array.shape}.")
    scaled = array / (np.abs(array).max() or 1.0)
    if np.abs(scaled - scaled.T).max() > GRAM_TOL:
        raise InputError(f"{what} must be symmetric, to {GRAM_TOL:g} of its largest entry; it is not.")
    try:
        np.linalg.cholesky(scaled + GRAM_TOL * np.eye(len(scaled)))  # faster than eigenvalues
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"{what} must be positive semidefinite, to {GRAM_TOL:g} of its largest entry; it is not."
        ) from error
    return readonly(array)


def check_text_mapping(values: Mapping[str, str], what: str) -> Mapping[str, str]:
    """Return a read-only mapping from text to text."""
    if not isinstance(values, Mapping):
        raise InputError(f"{what} must be a mapping from text to text; got {values!r:.100}.")
    return MappingProxyType({str(name): str(value) for name, value in values.items()})


def check_extra(values: Mapping[str, str], what: str) -> Mapping[str, str]:
    """Return a read-only mapping from text to text of at most `MAX_EXTRA` bytes as JSON."""
    texts = check_text_mapping(values, what)
    size = len(json.dumps(dict(texts), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MAX_EXTRA:
        raise InputError(f"{what} may have at most {MAX_EXTRA} bytes as JSON; got {size}. Send less along.")
    return texts


def check_preprocessing(values: Mapping[str, str], what: str) -> Mapping[str, str] | None:
    """Return a read-only mapping from text to text of bounded size, sorted by name; ``None`` if it is empty."""
    texts = check_text_mapping(values, what)
    size = sum(len(name) + len(value) for name, value in texts.items())
    if size > MAX_PREPROCESSING:
        raise InputError(f"{what} may have at most {MAX_PREPROCESSING} characters in all; got {size}.")
    return MappingProxyType(dict(sorted(texts.items()))) or None
