"""Stack the atoms of the contributions that fit.

Clients are ordered by a hash of their atoms, so results depend on neither names nor order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, check_choice
from fedica.blocks import Columns, Spool, columns_of, columns_of_atom_array, content_digests, digest, side_by_side
from fedica.errors import InputError
from fedica.records import AtomArray, Contribution, Rejection, Study, Terms
from fedica.server.admission.screen import Screened, check_not_empty, screen

ON_BAD = ("raise", "reject")


@dataclass(frozen=True, eq=False)
class Admitted:
    """The atoms of all admitted clients, side by side.

    Parameters
    ----------
    atoms : Columns
        (d, R), unit columns, a client's atoms side by side.
    client_of_atom : ndarray of shape (R,)
        Index into ``clients``, ascending.
    clients : tuple of str
        The K clients.
    n_samples : ndarray of shape (K,)
        Declared samples; 0 where a client did not tell.
    terms : Terms
        What they agree on.
    rejected : tuple of Rejection
        Who was refused, and why.
    grams, noise_floors : tuple
        Strengths of each of the K clients: the Gram matrix that it sent, or ``None``, and its noise floor, or 0.
    uncertain : ndarray of shape (R,)
        Whether a client says that its data does not determine the atom.
    source_array : array, optional
        What ``atoms`` reads, where that must not be copied: the atoms of an `AtomArray`, which stay in their order.
    """

    atoms: Columns
    client_of_atom: IntArray
    clients: tuple[str, ...]
    n_samples: IntArray
    terms: Terms
    rejected: tuple[Rejection, ...]
    grams: tuple[Array | None, ...]
    noise_floors: tuple[float, ...]
    uncertain: BoolArray
    source_array: Any = None

    def of_clients(self, clients: IntArray) -> Admitted:
        """Return the atoms of some clients alone. clients : indices, ascending."""
        inside = np.flatnonzero(np.isin(self.client_of_atom, clients))
        owner = np.searchsorted(clients, self.client_of_atom[inside])
        return replace(
            self,
            atoms=columns_of(self.atoms.take(inside), owner),
            client_of_atom=owner,
            clients=tuple(self.clients[k] for k in clients),
            n_samples=self.n_samples[clients],
            grams=tuple(self.grams[k] for k in clients),
            noise_floors=tuple(self.noise_floors[k] for k in clients),
            uncertain=self.uncertain[inside],
        )


def admit(
    contributions: Iterable[Contribution] | AtomArray, *, study: Study | None = None, on_bad: str = "raise"
) -> Admitted:
    """Stack the atoms of the contributions that fit the study and agree with more than half of all clients.

    Parameters
    ----------
    contributions : iterable of Contribution, or AtomArray
        One per client, in any order. Of an iterable that is no list, very many atoms go to a temporary file. An
        `AtomArray` has one set of terms, and is taken as it is.
    study : Study, optional
        What all must agree on; without one, what more than half of all clients declare.
    on_bad : {"raise", "reject"}
        What to do with one that does not fit: stop, or go on without it.

    Returns
    -------
    Admitted
        The atoms side by side.
    """
    check_choice(on_bad, "on_bad", ON_BAD)
    if isinstance(contributions, AtomArray):
        return _admit_array(contributions)
    checked = map(_check_type, contributions)
    screened = screen(checked if isinstance(contributions, list | tuple) else map(Spool().keep, checked), study=study)
    if screened.rejected and on_bad == "raise":
        raise screened.rejected[0].error()
    check_not_empty(screened)
    return _stack(screened)


def _check_type(item: object) -> Contribution:
    if not isinstance(item, Contribution):
        raise InputError(f"aggregate takes Contribution records; got a {type(item).__name__}.")
    return item


def _stack(screened: Screened) -> Admitted:
    """Put the atoms side by side, ordered by content; those in a file stay where they are."""
    contributions = sorted(screened.contributions, key=_by_content)
    atoms = side_by_side([c.atoms for c in contributions])
    owner = np.repeat(np.arange(len(contributions)), [c.n_atoms for c in contributions])
    return Admitted(
        atoms=columns_of(atoms, owner),
        client_of_atom=owner,
        clients=tuple(c.client for c in contributions),
        n_samples=np.array([c.n_samples or 0 for c in contributions], dtype=np.int64),
        terms=Terms(
            n_features=contributions[0].n_features,
            features=screened.features,
            independence=contributions[0].independence,  # all declare what was decided
            mixing=contributions[0].mixing,
            study=contributions[0].study,
            grid=contributions[0].grid,
        ),
        rejected=screened.rejected,
        grams=tuple(c.gram for c in contributions),
        noise_floors=tuple(c.noise_floor or 0.0 for c in contributions),
        uncertain=np.concatenate([np.isin(np.arange(c.n_atoms), c.uncertain or ()) for c in contributions]),
    )


def _by_content(contribution: Contribution) -> tuple[bytes, bytes, int, bytes, float, tuple[int, ...], str]:
    """Order contributions by their atoms to six digits: rounding in a client's fit must not shuffle them.

    Where these are equal, all digits decide, then the samples, strengths and what the client calls uncertain: two that
    still tie can be swapped without a trace.
    """
    strengths = b"" if contribution.gram is None else digest(np.ascontiguousarray(contribution.gram) + 0.0)
    others = contribution.noise_floor or 0.0, tuple(contribution.uncertain or ()), contribution.client
    return *content_digests(contribution.atoms), contribution.n_samples or 0, strengths, *others


def _admit_array(array: AtomArray) -> Admitted:
    """Admit the atoms of an array, which stay where they are."""
    return Admitted(
        atoms=columns_of_atom_array(array),
        client_of_atom=array.client_of_atom,
        clients=tuple(array.clients),
        n_samples=np.asarray(array.n_samples),
        terms=Terms(
            n_features=int(array.atoms.shape[0]),
            features=None if array.features is None else tuple(array.features),
            independence=array.independence,
            mixing=array.mixing,
            study=array.study,
        ),
        rejected=(),
        grams=tuple(array.grams),
        noise_floors=tuple(np.asarray(array.noise_floors).tolist()),
        uncertain=np.zeros(array.client_of_atom.size, dtype=np.bool_),
        source_array=array.atoms,
    )
