"""What the file ``channels.tsv`` of a BIDS data set tells of a recording: types of channels, and which are bad."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedica.errors import FormatError
from fedica.readers.bids_folders import RECORDINGS
from fedica.readers.registry import suffix_of

_TYPES = {
    "EEG": "eeg",
    "EOG": "eog",
    "VEOG": "eog",
    "HEOG": "eog",
    "ECG": "ecg",
    "EMG": "emg",
    "ECOG": "ecog",
    "SEEG": "seeg",
    "DBS": "dbs",
    "TRIG": "stim",
    "RESP": "resp",
}
"""Types of BIDS as MNE calls them; others are misc. The types of MEG sensors are stored in the recording itself."""
_OF_SUBJECT = re.compile(r"sub-\w+|ses-\w+|i?eeg|meg")


@dataclass(frozen=True)
class Described:
    """What is known of channels besides what the recording says.

    Parameters
    ----------
    types : mapping of str to str
        Types of channels, as MNE calls them.
    bads : frozenset of str
        Channels that are bad.
    note : str
        Where that is from, in one sentence; empty if nothing is known.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    bads: frozenset[str] = frozenset()
    note: str = ""


def described_channels(recording: Path) -> Described:
    """Return what channels.tsv tells of a recording that is named as BIDS asks for; nothing if there is none."""
    file = _channels_file(recording)
    if file is None:
        return Described()
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
    except (OSError, ValueError, csv.Error) as error:
        raise FormatError(f"{file}: it cannot be read as a table of channels ({error}).") from error
    if not rows or not rows[0].get("name"):
        raise FormatError(f"{file}: a table of channels must have a column 'name', separated by tabs, and a row.")
    said = {row["name"]: (row.get("type") or "n/a").upper() for row in rows if row["name"]}
    types = {name: _TYPES.get(kind, "misc") for name, kind in said.items() if kind != "N/A" and kind[:3] != "MEG"}
    bads = frozenset(row["name"] for row in rows if (row.get("status") or "").lower() == "bad")
    return Described(types, bads, f"types of channels, and which are bad, are those of {file.name}.")


def _channels_file(recording: Path) -> Path | None:
    """Return the nearest channels.tsv whose entities (sub-01, task-rest) are all those of the recording's name."""
    *entities, kind = recording.name.removesuffix(suffix_of(recording)).split("_")
    if kind not in RECORDINGS or not entities or not entities[0].startswith("sub-"):
        return None
    folder = recording.absolute().parent
    while True:
        files = [file for file in folder.glob("*channels.tsv") if set(file.name.split("_")[:-1]) <= set(entities)]
        if files:
            return max(files, key=lambda file: len(file.name))
        if not _OF_SUBJECT.fullmatch(folder.name):
            return None
        folder = folder.parent
