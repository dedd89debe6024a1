"""A client's side: from its data to its contribution, and back from the global matrix to its sources."""

from fedica.ica import SOLVERS, Whitening
from fedica.local.dual_regression import DualRegression, dual_regression
from fedica.local.estimator import LocalICA
from fedica.local.recover import Recovered, cross_cumulants, recover
from fedica.local.scores import score, score_at

__all__ = [
    "SOLVERS",
    "DualRegression",
    "LocalICA",
    "Recovered",
    "Whitening",
    "cross_cumulants",
    "dual_regression",
    "recover",
    "score",
    "score_at",
]
