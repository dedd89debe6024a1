"""What comes back: the global matrix, and all that the server knows of how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedica.arrays import Array, BoolArray, IntArray, check_finite_matrix
from fedica.errors import ContributionError, DataError, FedicaError
from fedica.records.fields import READONLY, check_fields, checked, set_fields
from fedica.records.notebook_table import aggregate_html
from fedica.records.reasons import sentence_of
from fedica.records.scores import Refinement
from fedica.records.trust import Trust
from fedica.records.wordings import Numbers
from fedica.text import MAX_PATH, MAX_SENTENCE, counted, show_text, show_values


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
    kind : str
        Why, in a word: one of `fedica.records.wordings.KINDS`, or the kind of the error that was raised. "": not known.
    numbers : mapping
        What the sentence says, by name.
    """

    client: str
    reason: str
    source: str = ""
    kind: str = ""
    numbers: Numbers = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Make every text printable and short: it is another's, and a result holds thousands of them."""
        set_fields(
            self,
            client=show_text(self.client),
            reason=show_text(self.reason, MAX_SENTENCE),
            source=show_text(self.source, MAX_PATH),
            numbers=show_values(self.numbers),
        )

    @classmethod
    def because(cls, client: str, kind: str, source: str = "", /, **numbers: Any) -> Rejection:
        """Return a rejection of one of `fedica.records.wordings.KINDS`; its sentence is made from the numbers."""
        shown = show_values({"client": client, **numbers})
        return cls(client, sentence_of(kind, shown), source, kind, numbers)

    @classmethod
    def of_error(cls, client: str, error: FedicaError, source: str = "", *, before: str = "") -> Rejection:
        """Return the rejection that an error means: its sentence, after ``before``, with its kind and numbers."""
        return cls(client, f"{before}{error}", source, error.kind, error.numbers)

    def error(self, before: str = "") -> ContributionError:
        """Return the error that says the same, after ``before``."""
        return ContributionError(f"{before}{self.reason}", self.client, kind=self.kind, numbers=self.numbers)


