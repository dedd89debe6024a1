"""A decomposition that was fitted before, in a file of MNE, as the contribution of a client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError, OptionError
from fedica.formats import ReadOptions, option_name
from fedica.interop import from_mne
from fedica.readers.mne_quiet import import_mne
from fedica.readers.recording import already_highpassed, own_lowpass
from fedica.records import Contribution, Study, ordered_by_content
from fedica.text import show_text

_ENDINGS = ("-ica.fif", "_ica.fif", "-ica.fif.gz", "_ica.fif.gz")
USED_OPTIONS = ("reference",)
"""Options of reading that concern a decomposition."""


def is_fitted(files: Sequence[PathLike]) -> bool:
    """Whether the data is one decomposition, by its name: MNE asks for these endings."""
    fitted = [str(file) for file in files if Path(file).name.endswith(_ENDINGS)]
    if fitted and len(files) > 1:
        raise InputError(
            f"{fitted[0]}: a decomposition is sent alone; got {len(files)} files. Run fedica local once for each, with "
            "a client's name of its own."
        )
    return bool(fitted)


def read_fitted(
    path: PathLike, client: str, study: Study | None, n_components: int | None, options: ReadOptions
) -> Contribution:
    """Return the maps of a fitted `mne.preprocessing.ICA` as a contribution; its first components, if fewer are wanted.

    The recording was filtered and its channels chosen before the fit, so options about that are refused. MNE ranks
    components by their variance, which the order of what leaves does not tell.
    """
    for name in options.changed():
        if name not in USED_OPTIONS:
            raise OptionError(f"{path}: {option_name(name)} says nothing about a fitted decomposition. Leave it out.")
    sent = from_mne(_read_ica(path), client, reference=options.reference, study=study)
    return ordered_by_content(replace(sent, atoms=sent.atoms[:, :n_components]))


def fitted_preparation(path: PathLike, options: ReadOptions, study: Study | None) -> dict[str, Any]:
    """Return how the recording was prepared that a decomposition was fitted to, as far as its file tells.

    As with recordings, a filter that takes away more than the study asks for counts as the study's.
    """
    ica, agreed = _read_ica(path), (study.preprocessing if study else None) or {}
    if ica.info is None:
        return {}
    own, has = float(ica.info["highpass"] or 0.0), own_lowpass(ica) or 0.0
    highpass, lowpass = float(agreed.get("highpass", own)), float(agreed.get("lowpass", has))
    types = sorted(set(ica.get_channel_types()))
    return {
        "highpass": highpass if already_highpassed(ica, highpass) else own,
        "lowpass": lowpass if lowpass == 0 or 0 < has <= lowpass * (1 + 1e-6) else has,
        "reference": options.reference,
        "channel_types": "meg" if types == ["grad", "mag"] else ",".join(types),
    }


def _read_ica(path: PathLike) -> Any:
    mne = import_mne("a decomposition of MNE")
    try:
        return mne.preprocessing.read_ica(path, verbose="ERROR")
    except Exception as error:  # a damaged file can raise anything in somebody else's library
        problem = show_text(" ".join(str(error).split()), 150)
        raise FormatError(f"{path}: it is not a decomposition that MNE saved ({problem}).") from error
