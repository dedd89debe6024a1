"""What is sent: the atoms of one client, or of very many as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray, check_atoms, check_choice, check_int, readonly
from fedica.errors import ContributionError, InputError
from fedica.records.checks import INDEPENDENCE, MIXING, check_features, check_name


@dataclass(frozen=True, eq=False, repr=False)
class Contribution:
    """What one client sends: its atoms, and a little metadata.

    Parameters
    ----------
    client : str
        Name of the client; unique in a federation.
    atoms : array-like of shape (d, r_k)
        The directions that the client found, one a column, known up to sign and order. Scaled to norm one here.
    n_samples : int or None
        How many samples they were found from, if the client tells.
    features : sequence of str, optional
        Names of the d features.
    solver, independence, mixing, study : str, optional
        How the atoms were found, and for which study.
    extra : mapping of str to str
        Whatever else travelled along.

    Raises
    ------
    ContributionError
        If a field cannot be used; the sentence names the client.
    """

    client: str
    atoms: Array
    n_samples: int | None
    _: KW_ONLY
    features: Sequence[str] | None = None
    solver: str | None = None
    independence: str | None = None
    mixing: str | None = None
    study: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        try:
            set_(self, "client", check_name(self.client, "a client's name"))
            set_(self, "atoms", readonly(check_atoms(self.atoms, f"client {self.client!r}: atoms")))
            if self.n_samples is not None:
                set_(self, "n_samples", check_int(self.n_samples, f"client {self.client!r}: n_samples", minimum=1))
            if self.features is not None:
                features = check_features(self.features, f"client {self.client!r}: features")
                if len(features) != self.n_features:
                    raise InputError(
                        f"client {self.client!r} names {len(features)} features, but its atoms have {self.n_features}."
                    )
                set_(self, "features", features)
            if self.independence is not None:
                check_choice(self.independence, f"client {self.client!r}: independence", INDEPENDENCE)
            if self.mixing is not None:
                check_choice(self.mixing, f"client {self.client!r}: mixing", MIXING)
            set_(self, "extra", MappingProxyType({str(k): str(v) for k, v in self.extra.items()}))
        except InputError as error:
            raise ContributionError(str(error), str(self.client)) from error

    @property
    def n_features(self) -> int:
        """d: the length of each atom."""
        return int(self.atoms.shape[0])

    @property
    def n_atoms(self) -> int:
        """r_k: how many atoms the client found."""
        return int(self.atoms.shape[1])

    def __repr__(self) -> str:
        samples = "samples not declared" if self.n_samples is None else f"{self.n_samples} samples"
        return f"Contribution({self.client!r}: {self.n_atoms} atoms of {self.n_features} features, {samples})"

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        names = ("client", "atoms", "n_samples", "features", "solver", "independence", "mixing", "study")
        return _contribution, ({**{n: getattr(self, n) for n in names}, "extra": dict(self.extra)},)


def _contribution(fields: dict[str, Any]) -> Contribution:
    return Contribution(**fields)


@dataclass(frozen=True, eq=False, repr=False)
class AtomArray:
    """The atoms of very many clients as one array, which need not fit in memory.

    Parameters
    ----------
    atoms : array of shape (d, R)
        Atoms as columns, a client's side by side: an array, a memory-mapped one or a Dask array. Columns that are not
        of norm one are scaled as they are read. A file with an atom a row is ``np.load(path, mmap_mode="r").T``.
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

    Raises
    ------
    InputError
        If shapes do not fit together. The atoms themselves are looked at when they are aggregated.
    """

    atoms: Any
    client_of_atom: IntArray
    _: KW_ONLY
    clients: Sequence[str] | None = None
    n_samples: IntArray | None = None
    features: Sequence[str] | None = None
    independence: str | None = None
    mixing: str | None = None
    study: str | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        shape = tuple(getattr(self.atoms, "shape", ()))
        if len(shape) != 2 or 0 in shape or np.dtype(self.atoms.dtype).kind != "f":
            raise InputError(
                "AtomArray wants atoms as an array of floating point numbers of shape (n_features, n_atoms), neither "
                f"of them zero; {getattr(self.atoms, 'dtype', type(self.atoms).__name__)} of shape {shape} came."
            )
        owner = np.asarray(self.client_of_atom)
        if owner.shape != shape[1:] or owner.dtype.kind not in "iu":
            raise InputError(
                f"client_of_atom must be {shape[1]} whole numbers, one for each atom; {owner.dtype} of shape "
                f"{owner.shape} came."
            )
        owner = owner.astype(np.int64, copy=False)
        steps = np.diff(owner, prepend=-1)
        if owner[0] != 0 or steps.min() < 0 or steps.max() > 1:
            raise InputError(
                "client_of_atom must be 0, 1, 2 and so on, ascending and without gaps, a client's atoms side "
                f"by side; it is not so at atom {int(np.argmax((steps < 0) | (steps > 1)))}."
            )
        n_clients = int(owner[-1]) + 1
        digits = len(str(n_clients - 1))
        names = self.clients or [f"client-{k:0{digits}d}" for k in range(n_clients)]
        declared = np.zeros(n_clients, dtype=np.int64) if self.n_samples is None else np.asarray(self.n_samples)
        if len(names) != n_clients or len(set(names)) < n_clients or declared.shape != (n_clients,):
            raise InputError(
                f"AtomArray wants {n_clients} distinct names and as many numbers of samples, one for each client; "
                f"{len(set(names))} names and {declared.size} numbers came."
            )
        set_(self, "client_of_atom", readonly(owner))
        set_(self, "clients", tuple(check_name(name, "a client's name") for name in names))
        set_(self, "n_samples", readonly(declared.astype(np.int64, copy=False)))
        if self.features is not None:
            set_(self, "features", check_features(self.features, "an AtomArray's features"))
            if len(self.features) != shape[0]:
                raise InputError(f"{shape[0]} features must be named, one for each row; {len(self.features)} came.")
        if self.independence is not None:
            check_choice(self.independence, "independence", INDEPENDENCE)
        if self.mixing is not None:
            check_choice(self.mixing, "mixing", MIXING)

    def __repr__(self) -> str:
        d, n_atoms = self.atoms.shape
        return f"AtomArray of {len(self.clients or ())} clients: {n_atoms} atoms of {d} features"
