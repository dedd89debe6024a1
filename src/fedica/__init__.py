"""fedica: one-shot robust federated independent component analysis.

A public name is loaded when it is first used: ``fedica --help`` need not wait for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedica.version import __version__

if TYPE_CHECKING:
    from fedica.exchange import read_aggregate, read_contribution, write_aggregate, write_contribution
    from fedica.federated import FederatedICA
    from fedica.local import LocalICA
    from fedica.records import Aggregate, AtomArray, Contribution, Study
    from fedica.server import aggregate, fill_features

__all__ = [
    "Aggregate",
    "AtomArray",
    "Contribution",
    "FederatedICA",
    "LocalICA",
    "Study",
    "__version__",
    "aggregate",
    "fill_features",
    "read_aggregate",
    "read_contribution",
    "write_aggregate",
    "write_contribution",
]

_ROOM_OF_NAME = {
    "Aggregate": "records",
    "AtomArray": "records",
    "Contribution": "records",
    "FederatedICA": "federated",
    "LocalICA": "local",
    "Study": "records",
    "aggregate": "server",
    "fill_features": "server",
    "read_aggregate": "exchange",
    "read_contribution": "exchange",
    "write_aggregate": "exchange",
    "write_contribution": "exchange",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ROOM_OF_NAME[name]}"), name)
    globals()[name] = value  # the next look finds it at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
