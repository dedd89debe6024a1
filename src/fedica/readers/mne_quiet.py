"""MNE without its log: its warnings become notes, one sentence each."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedica.extras import import_extra

_KNOWN = ("naming conventions", "does not conform", "Number of records from the header", "filter_length")
"""Warnings that do not matter here, or that other notes tell."""
_FOR_DEVELOPERS = (DeprecationWarning, FutureWarning, PendingDeprecationWarning)
_MAX_LENGTH = 200


def import_mne(what: str) -> Any:
    """Return the module ``mne``; ``what`` says in messages who needs it."""
    return import_extra("mne", what, "eeg", "MNE-Python")


@contextmanager
def quiet(notes: list[str]) -> Iterator[None]:
    """Silence MNE; append its warnings to the notes."""
    mne = import_mne("this")
    log = logging.getLogger("mne")
    with mne.use_log_level("WARNING"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log.addFilter(_drop)  # above this level MNE does not even warn; at it, it may log what it warns of
        try:
            yield
        finally:
            log.removeFilter(_drop)
    for warning in caught:
        note = f"MNE says: {first_sentence(str(warning.message))}"
        if not (issubclass(warning.category, _FOR_DEVELOPERS) or note in notes or any(w in note for w in _KNOWN)):
            notes.append(note)


def _drop(_record: logging.LogRecord) -> bool:
    return False


def first_sentence(text: str) -> str:
    """Return a text on one line, and not too long."""
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]} ..."
