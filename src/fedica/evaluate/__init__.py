"""Comparison with a known truth: errors up to a signed permutation, misclustering, the paper's bounds."""

from fedica.evaluate.bounds import Theory, geometric_median_bound, theory
from fedica.evaluate.misclustering import Misclustering, misclustering
from fedica.evaluate.recovery import RecoveryError, amari_distance, recovery_error

__all__ = [
    "Misclustering",
    "RecoveryError",
    "Theory",
    "amari_distance",
    "geometric_median_bound",
    "misclustering",
    "recovery_error",
    "theory",
]
