"""An aggregate for other tools: the name of the output says which."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import FormatError, OptionError
from fedica.exchange import PublicAggregate, as_public, as_study
from fedica.exchange.files import cannot_write, check_output, write_atomic
from fedica.exchange.inputs import files_of
from fedica.exchange.tables import mixing_table
from fedica.interop import to_frame, to_mne, to_nifti, write_bids
from fedica.readers.mne_quiet import first_sentence, import_mne, quiet
from fedica.records import Aggregate, Study

_BIDS_NAME = re.compile(r"(?:(.+)_)?desc-ICA_(?:mixing|components)\.tsv")


@dataclass(frozen=True)
class Exported:
    """What was written for other tools.

    Parameters
    ----------
    paths : tuple of str
        The files.
    notes : tuple of str
        What was noticed.
    """

    paths: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Job:
    """One export: what is given, and where it goes."""

    public: PublicAggregate
    output: Path
    mask: Path | None
    like: Path | None
    study: Study | None


def export(
    aggregate: Aggregate | PublicAggregate | PathLike,
    output: PathLike,
    *,
    mask: PathLike | None = None,
    like: PathLike | None = None,
    study: Study | PathLike | None = None,
) -> Exported:
    """Write an aggregate in a format of other tools, which the name of the output tells.

    Parameters
    ----------
    aggregate : Aggregate, PublicAggregate or path-like
        What the server computed: the object, aggregate.safetensors, or the result folder.
    output : path-like
        ``.csv``, ``.parquet`` or ``.feather``: the mixing matrix as a table, one row per feature. A folder, or a name
        that ends in ``desc-ICA_mixing.tsv`` or ``desc-ICA_components.tsv``: files of a BIDS derivative. ``.nii`` or
        ``.nii.gz``: component maps. ``-ica.fif``: a decomposition of MNE.
    mask : path-like, optional
        Of components over voxels: the mask of the study. Images need it; in BIDS it makes an image of the components.
    like : path-like, optional
        For ``-ica.fif``: a recording with the channels and their places, in any format that MNE reads.
    study : Study or path-like, optional
        For ``-ica.fif``: the study, if there is one, with its units and scales.

    Returns
    -------
    Exported
        The files.

    Raises
    ------
    OptionError
        If the name tells no format, or an option says nothing about it.
    """
    target = Path(output)
    wanted = _format_of(target)
    _check_options(wanted, target, {"mask": mask, "like": like, "study": study})
    inputs = [*files_of(aggregate), mask, like, study]
    for path in wanted.replaces(target):
        check_output(path, inputs)
    mask, like = (None if path is None else Path(path) for path in (mask, like))
    public = as_public(aggregate)
    notes = list(public.withheld)
    paths = wanted.write(_Job(public, target, mask, like, as_study(study)), notes)
    return Exported(tuple(map(str, paths)), tuple(notes))


def _check_options(wanted: _Format, target: Path, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None and name not in wanted.uses:
            raise OptionError(f"{target}: --{name} says nothing about {wanted.what}. Leave it out.")
        if value is None and name in wanted.needs:
            raise OptionError(f"{target}: {wanted.what} needs --{name}: {wanted.needs[name]}.")


def _csv(job: _Job, notes: list[str]) -> tuple[Path, ...]:
    write_atomic(job.output, [mixing_table(job.public)])
    return (job.output,)


def _columns(job: _Job, notes: list[str]) -> tuple[Path, ...]:
    """Write a table of columns with pandas; its attributes would not survive everywhere."""
    frame = to_frame(job.public).rename_axis(columns=None).reset_index()
    frame.attrs = {}
    buffer = io.BytesIO()
    (frame.to_parquet if job.output.suffix.lower() == ".parquet" else frame.to_feather)(buffer)
    write_atomic(job.output, [buffer.getvalue()])
    return (job.output,)


def _bids(job: _Job, notes: list[str]) -> tuple[Path, ...]:
    if job.output.is_dir():
        return write_bids(job.public, job.output, mask=job.mask)
    found = _BIDS_NAME.fullmatch(job.output.name)
    assert found is not None  # the name has been matched before
    stem = job.output.parent if found[1] is None else job.output.with_name(found[1])
    paths = write_bids(job.public, stem, mask=job.mask)
    if job.output not in paths:
        notes.append(
            f"{job.output.name} holds what single clients have; the aggregate is in {paths[0].name}, because its "
            f"components are independent over {job.public.terms.independence or 'samples'}."
        )
    return paths


def _nifti(job: _Job, notes: list[str]) -> tuple[Path, ...]:
    write_atomic(job.output, [image_bytes(to_nifti(job.public, job.mask), job.output)])
    return (job.output,)


def image_bytes(image: Any, output: Path) -> bytes:
    """Return an image as a file of this name holds it: compressed, if it ends in .gz."""
    content: bytes = image.to_bytes()
    return gzip.compress(content, mtime=0) if output.suffix.lower() == ".gz" else content


def _fif(job: _Job, notes: list[str]) -> tuple[Path, ...]:
    mne = import_mne(f"{job.output}: a decomposition of MNE")
    assert job.like is not None  # needed by this format
    try:
        with quiet(notes):
            recording = mne.io.read_raw(job.like, preload=False)
    except Exception as error:  # a damaged file can raise anything
        raise FormatError(f"{job.like}: MNE cannot read it ({first_sentence(str(error))}).") from error
    ica = to_mne(job.public, recording, study=job.study)
    temporary = job.output.with_name(f".{secrets.token_hex(6)}-ica.fif")
    try:
        with quiet(notes):
            ica.save(temporary)
        os.replace(temporary, job.output)
    except OSError as error:
        raise cannot_write(job.output, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    return (job.output,)


@dataclass(frozen=True)
class _Format:
    """One way to write an aggregate: in words, how, and which options it uses and needs."""

    what: str
    write: Callable[[_Job, list[str]], tuple[Path, ...]]
    uses: tuple[str, ...]
    needs: dict[str, str]
    replaces: Callable[[Path], Iterable[Path]] = lambda output: [output]


def _bids_files(output: Path) -> Iterator[Path]:
    """Yield the file that the name says, if it says one, and what there is of files with the names of a derivative."""
    if not output.is_dir():
        yield output
    folder, stem = (output, "") if output.is_dir() else (output.parent, output.name.partition("desc-ICA_")[0])
    with contextlib.suppress(OSError):
        yield from (path for path in folder.iterdir() if path.name.startswith(f"{stem}desc-ICA_"))


_BIDS = _Format("a BIDS derivative", _bids, ("mask",), {}, _bids_files)
_MAPS = _Format("an image of component maps", _nifti, ("mask",), {"mask": "where the voxels are in space"})
_ICA = _Format(
    "a decomposition of MNE", _fif, ("like", "study"), {"like": "a recording that has the channels and their places"}
)
# A new format is one line here: how the name of the output ends, and how it is written.
FORMATS: dict[str, _Format] = {
    ".csv": _Format("a table", _csv, (), {}),
    ".parquet": _Format("a table", _columns, (), {}),
    ".feather": _Format("a table", _columns, (), {}),
    "desc-ICA_mixing.tsv": _BIDS,
    "desc-ICA_components.tsv": _BIDS,
    ".nii": _MAPS,
    ".nii.gz": _MAPS,
    "-ica.fif": _ICA,
    "_ica.fif": _ICA,
}


def _format_of(output: Path) -> _Format:
    """Return the format that the name of the output stands for."""
    if output.is_dir():
        return _BIDS
    for ending, wanted in FORMATS.items():
        if output.name.lower().endswith(ending.lower()):
            return wanted
    raise OptionError(
        f"{output}: its name does not tell what to write. Let it end in {', '.join(FORMATS)}; or give a folder that "
        "exists, for a BIDS derivative."
    )
