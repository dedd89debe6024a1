"""The server's side: Algorithm 1, one file a step, and the one-page pipeline in ``aggregate``."""

from fedica.server.admit import Admitted, admit
from fedica.server.aggregate import AFFINITIES, METHODS, aggregate
from fedica.server.missing_features import fill_features

__all__ = ["AFFINITIES", "METHODS", "Admitted", "admit", "aggregate", "fill_features"]
