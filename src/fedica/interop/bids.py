"""An aggregate as files of a BIDS derivative: tables with JSON beside them, named as tedana and fMRIPrep name theirs.

ICA writes data as a product of two matrices. BIDS calls the one that is independent *components*, and the other one
*mixing*. The rows of one are features (channels, voxels, genes), those of the other samples, depending on whether the
sources are independent over samples or over features:

======================== ============================================ ============================================
independence             ``desc-ICA_mixing.tsv``                      ``desc-ICA_components.tsv`` or ``.nii.gz``
======================== ============================================ ============================================
"samples" (EEG)          **features x components: the aggregate**     samples x components: sources of one client
"features" (fMRI, genes) samples x components: time courses, one      **features x components: the aggregate**
                         client's (tedana's and MELODIC's mixing)
======================== ============================================ ============================================

The server never sees a sample, so the other file is written only where a client gives its ``sources``.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedica.arrays import Array, PathLike, check_finite_matrix, check_number
from fedica.errors import InputError, OptionError
from fedica.exchange import PublicAggregate, as_public
from fedica.exchange.files import PRIVATE, cannot_write, write_atomic
from fedica.exchange.json_files import json_text
from fedica.exchange.tables import cell_text, feature_names
from fedica.interop.nilearn_maps import to_nifti
from fedica.local import Recovered
from fedica.records import Aggregate
from fedica.version import __version__

_STEM = re.compile(r"[A-Za-z0-9+]+(-[A-Za-z0-9+]+)?(_[A-Za-z0-9+]+-[A-Za-z0-9+]+)*")
_ROWS_AT_ONCE = 1000
Json = dict[str, Any]


def write_bids(
    aggregate: Aggregate | PublicAggregate,
    target: PathLike,
    *,
    sources: Recovered | ArrayLike | None = None,
    sfreq: float | None = None,
    mask: Any = None,
) -> tuple[Path, ...]:
    """Write an aggregate as files of a BIDS derivative; return their paths.

    Beside the matrices (see `fedica.interop.bids`) and their JSON, ``desc-ICA_metrics.tsv`` has the number of clients
    that found each component, and how well they agree. Of single clients nothing is written but these ``sources``.

    Parameters
    ----------
    aggregate : Aggregate or PublicAggregate
        What `fedica.aggregate` or `fedica.read_aggregate` returned. Without declared
        independence, the sources are taken to be independent over samples.
    target : path-like
        A folder that exists, for a derivative of its own (``dataset_description.json`` is added if there is none); or
        the beginning of the files' names, as in ``"derivatives/fedica/sub-01/eeg/sub-01_task-rest"``.
    sources : Recovered or array-like of shape (n_samples, n_components), optional
        One client's sources by this aggregate, from `fedica.local.recover`: they make the other matrix.
    sfreq : float, optional
        Sampling frequency of ``sources`` in Hz.
    mask : path-like or Nifti1Image, optional
        For components over voxels: the mask of the study. They are then written as ``.nii.gz``, not as a table.

    Returns
    -------
    paths : tuple of Path
        The files, each written whole or not at all. In tables the components are called ``ICA_00``, ``ICA_01`` and so
        on, in the order of the aggregate; a first column ``name`` has the names of features.

    Raises
    ------
    InputError
        If the files cannot be written, or sources do not fit.
    OptionError
        If an argument does not go with this aggregate.
    """
    public = as_public(aggregate)
    if mask is not None and public.terms.independence != "features":
        raise OptionError(
            "mask is for components that are independent over voxels; these are independent over samples."
        )
    if sfreq is not None and sources is None:
        raise OptionError("sfreq is the sampling frequency of sources; give these too.")
    folder, prefix = _place(target)
    of_one_client = f"desc-ICA_{'mixing' if public.terms.independence == 'features' else 'components'}.tsv"
    paths = []
    for suffix, chunks in _files(public, sources, sfreq, mask):
        paths.append(folder / f"{prefix}{suffix}")
        write_atomic(paths[-1], chunks, mode=PRIVATE if suffix == of_one_client else 0o666)
    description = folder / "dataset_description.json"
    if not prefix and not description.exists():
        write_atomic(description, _sidecar(_DATASET))
        paths.append(description)
    return tuple(paths)


def _files(
    public: PublicAggregate, sources: Recovered | ArrayLike | None, sfreq: float | None, mask: Any
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the end of each file's name, and its content."""
    over_features = public.terms.independence == "features"
    of_features, of_samples = ("components", "mixing") if over_features else ("mixing", "components")
    labels = [f"ICA_{a:02d}" for a in range(public.n_components)]
    about = _about(public, over_features)
    if mask is not None:
        yield f"desc-ICA_{of_features}.nii.gz", [gzip.compress(to_nifti(public, mask).to_bytes(), mtime=0)]
    else:
        rows = zip(feature_names(public), public.mixing.tolist(), strict=True)
        yield f"desc-ICA_{of_features}.tsv", _tsv(["name", *labels], ([name, *row] for name, row in rows))
        about |= {"name": {"Description": "Name of the feature: a channel, a voxel, a variable."}} | _each(public)
    yield f"desc-ICA_{of_features}.json", _sidecar(about)
    if sources is not None:
        values, used = _sources(sources, public)
        yield f"desc-ICA_{of_samples}.tsv", _tsv([labels[a] for a in used], values.tolist())
        yield f"desc-ICA_{of_samples}.json", _sidecar(_about_sources(public, over_features, sfreq))
    metrics = zip(labels, public.support.tolist(), public.spread.tolist(), public.degenerate.tolist(), strict=True)
    yield "desc-ICA_metrics.tsv", _tsv(list(_METRICS), metrics)
    yield "desc-ICA_metrics.json", _sidecar(_METRICS)


