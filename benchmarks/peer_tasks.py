"""The two tasks of docs/peers.md: networks of thirty simulated brains, known; and the EEG of five real people."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mne
import nibabel
import numpy as np

from fedica import LocalICA
from fedica.arrays import Array
from fedica.datasets import fetch_eeg_five
from fedica.matching import match

GRID = (20, 24, 16)
N_PEOPLE, N_BAD, N_SCANS, N_NETWORKS = 30, 9, 60, 8
"""People, of whom so many are bad, scans of each, and networks."""
N_MAPS = 7
"""Components of eight electrodes on the average reference."""
MISSING = {"sub-02": ["T8"], "sub-04": ["Iz"], "sub-05": ["POz"]}
"""Electrodes that are taken away for the last column of the second task."""

Way = Callable[..., Any]


@dataclass(frozen=True)
class Condition:
    """One column of the first task: what is wrong with some people, and how loud the noise is."""

    name: str
    fault: str = ""
    noise: float = 1.0


CONDITIONS = (
    Condition("all good"),
    Condition("9 flipped", fault="flipped"),
    Condition("9 with artefacts", fault="artefacts"),
    Condition("twice the noise", noise=2.0),
)


def networks(rng: np.random.Generator) -> tuple[Array, Any]:
    """Draw networks, each of two blobs that stand apart: (r, n_voxels); and the mask, an ellipsoid."""
    grid = np.stack(np.meshgrid(*map(np.arange, GRID), indexing="ij"), axis=-1).astype(float)
    half = np.array(GRID) / 2
    mask = (((grid - half + 0.5) / half) ** 2).sum(axis=-1) < 1
    voxels = grid[mask]
    centres: list[Array] = []
    while len(centres) < 2 * N_NETWORKS:
        drawn = voxels[rng.integers(len(voxels))]
        if all(np.linalg.norm(drawn - other) > 5 for other in centres):
            centres.append(drawn)
    blobs = [np.exp(-((voxels - c) ** 2).sum(axis=1) / (2 * rng.uniform(1.2, 2.0) ** 2)) for c in centres]
    return np.array(blobs).reshape(N_NETWORKS, 2, -1).sum(axis=1), mask


def brains(maps: Array, mask: Any, condition: Condition, rng: np.random.Generator) -> list[Any]:
    """Simulate everybody's images: own time courses, own strengths of the networks, noise; the first ones are bad."""
    images = []
    for k in range(N_PEOPLE):
        strengths = rng.uniform(0.7, 1.3, size=(N_NETWORKS, 1))
        scans = rng.standard_normal((N_SCANS, N_NETWORKS)) @ (maps * strengths)
        scans += condition.noise * rng.standard_normal(scans.shape)
        if k < N_BAD and condition.fault == "artefacts":  # in some scans the person moved
            moved = rng.standard_normal(N_SCANS) * (rng.random(N_SCANS) < 0.1)
            scans += 30 * np.outer(moved, rng.standard_normal(maps.shape[1]))
        volume = np.zeros((*GRID, N_SCANS), dtype=np.float32)
        volume[mask] = scans.T
        if k < N_BAD and condition.fault == "flipped":  # left is right: another convention of orientation
            volume = volume[::-1]
        images.append(nibabel.Nifti1Image(np.ascontiguousarray(volume), np.eye(4)))
    return images


def likeness(found: Array, wanted: Array) -> float:
    """Mean absolute correlation of the best one-to-one match of maps, one a row: 1 is the same."""
    first, second = (m - m.mean(axis=1, keepdims=True) for m in (np.asarray(found), np.asarray(wanted)))
    return float(match(_unit_rows(first).T, _unit_rows(second).T).cosines.sum() / len(second))


