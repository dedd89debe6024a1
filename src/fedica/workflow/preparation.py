"""How data is prepared belongs to the study: what it fixes, and what a client's own options may still say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import DataError, FormatError, OptionError
from fedica.formats import READERS, ReadOptions, option_name
from fedica.readers import suffix_of
from fedica.readers.sheet import Passband
from fedica.readers.voxels import SUFFIXES as IMAGES
from fedica.records import Study
from fedica.records.study import OWN_STEPS
from fedica.workflow.fitted import USED_OPTIONS, fitted_preparation, is_fitted

COMMON = (
    "highpass",
    "lowpass",
    "reference",
    "channel_types",
    "smoothing",
    "standardize",
    "detrend",
    "layer",
    "transpose",
)
"""Options that must be the same at all clients; the others are about a client's own files."""
_NUMBERS = ("highpass", "lowpass", "smoothing")
_YES_OR_NO = ("standardize", "detrend", "transpose")


_ALWAYS_SAID = ("highpass", "lowpass", "reference", "channel_types", "standardize", "detrend")
"""Steps that a study names; of the others, those that are not as by default."""


def preparation_of(
    files: Sequence[PathLike], options: ReadOptions, named: Iterable[str] = _ALWAYS_SAID
) -> dict[str, str] | None:
    """Return how data is prepared with these options, as a study says it; ``None`` if there is nothing to say.

    ``named``: the steps that are said also where they are as by default.
    """
    uses = set() if is_fitted(files) else _used_options(files[:1])
    said = set(uses) & {*named, *options.changed()}
    return {name: _as_text(getattr(options, name)) for name in COMMON if name in said} or None


def declared_preparation(
    files: Sequence[PathLike], options: ReadOptions, study: Study | None
) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """Return what a client declares of its preparation, and a note if that is not what the study says.

    Raises
    ------
    DataError
        If the study refuses clients that differ.
    """
    if study is None or study.preprocessing is None:
        return None, ()
    if is_fitted(files):
        told = fitted_preparation(files[0], options, study)
        declared = {name: _as_text(told[name]) for name in study.preprocessing if name in told} or None
    else:
        declared = preparation_of(files, options, study.preprocessing)
    step = study.other_step(declared)
    if step is None:
        return declared, ()
    differs = f"{step['step']} is {step['value']}, not {step['agreed']}" if step["step"] else "it does not tell how"
    sentence = f"the data is not prepared as study {study.id!r} says: {differs}"
    if study.other_preprocessing == "refuse":
        raise DataError(
            f"{files[0]}: {sentence}. The study refuses that; give data of a format that fedica prepares itself."
        )
    return declared, (f"{sentence}. The coordinator will see that.",)


def found_preparation(
    files: Sequence[PathLike], options: ReadOptions, passband: Passband | None
) -> dict[str, str] | None:
    """Return how data was prepared where no study says how: with the filters that the recording had before."""
    if is_fitted(files):
        told = {name: _as_text(value) for name, value in fitted_preparation(files[0], options, None).items()}
        return told or None
    told = {name: text for name, text in (preparation_of(files, options) or {}).items() if name not in OWN_STEPS}
    if passband is not None:
        told |= {name: _as_text(getattr(passband, name)) for name in ("highpass", "lowpass")}
    return told or None


def narrower_notes(passband: Passband | None, options: ReadOptions, study: Study | None) -> tuple[str, ...]:
    """Note the filters that a recording had before and that take away more than the study's, which the options hold."""
    if passband is None or study is None or study.preprocessing is None:
        return ()
    highpass, lowpass = options.highpass or 0.0, options.lowpass or 0.0
    steps = (
        ("highpass", "high-pass", passband.highpass, highpass, passband.highpass > highpass * (1 + 1e-6)),
        ("lowpass", "low-pass", passband.lowpass, lowpass, 0 < passband.lowpass < (lowpass or math.inf) * (1 - 1e-6)),
    )
    return tuple(
        f"the recording was {what} filtered at {own:g} Hz, as it says itself; study {study.id!r} asks for "
        + (f"{agreed:g} Hz" if agreed else f"no {what} filter")
        + ": its atoms may differ from those of others. Give the recording as it was before that filter, if it is kept."
        for name, what, own, agreed, narrower in steps
        if narrower and name in study.preprocessing
    )


def study_options(options: ReadOptions, study: Study | None, files: Sequence[PathLike]) -> ReadOptions:
    """Return a client's options with what the study fixes; one that contradicts the study is refused."""
    if study is None:
        return options
    uses = set(USED_OPTIONS) if is_fitted(files) else _used_options(files)
    agreed = _agreed(study, uses)
    if options.transpose is not None:
        agreed.pop("transpose", None)  # how a client's own file lies
    for name in set(options.changed()) & set(agreed):
        if study.other_preprocessing == "name":
            del agreed[name]
        elif getattr(options, name) != agreed[name]:
            raise OptionError(
                f"study {study.id!r} has {name} {_as_text(agreed[name])}; {option_name(name)} asks for "
                f"{_as_text(getattr(options, name))}. Leave it out."
            )
    if options.mask is None and {suffix_of(file) for file in files} <= set(IMAGES):
        agreed["grid"] = study.grid
    return replace(options, **{name: value for name, value in agreed.items() if name in uses})


def _used_options(files: Sequence[PathLike]) -> set[str]:
    """Return the options that the formats of some files use."""
    suffixes = {suffix_of(file) for file in files}
    return {name for suffix in suffixes if suffix in READERS for name in READERS[suffix].uses}


def _agreed(study: Study, uses: set[str]) -> dict[str, Any]:
    """Return the options that a study fixes: with what it says, that all others have their default."""
    if study.preprocessing is None:
        return {}
    default = ReadOptions()
    said = {name: _from_text(name, text, study) for name, text in study.preprocessing.items()}
    return {name: getattr(default, name) for name in COMMON if name in uses} | said


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value or 0:g}" if isinstance(value, int | float | None) else str(value)


def _from_text(name: str, text: str, study: Study) -> Any:
    """Return the value of an option from what a study says."""
    try:
        if name not in COMMON:
            raise ValueError(f"the known steps are {', '.join(COMMON)}")
        if name in _NUMBERS:
            return float(text)
        if name in _YES_OR_NO:
            return {"yes": True, "no": False}[text]
    except (ValueError, KeyError) as error:
        raise FormatError(f"study {study.id!r}: its preprocessing says {name} {text!r}, which is unknown.") from error
    return text
