"""EEG and MEG files through MNE: EDF, BDF, FIF, BrainVision, EEGLAB; each is checked before MNE reads it."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedica.errors import DataError, FedicaError, FormatError
from fedica.formats import ReadOptions
from fedica.readers.bids_channels import described_channels
from fedica.readers.channels import Channels, choose_channels
from fedica.readers.mne_quiet import first_sentence, import_mne, quiet
from fedica.readers.recording import read_recording
from fedica.readers.sheet import Sheet

_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
_FIF_KINDS = {
    "ica": "an ICA solution. Read it with mne.preprocessing.read_ica and give it to fedica.interop.from_mne",
    "epochs": "epochs. Give the recording that they were cut from, or read them with mne.read_epochs and give them to "
    "fedica.readers.as_table",
    "evoked": "averages. Give the recording that they were made from",
}


def read_edf(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read an EDF or EDF+ file."""
    return _read_edf_like(path, columns, options, "EDF", b"0       ", 2)


def read_bdf(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read a BDF or BDF+ file, as BioSemi writes it."""
    return _read_edf_like(path, columns, options, "BDF", b"\xffBIOSEMI", 3)


def read_fif(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read a raw FIF file; one that holds epochs or an ICA solution is refused by name."""
    mne = _mne(path)
    _check_start(path, "a FIF file", (b"\0\0\0\x64",))
    if path.suffix.lower() != ".gz":  # a compressed file that is cut short fails when it is read
        _check_fif_ends(path)

    def open_fif() -> Any:
        try:
            return mne.io.read_raw_fif(path, preload=False)
        except ValueError as error:
            raise FormatError(f"{path}: a raw recording was expected; {_what_else(mne, path, error)}.") from error

    return _read(open_fif, path, columns, options, "FIF", guess=False)


def read_brainvision(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read a BrainVision recording by its header file; the data and the markers lie beside it."""
    mne = _mne(path)
    _check_start(path, "a BrainVision header", (b"Brain Vision", b"BrainVision", b"\xef\xbb\xbfBrain"))
    _check_data_points(path)

    def open_vhdr() -> Any:
        raw = mne.io.read_raw_brainvision(path, preload=False)
        bad = {text for text in map(str, raw.annotations.description) if text.lower().startswith("comment/bad")}
        raw.annotations.rename({text: text.split("/", 1)[1] for text in bad})  # as MNE spells them: BAD_...
        return raw

    return _read(open_vhdr, path, columns, options, "BrainVision", guess=True)


def read_eeglab(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read a continuous EEGLAB data set; an .fdt file with its numbers may lie beside it."""
    mne = _mne(path)
    _check_start(path, "an EEGLAB file", (b"MATLAB", b"\x89HDF"))

    def open_set() -> Any:
        try:
            return mne.io.read_raw_eeglab(path, preload=False)
        except TypeError as error:
            if "trials" in str(error):
                raise FormatError(
                    f"{path}: a continuous recording was expected; it holds {_FIF_KINDS['epochs']}."
                ) from error
            raise

    return _read(open_set, path, columns, options, "EEGLAB", guess=True)


def _read(
    open_recording: Callable[[], Any],
    path: Path,
    columns: Sequence[str] | None,
    options: ReadOptions,
    what: str,
    *,
    guess: bool,
    units: Sequence[str] | None = None,
    on_chosen: Callable[[Any, Channels], tuple[Any, Channels]] | None = None,
) -> Sheet:
    """Open and read a recording; whatever MNE raises becomes one sentence.

    ``guess``: the format stores no types of channels, which names and ``units`` then tell. ``on_chosen``: callback, run
    once channels are chosen.
    """
    described = described_channels(path)
    notes = [described.note] if described.note else []
    try:
        with quiet(notes):
            recording = open_recording()
            channels = choose_channels(
                recording,
                str(path),
                columns,
                options,
                guess=guess,
                units=units,
                types=described.types,
                bads=described.bads,
            )
            if on_chosen is not None:
                recording, channels = on_chosen(recording, channels)
        sheet = read_recording(recording, channels, str(path), options)
    except FedicaError:
        raise
    except Exception as error:  # a damaged file can raise anything
        reason = first_sentence(str(error)) or type(error).__name__
        raise FormatError(
            f"{path}: MNE cannot read it as {what}; it may be damaged or cut short ({reason}). Copy or export it again."
        ) from error
    return replace(sheet, notes=(*sheet.notes, *notes))


def _mne(path: Path) -> Any:
    return import_mne(f"{path}: reading EEG and MEG")


def _check_start(path: Path, what: str, starts: tuple[bytes, ...]) -> None:
    """Refuse a file that does not begin as its format does."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rb") as stream:
            head: bytes = stream.read(64)
    except gzip.BadGzipFile as error:
        raise FormatError(f"{path}: it is not compressed by gzip, as its suffix says. Check its suffix.") from error
    except (OSError, EOFError) as error:
        raise FormatError(f"{path}: cannot be read ({first_sentence(str(error))}).") from error
    if head.startswith(starts):
        return
    if not head:
        raise FormatError(f"{path}: the file is empty.")
    text = head.decode("latin-1")
    if all(letter.isprintable() or letter in "\r\n\t" for letter in text):
        line = text.splitlines()[0][:40]
        raise FormatError(f"{path}: it is not {what} but text that starts with {line!r}. Name a table of text .csv.")
    raise FormatError(f"{path}: it is not {what}: it does not begin as such a file does. Check its suffix.")


def _check_fif_ends(path: Path) -> None:
    """Refuse a FIF file that ends inside a tag or a block: MNE would read the rest without a word."""
    n_bytes, place, depth = path.stat().st_size, 0, 0
    with open(path, "rb") as stream:
        while place + 16 <= n_bytes:
            stream.seek(place)
            kind, _, size, then = struct.unpack(">iiii", stream.read(16))
            depth += {104: 1, 105: -1}.get(kind, 0)  # a block starts, a block ends
            place = then if then > place else place + 16 + max(size, 0)
            if then == -1:
                break
    if place > n_bytes or depth > 0:
        raise FormatError(f"{path}: the file is cut short: {n_bytes} bytes are there. Copy or export it again.")


def _what_else(mne: Any, path: Path, error: Exception) -> str:
    """Return what a FIF file without raw data holds."""
    try:
        kind = str(mne.what(path))
    except Exception:  # no kind that is known
        kind = ""
    return f"it holds {_FIF_KINDS[kind]}" if kind in _FIF_KINDS else f"MNE says: {first_sentence(str(error))}"


@dataclass(frozen=True)
class _Header:
    """Fields of the header of an EDF file; units and rates are those of the signals that are not annotations."""

    n_records: int
    record_bytes: int
    n_bytes: int
    units: tuple[str, ...]
    rates: tuple[float, ...]


def _read_edf_like(
    path: Path, columns: Sequence[str] | None, options: ReadOptions, what: str, start: bytes, width: int
) -> Sheet:
    """Read EDF or BDF, whose numbers have ``width`` bytes; refuse what is cut short or mixes sampling rates."""
    mne = _mne(path)
    _check_start(path, f"{'an' if what == 'EDF' else 'a'} {what} file", (start,))
    header = _edf_header(path, what, width)
    n_there = (path.stat().st_size - header.n_bytes) // max(header.record_bytes, 1)
    if n_there < max(header.n_records, 1):
        raise FormatError(
            f"{path}: the file is cut short: its header declares {header.n_records} records, {n_there} are there. "
            "Copy or export it again."
        )
    read = partial(mne.io.read_raw_edf if what == "EDF" else mne.io.read_raw_bdf, path, infer_types=True, preload=False)
    at_own_rate = partial(_at_own_rate, read, header.rates, path)
    return _read(read, path, columns, options, what, guess=True, units=header.units, on_chosen=at_own_rate)


def _at_own_rate(
    read: Callable[..., Any], rates: Sequence[float], path: Path, raw: Any, channels: Channels
) -> tuple[Any, Channels]:
    """Open the file again without channels of a higher rate, to which MNE would resample the chosen ones."""
    if len(rates) != len(raw.ch_names):
        return raw, channels
    own = {name: rates[k] for name, k in zip(channels.names, channels.picks, strict=True)}
    if len(set(own.values())) > 1:
        fast, slow = max(own, key=lambda name: own[name]), min(own, key=lambda name: own[name])
        raise DataError(
            f"{path}: the channels are sampled at different rates ({fast!r} at {own[fast]:g} Hz, {slow!r} at "
            f"{own[slow]:g} Hz). List those of one rate in a file, for fedica local --features."
        )
    if own[channels.names[0]] == raw.info["sfreq"]:
        return raw, channels
    alone = read(exclude=[name for name in raw.ch_names if name not in own])
    return alone, replace(channels, picks=tuple(alone.ch_names.index(name) for name in channels.names))


def _edf_header(path: Path, what: str, width: int) -> _Header:
    """Read the fields of the header that tell units, rates and how long the file must be."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(256)
            n_signals = max(int(head[252:256]), 0)
            rest = stream.read(256 * n_signals)
        labels = [rest[16 * k :][:16].decode("latin-1").strip() for k in range(n_signals)]
        units = [rest[96 * n_signals + 8 * k :][:8].decode("latin-1").strip() for k in range(n_signals)]
        units = [unit.replace("\xc2", "").replace("\x83\xca", "u") for unit in units]  # encodings of the micro sign
        samples = [int(rest[216 * n_signals + 8 * k :][:8]) for k in range(n_signals)]
        seconds = float(head[244:252]) or 1.0
        signals = [k for k, label in enumerate(labels) if label not in _ANNOTATIONS]
        return _Header(
            int(head[236:244]),
            width * sum(samples),
            256 * (n_signals + 1),
            tuple(units[k] for k in signals),
            tuple(samples[k] / seconds for k in signals),
        )
    except ValueError as error:
        raise FormatError(f"{path}: its {what} header is damaged or cut short. Copy or export it again.") from error


def _check_data_points(path: Path) -> None:
    """Refuse a BrainVision recording whose data file is shorter than its header says."""
    fields = dict(re.findall(r"(?m)^(\w+)=(.*?)\r?$", path.read_text(encoding="latin-1")))
    data = path.parent / fields.get("DataFile", "").replace("$b", path.stem).replace("\0", "")
    if not fields.get("DataFile") or not data.is_file():
        raise FormatError(
            f"{path}: the file with its numbers, {fields.get('DataFile', 'DataFile')!r}, is not beside it. Copy all of "
            ".vhdr, .vmrk and .eeg."
        )
    width = {"INT_16": 2, "INT_32": 4, "IEEE_FLOAT_32": 4}.get(fields.get("BinaryFormat", "").strip())
    channels, points = (_whole(fields.get(name, "")) for name in ("NumberOfChannels", "DataPoints"))
    if width is None or not channels:
        return  # numbers as text: MNE reads to the end of the file
    frame, n_bytes = width * channels, data.stat().st_size
    if n_bytes % frame or n_bytes < frame * points:
        declared = f"; its header declares {points}" if points else ""
        raise FormatError(
            f"{path}: {data.name!r} is cut short: it holds {n_bytes / frame:.1f} samples of {channels} "
            f"channels{declared}. Copy or export it again."
        )


def _whole(text: str) -> int:
    """Return the whole number in a text, 0 if it is none."""
    return int(text) if text.strip().isdecimal() and len(text) < 20 else 0
