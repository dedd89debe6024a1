"""Lists of features in text files: one name per line."""

from __future__ import annotations

from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.exchange.files import read_bounded
from fedica.records import check_features, check_name

MAX_BYTES = 8 * 1024 * 1024


def read_names(path: PathLike) -> tuple[str, ...]:
    """Return the names in a text file, one per line, in order; blank lines and lines that start with # are skipped."""
    file = Path(path)
    if not file.is_file():
        raise FormatError(f"{file}: a text file with one name per line was expected; there is no such file.")
    data = read_bounded(file, limit=MAX_BYTES, what="a list of names")
    try:
        names = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: a list of names must be UTF-8 text; byte {error.start} is not.") from error
    names = [name for name in names if name and not name.startswith("#")]
    try:
        return check_features([check_name(name, "a feature's name") for name in names], "a list of features")
    except InputError as error:
        raise FormatError(f"{file}: {error}") from error