@dataclass(frozen=True)
class Terms:
    """What the admitted contributions agree on. ``None``: nobody declared it.

    Parameters
    ----------
    n_features : int
        d, the length of each atom.
    features : tuple of str, optional
        Names of the features.
    independence, mixing, study, grid : str, optional
        As in `Contribution`.
    """

    n_features: int
    features: tuple[str, ...] | None = None
    independence: str | None = None
    mixing: str | None = None
    study: str | None = None
    grid: str | None = None


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

    def renumbered(self, order: IntArray) -> Certificate:
        """Return the same with component ``order[a]`` in place a. order : (r,)."""
        return replace(self, median_gap=self.median_gap[order])

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
        All atoms, side by side, as admitted; of an `AtomArray` its own array, not a copy. Of contributions too many for
        the memory they stay in a temporary file, and are read by an index, ``atoms[:, [4, 5]]``, or ``np.asarray``.
    terms : Terms
        What the clients agree on.
    certificate : Certificate, optional
        How near the optimum the grouping and the medians are.
    weighted_support : ndarray of shape (r,), optional
        How many clients count in each component: have an atom in it whose weight is not negligible. ``None`` for
        results of fedica 0.1.0, which did not tell.
    replicates : ndarray of shape (r,), optional
        Whether each component replicates across clients. ``None`` where that was not tested, or clients are too few.
    explained_variance : ndarray of shape (K, r), optional
        Share of each client's variance that each component explains, of the variance that its strengths tell; NaN for
        clients without strengths. ``None`` where nobody sent strengths.
    refinement : Refinement, optional
        What second messages changed in ``mixing`` and ``centres``; labels, support and trust stay those of the first.
    """

    mixing: Array = field(metadata=READONLY)
    centres: Array = field(metadata=READONLY)
    labels: IntArray = field(metadata=READONLY)
    signs: Array = field(metadata=READONLY)
    clients: tuple[str, ...]
    client_of_atom: IntArray = field(metadata=READONLY)
    spectrum: Array = field(metadata=READONLY)
    support: IntArray = field(metadata=READONLY)
    spread: Array = field(metadata=READONLY)
    trust: Trust | None
    rejected: tuple[Rejection, ...]
    method: str
    options: Mapping[str, Any] = field(metadata=checked(lambda options, _: dict(options)))
    _: KW_ONLY
    atoms: Array = field(metadata=READONLY)
    terms: Terms
    certificate: Certificate | None = None
    weighted_support: IntArray | None = field(default=None, metadata=READONLY)
    replicates: BoolArray | None = field(default=None, metadata=READONLY)
    explained_variance: Array | None = field(default=None, metadata=READONLY)
    refinement: Refinement | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def n_components(self) -> int:
        """r: how many components."""
        return int(self.mixing.shape[1])

    @property
    def scale(self) -> Array | None:
        """The standard deviation of each source, (r,), once second messages have told it."""
        return None if self.refinement is None else self.refinement.scale

    @property
    def explained_in_all(self) -> Array | None:
        """Mean of ``explained_variance`` over the clients that sent strengths and are not outlying, (r,)."""
        if self.explained_variance is None:
            return None
        told = np.isfinite(self.explained_variance).all(axis=1)
        if self.trust is not None:
            told &= np.array(self.trust.verdict) != "outlying"
        return self.explained_variance[told].mean(axis=0) if told.any() else None

    @property
    def degenerate(self) -> IntArray:
        """Components whose centre has a norm near zero: their direction means nothing."""
        return np.flatnonzero(np.linalg.norm(self.centres, axis=0) < 1e-6)

    def renumbered(self, order: IntArray, signs: Array) -> Aggregate:
        """Return the same with its components in another order and with other signs.

        Parameters
        ----------
        order : ndarray of shape (r,)
            Component ``order[a]`` becomes component a.
        signs : ndarray of shape (r,)
            Component a is then multiplied by ``signs[a]``, +1 or -1.

        Returns
        -------
        Aggregate
            The same result.
        """
        rank = np.append(np.argsort(order), -1)  # the last entry keeps the label -1
        labels = rank[self.labels]
        return replace(
            self,
            mixing=self.mixing[:, order] * signs,
            centres=self.centres[:, order] * signs,
            labels=labels,
            signs=self.signs * np.append(signs, 1.0)[labels],
            support=self.support[order],
            spread=self.spread[order],
            trust=None if self.trust is None else self.trust.renumbered(order),
            certificate=None if self.certificate is None else self.certificate.renumbered(order),
            weighted_support=None if self.weighted_support is None else self.weighted_support[order],
            replicates=None if self.replicates is None else self.replicates[order],
            explained_variance=None if self.explained_variance is None else self.explained_variance[:, order],
            refinement=None if self.refinement is None else self.refinement.renumbered(order),
        )

    def transform(self, X: ArrayLike) -> Array:
        """Recover sources of data with the global mixing matrix, by least squares.

        Parameters
        ----------
        X : array-like of shape (n_samples, d)
            Data with the features of the aggregate, in their order and in the units and scales of its study.

        Returns
        -------
        S : ndarray of shape (n_samples, r)
            The sources of the centred data, each of variance one in it, as `LocalICA.transform` and
            `FederatedICA.transform` give them for general mixing. A component whose atoms cancel has sources of zero.
        """
        data = check_finite_matrix(X, "data", "(n_samples, n_features)")
        if data.shape[1] != self.mixing.shape[0]:
            raise DataError(
                f"data has {data.shape[1]} features; the aggregate has {self.mixing.shape[0]}. Give its features, in "
                "its order."
            )
        sources = (data - data.mean(axis=0)) @ np.linalg.pinv(self.mixing).T
        deviation = sources.std(axis=0)
        return np.asarray(sources / np.where(deviation > 0, deviation, 1.0))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: components, and the clients in doubt."""
        return aggregate_html(self)

    def __repr__(self) -> str:
        d, r = self.mixing.shape
        lines = [
            f"Aggregate by {self.method!r}: {counted(r, 'component')} of {d} features "
            f"from {counted(len(self.clients), 'client')} ({counted(self.labels.size, 'atom')})"
        ]
        lines += [
            f"  component {a}: {counted(int(self.support[a]), 'client')}, median angle {self.spread[a]:.2f} degrees"
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
