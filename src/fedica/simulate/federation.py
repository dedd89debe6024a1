"""Federations with a known truth: the paper's generator, and more of what real federations are like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedica.arrays import Array, IntArray, RandomState, check_int, check_number, readonly
from fedica.errors import OptionError
from fedica.simulate.coverage import draw_coverage
from fedica.simulate.laws import Law, find_law
from fedica.simulate.mixing import random_mixing
from fedica.simulate.streams import seed_of, stream

_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class ClientData:
    """What one client of a simulated federation holds.

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

    def __post_init__(self) -> None:
        for name in ("X", "sources", "components"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

    def __repr__(self) -> str:
        few = ", corrupted" if self.corrupted else ""
        return f"ClientData({self.name!r}: {self.X.shape[0]} samples, {self.components.size} components{few})"


@dataclass(frozen=True, eq=False)
class Federation:
    """A simulated federation: the data of every client, with the truth.

    Parameters
    ----------
    clients : tuple of ClientData
        The K clients.
    mixing : ndarray of shape (d, r)
        The true mixing matrix, unit columns.
    """

    clients: tuple[ClientData, ...]
    mixing: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "mixing", readonly(self.mixing))

    @property
    def X(self) -> Array:
        """All clients' data, one under the other: (n_1 + ... + n_K, d)."""
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
    """Draw a federation whose truth is known: one mixing matrix, K clients with data of their own.

    The defaults are the paper's: orthonormal mixing of ten Bernoulli-Gaussian sources, no noise. Mixing matrix and
    coverage are drawn once; the data of client k is a function of the seed, k and the client's own settings, and does
    not change with the number of clients or with what the others are like.

    Parameters
    ----------
    n_clients : int
        K.
    n_components : int
        r.
    n_features : int, optional
        d, at least r; r by default.
    n_samples : int or sequence of int
        Samples of each client.
    corrupted_share : float
        Share of clients that are corrupted, rounded half up: the first ones. They have ``corrupted_samples`` samples.
    corrupted_samples : int
        Samples of a corrupted client.
    noise : float or sequence of float
        Standard deviation of Gaussian noise on every feature of each client; the sources have variance one.
    law : str, callable, or a sequence of them
        The law of the sources at each client: a name of `fedica.simulate.LAWS`, with its parameter after a colon.
    components_per_client : int or sequence of int, optional
        r_k; all r by default.
    coverage_skew : float
        How many times as often the commonest component is seen as the rarest.
    condition : float
        Condition number of the mixing matrix; 1: orthonormal columns.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    Federation
        The clients' data, and the truth.
    """
    k_clients = check_int(n_clients, "n_clients", minimum=1)
    r = check_int(n_components, "n_components", minimum=1)
    seed = seed_of(random_state)
    mixing = random_mixing(r if n_features is None else n_features, r, condition=condition, rng=stream(seed, "mixing"))
    coverage = draw_coverage(k_clients, r, components_per_client, skew=coverage_skew, rng=stream(seed, "coverage"))
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
        clients.append(ClientData(client_name(k, k_clients), X, sources, coverage[k], k < n_bad))
    return Federation(tuple(clients), mixing)


def share_of(share: float, n_clients: int, name: str) -> int:
    """Return how many clients a share is, rounded half up (Python's own round takes 4.5 to 4)."""
    return int(np.floor(not_negative(share, name, at_most=1) * n_clients + 0.5 + 1e-9))


def not_negative(value: object, name: str, *, at_most: float = np.inf) -> float:
    """Return value as a float between 0 and the bound, both allowed; infinity is not."""
    return check_number(value, name, above=-np.finfo(float).tiny, below=float(np.nextafter(at_most, np.inf)))


def client_name(k: int, n_clients: int) -> str:
    """Return the name of client k, with as many digits as keep the names in order."""
    return f"client-{k + 1:0{len(str(n_clients))}d}"


def per_client(value: _Value | Sequence[_Value], n_clients: int, name: str) -> list[_Value]:
    """Return one value for each client: a single one is repeated, a sequence must be as long as there are clients."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        return [value] * n_clients
    if len(value) != n_clients:
        raise OptionError(f"{name} must be one value, or one for each of the {n_clients} clients; {len(value)} came.")
    return list(value)
