"""The atoms of very many clients as one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray, check_unmasked, readonly
from fedica.errors import InputError
from fedica.records import checks
from fedica.records.fields import check_fields, checked, set_fields


@dataclass(frozen=True, eq=False, repr=False)
class AtomArray:
    """The atoms of very many clients as one array, which need not fit in memory.

    Parameters
    ----------
    atoms : array of shape (d, R)
        Atoms as columns, a client's side by side: an array, a memory-mapped one or a Dask array. Columns that are not
        of norm one are scaled as they are read. A file with one atom per row is ``np.load(path, mmap_mode="r").T``.
    client_of_atom : array-like of shape (R,)
        Number of the client of each atom: 0, 1, 2 and so on, ascending.
    clients : sequence of str, optional
        Name of each of the K clients; by default numbered.
    n_samples : array-like of shape (K,), optional
        Declared samples of each client; 0 where one does not tell.
    features : sequence of str, optional
        Names of the d features.
    independence, mixing, study : str, optional
        As in `Contribution`: the same for all clients.
    grams : sequence of K arrays, optional
        Strengths: ``gram`` of each client as in `Contribution`, (r_k, r_k); ``None`` for a client without.
    noise_floors : array-like of shape (K,), optional
        Its ``noise_floor``; 0 for a client without.

    Raises
    ------
    InputError
        If shapes do not fit together. The atoms themselves are looked at when they are aggregated.
    """

    atoms: Any
    client_of_atom: IntArray
    _: KW_ONLY
    clients: Sequence[str] = ()
    n_samples: IntArray | Sequence[int] = ()
    features: Sequence[str] | None = field(default=None, metadata=checked(checks.check_features))
    independence: str | None = field(default=None, metadata=checked(checks.check_independence))
    mixing: str | None = field(default=None, metadata=checked(checks.check_mixing))
    study: str | None = None
    grams: Sequence[Array | None] = ()
    noise_floors: Array | Sequence[float] = ()

    def __post_init__(self) -> None:
        n_features, n_atoms = _check_shape(self.atoms)
        owner = _check_owner(self.client_of_atom, n_atoms)
        n_clients = int(owner[-1]) + 1
        digits = len(str(n_clients - 1))
        names = self.clients or [f"client-{k:0{digits}d}" for k in range(n_clients)]
        declared = np.asarray(self.n_samples) if len(self.n_samples) else np.zeros(n_clients)
        if len(names) != n_clients or len(set(names)) < n_clients or declared.shape != (n_clients,):
            raise InputError(
                f"AtomArray must have {n_clients} distinct names and as many numbers of samples, one for each client; "
                f"got {len(set(names))} names and {declared.size} numbers."
            )
        set_fields(
            self,
            client_of_atom=readonly(owner),
            clients=tuple(checks.check_name(name, "a client's name") for name in names),
            n_samples=readonly(declared.astype(np.int64, copy=False)),
        )
        set_fields(
            self, grams=_check_grams(self.grams, owner), noise_floors=_check_floors(self.noise_floors, n_clients)
        )
        check_fields(self, "an AtomArray's ")
        if self.features is not None and len(self.features) != n_features:
            raise InputError(
                f"an AtomArray's features must be {n_features} names, one for each row; got {len(self.features)}."
            )

    def __repr__(self) -> str:
        d, n_atoms = self.atoms.shape
        return f"AtomArray of {len(self.clients)} clients: {n_atoms} atoms of {d} features"


def _check_shape(atoms: Any) -> tuple[int, int]:
    check_unmasked(atoms, "AtomArray's atoms")
    shape = tuple(getattr(atoms, "shape", ()))
    if len(shape) != 2 or 0 in shape or np.dtype(atoms.dtype).kind != "f":
        raise InputError(
            "AtomArray must have atoms as an array of floating point numbers of shape (n_features, n_atoms), neither "
            f"of them zero; got {getattr(atoms, 'dtype', type(atoms).__name__)} of shape {shape}."
        )
    return shape


def _check_owner(client_of_atom: Any, n_atoms: int) -> IntArray:
    owner = np.asarray(client_of_atom)
    if owner.shape != (n_atoms,) or owner.dtype.kind not in "iu":
        raise InputError(
            f"client_of_atom must be {n_atoms} whole numbers, one for each atom; got {owner.dtype} of shape "
            f"{owner.shape}."
        )
    owner = owner.astype(np.int64, copy=False)
    steps = np.diff(owner, prepend=-1)
    if owner[0] != 0 or steps.min() < 0 or steps.max() > 1:
        raise InputError(
            "client_of_atom must be 0, 1, 2 and so on, ascending and without gaps, a client's atoms side "
            f"by side; it is not so at atom {int(np.argmax((steps < 0) | (steps > 1)))}."
        )
    return owner


def _check_grams(grams: Sequence[Array | None], owner: IntArray) -> tuple[Array | None, ...]:
    """Return the Gram matrix of each client, as large as it has atoms, or ``None``."""
    n_atoms = np.bincount(owner)
    if not len(grams):
        return (None,) * n_atoms.size
    if len(grams) != n_atoms.size:
        raise InputError(f"an AtomArray's grams must be {n_atoms.size}, one for each client; got {len(grams)}.")
    return tuple(
        None if gram is None else _check_gram(gram, size, f"an AtomArray's gram of client number {k}")
        for k, (gram, size) in enumerate(zip(grams, n_atoms.tolist(), strict=True))
    )


def _check_gram(gram: Array, size: int, what: str) -> Array:
    found = checks.check_gram(gram, what)
    if len(found) != size:
        raise InputError(f"{what} must have a row for each of its {size} atoms; got {len(found)}.")
    return found


def _check_floors(floors: Array | Sequence[float], n_clients: int) -> Array:
    """Return the noise floor of each client, (K,)."""
    found = np.asarray(floors, dtype=np.float64) if len(floors) else np.zeros(n_clients)
    if found.shape != (n_clients,) or not np.isfinite(found).all() or found.min() < 0:
        raise InputError(
            f"an AtomArray's noise_floors must be {n_clients} finite numbers, none of them negative, one for each "
            f"client; got {found.size}."
        )
    return readonly(found)
