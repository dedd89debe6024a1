"""Which channels of a recording are data: their types, units, and which are marked as bad."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedica.errors import DataError
from fedica.formats import ReadOptions
from fedica.readers.units import scale_of

UNITS = {"mag": ("fT", 1e15), "grad": ("fT/cm", 1e13)}
"""Unit of a type of channels, and how many of it make one SI unit; all others are microvolts."""
MICROVOLTS = ("uV", 1e6)
BAD_CHANNEL = "a channel that is marked as bad"
NO_CHANNELS = "no-channels"
"""Kind of the error that a recording has no channel of the wanted types; its numbers: the ``types`` that it has."""
MEG = ("mag", "grad")
"""What "meg" stands for."""
_WORDS = {
    "eog": "eye movements (EOG)",
    "ecg": "the heart (ECG)",
    "emg": "muscles (EMG)",
    "stim": "triggers",
    "syst": "the state of the device",
    "resp": "breathing",
    "mag": "magnetometers (MEG)",
    "grad": "gradiometers (MEG)",
    "ref_meg": "reference sensors (MEG)",
    "eeg": "EEG",
    "misc": "other signals (misc)",
}
_BY_NAME = {
    "eog": re.compile(r"(?i)([hv]|left|right)?[ _-]?eog[a-z0-9 _.-]*"),
    "ecg": re.compile(r"(?i)e[ck]g[a-z0-9 _.-]*"),
    "emg": re.compile(r"(?i)(chin)?[ _-]?emg[a-z0-9 _.-]*"),
    "stim": re.compile(r"(?i)(status|trig(ger)?s?|stim|sti ?\d+|marker|events?|photic)[ _.-]?(channel|\d*)"),
    "misc": re.compile(
        r"(?i)(spo2|sao2|pulse|pleth|temp(erature)?|acc?(el)?[ _-]?[xyz]?|resp.*|airflow|snore|gsr|dc\d+)"
    ),
}


@dataclass(frozen=True)
class Channels:
    """The channels that are used, and the others."""

    picks: tuple[int, ...]  # places of the channels that are used
    names: tuple[str, ...]
    types: tuple[str, ...]
    left_out: dict[str, str]  # channels of other types, or that are not wanted: what they hold
    bads: tuple[str, ...]  # left out because they are marked as bad

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each channel that is used."""
        return tuple(unit_of(kind)[0] for kind in self.types)


def unit_of(kind: str) -> tuple[str, float]:
    """Return the unit of a type of channels, and how many of it make one SI unit, in which MNE holds its data."""
    return UNITS.get(kind, MICROVOLTS)


def choose_channels(
    recording: Any,
    source: str,
    columns: Sequence[str] | None,
    options: ReadOptions,
    *,
    guess: bool,
    units: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    bads: Collection[str] = (),
) -> Channels:
    """Find the channels of the wanted types, without the bad ones, in an ``mne.io.Raw`` or ``mne.Epochs``.

    source : its name in messages. guess : whether the format stores no types, so that they are guessed by name ("HEOG"
    is an EOG channel). units : unit of each channel in the file; one that is not a voltage is no EEG. types, bads :
    what is known of channels besides.
    """
    named = _types(recording, guess=guess, units=units, known=types or {})
    wanted = {one for kind in options.types for one in (MEG if kind == "meg" else (kind,))}
    marked = {*recording.info["bads"], *bads} if not options.keep_bads else set()
    picks: list[int] = []
    left_out: dict[str, str] = {}
    for k, (name, kind) in enumerate(named):
        if columns is not None and name not in set(columns):
            left_out[name] = "not wanted"
        elif kind not in wanted:
            left_out[name] = _WORDS.get(kind, kind)
            if columns is not None:
                raise DataError(
                    f"{source}: the channel {name!r} is wanted as {' or '.join(sorted(wanted))}; it holds "
                    f"{left_out[name]}. Take it out of the features, or give --channel-types."
                )
        elif name not in marked:
            picks.append(k)
    bad = tuple(name for name, kind in named if name in marked and kind in wanted and name not in left_out)
    if not picks:
        found = tuple(dict.fromkeys(kind for _, kind in named))
        raise DataError(
            _nothing_left(source, named, wanted, bad, columns),
            kind=NO_CHANNELS if not bad and columns is None else "",
            numbers={"types": found},
        )
    names, kinds = zip(*(named[k] for k in picks), strict=True)
    return Channels(tuple(picks), names, kinds, left_out, bad)


def _types(
    recording: Any, *, guess: bool, units: Sequence[str] | None, known: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return name and type of every channel; guessed by name or unit where the format stores none."""
    names, kinds = recording.ch_names, recording.get_channel_types()
    if guess:
        known_units = units if units is not None and len(units) == len(names) else [""] * len(names)
        kinds = [
            _guessed(name.strip(), unit) if kind == "eeg" else kind
            for name, kind, unit in zip(names, kinds, known_units, strict=True)
        ]
    return [(name, known.get(name, kind)) for name, kind in zip(names, kinds, strict=True)]


def _guessed(name: str, unit: str) -> str:
    kind = next((kind for kind, pattern in _BY_NAME.items() if pattern.fullmatch(name)), "eeg")
    if kind == "eeg" and unit and (scale_of(unit) or ("", 0.0))[0] != "V":
        return f"values in {unit}"
    return kind


def _nothing_left(
    source: str, types: list[tuple[str, str]], wanted: set[str], bad: tuple[str, ...], columns: Sequence[str] | None
) -> str:
    kinds = Counter(kind for _, kind in types)
    has = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(6)) or "none"
    asked = " or ".join(sorted(wanted))
    if bad:
        return (
            f"{source}: all {len(bad)} wanted channels of type {asked} are marked as bad. Give --keep-bads if they are "
            "good."
        )
    if columns is not None:
        asked, has = (", ".join(map(repr, names[:3])) for names in (list(columns), [name for name, _ in types]))
        return (
            f"{source}: none of the {len(columns)} wanted channels ({asked} ...) is there; it has {has} and so on. "
            "Rename the channels: --rename FILE."
        )
    return f"{source}: channels of type {asked} are wanted; it has {has}. Give the type with --channel-types."
