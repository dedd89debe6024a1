"""fedica: one-shot robust federated independent component analysis."""

from __future__ import annotations

from fedica.exchange import read_aggregate, read_contribution, write_aggregate, write_contribution
from fedica.federated import FederatedICA
from fedica.local import LocalICA
from fedica.records import Aggregate, Contribution, Study
from fedica.server import aggregate

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Contribution",
    "FederatedICA",
    "LocalICA",
    "Study",
    "__version__",
    "aggregate",
    "read_aggregate",
    "read_contribution",
    "write_aggregate",
    "write_contribution",
]
