"""Recordings with realistic amplitudes and a known truth, for the tests of what MNE reads."""

from __future__ import annotations

import mne
import numpy as np

NAMES = ["Fp1", "Fp2", "F3", "F4", "F7", "F8", "Fz", "C3", "C4", "Cz", "T7", "T8", "P3", "P4", "P7", "P8", "Pz"]
NAMES += ["O1", "O2"]
SFREQ = 200.0


def dipole_maps(n_sources, seed=1):
    """Fields of dipoles inside the head at the 19 electrodes of the 10-20 system: (19, n_sources), unit columns."""
    rng = np.random.default_rng(seed)
    places = mne.channels.make_standard_montage("biosemi64").get_positions()["ch_pos"]
    electrodes = np.array([places[name] for name in NAMES])
    inside = rng.standard_normal((n_sources, 3))
    inside *= 0.05 / np.linalg.norm(inside, axis=1, keepdims=True)
    inside[:, 2] = np.abs(inside[:, 2])
    moments = rng.standard_normal((n_sources, 3))
    away = electrodes[:, None, :] - inside
    field = np.einsum("csk,sk->cs", away, moments) / np.linalg.norm(away, axis=2) ** 3
    return field / np.linalg.norm(field, axis=0)


def simulated_raw(maps, seed=0, *, n_samples=8000, names=NAMES, extra=True):
    """A recording in volts: Laplacian sources, a little noise, slow drifts; with eye and trigger channels if wanted."""
    rng = np.random.default_rng(seed)
    n_channels, n_sources = maps.shape
    data = maps @ rng.laplace(size=(n_sources, n_samples)) * 60e-6
    data += 0.5e-6 * rng.standard_normal(data.shape)
    data += 300e-6 * np.sin(2 * np.pi * 0.05 * np.arange(n_samples) / SFREQ + rng.uniform(0, 6, (n_channels, 1)))
    types = ["eeg"] * n_channels
    if extra:
        trigger = (np.arange(n_samples) % 400 < 5).astype(float)
        data = np.vstack([data, 80e-6 * rng.standard_normal(n_samples), trigger])
        names, types = [*names, "EOG1", "STI 014"], [*types, "eog", "stim"]
    return mne.io.RawArray(data, mne.create_info(list(names), SFREQ, types), verbose="ERROR")
