"""Columns of numbers that tell who or when, not what: identifiers, postcodes, dates; by name and by content.

Names are compared without accents, case and punctuation, in the languages that hospitals of Europe and the Americas
write them in. Content is looked at in columns of whole numbers alone.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ID = re.compile(
    r"(.* )?(id|ids|uid|uuid|guid|idx|index|identifier|subject|participant|patient|mrn|ssn|record|row|nr|no)"
    r"( ?(id|nr|no|number|code|key))?"
    r"|unnamed \d+|level \d+|.* id"
    r"|(.* )?\w*(nummer|kennung|kennziffer)|(.* )?(aktenzeichen|patientenid|fallid)"
    r"|(.* )?(identifiant|matricule|matricola|expediente|prontuario|historia clinica|codice (fiscale|paziente))"
    r"|(n|no|nr|num|numero|number) (de |du |d |di |do |da |of )?"
    r"(patient|patiente|paziente|paciente|dossier|cartella|case|historia|expediente|securite sociale|caso|cas)( .*)?"
    r"|(.* )?(case|visit|encounter|accession|admission|hospital|nhs|insurance|passport|phone|telephone|account|medical "
    r"record|social security) (number|no|nr)|(tele)?(phone|fon)"
)
_POSTCODE = re.compile(
    r"(.* )?(zip|zip ?code|post ?code|postal code|postleitzahl|plz|code postal|codigo postal|kod pocztowy)"
)
_DATE = re.compile(
    r"(.* )?(date|datetime|timestamp|dob|birthdate|birthday)|time|year|month|day|(.* )?date (of|de|du|d) .*"
    r"|(.* )?\w*(datum|geburtstag)|gebdat|jahrgang|geburtsjahr|(.* )?naissance( .*)?|fecha( .*)?"
    r"|data (di|de|do|urodzenia)( .*)?"
)
_SHORT = re.compile(r"cap|cep|cp|cpf|cpr|dni|nif|nie|nir|bsn|pesel|nip")
"""Abbreviations that are also something else: they count over long whole numbers alone."""
_MIN_ROWS = 20
_MAX_ROWS = 100_000
_MIN_COLLISIONS = 7.0
"""As many equal pairs must be expected of measurements before their absence is a sign: one column in 1000 has none."""


def plain(name: str) -> str:
    """Return a name without accents, case and punctuation, its words parted by spaces; also those of ``patientID``."""
    words = re.sub(r"(?<=[a-z])(?=I[Dd]$)", " ", name)
    letters = unicodedata.normalize("NFKD", words.replace("ø", "o").replace("°", " "))
    ascii_only = "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()
    return " ".join(re.findall(r"\w+", ascii_only.replace("_", " ")))


def by_name(name: str, column: NDArray[Any]) -> str:
    """Return what a column is by its name; an empty text if it may be a feature."""
    text = plain(name)
    if _ID.fullmatch(text) or (_SHORT.fullmatch(text) and _digits(column) >= 5):
        return "an identifier, by its name"
    if _POSTCODE.fullmatch(text):
        return "a postcode, by its name"
    if _DATE.fullmatch(text) or (text.endswith((" year", " jahr")) and _within(column, 1900, 2100)):
        return "a date or a time, by its name"
    return ""


def by_content(column: NDArray[Any]) -> str:
    """Return what a column of whole numbers is by its content; an empty text if it may be a feature."""
    values = _whole(column)
    if values.size < _MIN_ROWS or values[0] == values[-1] == values.mean():
        return ""
    distinct = np.unique(values)
    if distinct.size >= 5 and _calendar(distinct):
        return "dates, written as year, month and day"
    if 2 * distinct.size >= values.size and _digits(values) >= 7:
        return f"codes: whole numbers of {_digits(values)} digits"
    pairs = 0.5 * values.size * (values.size - 1)
    if distinct.size == values.size and pairs / (np.ptp(values) + 1) >= _MIN_COLLISIONS:
        return "an identifier: whole numbers, no two of them equal"
    return ""


def doubt(column: NDArray[Any]) -> str:
    """Return what a column of whole numbers may be without being told from a measurement: a postcode or a day."""
    values = _whole(column)
    if values.size >= _MIN_ROWS and _digits(values) == 5 and values.min() < values.max():
        return "whole numbers of five digits, as postcodes and the days of a spreadsheet are"
    return ""


def _whole(column: NDArray[Any]) -> NDArray[np.float64]:
    """Return the numbers of a column if all are whole and not negative, else none; at most the first 100,000."""
    start = np.asarray(column[:_MIN_ROWS], dtype=np.float64)
    if np.any(start != np.trunc(start)) and not np.isnan(start).any():  # a quick look, then all
        return np.empty(0)
    values = np.asarray(column[:_MAX_ROWS], dtype=np.float64)
    values = values[~np.isnan(values)]
    return values if np.all((values == np.trunc(values)) & (values >= 0)) else np.empty(0)


def _digits(values: NDArray[Any]) -> int:
    """Return how many digits all whole numbers have; 0 if they differ in that, or some are not whole."""
    whole = _whole(values)
    if not whole.size or whole.min() < 1 or not np.isfinite(whole).all():
        return 0
    low, high = len(f"{whole.min():.0f}"), len(f"{whole.max():.0f}")
    return low if low == high else 0


def _within(column: NDArray[Any], low: float, high: float) -> bool:
    values = _whole(column)
    return bool(np.all((values >= low) & (values <= high))) and values.size == min(column.size, _MAX_ROWS)


def _calendar(values: NDArray[np.float64]) -> bool:
    """Whether all numbers are dates as 20210304."""
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    return bool(np.all((year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)))
