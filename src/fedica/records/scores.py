"""What a client sends in a second message: how its sources score at the global matrix. And what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import numpy as np

from fedica.arrays import Array, IntArray, check_finite_matrix, readonly
from fedica.errors import ContributionError, InputError
from fedica.records import checks
from fedica.records.client_names import check_client
from fedica.records.fields import READONLY, check_fields, checked, set_fields

BOUND_TOL = 1e-6
"""How far sums of rounded numbers may exceed what sums of exact ones can be."""


class GlobalMatrix(Protocol):
    """What a client needs of an aggregate to score its sources: `Aggregate` and `PublicAggregate` have it."""

    @property
    def mixing(self) -> Array:
        """The global mixing matrix, (d, r)."""

    @property
    def terms(self) -> Any:
        """What the clients agree on, as `Terms`."""

    @property
    def scale(self) -> Array | None:
        """The standard deviation of each source, (r,), once a second message has told it."""


def fingerprint(mixing: Array, scale: Array | None = None) -> str:
    """Return the SHA-256 of a global matrix and of the scale of its sources, in hexadecimal.

    It is taken over the bytes of each column and its scale, in little-endian float64. mixing : (d, r); scale : (r,), if
    the aggregate tells it.
    """
    return fingerprints(mixing, scale)[-1]


def fingerprints(mixing: Array, scale: Array | None = None) -> list[str]:
    """Return the fingerprints of the first 1, 2, ... r columns: the public part of an aggregate has the first ones."""
    digest, prints = hashlib.sha256(), []
    for a in range(mixing.shape[1]):
        digest.update(np.ascontiguousarray(mixing[:, a], dtype="<f8").tobytes())
        if scale is not None:
            digest.update(np.ascontiguousarray(scale[a], dtype="<f8").tobytes())
        prints.append(digest.hexdigest())
    return prints


def check_fingerprint(value: object, what: str) -> str:
    """Return the fingerprint of an aggregate: 64 hexadecimal digits."""
    text = str(value)
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise InputError(f"{what} must be 64 hexadecimal digits, the fingerprint of an aggregate; got {text!r:.80}.")
    return text


def _check_vector(values: object, what: str) -> Array:
    return readonly(check_finite_matrix(np.atleast_2d(np.asarray(values)), what, "(n_components,)")[0])


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Averages over one client's samples at the global matrix B: what a Newton step of ICA needs to know of them.

    The sources are y = B^+ (x - mean) / scale, for the components that the client has; g = tanh.

    Parameters
    ----------
    client : str
        Name of the client; unique in a federation.
    refines : str
        Fingerprint of the aggregate whose matrix is B: see `fedica.records.fingerprint`.
    n_samples : int
        How many samples the averages are over.
    components : sequence of int
        Which components of the aggregate they are of, ascending; m of them.
    scale : array-like of shape (m,)
        What each source was divided by: its own standard deviation, or the common one if the aggregate tells it.
    covariance : array-like of shape (m, m)
        E[y y'].
    products : array-like of shape (m, m)
        E[g(y) y']: entry (i, j) is the average of g(y_i) y_j.
    slopes : array-like of shape (m,)
        E[g'(y)].
    study : str, optional
        Id of the study.
    serial : int, optional
        Number of this message among those of the same client for the same aggregate.

    Raises
    ------
    ContributionError
        If a number cannot be an average of this kind; the sentence names the client.
    """

    client: str
    refines: str = field(metadata=checked(check_fingerprint))
    n_samples: int = field(metadata=checked(checks.check_positive))
    components: Sequence[int] = field(metadata=checked(lambda value, what: checks.check_indices(value, what) or ()))
    scale: Array = field(metadata=checked(_check_vector))
    covariance: Array = field(metadata=checked(checks.check_gram))
    products: Array = field(
        metadata=checked(lambda value, what: readonly(check_finite_matrix(value, what, "(n_components, n_components)")))
    )
    slopes: Array = field(metadata=checked(_check_vector))
    _: KW_ONLY
    study: str | None = field(default=None, metadata=checked(checks.check_name))
    serial: int | None = field(default=None, metadata=checked(checks.check_natural))

    def __post_init__(self) -> None:
        try:
            set_fields(self, client=check_client(self.client, "a client's name"))
            who = f"client {self.client!r}: "
            check_fields(self, who)
            self._check_sizes(who)
            self._check_bounds(who)
        except InputError as error:
            raise ContributionError(str(error), str(self.client)) from error

    def _check_sizes(self, who: str) -> None:
        m = len(self.components)
        shapes = [(m,), (m, m), (m, m), (m,)]
        got = [array.shape for array in (self.scale, self.covariance, self.products, self.slopes)]
        if m == 0 or got != shapes:
            raise InputError(
                f"{who}scale, covariance, products and slopes of {m} components must have shapes {shapes}; got {got}."
            )

    def _check_bounds(self, who: str) -> None:
        """Refuse what no samples can give: g is between -1 and 1, and g' between 0 and 1."""
        deviations = np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))
        if not (self.scale > 0).all():
            raise InputError(f"{who}scale must be positive; got {self.scale.min():g}.")
        if (np.abs(self.products) > (1 + BOUND_TOL) * deviations + BOUND_TOL).any():
            raise InputError(
                f"{who}products must be averages of tanh(y_i) y_j, none of them above the standard deviation of y_j; "
                f"got {np.abs(self.products).max():g}."
            )
        if self.slopes.min() < -BOUND_TOL or self.slopes.max() > 1 + BOUND_TOL:
            raise InputError(
                f"{who}slopes must be averages of 1 - tanh(y)^2, from 0 to 1; got {self.slopes.min():g} to "
                f"{self.slopes.max():g}."
            )

    def __repr__(self) -> str:
        return f"Scores({self.client!r}: {len(self.components)} components, {self.n_samples} samples)"


@dataclass(frozen=True, eq=False)
class Refinement:
    """What second messages changed.

    Parameters
    ----------
    round : int
        How many messages each client has sent so far: 2 after the first refinement.
    refines : str
        Fingerprint of the aggregate that was refined.
    taken : bool
        Whether the matrix was changed.
    reason : str
        Why it was, or was not.
    turned : ndarray of shape (r,)
        By how many degrees each component turned.
    scale : ndarray of shape (r,), optional
        Standard deviation of each source, if clients agree on it: what the sources are divided by in the next round.
    counted : tuple of str
        The clients whose statistics the step was taken from.
    left_out : tuple of str
        Clients whose second message does not fit the others', or whose first one was outlying.
    """

    round: int
    refines: str
    taken: bool
    reason: str
    turned: Array = field(metadata=READONLY)
    scale: Array | None = field(metadata=READONLY)
    counted: tuple[str, ...]
    left_out: tuple[str, ...]

    def __post_init__(self) -> None:
        check_fields(self)

    def renumbered(self, order: IntArray) -> Refinement:
        """Return the same with component ``order[a]`` in place a. order : (r,)."""
        scale = None if self.scale is None else self.scale[order]
        values = {**vars(self), "turned": self.turned[order], "scale": scale}
        return Refinement(**values)
