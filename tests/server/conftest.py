"""Federations of atoms with a known truth, for the server's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedica import Contribution

MakeFederation = Callable[..., tuple[list[Contribution], np.ndarray, np.ndarray]]


def _make(
    r: int = 5,
    K: int = 12,
    *,
    d: int | None = None,
    noise: float = 0.02,
    seed: int = 0,
    counts: list[int] | None = None,
) -> tuple[list[Contribution], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((d or r, r)))[0]
    contributions, truth = [], []
    for k in range(K):
        n_atoms = r if counts is None else counts[k % len(counts)]
        start = (k * 2) % r  # consecutive components, so that every one is covered
        seen = rng.permutation(np.arange(start, start + n_atoms) % r)
        atoms = A[:, seen] * rng.choice([-1.0, 1.0], n_atoms)
        atoms = atoms + noise * rng.standard_normal(atoms.shape) / np.sqrt(A.shape[0] / r)
        contributions.append(Contribution(f"client-{k:02d}", atoms, 1000))
        truth.append(seen)
    return contributions, A, np.concatenate(truth)


@pytest.fixture(scope="session")
def make_federation() -> MakeFederation:
    """Atoms of K clients around an orthonormal A, each client in its own order and with its own signs.

    Returns the contributions, A (d, r) and the true label of every atom, in the order of the contributions.
    """
    return _make
