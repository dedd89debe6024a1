"""From a recording as MNE holds it to the numbers that ICA is fitted to: one path for files and for live objects.

In this order: the channels of the wanted types without the bad ones; in their units (MNE holds volts and tesla); drifts
filtered out; segments that are annotated as bad dropped; average reference. Each step leaves a note of one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array
from fedica.errors import DataError
from fedica.formats import ReadOptions
from fedica.progress import counting
from fedica.readers.channels import BAD_CHANNEL, Channels, choose_channels, unit_of
from fedica.readers.mne_quiet import import_mne, quiet
from fedica.readers.sheet import Passband, Sheet
from fedica.text import counted, list_names

SINGLE_PRECISION_BYTES = 2**29
"""A recording that would be larger than this in double precision is held in single precision."""
BATCH_BYTES = 2**26
"""Channels are read and filtered in batches of this size,"""
PASSES = 16
"""or a sixteenth of them if that is more: every batch takes a pass over the file."""
_PLAUSIBLE = {"uV": (0.05, 5e3), "fT": (0.1, 1e6), "fT/cm": (0.01, 1e5)}
"""Range of the standard deviation of a typical filtered channel: outside of it the unit must be wrong."""
_UNFILTERED = 100.0
"""Without a filter the standard deviation may be this many times larger, because of drifts."""
_FLAT = 1e-6
Band = tuple[float | None, float | None]
"""Cut-offs in Hz of the high-pass and of the low-pass that are still to be applied."""


def recording_sheet(recording: Any, columns: Sequence[str] | None, options: ReadOptions, source: str) -> Sheet:
    """Return the channels of a live ``mne.io.Raw`` or ``mne.Epochs``, exactly as those of a file are read.

    It is not changed. Epochs are put one after the other, and are not filtered.
    """
    channels = choose_channels(recording, source, columns, options, guess=False)
    return read_recording(recording, channels, source, options)


def read_recording(recording: Any, channels: Channels, source: str, options: ReadOptions) -> Sheet:
    """Return channels of a recording, (n_samples, n_channels), prepared as the options say.

    ``source`` is its name in messages.
    """
    mne = import_mne(source)
    is_raw = isinstance(recording, mne.io.BaseRaw)
    band, notes = _band(recording, source, options, is_raw=is_raw)
    with quiet(notes):
        values = _read(mne, recording, channels, band, source, is_raw=is_raw)
    if is_raw:
        notes += _dropped(recording, values.shape[0])
    _check_amplitudes(values, channels, source, filtered=band[0] is not None or already_highpassed(recording, 1.0))
    notes += _average(values, channels, options, source)
    head = f"{values.shape[0]} samples at {recording.info['sfreq']:g} Hz, {_counts(channels)}."
    notes.insert(0, head)
    if values.dtype == np.float32:
        notes.append("held in single precision, because it is large.")
    if channels.bads:
        notes.append(f"left out because they are marked as bad: {', '.join(map(repr, channels.bads))}.")
    return Sheet(
        values,
        channels.names,
        channels.left_out,
        tuple(notes),
        channels.units,
        dict.fromkeys(channels.bads, BAD_CHANNEL),
        {"reference": "average"} if options.reference == "average" and set(channels.types) == {"eeg"} else {},
        passband=_passband(recording, band),
    )


def _read(mne: Any, recording: Any, channels: Channels, band: Band, source: str, *, is_raw: bool) -> NDArray[Any]:
    """Read, filter and scale some channels at a time: little more than one copy of the data is held."""
    n_times = recording.n_times if is_raw else len(recording.times) * len(recording)
    large = n_times * len(channels.picks) * 8 > SINGLE_PRECISION_BYTES
    at_once = max(1, BATCH_BYTES // max(n_times * 8, 1), -(-len(channels.picks) // PASSES))
    values: NDArray[Any] | None = None
    starts = range(0, len(channels.picks), at_once)
    for start in counting(starts, len(starts), f"reading {source}"):
        picks = list(channels.picks[start : start + at_once])
        part = _some_channels(mne, recording, picks, band, source, is_raw=is_raw)
        if values is None:
            dtype = np.float32 if large else np.float64
            values = np.empty((part.shape[1], len(channels.picks)), dtype=dtype)
            if values.shape[0] < 2:
                raise DataError(f"{source}: no two samples are left; all others are annotated as bad.")
        for k, row in enumerate(part):
            values[:, start + k] = row * unit_of(channels.types[start + k])[1]
    assert values is not None
    return values


def _some_channels(mne: Any, recording: Any, picks: list[int], band: Band, source: str, *, is_raw: bool) -> Array:
    """Return (len(picks), n_samples) without bad segments, filtered over all of the recording, in SI units."""
    data = recording.get_data(picks=picks)
    if not is_raw:
        data = np.concatenate(list(data), axis=1)
    _check_finite(data, recording, picks, source)
    if not is_raw or (band == (None, None) and not len(recording.annotations)):
        return np.asarray(data, dtype=np.float64)
    info = mne.pick_info(recording.info, picks)
    part = mne.io.RawArray(data, info, first_samp=recording.first_samp, copy="auto")
    part.set_annotations(recording.annotations)
    if band != (None, None):
        part.filter(*band, picks="all", n_jobs=1)
    return np.asarray(part.get_data(reject_by_annotation="omit"), dtype=np.float64)


def _check_finite(data: Array, recording: Any, picks: list[int], source: str) -> None:
    for k, row in zip(picks, data, strict=True):
        n_bad = row.size - int(np.count_nonzero(np.isfinite(row)))
        if n_bad:
            raise DataError(
                f"{source}: the channel {recording.ch_names[k]!r} has {n_bad} values that are not numbers, which a "
                "filter would spread. Fill them, or mark the channel as bad."
            )


def already_highpassed(recording: Any, highpass: float) -> bool:
    """Whether a recording says that it has nothing below a frequency."""
    return float(recording.info["highpass"] or 0.0) >= highpass * (1 - 1e-6)


def own_lowpass(recording: Any) -> float | None:
    """Return the cut-off of the low-pass that a recording declares; ``None`` if it says nothing below half its rate."""
    cutoff = float(recording.info["lowpass"] or 0.0)
    return cutoff if 0 < cutoff < 0.499 * float(recording.info["sfreq"]) else None


def _passband(recording: Any, band: Band) -> Passband:
    """Return what is left of a recording's own passband once the filters that it still needed are applied."""
    lowpasses = [cutoff for cutoff in (own_lowpass(recording), band[1]) if cutoff is not None]
    return Passband(
        rate=float(recording.info["sfreq"]),
        highpass=max(float(recording.info["highpass"] or 0.0), band[0] or 0.0),
        lowpass=min(lowpasses, default=0.0),
    )


