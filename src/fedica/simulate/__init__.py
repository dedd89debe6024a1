"""Federations with a known truth, attacks on them, and studies: grids of runs with tabular results and a figure."""

from fedica.simulate.atoms import AtomFederation, atoms_federation, scramble, with_truth
from fedica.simulate.attacks import ATTACKS, Attack, find_attack
from fedica.simulate.federation import ClientData, Federation, federation
from fedica.simulate.laws import LAWS, Law, find_law

__all__ = [
    "ATTACKS",
    "LAWS",
    "AtomFederation",
    "Attack",
    "ClientData",
    "Federation",
    "Law",
    "atoms_federation",
    "federation",
    "find_attack",
    "find_law",
    "scramble",
    "with_truth",
]
