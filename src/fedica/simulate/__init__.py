"""Federations with a known truth, attacks on them, and studies: grids of runs with tabular results and a figure."""

from fedica.simulate.atoms import AtomFederation, atoms_federation, scramble, with_truth
from fedica.simulate.attacks import ATTACKS, Attack, find_attack
from fedica.simulate.error_laws import ERROR_LAWS, error_levels
from fedica.simulate.federation import ClientData, Federation, federation
from fedica.simulate.laws import LAWS, Law, find_law
from fedica.simulate.people import PEOPLE, PeopleLaw, people
from fedica.simulate.second_attacks import SECOND_ATTACKS, AttackedData, SecondAttack, find_second_attack
from fedica.simulate.sheet import Sheet

__all__ = [
    "ATTACKS",
    "ERROR_LAWS",
    "LAWS",
    "PEOPLE",
    "SECOND_ATTACKS",
    "AtomFederation",
    "Attack",
    "AttackedData",
    "ClientData",
    "Federation",
    "Law",
    "PeopleLaw",
    "SecondAttack",
    "Sheet",
    "atoms_federation",
    "error_levels",
    "federation",
    "find_attack",
    "find_law",
    "find_second_attack",
    "people",
    "scramble",
    "with_truth",
]
