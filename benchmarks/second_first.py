"""First answers and pooled ones of simulated federations, kept in out/second: what takes the time, once.

They depend on nothing that comes after the first message. ``make clean`` removes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from joblib import Memory

from fedica import Aggregate, Contribution, LocalICA, aggregate
from fedica.arrays import Array
from fedica.errors import DataError
from fedica.simulate import Federation, federation

R = 10
KEPT = Memory("out/second", verbose=0)


def draw(law: str, size: tuple[int, int], condition: float, seed: int) -> Federation:
    """Draw a federation. size : clients, and samples of each."""
    return federation(size[0], R, n_samples=size[1], law=law, condition=condition, random_state=seed)


def fit(X: Array, name: str) -> Contribution | None:
    """Return a first message; none of a client whose few samples do not span the components."""
    try:
        return LocalICA(R, random_state=0).fit(X).contribution(name)
    except DataError:
        return None


def combine(messages: Sequence[Contribution | None]) -> Aggregate:
    """Return the consensus of the clients that sent a first message."""
    return aggregate([message for message in messages if message is not None], R)


@KEPT.cache
def first_and_pooled(law: str, size: tuple[int, int], condition: float, seed: int) -> tuple[Aggregate, Array]:
    """Return the answer of one message, and the atoms of FastICA on the data of all clients, centred one by one."""
    clients = draw(law, size, condition, seed).clients
    pooled = LocalICA(R, tol=1e-8, random_state=0).fit(np.concatenate([c.X - c.X.mean(axis=0) for c in clients]))
    return combine([fit(c.X, c.name) for c in clients]), pooled.atoms_
