"""What more than one record asks of its fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedica.errors import InputError

INDEPENDENCE = ("samples", "features")
MIXING = ("general", "orthogonal")
MAX_NAME = 200
"""The longest client or study name, in characters."""


def check_name(name: object, what: str) -> str:
    """Return a client's or study's name if it can be printed, stored in a file and used as a file's name."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{what} must be a text that is not empty; {name!r:.100} came.")
    if len(name) > MAX_NAME:
        raise InputError(f"{what} may have at most {MAX_NAME} characters; {len(name)} came ({name[:40]!r}...).")
    if any(ord(letter) < 32 or 0x7F <= ord(letter) <= 0x9F or 0xD800 <= ord(letter) <= 0xDFFF for letter in name):
        raise InputError(f"{what} may not contain control characters; {name!r} came.")
    return name


def check_features(features: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the feature names as a tuple of distinct texts."""
    if isinstance(features, str):
        raise InputError(f"{what} must be a list of names; the single text {features!r} came.")
    names = tuple(str(f) for f in features)
    if not names:
        raise InputError(f"{what} must name at least one feature; none came.")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"{what} must be distinct; {twice!r} came more than once.")
    return names