def _band(recording: Any, source: str, options: ReadOptions, *, is_raw: bool) -> tuple[Band, list[str]]:
    """Return the filters that the recording still needs, and the notes that say which."""
    highpass, note = _highpass(recording, source, options.highpass, is_raw=is_raw)
    if not options.lowpass:
        return (highpass, None), [note]
    lowpass, low_note = _lowpass(recording, options.lowpass, is_raw=is_raw)
    return (highpass, lowpass), [note, low_note]


def _lowpass(recording: Any, lowpass: float, *, is_raw: bool) -> tuple[float | None, str]:
    """Return the cut-off of the low-pass filter, or None, and the note that says which."""
    has = float(recording.info["lowpass"] or 0.0) or float(recording.info["sfreq"]) / 2
    if has <= lowpass * (1 + 1e-6):
        return None, f"not low-pass filtered: it has nothing above {has:g} Hz, as it says itself."
    if not is_raw:
        return None, f"not low-pass filtered at {lowpass:g} Hz: they are epochs. Filter the recording before it is cut."
    return lowpass, f"low-pass filtered at {lowpass:g} Hz with MNE's FIR filter."


def _highpass(recording: Any, source: str, highpass: float | None, *, is_raw: bool) -> tuple[float | None, str]:
    """Return the cut-off of the high-pass filter, or None, and the note that says which."""
    if not highpass:
        return None, "not high-pass filtered, as was asked for."
    if already_highpassed(recording, highpass):
        was = recording.info["highpass"]
        return None, f"not filtered: it was high-passed at {was:g} Hz already, as it says itself."
    if not is_raw:
        why = f"epochs are too short for a high-pass at {highpass:g} Hz. Filter the recording before it is cut."
        return None, f"not filtered: {why}"
    _check_filter_fits(recording, source, highpass)
    return highpass, f"high-pass filtered at {highpass:g} Hz with MNE's FIR filter."


