"""A client's second message: averages of its sources at the global matrix, from which the server takes a Newton step.

(R1) y = B^+ (x - mean) / scale;  C = E[y y'],  G = E[g(y) y'],  h = E[g'(y)],  g = tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import iadd
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinv

from fedica.arrays import NEAR_ZERO, Array, IntArray, check_data
from fedica.blocks import KEEP_BYTES, Blocks, Parts, add, is_lazy, rows_of
from fedica.errors import DataError, OptionError
from fedica.ica import Scatter, merge_scatters, not_finite_error, scatter_of
from fedica.records import GlobalMatrix, Scores, fingerprint
from fedica.records.checks import check_indices
from fedica.threads import threads_for_blocks

ABSENT = 1e-9
"""A source whose standard deviation is below this share of the largest one is not in the data."""


def score(
    X: Any,
    result: GlobalMatrix,
    *,
    client: str,
    components: Sequence[int] | None = None,
    features: Sequence[str] | None = None,
) -> Scores:
    """Average what a Newton step of ICA at the global matrix needs to know of one client's data.

    No fit of its own is needed, and no minimum of samples: the averages of clients that are too small to fit an ICA add
    up to those of their pooled data.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), iterable of blocks, or Dask array
        The client's data; read once, block by block, while the sources are kept. Where these have more than 2^25
        numbers (256 MB), it is read a second time instead.
    result : Aggregate or PublicAggregate
        What came back from the server; independence over samples.
    client : str
        Name of the client, as in its contribution.
    components : sequence of int, optional
        Which components the client has; by default all that vary in its data.
    features : sequence of str, optional
        Names of the columns of X, if they are not all features of the aggregate in its order.

    Returns
    -------
    Scores
        For `fedica.refine`.

    Raises
    ------
    DataError
        If X is not finite, has other features, or too few of them to tell the components apart.
    OptionError
        If the aggregate is of spatial ICA, or the components are not among its own.

    Examples
    --------
    >>> import numpy as np
    >>> from fedica import FederatedICA, refine, score
    >>> rng = np.random.default_rng(2)
    >>> X, clients = rng.laplace(size=(4000, 3)) @ rng.standard_normal((3, 3)), np.arange(4000) % 40
    >>> result = FederatedICA(n_components=3, random_state=0).fit(X, groups=clients).aggregate_
    >>> second = [score(X[clients == k], result, client=str(k)) for k in range(40)]
    >>> second[0]
    Scores('0': 3 components, 100 samples)
    >>> refine(result, second).refinement.taken
    True
    """
    return score_at(X, _rows_of_mixing(result, features), result, client=client, components=components)


def score_at(
    X: Any, mixing: Array, result: GlobalMatrix, *, client: str, components: Sequence[int] | None = None
) -> Scores:
    """Score data at the rows (d_k, r) of the global matrix that its columns belong to; otherwise as `score`."""
    if result.terms.independence == "features":
        raise OptionError(
            "a second message refines components that are independent over samples; those of this aggregate are "
            "independent over features (spatial ICA). Its first answer stands."
        )
    blocks = rows_of(X if is_lazy(X) or _is_number_table(X) else check_data(X))
    if mixing.shape[0] != blocks.n_features:
        raise DataError(
            f"data has {blocks.n_features} features; {mixing.shape[0]} were expected, those of the aggregate. Give "
            "these features, in this order."
        )
    labels, unmixing = _components_of(mixing, components)
    with threads_for_blocks():
        seen, sources_of = _keep_sources(blocks, unmixing)
        sources = _source_scatter(seen, sources_of, len(labels))
        deviations = np.sqrt(np.diagonal(sources.matrix) / sources.n_samples)
        if not np.isfinite(deviations).all() or not np.isfinite(sources.mean).all():
            raise not_finite_error(blocks)
        kept = np.flatnonzero(deviations > ABSENT * deviations.max())
        if not kept.size:
            raise DataError(f"client {client!r}: its data does not vary along any component of the aggregate.")
        labels = labels[kept]
        common = np.full(mixing.shape[1], np.nan) if result.scale is None else np.asarray(result.scale)
        scale = np.where(np.isnan(common[labels]), deviations[kept], common[labels])
        products, slopes = _score_sums(seen, sources_of, kept, sources.mean[kept], scale)
    n = blocks.n_samples
    return Scores(
        client,
        fingerprint(result.mixing, result.scale),
        n,
        labels.tolist(),
        scale,
        covariance=sources.matrix[np.ix_(kept, kept)] / n / np.outer(scale, scale),
        products=products / n,
        slopes=slopes / n,
        study=result.terms.study,
    )


def _is_number_table(X: object) -> bool:
    """Whether X is an array, in memory or in a mapped file, that is read by blocks as it is."""
    if not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray):
        return False
    return X.ndim == 2 and X.dtype.kind in "fiub" and min(X.shape) > 0


def _rows_of_mixing(result: GlobalMatrix, features: Sequence[str] | None) -> Array:
    """Return the global matrix on the features of the data, in the order of its columns."""
    mixing, known = result.mixing, result.terms.features
    if features is not None and known is not None:
        rows = {name: row for row, name in enumerate(known)}
        foreign = [name for name in features if name not in rows]
        if foreign:
            raise DataError(f"the aggregate has no feature {foreign[0]!r}. Leave that column out.")
        mixing = mixing[[rows[name] for name in features]]
    return mixing


def _components_of(mixing: Array, components: Sequence[int] | None) -> tuple[IntArray, Array]:
    """Return the components to score, those asked for or all that have a direction, and their unmixing matrix."""
    r = mixing.shape[1]
    labels = np.flatnonzero(np.linalg.norm(mixing, axis=0) > NEAR_ZERO)
    if components is not None:
        labels = np.array(check_indices(components, "components") or (), dtype=np.int64)
        if not labels.size or labels[-1] >= r:
            raise OptionError(f"components must be some of 0 to {r - 1}; got {list(components)[:20]}.")
    unmixing, rank = pinv(mixing[:, labels], return_rank=True)
    if rank < labels.size:
        raise DataError(
            f"{mixing.shape[0]} features cannot tell {labels.size} components apart. Say with components which of them "
            "the client has."
        )
    return labels, np.asarray(unmixing, dtype=np.float64)


SourcesOf = Callable[[NDArray[Any]], Array]
"""From a block of what is seen to the sources of its samples before they are centred and scaled, (b, m)."""


def _keep_sources(blocks: Blocks, unmixing: Array) -> tuple[Blocks, SourcesOf]:
    """Read the data once and keep its sources, unless they are too many; return what to go over, twice, and how."""

    def sources_of(block: NDArray[Any]) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports what is not finite
            return np.asarray(np.asarray(block, dtype=np.float64) @ unmixing.T)

    if 8 * blocks.n_samples * len(unmixing) > KEEP_BYTES:
        return blocks, sources_of
    work = 2.0 * blocks.n_features * len(unmixing) * blocks.n_samples
    pieces = blocks.parts(lambda block: [sources_of(block)], merge=iadd, work=work)
    return rows_of(np.concatenate([piece for some in pieces for piece in some])), np.asarray


def _source_scatter(blocks: Blocks, sources_of: SourcesOf, m: int) -> Scatter:
    """Sum mean and scatter of the sources before they are scaled, (m,) and (m, m)."""

    def of_block(block: NDArray[Any]) -> Scatter:
        with np.errstate(over="ignore", invalid="ignore"):
            return scatter_of(sources_of(block))

    return blocks.total(of_block, merge=merge_scatters, work=2.0 * (blocks.n_features + m) * m * blocks.n_samples)


def _score_sums(
    blocks: Blocks, sources_of: SourcesOf, kept: IntArray, mean: Array, scale: Array
) -> tuple[Array, Array]:
    """Sum g(y) y' and g'(y) over the samples, for the sources that are kept: (m, m) and (m,)."""

    def of_block(block: NDArray[Any]) -> Parts:
        sources = sources_of(block)
        y = (sources if kept.size == sources.shape[1] else sources[:, kept]) - mean
        y /= scale
        g = np.tanh(y)
        return g.T @ y, np.asarray(len(g) - np.einsum("ij,ij->j", g, g))  # (R1)

    work = 2.0 * (blocks.n_features + kept.size + 10) * kept.size * blocks.n_samples
    products, slopes = blocks.total(of_block, merge=add, work=work)
    return products, slopes
