"""The server's side: Algorithm 1, one file per step, and the one-page pipeline in ``aggregate``."""

from fedica.server.admission import Admitted, admit
from fedica.server.aggregate import aggregate
from fedica.server.methods import AFFINITIES, METHOD_NAMES, METHODS, Method
from fedica.server.missing_features import fill_features
from fedica.server.refinement import refine

__all__ = [
    "AFFINITIES",
    "METHODS",
    "METHOD_NAMES",
    "Admitted",
    "Method",
    "admit",
    "aggregate",
    "fill_features",
    "refine",
]