def run_brains(ways: dict[str, Way], seeds: Sequence[int] = (0, 1, 2)) -> dict[str, dict[str, float]]:
    """Return for each way its likeness to the true networks in each condition, and the seconds of the first one.

    Every seed draws other networks and other people; numbers are means over the seeds.
    """
    measured: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        maps, mask = networks(np.random.default_rng(seed))
        mask_image = nibabel.Nifti1Image(mask.astype(np.uint8), np.eye(4))
        for condition in CONDITIONS:
            images = brains(maps, mask, condition, np.random.default_rng(100 + seed))
            for name, way in ways.items():
                found, seconds = _timed(way, images, mask_image, N_NETWORKS)
                row = measured.setdefault(name, {})
                row.setdefault(condition.name, []).append(likeness(found, maps))
                if condition is CONDITIONS[0]:
                    row.setdefault("seconds", []).append(seconds)
            row = measured.setdefault("one person alone", {})
            row.setdefault(condition.name, []).append(_alone(images[N_BAD:], mask, maps))
            last = {name: round(row[condition.name][-1], 3) for name, row in measured.items()}
            print(f"draw {seed}, {condition.name}: {last}", file=sys.stderr, flush=True)
    return {name: {key: float(np.mean(values)) for key, values in row.items()} for name, row in measured.items()}


def _alone(images: list[Any], mask: Any, maps: Array) -> float:
    """Mean likeness of what each of these people finds without the others."""
    local = LocalICA(N_NETWORKS, independence="features", random_state=0)
    people = [np.asarray(image.dataobj)[mask].T for image in images]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(np.mean([likeness(local.fit(scans).atoms_.T, maps) for scans in people]))


def recordings(half: int, *, missing: bool) -> list[mne.io.BaseRaw]:
    """Return every second of forty calm trials of each person, on the average reference; half: 0 or 1."""
    raws = []
    for name, recording in fetch_eeg_five().items():
        trials = recording.data.reshape(100, -1, len(recording.channels)).astype(float)
        peaks = np.abs(trials).max(axis=(1, 2))
        calm = trials[peaks < 3 * np.median(peaks)][:40][half::2]
        info = mne.create_info(list(recording.channels), recording.sfreq, "eeg", verbose="ERROR")
        raw = mne.io.RawArray(np.concatenate(calm).T, info, verbose="ERROR")
        if missing and name in MISSING:
            raw.drop_channels(MISSING[name])
        raws.append(raw.set_eeg_reference("average", verbose="ERROR"))
    return raws


def run_eeg(ways: dict[str, Way]) -> dict[str, dict[str, float | str]]:
    """Return how far each way repeats itself on other trials, and how like its maps are to people's own."""
    halves = [recordings(half, missing=False) for half in (0, 1)]
    lacking = recordings(0, missing=True)
    own = [_own_maps(raw) for raw in halves[1]]
    results: dict[str, dict[str, float | str]] = {}
    for name, way in ways.items():
        (first, names), seconds = _timed(way, halves[0], N_MAPS)
        (second, _), _ = _timed(way, halves[1], N_MAPS)
        row: dict[str, float | str] = {"split halves": likeness(first, second), "seconds": seconds}
        row["unseen trials"] = _to_people(first, names, own)
        try:
            (maps, names), _ = _timed(way, lacking, N_MAPS)
        except (ValueError, RuntimeError) as refusal:
            row["electrodes missing"] = "refused"
            row["refusal"] = str(refusal)
        else:
            row["electrodes missing"] = _to_people(maps, names, own)
        results[name] = row
    return results


def _own_maps(raw: mne.io.BaseRaw) -> Array:
    """Return a person's own maps, (r, 8)."""
    return np.asarray(LocalICA(N_MAPS, max_iter=2000, random_state=0).fit(raw.get_data().T * 1e6).atoms_.T)


def _to_people(maps: Array, names: Sequence[str], own: list[Array]) -> float:
    """Mean likeness of the group's maps to each person's own."""
    order = [list(names).index(name) for name in fetch_eeg_five()["sub-01"].channels]
    return float(np.mean([likeness(np.asarray(maps)[:, order], person) for person in own]))


def _timed(way: Way, *arguments: Any) -> tuple[Any, float]:
    """Run a way, quietly, and take its time."""
    start = time.perf_counter()
    with warnings.catch_warnings(), mne.use_log_level("ERROR"):
        warnings.simplefilter("ignore")  # of the peers: convergence, deprecations
        found = way(*arguments)
    return found, time.perf_counter() - start


def _unit_rows(maps: Array) -> Array:
    return np.asarray(maps / np.maximum(np.linalg.norm(maps, axis=1, keepdims=True), 1e-12))