def _place(target: PathLike) -> tuple[Path, str]:
    """Return the folder, and the beginning of every file name."""
    path = Path(target)
    if path.is_dir():
        return path, ""
    if os.fspath(target).endswith(("/", os.sep)):
        raise InputError(f"{os.fspath(target)}: there is no such folder. Make it first.")
    if not _STEM.fullmatch(path.name) or "desc-" in path.name:
        raise OptionError(
            f"{path}: a BIDS name begins with entities joined by underscores, as in 'sub-01_task-rest', without desc-, "
            f"which is added; got {path.name!r}. Or give a folder that exists."
        )
    if not path.parent.is_dir():
        raise cannot_write(path, FileNotFoundError(2, "No such file or directory"))
    return path.parent, f"{path.name}_"


def _about(public: PublicAggregate, over_features: bool) -> Json:
    what = "Independent maps over features" if over_features else "Mixing matrix: weight of each source in each feature"
    return {
        "Description": f"{what}, aggregated from the ICA of {public.n_clients} clients. Each component has norm 1.",
        "Method": f"fedica {public.method}",
        "IndependentOver": public.terms.independence or "samples",
        "NumberOfClients": public.n_clients,
        **({} if public.terms.study is None else {"Study": public.terms.study}),
        "GeneratedBy": _GENERATED_BY,
    }


def _about_sources(public: PublicAggregate, over_features: bool, sfreq: float | None) -> Json:
    what = "Time courses of the maps" if over_features else "Independent sources"
    sampling = {} if sfreq is None else {"SamplingFrequency": check_number(sfreq, "sfreq", above=0), "StartTime": 0}
    return {
        "Description": f"{what} in one client's data, by least squares with the aggregate. One row per sample.",
        "Method": f"fedica {public.method}",
        **sampling,
        "GeneratedBy": _GENERATED_BY,
        **_each(public),
    }


def _each(public: PublicAggregate) -> Json:
    """Describe the component of every column."""
    described = {}
    for a in range(public.n_components):
        angle = f"; median angle of their atoms to it {public.spread[a]:.2f} degrees" if public.support[a] else ""
        doubt = " Its atoms cancel: its direction means nothing." if public.degenerate[a] else ""
        described[f"ICA_{a:02d}"] = {
            "LongName": f"Component {a} of the aggregate",
            "Description": f"Found by {public.support[a]} of {public.n_clients} clients{angle}.{doubt}",
        }
    return described


def _sources(sources: Recovered | ArrayLike, public: PublicAggregate) -> tuple[Array, list[int]]:
    """Return the sources, and the numbers of their components."""
    if isinstance(sources, Recovered):
        values, used = sources.sources, sources.labels.tolist()
    else:
        values = check_finite_matrix(sources, "sources", "(n_samples, n_components)")
        used = list(range(values.shape[1]))
    if max(used, default=-1) >= public.n_components or (
        not isinstance(sources, Recovered) and len(used) != public.n_components
    ):
        raise InputError(
            f"sources must have one column for each of the {public.n_components} components, got {values.shape[1]}. "
            "A client with fewer components gives what fedica.local.recover returned, with their numbers."
        )
    return values, used


def _tsv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Write a table as BIDS asks: tabs, n/a for missing values; numbers with all digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow(header)
    for k, row in enumerate(rows, start=1):
        writer.writerow([_cell(value) for value in row])
        if k % _ROWS_AT_ONCE == 0:
            yield stream.getvalue().encode()
            stream.seek(0)
            stream.truncate()
    yield stream.getvalue().encode()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else "n/a"
    return cell_text(str(value))


def _sidecar(content: Json) -> list[bytes]:
    return [json_text(content, "a JSON sidecar", indent=2).encode() + b"\n"]


_GENERATED_BY = [{"Name": "fedica", "Version": __version__}]
_METRICS: Json = {
    "Component": {"Description": "The component, as its column is called in the other tables."},
    "support": {"Description": "How many clients have an atom in the component."},
    "spread": {"Description": "Median angle of the atoms to their component.", "Units": "degrees"},
    "degenerate": {"Description": "Whether the atoms cancel, so that the direction of the component means nothing."},
}
_DATASET: Json = {
    "Name": "fedica: components of a federation",
    "BIDSVersion": "1.10.0",
    "DatasetType": "derivative",
    "GeneratedBy": _GENERATED_BY,
}
