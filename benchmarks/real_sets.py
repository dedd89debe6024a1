"""Real data as federations: shuffled splits of one data set, runs and segments of one person, projects of a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.signal import butter, detrend, sosfiltfilt
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from fedica import Contribution, LocalICA
from fedica.arrays import Array
from fedica.datasets import fetch_ecoli, fetch_eeg_64, fetch_eeg_128, fetch_eeg_five, fetch_fmri_slice

N_SEGMENTS = 12
"""Of a recording of 128 channels."""


def fit(parts: Sequence[Array], n_components: int, independence: str = "samples") -> list[Contribution]:
    """Fit every part, each a client."""
    return [
        LocalICA(min(n_components, len(part) - 1), independence=independence, random_state=0)
        .fit(part)
        .contribution(f"client-{k:02d}")
        for k, part in enumerate(parts)
    ]


SHUFFLED = {  # the number of clients, of components, and what is independent
    "digits, spatial": (12, 10, "features"),
    "digits, temporal": (6, 10, "samples"),
    "breast cancer": (5, 6, "samples"),
    "wine": (4, 5, "samples"),
    "one person's EEG": (10, 12, "samples"),
}


def shuffled(name: str, seed: int) -> list[Contribution]:
    """Fit a data set whose rows were dealt to clients at random: nobody can be bad."""
    n_clients, n_components, independence = SHUFFLED[name]
    rows = rows_of(name)
    order = np.random.default_rng(seed).permutation(len(rows))
    return fit([rows[part] for part in np.array_split(order, n_clients)], n_components, independence)


@cache
def rows_of(name: str) -> Array:
    """Return all rows of a data set, scaled where its columns have different units."""
    if name.startswith("digits"):
        return load_digits().data
    if name == "one person's EEG":
        data = fetch_eeg_64().data
        return data - data.mean(axis=1, keepdims=True)
    data = (load_wine if name == "wine" else load_breast_cancer)().data
    return data / data.std(axis=0)


def fmri_series() -> list[Array]:
    """Return the twelve runs of a slice, (scans, voxels) each: detrended voxels of variance one within the brain."""
    import nibabel  # noqa: PLC0415 - an extra

    images = [np.asarray(nibabel.load(path).dataobj, dtype=float)[:, :, 0] for path in fetch_fmri_slice().paths]
    mean = np.mean([image.mean(axis=-1) for image in images], axis=0)
    varies = np.min([image.std(axis=-1) for image in images], axis=0) > 0
    series = [detrend(image[(mean > 0.25 * mean.max()) & varies].T, axis=0) for image in images]
    return [run / run.std(axis=0) for run in series]


def fmri_runs(n_components: int) -> list[Contribution]:
    """Return the twelve runs of a slice, each a client."""
    return fit(fmri_series(), n_components, "features")


def eeg_people() -> list[Array]:
    """Return the EEG of five people, (n_samples, 8) each: above 1 Hz, on the average reference."""
    filtered = [
        sosfiltfilt(butter(4, 1, "highpass", fs=person.sfreq, output="sos"), person.data.astype(float), axis=0)
        for person in fetch_eeg_five().values()
    ]
    return [data - data.mean(axis=1, keepdims=True) for data in filtered]


def eeg_recording(person: int) -> Array:
    """Return one person's EEG in microvolts, (n_samples, 128): above 1 Hz, on the average reference. person : 0, 1."""
    import mne  # noqa: PLC0415 - an extra, slow to load

    edf = [path for path in fetch_eeg_128().paths if path.suffix == ".edf"][person]
    raw = mne.io.read_raw_edf(edf, preload=True, verbose="error")
    raw.pick(raw.ch_names[:128]).filter(1.0, None, verbose="error")
    microvolts = 1e6 * raw.get_data().T
    return np.ascontiguousarray(microvolts - microvolts.mean(axis=1, keepdims=True))


def eeg_segments(person: int, n_components: int) -> list[Contribution]:
    """Return the segments of one person's EEG of 128 channels, each a client."""
    return fit(np.array_split(eeg_recording(person), N_SEGMENTS), n_components)


def ecoli_projects() -> dict[str, Array]:
    """Return the arrays of every project of E. coli, those of the reference left out."""
    ecoli = fetch_ecoli()
    project = np.array(ecoli.projects)
    return {name: ecoli.expression[project == name] for name in sorted(set(ecoli.projects) - {"control"})}


def ecoli_laboratories() -> dict[str, Array]:
    """Return five laboratories: whole projects, the largest first, each to the laboratory with the fewest arrays."""
    ecoli = fetch_ecoli()
    project = np.array(ecoli.projects)
    owned: list[list[str]] = [[] for _ in range(5)]
    for name, _ in Counter(ecoli.projects).most_common():
        min(owned, key=lambda own: np.isin(project, own).sum()).append(name)
    return {f"laboratory {k + 1}": ecoli.expression[np.isin(project, own)] for k, own in enumerate(owned)}


def n_explaining(rows: Array, share: float = 0.95) -> int:
    """Return how many principal components explain this share of the variance."""
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    return 1 + int(np.searchsorted(np.cumsum(variances) / variances.sum(), share))


def modules(arrays: dict[str, Array]) -> list[Contribution]:
    """Fit every client of E. coli with as many components as explain 95% of its variance."""
    return [
        LocalICA(n_explaining(rows), independence="features", solver="fastica", random_state=0)
        .fit(rows)
        .contribution(name)
        for name, rows in arrays.items()
    ]
