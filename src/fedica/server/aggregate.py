"""Algorithm 1 on one page: all contributions in, one global mixing matrix out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, IntArray, RandomState, check_choice, check_int, fix_signs, generator, pick, unit
from fedica.errors import GroupingError
from fedica.records import Aggregate, Certificate, Contribution
from fedica.server.admit import Admitted, admit
from fedica.server.clusters import check_no_empty, kmeans
from fedica.server.embedding import EMBEDDINGS
from fedica.server.median import geometric_medians
from fedica.server.naive import index_in_client, naive_centres
from fedica.server.signs import align_signs
from fedica.server.weights import WEIGHTS, client_weights

AFFINITIES = ("auto", *EMBEDDINGS)


@dataclass(frozen=True)
class Options:
    """What the methods may tune; ``affinity`` is settled, never "auto"."""

    affinity: str
    weights: str | None
    n_init: int
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method finds: raw centres (d, r), label and sign of every atom, the spectrum, and the proofs."""

    centres: Array
    labels: IntArray
    signs: Array
    spectrum: Array
    certificate: Certificate


def aggregate(
    contributions: Iterable[Contribution],
    n_components: int | None = None,
    *,
    method: str = "srf-ica",
    affinity: str = "auto",
    weights: str | None = None,
    n_init: int = 10,
    on_bad: str = "raise",
    random_state: RandomState = 0,
) -> Aggregate:
    """Work out which atom of which client is which component, fix signs, and take a robust centre of each group.

    Parameters
    ----------
    contributions : iterable of Contribution
        One per client. Their order does not matter.
    n_components : int
        r, the number of components.
    method : {"srf-ica", "srf-ica-noalignment", "sf-ica", "naive-mean", "naive-median"}
        Algorithm 1 of the paper, or one of those it is compared with.
    affinity : {"auto", "absolute", "squared"}
        How alike two atoms are: the paper's absolute inner product, or its square, which needs time linear in the
        number of atoms. "auto" is "absolute".
    weights : {None, "samples"}
        Whether a client with more declared samples weighs more; none weighs more than the median client.
    n_init : int
        Random starts of k-means.
    on_bad : {"raise", "reject"}
        What to do with a contribution that does not fit the others: stop, or go on without it and say so.
    random_state : int, RandomState, Generator or None
        Seed of the random starts.

    Returns
    -------
    Aggregate
        The global mixing matrix, and all there is to know about how it came about.

    References
    ----------
    .. [1] D. Jin, X. Bing, Y. Zhang, "One-shot Robust Federated Learning of Independent Component Analysis".

    Examples
    --------
    Example 1 of the paper: three clients, each of which sees two of three components, in its own order and with its own
    signs.

    >>> import numpy as np
    >>> from fedica import Contribution, aggregate
    >>> A = np.linalg.qr([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])[0]
    >>> result = aggregate(
    ...     [
    ...         Contribution("client-1", np.column_stack([A[:, 1], -A[:, 0]]), 1000),
    ...         Contribution("client-2", np.column_stack([-A[:, 2], A[:, 1]]), 1000),
    ...         Contribution("client-3", np.column_stack([A[:, 2], A[:, 0]]), 1000),
    ...     ],
    ...     3,
    ... )
    >>> np.round(np.abs(A.T @ result.mixing).max(axis=0), 6)  # every component found, up to order and sign
    array([1., 1., 1.])
    >>> result.support
    array([2, 2, 2])
    """
    run = pick(method, "method", METHODS)
    options = Options(
        affinity=_settle(check_choice(affinity, "affinity", AFFINITIES)),
        weights=None if weights is None else check_choice(weights, "weights", WEIGHTS),
        n_init=check_int(n_init, "n_init", minimum=1),
        rng=generator(random_state),
    )
    admitted = admit(contributions, on_bad=on_bad)
    r = check_int(n_components, "n_components", minimum=1)
    n_atoms = admitted.client_of_atom.size
    if n_atoms < r:
        raise GroupingError(
            f"{r} components were wanted, but the {len(admitted.clients)} clients sent {n_atoms} atoms in all. "
            f"Ask for n_components={n_atoms} or fewer, or add clients."
        )
    outcome = run(admitted, r, options)
    taken = {"n_components": r, "affinity": options.affinity, "weights": weights, "n_init": n_init}
    return _sorted_aggregate(admitted, outcome, method, taken)


