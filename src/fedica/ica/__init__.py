"""Independent component analysis of blocks of samples: whitening, moments and solvers, from data to a rotation."""

from fedica.ica.doubt import Doubt
from fedica.ica.moments import FourthMoments
from fedica.ica.rotation import Rotation
from fedica.ica.solvers import SOLVERS, Solver, check_fits_memory
from fedica.ica.stream import MomentStream
from fedica.ica.whitened import Whitened
from fedica.ica.whitening import (
    Scatter,
    Whitening,
    choose_rank_tol,
    merge_scatters,
    not_finite_error,
    scatter_of,
    whiten,
    whiten_sums,
)

__all__ = [
    "SOLVERS",
    "Doubt",
    "FourthMoments",
    "MomentStream",
    "Rotation",
    "Scatter",
    "Solver",
    "Whitened",
    "Whitening",
    "check_fits_memory",
    "choose_rank_tol",
    "merge_scatters",
    "not_finite_error",
    "scatter_of",
    "whiten",
    "whiten_sums",
]
