"""fedica: one-shot robust federated independent component analysis."""

from __future__ import annotations

from fedica.records import Aggregate, Contribution, Study
from fedica.server import aggregate

__version__ = "0.1.0"

__all__ = ["Aggregate", "Contribution", "Study", "__version__", "aggregate"]
