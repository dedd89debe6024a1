"""Checks of the settings that simulated federations share: shares, values per client, names of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from fedica.arrays import check_number
from fedica.errors import OptionError

_Value = TypeVar("_Value")


def share_of(share: float, n_clients: int, name: str) -> int:
    """Return how many clients a share is, rounded half up (Python's ``round(4.5)`` is 4)."""
    return int(np.floor(not_negative(share, name, at_most=1) * n_clients + 0.5 + 1e-9))


def not_negative(value: object, name: str, *, at_most: float = np.inf) -> float:
    """Return value as a finite float between 0 and the bound, both included."""
    return check_number(value, name, above=-np.finfo(float).tiny, below=float(np.nextafter(at_most, np.inf)))


def client_name(k: int, n_clients: int) -> str:
    """Return the name of client k, padded with zeros so that names sort by number."""
    return f"client-{k + 1:0{len(str(n_clients))}d}"


def per_client(value: _Value | Sequence[_Value], n_clients: int, name: str) -> list[_Value]:
    """Return one value per client: a single value is repeated, a sequence must have one value per client."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        return [value] * n_clients
    if len(value) != n_clients:
        raise OptionError(f"{name} must be one value, or one for each of the {n_clients} clients; got {len(value)}.")
    return list(value)
