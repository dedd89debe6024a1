"""The frozen records that pass between the rooms: what is agreed, what is sent, what comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray, check_atoms, check_choice, check_int, check_number, readonly
from fedica.errors import ContributionError, InputError

INDEPENDENCE = ("samples", "features")
MIXING = ("general", "orthogonal")
DECLARE_SAMPLES = ("exactly", "rounded", "no")
MAX_NAME = 200
"""The longest client or study name, in characters."""


@dataclass(frozen=True, eq=False)
class Study:
    """What all clients must agree on before they fit.

    Parameters
    ----------
    id : str
        Name of the study; it travels in every contribution.
    features : sequence of str
        The features, in order.
    units : sequence of str, optional
        Unit of each feature.
    scales : sequence of float, optional
        A common factor for each feature, the same at every client. Cosines between atoms depend on units, so a client
        that scales its own columns makes its atoms incomparable.
    independence : {"samples", "features"}
        Over what the sources are independent.
    mixing : {"general", "orthogonal"}
        What is known of the mixing matrix.
    n_components : int, optional
        How many components every client fits.
    min_samples : int
        A client with fewer samples does not send anything.
    declare_samples : {"exactly", "rounded", "no"}
        How a client tells how many samples it has.
    """

    id: str
    features: Sequence[str]
    _: KW_ONLY
    units: Sequence[str] | None = None
    scales: Sequence[float] | None = None
    independence: str = "samples"
    mixing: str = "general"
    n_components: int | None = None
    min_samples: int = 2
    declare_samples: str = "exactly"

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "id", check_name(self.id, "a study's id"))
        features = check_features(self.features, "a study's features")
        set_(self, "features", features)
        if self.units is not None:
            set_(self, "units", tuple(map(str, self.units)))
            _check_length(self.units, features, "units")
        if self.scales is not None:
            set_(self, "scales", tuple(check_number(s, "a feature's scale", above=0) for s in self.scales))
            _check_length(self.scales, features, "scales")
        check_choice(self.independence, "independence", INDEPENDENCE)
        check_choice(self.mixing, "mixing", MIXING)
        if self.n_components is not None:
            check_int(self.n_components, "a study's n_components", minimum=1, maximum=len(features))
        check_int(self.min_samples, "a study's min_samples", minimum=2)
        check_choice(self.declare_samples, "declare_samples", DECLARE_SAMPLES)


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


@dataclass(frozen=True)
class Rejection:
    """A contribution that the server left out, and why.

    Parameters
    ----------
    client : str
        Who sent it, as far as is known.
    reason : str
        One clear sentence.
    source : str
        The file or message that it came in.
    """

    client: str
    reason: str
    source: str = ""


@dataclass(frozen=True)
class Terms:
    """What the admitted contributions agree on. ``None``: nobody declared it.

    Parameters
    ----------
    n_features : int
        d, the length of each atom.
    features : tuple of str, optional
        Names of the features.
    independence, mixing, study : str, optional
        As in `Contribution`.
    """

    n_features: int
    features: tuple[str, ...] | None = None
    independence: str | None = None
    mixing: str | None = None
    study: str | None = None


@dataclass(frozen=True, eq=False)
class Certificate:
    """How near the server's two optimisations are to their optimum, proven, not guessed.

    Parameters
    ----------
    kmeans_objective : float, optional
        The k-means objective of the grouping, Eq. (11). ``None`` for the naive methods, which do not group.
    kmeans_lower_bound : float, optional
        No grouping whatever has an objective below this.
    median_gap : ndarray of shape (r,)
        For each component, gamma such that its centre is a (1 + gamma) geometric median. Zero for means.
    """

    kmeans_objective: float | None
    kmeans_lower_bound: float | None
    median_gap: Array

    @property
    def kmeans_gamma(self) -> float | None:
        """The gamma of Algorithm 2 that is proven: objective <= (1 + gamma) * optimum."""
        if self.kmeans_objective is None or self.kmeans_lower_bound is None:
            return None
        if self.kmeans_objective <= self.kmeans_lower_bound:
            return 0.0
        if self.kmeans_lower_bound <= 0:
            return float("inf")
        return self.kmeans_objective / self.kmeans_lower_bound - 1


@dataclass(frozen=True, eq=False, repr=False)
class Aggregate:
    """What the server computes from all contributions.

    Parameters
    ----------
    mixing : ndarray of shape (d, r)
        The global mixing matrix: ``centres`` scaled to norm one. Components are sorted by support, then by spread; the
        largest entry of each is positive.
    centres : ndarray of shape (d, r)
        The raw medians or means.
    labels : ndarray of shape (R,)
        Component of each atom; -1 for an atom that belongs to none.
    signs : ndarray of shape (R,)
        +1 or -1: each atom times its sign points along its component.
    clients : tuple of str
        The admitted clients, sorted by name; those of an `AtomArray` in its order.
    client_of_atom : ndarray of shape (R,)
        Index into ``clients``.
    spectrum : ndarray
        Leading eigenvalues of the affinity matrix, largest first.
    support : ndarray of shape (r,)
        How many clients have an atom in each component.
    spread : ndarray of shape (r,)
        Median angle of the atoms to their component, in degrees.
    trust : Trust, optional
        Of each client: how far it is from the components, and a verdict.
    rejected : tuple of Rejection
        What was left out before aggregating, and why.
    method : str
        How it was computed.
    options : mapping
        The options that it was computed with, as taken (``affinity`` is what "auto" chose).
    atoms : ndarray of shape (d, R)
        All atoms, side by side, as admitted; of an `AtomArray` its own array, not a copy.
    terms : Terms
        What the clients agree on.
    certificate : Certificate, optional
        How near the optimum the grouping and the medians are.
    """

    mixing: Array
    centres: Array
    labels: IntArray
    signs: Array
    clients: tuple[str, ...]
    client_of_atom: IntArray
    spectrum: Array
    support: IntArray
    spread: Array
    trust: Trust | None
    rejected: tuple[Rejection, ...]
    method: str
    options: Mapping[str, Any]
    _: KW_ONLY
    atoms: Array
    terms: Terms
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        for name in (
            "mixing",
            "centres",
            "labels",
            "signs",
            "client_of_atom",
            "spectrum",
            "support",
            "spread",
            "atoms",
        ):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):  # atoms may lie in a Dask array
                object.__setattr__(self, name, readonly(value))
        object.__setattr__(self, "options", dict(self.options))

    @property
    def n_components(self) -> int:
        """r: how many components."""
        return int(self.mixing.shape[1])

    @property
    def degenerate(self) -> IntArray:
        """Components whose centre has a norm near zero: their direction means nothing."""
        return np.flatnonzero(np.linalg.norm(self.centres, axis=0) < 1e-6)

    def __repr__(self) -> str:
        d, r = self.mixing.shape
        lines = [
            f"Aggregate by {self.method!r}: {r} components of {d} features "
            f"from {len(self.clients)} clients ({self.labels.size} atoms)"
        ]
        lines += [
            f"  component {a}: {self.support[a]} clients, median angle {self.spread[a]:.2f} degrees"
            + (" (degenerate: its atoms cancel)" if a in self.degenerate else "")
            for a in range(min(r, 12))
        ]
        if r > 12:
            lines.append(f"  ... and {r - 12} more components")
        if self.trust is not None:
            lines += [f"  {line}" for line in self.trust.summary(6)]
        lines += [f"  rejected {x.client!r}: {x.reason}" for x in self.rejected[:6]]
        if len(self.rejected) > 6:
            lines.append(f"  ... and {len(self.rejected) - 6} more rejected")
        return "\n".join(lines)


@dataclass(frozen=True)
class ClientTrust:
    """One row of `Trust`: what the server thinks of one client.

    Parameters
    ----------
    client : str
        Its name.
    verdict : {"trusted", "weak", "outlying"}
        The verdict.
    reason : str
        Why, in words.
    angle : float
        Median angle of its atoms to the components they match, in degrees.
    missing : tuple of int
        Components that it lacks.
    n_unmatched : int
        How many of its atoms matched nothing.
    influence : float
        How far the aggregate moves without it: the largest angle over components, in degrees.
    """

    client: str
    verdict: str
    reason: str
    angle: float
    missing: tuple[int, ...]
    n_unmatched: int
    influence: float


@dataclass(frozen=True, eq=False)
class Trust:
    """What the server thinks of every client, as columns; ``trust["client-07"]`` is one row.

    Parameters
    ----------
    clients : tuple of str
        The K clients.
    verdict : tuple of str
        "trusted", "weak" (as noisy as its declared samples explain) or "outlying".
    reason : tuple of str
        Why, in words.
    angle : ndarray of shape (K,)
        Median angle of a client's atoms to the components they match, in degrees.
    angles : ndarray of shape (K, r)
        Angle of the client's atom to each component; 90 where it has none.
    has : ndarray of shape (K, r)
        Whether the client has an atom for the component.
    n_unmatched : ndarray of shape (K,)
        Atoms that matched nothing.
    influence : ndarray of shape (K,)
        How far the aggregate moves without the client, in degrees.
    """

    clients: tuple[str, ...]
    verdict: tuple[str, ...]
    reason: tuple[str, ...]
    angle: Array
    angles: Array
    has: Any
    n_unmatched: IntArray
    influence: Array

    def __getitem__(self, client: str) -> ClientTrust:
        try:
            k = self.clients.index(client)
        except ValueError:
            raise KeyError(client) from None
        return self._row(k)

    def __iter__(self) -> Iterator[ClientTrust]:
        return map(self._row, range(len(self.clients)))

    def __len__(self) -> int:
        return len(self.clients)

    def rows(self, order: IntArray) -> Trust:
        """Return the same for the clients in another order, or for some of them."""
        return Trust(
            clients=tuple(self.clients[k] for k in order),
            verdict=tuple(self.verdict[k] for k in order),
            reason=tuple(self.reason[k] for k in order),
            angle=self.angle[order],
            angles=self.angles[order],
            has=self.has[order],
            n_unmatched=self.n_unmatched[order],
            influence=self.influence[order],
        )

    def named(self, verdict: str) -> tuple[str, ...]:
        """Return the clients with this verdict."""
        return tuple(c for c, v in zip(self.clients, self.verdict, strict=True) if v == verdict)

    def summary(self, most: int) -> list[str]:
        """Say in a few lines who is not simply trusted."""
        doubted = [k for k, v in enumerate(self.verdict) if v != "trusted"]
        doubted.sort(key=lambda k: (self.verdict[k], -self.angle[k]))
        lines = [f"{self.verdict[k]}: {self.clients[k]!r}, {self.reason[k]}" for k in doubted[:most]]
        return lines + ([f"... and {len(doubted) - most} more"] if len(doubted) > most else [])

    def _row(self, k: int) -> ClientTrust:
        return ClientTrust(
            client=self.clients[k],
            verdict=self.verdict[k],
            reason=self.reason[k],
            angle=float(self.angle[k]),
            missing=tuple(int(a) for a in np.flatnonzero(~self.has[k])),
            n_unmatched=int(self.n_unmatched[k]),
            influence=float(self.influence[k]),
        )


def check_name(name: object, what: str) -> str:
    """Return a client's or study's name if it can be printed, stored in a file and used as a file's name."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{what} must be a text that is not empty; {name!r:.100} came.")
    if len(name) > MAX_NAME:
        raise InputError(f"{what} may have at most {MAX_NAME} characters; {len(name)} came ({name[:40]!r}...).")
    if any(ord(letter) < 32 or 0x7F <= ord(letter) <= 0x9F or 0xD800 <= ord(letter) <= 0xDFFF for letter in name):
        raise InputError(f"{what} may not contain control characters; {name!r} came.")
    return name


def check_features(features: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the feature names as a tuple of distinct texts."""
    if isinstance(features, str):
        raise InputError(f"{what} must be a list of names; the single text {features!r} came.")
    names = tuple(str(f) for f in features)
    if not names:
        raise InputError(f"{what} must name at least one feature; none came.")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"{what} must be distinct; {twice!r} came more than once.")
    return names


def _check_length(values: Sequence[object], features: Sequence[str], what: str) -> None:
    if len(values) != len(features):
        raise InputError(f"a study has one of {what} per feature: {len(features)} were wanted, {len(values)} came.")