def _spectral(centre: str, align: bool) -> Callable[[Admitted, int, Options], Outcome]:
    """Algorithm 1, or an ablation of it: steps 1 to 6, one a line."""

    def run(admitted: Admitted, r: int, options: Options) -> Outcome:
        atoms = admitted.atoms  # (d, R): step 1
        embedding = EMBEDDINGS[options.affinity](atoms, r)  # Eqs. (9)-(10): steps 2 and 3
        clusters = kmeans(embedding.points, r, n_init=options.n_init, rng=options.rng)  # Eq. (11): step 4
        labels = clusters.labels
        signs = align_signs(atoms, labels, r) if align else np.ones(labels.size)  # Eq. (14): step 5
        weights = client_weights(admitted.n_samples, options.weights)[admitted.client_of_atom]
        if centre == "median":
            medians = geometric_medians(atoms * signs, labels, r, weights=np.sqrt(weights))  # Eq. (16): step 6
            centres, gap = medians.centres, medians.gap
        else:
            centres, gap = group_means(atoms * signs, labels, r, weights), np.zeros(r)  # Eq. (15)
        certificate = Certificate(clusters.objective, clusters.lower_bound, gap)
        return Outcome(centres, labels, signs, embedding.spectrum, certificate)

    return run


def _naive(combine: Callable[..., Array]) -> Callable[[Admitted, int, Options], Outcome]:
    """Combine columns by their index: no grouping, no alignment."""

    def run(admitted: Admitted, r: int, options: Options) -> Outcome:
        labels = index_in_client(admitted.client_of_atom, r)
        check_no_empty(labels, r)
        centres = naive_centres(admitted.atoms, labels, r, combine)
        return Outcome(centres, labels, np.ones(labels.size), np.zeros(0), Certificate(None, None, np.zeros(r)))

    return run


METHODS: dict[str, Callable[[Admitted, int, Options], Outcome]] = {
    "srf-ica": _spectral("median", align=True),
    "srf-ica-noalignment": _spectral("median", align=False),
    "sf-ica": _spectral("mean", align=True),
    "naive-mean": _naive(np.mean),
    "naive-median": _naive(np.median),
}


def group_means(points: Array, labels: IntArray, n_groups: int, weights: Array) -> Array:
    """Weighted mean of every group, Eq. (15). points : (d, R); result : (d, r)."""
    member = np.zeros((labels.size, n_groups))
    grouped = np.flatnonzero(labels >= 0)
    member[grouped, labels[grouped]] = weights[grouped]
    return np.asarray((points @ member) / member.sum(axis=0))


def _sorted_aggregate(admitted: Admitted, found: Outcome, method: str, taken: dict[str, object]) -> Aggregate:
    """Put the components in their order (support, then spread) and sign (largest entry positive)."""
    r = found.centres.shape[1]
    mixing, flips = fix_signs(unit(found.centres))
    labels = found.labels
    cosine = np.abs(np.einsum("dR,dR->R", admitted.atoms, mixing[:, labels]))
    angle = np.degrees(np.arccos(np.minimum(cosine, 1.0)))
    spread = np.array([np.median(angle[labels == a]) for a in range(r)])
    support = np.array([np.unique(admitted.client_of_atom[labels == a]).size for a in range(r)])

    order = np.lexsort((spread, -support))
    rank = np.append(np.argsort(order), -1)  # the last entry keeps the label -1
    return Aggregate(
        mixing=mixing[:, order],
        centres=(found.centres * flips)[:, order],
        labels=rank[labels],
        signs=found.signs * np.append(flips, 1.0)[labels],
        clients=admitted.clients,
        client_of_atom=admitted.client_of_atom,
        spectrum=found.spectrum,
        support=support[order],
        spread=spread[order],
        trust=None,
        rejected=admitted.rejected,
        method=method,
        options=taken,
        atoms=admitted.atoms,
        terms=admitted.terms,
        certificate=replace(found.certificate, median_gap=found.certificate.median_gap[order]),
    )


def _settle(affinity: str) -> str:
    return "absolute" if affinity == "auto" else affinity
