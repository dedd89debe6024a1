"""Federations with a known truth: the paper's generator, extended by features of real federations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray, RandomState, check_int, readonly
from fedica.simulate.coverage import draw_coverage
from fedica.simulate.laws import Law, find_law
from fedica.simulate.mixing import random_mixing
from fedica.simulate.settings import client_name, not_negative, per_client, share_of
from fedica.simulate.streams import seed_of, stream


@dataclass(frozen=True, eq=False)
class ClientData:
    """The data of one client of a simulated federation.

    Parameters
    ----------
    name : str
        Its name.
    X : ndarray of shape (n_k, d)
        Its data: ``sources @ mixing[:, components].T`` plus noise.
    sources : ndarray of shape (n_k, r_k)
        The true sources.
    components : ndarray of shape (r_k,)
        Which columns of the mixing matrix it sees.
    corrupted : bool
        Whether it is one of the clients with few samples.
    """

    name: str
    X: Array
    sources: Array
    components: IntArray
    corrupted: bool

    def __repr__(self) -> str:
        few = ", corrupted" if self.corrupted else ""
        return f"ClientData({self.name!r}: {self.X.shape[0]} samples, {self.components.size} components{few})"


@dataclass(frozen=True, eq=False)
class Federation:
    """A simulated federation: the data of every client, and the truth.

    Parameters
    ----------
    clients : tuple of ClientData
        The K clients.
    mixing : ndarray of shape (d, r)
        The true mixing matrix, unit columns.
    """

    clients: tuple[ClientData, ...]
    mixing: Array

    @property
    def X(self) -> Array:
        """All clients' data, stacked: (n_1 + ... + n_K, d)."""
        return np.concatenate([client.X for client in self.clients])

    @property
    def groups(self) -> IntArray:
        """The client of each row of `X`, as an index into ``clients``."""
        return np.repeat(np.arange(len(self.clients)), [len(client.X) for client in self.clients])

    def __repr__(self) -> str:
        d, r = self.mixing.shape
        bad = sum(client.corrupted for client in self.clients)
        n = sum(len(client.X) for client in self.clients)
        return f"Federation: {len(self.clients)} clients ({bad} corrupted), {n} samples of {d} features, {r} components"


def federation(
    n_clients: int = 30,
    n_components: int = 10,
    *,
    n_features: int | None = None,
    n_samples: int | Sequence[int] = 5000,
    corrupted_share: float = 0.0,
    corrupted_samples: int = 300,
    noise: float | Sequence[float] = 0.0,
    law: str | Law | Sequence[str | Law] = "bernoulli-gaussian",
    components_per_client: int | Sequence[int] | None = None,
    coverage_skew: float = 1.0,
    condition: float = 1.0,
    random_state: RandomState = 0,
) -> Federation:
    """Draw a federation with a known truth: one mixing matrix, and data for each of K clients.

    The defaults are the paper's: orthonormal mixing of ten Bernoulli-Gaussian sources, no noise. Mixing matrix and
    coverage are drawn once; the data of client k is a function of the seed, k and the client's own settings, and does
    not change with the number or the settings of the other clients.

    Parameters
    ----------
    n_clients : int
        K.
    n_components : int
        r.
    n_features : int, optional
        d, at least r; r by default.
    n_samples : int or sequence of int
        Number of samples of each client.
    corrupted_share : float
        Share of clients that are corrupted, rounded half up; these are the first ones.
    corrupted_samples : int
        Number of samples of a corrupted client.
    noise : float or sequence of float
        Standard deviation of Gaussian noise on every feature of each client; the sources have variance one.
    law : str, callable, or a sequence of them
        Distribution of the sources at each client: a name of `fedica.simulate.LAWS`, with its parameter after a colon.
    components_per_client : int or sequence of int, optional
        r_k; all r by default.
    coverage_skew : float
        Ratio of the numbers of clients that have the commonest and the rarest component.
    condition : float
        Condition number of the mixing matrix; 1: orthonormal columns.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    Federation
        The clients' data, and the truth.
    """
    k_clients, seed = check_int(n_clients, "n_clients", minimum=1), seed_of(random_state)
    mixing = random_mixing(n_features, n_components, condition=condition, rng=stream(seed, "mixing"))
    rng = stream(seed, "coverage")
    coverage = draw_coverage(k_clients, n_components, components_per_client, skew=coverage_skew, rng=rng)
    samples = [check_int(n, "n_samples", minimum=2) for n in per_client(n_samples, k_clients, "n_samples")]
    n_bad = share_of(corrupted_share, k_clients, "corrupted_share")
    samples[:n_bad] = [check_int(corrupted_samples, "corrupted_samples", minimum=2)] * n_bad
    noises = [not_negative(level, "noise") for level in per_client(noise, k_clients, "noise")]
    names: list[str | Law] = per_client(law, k_clients, "law")
    laws = [find_law(name) for name in names]

    clients = []
    for k in range(k_clients):
        rng = stream(seed, "client", k)
        sources = laws[k](rng, (samples[k], coverage[k].size))
        X = sources @ mixing[:, coverage[k]].T
        if noises[k] > 0:
            X += noises[k] * rng.standard_normal(X.shape)
        name = client_name(k, k_clients)
        clients.append(ClientData(name, readonly(X), readonly(sources), readonly(coverage[k]), k < n_bad))
    return Federation(tuple(clients), readonly(mixing))