def _check_filter_fits(recording: Any, source: str, highpass: float) -> None:
    """Refuse a recording that is sampled too slowly, or is too short, for the filter."""
    sfreq = float(recording.info["sfreq"])
    if sfreq <= 2 * highpass:
        raise DataError(
            f"{source}: it is sampled at {sfreq:g} Hz, too slowly for a high-pass at {highpass:g} Hz. "
            "Give a lower --highpass, or 0 for none."
        )
    length = 3.3 / min(max(highpass * 0.25, 2.0), highpass)  # seconds of MNE's filter, by its documented rule
    seconds = recording.n_times / sfreq
    if seconds < length:
        raise DataError(
            f"{source}: it lasts {seconds:.3g} s; a high-pass at {highpass:g} Hz needs at least {length:.3g} s. "
            "Give a longer recording, or --highpass 0 if it was filtered before."
        )


def _dropped(recording: Any, n_left: int) -> list[str]:
    n_dropped = recording.n_times - n_left
    if not n_dropped:
        return []
    bad = [str(text) for text in recording.annotations.description if str(text).lower().startswith("bad")]
    kinds = ", ".join(sorted(set(bad))[:5])
    return [
        f"{counted(len(bad), 'segment')} annotated as bad ({kinds}): {n_dropped} of {recording.n_times} samples were "
        f"dropped; {n_left} are left."
    ]


def _check_amplitudes(values: NDArray[Any], channels: Channels, source: str, *, filtered: bool) -> None:
    """Refuse flat channels, and amplitudes that no brain has: their unit is wrong by a power of ten."""
    deviations = np.array([column.std(dtype=np.float64) for column in values.T])  # without a copy of it all
    for unit, (low, high) in _PLAUSIBLE.items():
        of_unit = np.array([one == unit for one in channels.units])
        if not of_unit.any():
            continue
        typical = float(np.median(deviations[of_unit]))
        flat = np.flatnonzero(of_unit & (deviations <= max(_FLAT * typical, np.finfo(float).tiny)))
        if flat.size:
            listed = list_names([channels.names[k] for k in flat])
            raise DataError(
                f"{source}: {flat.size} of {len(channels.names)} channels are flat: {listed}. Mark them as bad in the "
                "recording, or list the others in a file, for fedica local --features."
            )
        if not low <= typical <= high * (1.0 if filtered else _UNFILTERED):
            raise DataError(
                f"{source}: a typical channel varies by {typical:.2g} {unit}, which no brain does: "
                f"{_unit_error(typical, unit)}. Correct the unit in the recording."
            )


def _unit_error(typical: float, unit: str) -> str:
    """Return which mistake a typical standard deviation looks like."""
    if unit != "uV":
        return f"the numbers are probably not in {'T/m' if 'cm' in unit else 'T'}"
    mistakes = [
        (1e6, "it looks like microvolts that are declared to be volts"),
        (1e3, "it looks like microvolts that are declared to be millivolts"),
        (1e-3, "it looks like millivolts that are declared to be microvolts"),
        (1e-6, "it looks like volts that are declared to be microvolts"),
    ]
    return min(mistakes, key=lambda mistake: abs(np.log10(typical / mistake[0] / 20.0)))[1]


def _average(values: NDArray[Any], channels: Channels, options: ReadOptions, source: str) -> list[str]:
    """Subtract the mean over the EEG channels, in place and some rows at a time; return the note."""
    eeg = np.array([kind == "eeg" for kind in channels.types])
    if options.reference == "keep":
        return ["the reference of the recording was kept, as was asked for."] if eeg.any() else []
    n_eeg = int(eeg.sum())
    if n_eeg == 0:
        return []
    if n_eeg == 1:
        raise DataError(f"{source}: an average reference needs several EEG channels, got one. Give --reference keep.")
    rows = max(1, BATCH_BYTES // (8 * n_eeg))
    for start in range(0, values.shape[0], rows):
        block = values[start : start + rows]
        if eeg.all():
            block -= block.mean(axis=1, keepdims=True)
        else:
            block[:, eeg] -= block[:, eeg].mean(axis=1, keepdims=True)
    return [f"average reference over the {n_eeg} EEG channels that are used: one independent direction fewer."]


def _counts(channels: Channels) -> str:
    parts = [
        f"{channels.types.count(kind)} {kind} channels in {unit_of(kind)[0]}" for kind in dict.fromkeys(channels.types)
    ]
    mixed = len(set(channels.units)) > 1
    return ", ".join(parts) + (" (different units: scales of a study make them comparable)" if mixed else "")
