"""Federations with a known truth, attacks on them, and studies: grids of runs that give flat rows and a figure."""

from fedica.simulate.atoms import AtomFederation, atoms_federation, scramble, with_truth
from fedica.simulate.federation import ClientData, Federation, federation
from fedica.simulate.laws import LAWS, Law, find_law

__all__ = [
    "LAWS",
    "AtomFederation",
    "ClientData",
    "Federation",
    "Law",
    "atoms_federation",
    "federation",
    "find_law",
    "scramble",
    "with_truth",
]
