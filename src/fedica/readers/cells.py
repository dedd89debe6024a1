"""From cells of text to numbers: a fast path for clean columns, a careful one for the others."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fedica.arrays import Array
from fedica.errors import DataError

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "missing"})
"""Spellings of a missing value, in lower case."""
_COMMA_NUMBER = re.compile(r"[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_BLANKS = " \u00a0\u202f'’"
_GROUPED = re.compile(
    rf"[+-]?\d{{1,3}}(?:(?:[{_BLANKS}]\d{{3}})+(?:[.,]\d+)?|(?:\.\d{{3}})+,\d+|(?:,\d{{3}})+\.\d+|(?:\.\d{{3}}){{2,}}|(?:,\d{{3}}){{2,}})"
)
"""Numbers whose thousands are separated so that they can be read in one way alone: 1 234,5; 1.234,5; 1,234.5."""
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}.*|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2})?.*")


class Decimals:
    """Whether numbers have a decimal comma; cells that could be read in two ways are refused, never guessed."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        self.comma = ""
        self.point = False
        self._sure = delimiter == ";"

    def read(self, cell: str) -> float | None:
        """Return the number with a decimal comma that the cell holds, if it is one."""
        if _GROUPED.fullmatch(cell):
            return self._read_grouped(cell)
        if not _COMMA_NUMBER.fullmatch(cell):
            return None
        self.comma = self.comma or cell
        self._sure = self._sure or not _THOUSANDS.fullmatch(cell)
        return float(cell.replace(",", "."))

    def _read_grouped(self, cell: str) -> float:
        """Return a number without the separators of its thousands; its decimal sign is the last one, if any."""
        text = re.sub(f"[{_BLANKS}]", "", cell)
        last = max(text.rfind("."), text.rfind(","))
        if last < 0 or text.count(text[last]) > 1:
            return float(text.replace(".", "").replace(",", ""))
        self.point = self.point or text[last] == "."
        if text[last] == ",":
            self.comma, self._sure = self.comma or cell, True
        return float(text[:last].replace(".", "").replace(",", "") + "." + text[last + 1 :])

    def check(self, source: str) -> None:
        """Refuse a file whose commas could mean two things."""
        if self.comma and self.point:
            raise DataError(
                f"{source}: some numbers have a decimal comma ({self.comma!r}), some a decimal point. Save it with one."
            )
        if self.comma and not self._sure:
            raise DataError(
                f"{source}: the comma in {self.comma!r} could be a decimal comma or separate thousands. Save the "
                "numbers with a decimal point and without separators."
            )


class Column:
    """One column while it is read; texts in one that the user asked for by name (``must_be_numbers``) are an error."""

    def __init__(self, name: str, *, must_be_numbers: bool = False) -> None:
        self.name = name
        self.must_be_numbers = must_be_numbers
        self.n_numbers = self.n_texts = self.n_dates = 0
        self.first_text = ("", 0)
        self._text = False

    def convert(self, cells: Sequence[str], row: int, decimals: Decimals) -> Array:
        """Return the numbers of the cells, NaN for missing ones and texts; ``row`` is where the first stands."""
        if self._text:
            return np.full(len(cells), np.nan)
        try:
            numbers = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        except ValueError:
            numbers = self._carefully(cells, row, decimals)
        else:
            self.n_numbers += len(cells)
            decimals.point = decimals.point or bool(np.any(numbers != np.trunc(numbers)))
        self._text = self.n_texts > self.n_numbers  # a column of texts: its other cells are not looked at
        return numbers

    def take(self, n_numbers: int) -> bool:
        """Count numbers that were parsed elsewhere; return whether they are taken, not cells of a column of texts."""
        if not self._text:
            self.n_numbers += n_numbers
        return not self._text

    def _carefully(self, cells: Sequence[str], row: int, decimals: Decimals) -> Array:
        numbers = np.full(len(cells), np.nan)
        for k, cell in enumerate(cells):
            text = cell.strip()
            if text.lower() in MISSING:
                continue
            number = _number(text, decimals)
            if number is None:
                self.first_text = self.first_text if self.n_texts else (text, row + k)
                self.n_texts += 1
                self.n_dates += bool(DATE.fullmatch(text))
            else:
                self.n_numbers += 1
                numbers[k] = number
        return numbers

    @property
    def content(self) -> str:
        """What a column of texts holds, in words."""
        return "dates or times" if 2 * self.n_dates > self.n_texts else f"text, such as {self.first_text[0][:40]!r}"

    def is_numeric(self, source: str) -> bool:
        """Whether the column holds numbers; a few texts among numbers are an error, not a reason to leave it out."""
        if self.n_texts == 0:
            return True
        if self.n_texts > self.n_numbers and not self.must_be_numbers:
            return False
        text, row = self.first_text
        raise DataError(
            f"{source}: the column {self.name!r} must hold numbers; {self.n_texts} of its cells do not, the first is "
            f"{text[:40]!r} in row {row}. Correct them, or leave them empty and drop these rows."
        )


def is_number_or_missing(cell: str) -> bool:
    """Whether a cell is data, not the name of a column."""
    text = cell.strip()
    return text.lower() in MISSING or _number(text, Decimals(";")) is not None


def _number(text: str, decimals: Decimals) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return decimals.read(text)
    decimals.point = decimals.point or "." in text
    return number
