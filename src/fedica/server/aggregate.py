"""Algorithm 1 on one page: all contributions in, one global mixing matrix out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, IntArray, RandomState, check_choice, check_int, fix_signs, generator, pick, polar, unit
from fedica.errors import GroupingError
from fedica.records import Aggregate, AtomArray, Certificate, Contribution
from fedica.server.admit import Admitted, admit
from fedica.server.assign import Relative, standing_of
from fedica.server.choose_n_components import choose_components
from fedica.server.clusters import check_no_empty, kmeans
from fedica.server.consensus import SAMPLE, find_consensus, group_means
from fedica.server.embedding import EMBEDDINGS, Embedding
from fedica.server.group_medians import group_medians
from fedica.server.median import geometric_medians
from fedica.server.naive import index_in_client, naive_centres
from fedica.server.sampling import draw_clients
from fedica.server.signs import align_signs
from fedica.server.trust import angles_to, assess, matches
from fedica.server.weights import WEIGHTS, client_weights
from fedica.threads import threads_for_blocks

AFFINITIES = ("auto", *EMBEDDINGS)
MOST_ABSOLUTE = 50_000
"""Atoms up to which "auto" takes the paper's affinity: half a minute; ten times as many would take an hour."""


@dataclass(frozen=True)
class Options:
    """What the methods may tune; ``affinity`` is settled, not "auto", before a method sees it."""

    affinity: str
    weights: str | None
    n_init: int
    seed: int | None
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method finds.

    Raw centres (d, r); label, sign and weight of every atom; the embedding, if there is one, and the proofs; and where
    every atom stands relative to the centres.
    """

    centres: Array
    labels: IntArray
    signs: Array
    weights: Array
    embedding: Embedding | None
    certificate: Certificate
    standing: Relative


def aggregate(
    contributions: Iterable[Contribution] | AtomArray,
    n_components: int | None = None,
    *,
    method: str = "consensus",
    affinity: str = "auto",
    weights: str | None = None,
    n_init: int = 10,
    on_bad: str = "raise",
    random_state: RandomState = 0,
) -> Aggregate:
    """Work out which atom of which client is which component, fix signs, and take a robust centre of each group.

    Parameters
    ----------
    contributions : iterable of Contribution, or AtomArray
        One per client. Their order does not matter. Memory is bounded: of an iterable that is no list, such as one that
        reads files, the atoms go to a temporary file when they are many; an `AtomArray` may be a memory-mapped file, or
        lie on a cluster, and is read by blocks.
    n_components : int, optional
        r, the number of components. By default what most clients agree on, or else the gap in the spectrum; components
        that fewer than two clients support are then dropped.
    method : {"consensus", "srf-ica", "srf-ica-noalignment", "sf-ica", "naive-mean", "naive-median"}
        Ours, which survives hostile clients; Algorithm 1 of the paper to the letter; or what the paper sets beside it.
    affinity : {"auto", "absolute", "squared"}
        How alike two atoms are: the paper's absolute inner product, in time that grows with the square of the number of
        atoms; or its square, in linear time. "auto" is "squared" for "consensus", and for the paper's methods
        "absolute" up to 50,000 atoms, "squared" beyond. ``options`` of the result says which it was.
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
    check_choice(affinity, "affinity", AFFINITIES)
    options = Options(
        affinity=affinity,
        weights=None if weights is None else check_choice(weights, "weights", WEIGHTS),
        n_init=check_int(n_init, "n_init", minimum=1),
        seed=int(random_state) if isinstance(random_state, int | np.integer) else None,
        rng=generator(random_state),
    )
    if n_components is not None:
        check_int(n_components, "n_components", minimum=1)
    admitted = admit(contributions, on_bad=on_bad)
    if affinity == "auto":
        few = admitted.client_of_atom.size <= MOST_ABSOLUTE
        options = replace(options, affinity="absolute" if few and method != "consensus" else "squared")
    with threads_for_blocks():
        if n_components is not None:
            return _run(run, admitted, (n_components, "given"), method, options)
        chosen = choose_components(admitted, n_init=n_init, rng=options.rng)
        result = _run(run, admitted, chosen, method, options)
        n_supported = int((result.support >= 2).sum())
        if 0 < n_supported < result.n_components and len(admitted.clients) > 1:
            result = _run(run, admitted, (n_supported, "support"), method, options)  # one client alone is no support
        return result


def _run(
    run: Callable[[Admitted, int, Options], Outcome],
    admitted: Admitted,
    chosen: tuple[int, str],
    method: str,
    options: Options,
) -> Aggregate:
    """Aggregate the admitted atoms into a known number of components."""
    r, source = chosen
    n_atoms = admitted.client_of_atom.size
    if r > admitted.terms.n_features:
        raise GroupingError(
            f"{r} components were wanted, but the atoms have {admitted.terms.n_features} features: no ICA finds more "
            f"components than features. Ask for n_components={admitted.terms.n_features} or fewer."
        )
    if n_atoms < r:
        raise GroupingError(
            f"{r} components were wanted, but the {len(admitted.clients)} clients sent {n_atoms} atoms in all. "
            f"Ask for n_components={n_atoms} or fewer, or add clients."
        )
    taken = {
        "n_components": r,
        "n_components_from": source,
        "affinity": options.affinity,
        "weights": options.weights,
        "n_init": options.n_init,
        "random_state": options.seed,  # with it the run can be repeated; None: only whoever holds the generator can
    }
    return _sorted_aggregate(admitted, run(admitted, r, options), method, taken)


def _spectral(centre: str, align: bool) -> Callable[[Admitted, int, Options], Outcome]:
    """Algorithm 1, or an ablation of it: steps 1 to 6, one a line."""

    def run(admitted: Admitted, r: int, options: Options) -> Outcome:
        atoms, owner = admitted.atoms, admitted.client_of_atom  # (d, R): step 1
        embedding = EMBEDDINGS[options.affinity](atoms, r)  # Eqs. (9)-(10): steps 2 and 3
        sample = draw_clients(atoms, owner, options.rng).sample(SAMPLE)
        clusters = kmeans(embedding.points.kept(), r, n_init=options.n_init, rng=options.rng, sample=sample)  # Eq. (11)
        labels = clusters.labels  # step 4
        signs = align_signs(atoms, labels, r) if align else np.ones(labels.size)  # Eq. (14): step 5
        weights = client_weights(admitted.n_samples, options.weights)[owner]
        if centre == "median":
            medians = geometric_medians(atoms, labels, r, signs=signs, weights=np.sqrt(weights))  # Eq. (16): step 6
            centres, gap = medians.centres, medians.gap
            weights = np.sqrt(weights) / np.maximum(medians.distance, 1e-9)  # the median is the mean with these weights
        else:
            centres, gap = group_means(atoms, signs, labels, weights, r), np.zeros(r)  # Eq. (15)
        certificate = Certificate(clusters.objective, clusters.lower_bound, gap)
        standing = standing_of(atoms, owner, unit(centres))
        return Outcome(centres, labels, signs, weights, embedding, certificate, standing)

    return run


def _naive(combine: Callable[..., Array]) -> Callable[[Admitted, int, Options], Outcome]:
    """Combine columns by their index: no grouping, no alignment."""

    def run(admitted: Admitted, r: int, options: Options) -> Outcome:
        labels = index_in_client(admitted.client_of_atom, r)
        check_no_empty(labels, r)
        centres = naive_centres(admitted.atoms, labels, r, combine)
        ones = np.ones(labels.size)
        standing = standing_of(admitted.atoms, admitted.client_of_atom, unit(centres))
        return Outcome(centres, labels, ones, ones, None, Certificate(None, None, np.zeros(r)), standing)

    return run


def _consensus(admitted: Admitted, r: int, options: Options) -> Outcome:
    """Algorithm 1, then what makes it survive hostile clients: see `fedica.server.consensus`."""
    found = find_consensus(
        admitted,
        r,
        client_weights(admitted.n_samples, options.weights),
        affinity=options.affinity,
        n_init=options.n_init,
        rng=options.rng,
    )
    centres = found.centres
    if admitted.terms.mixing == "orthogonal" and r <= admitted.atoms.shape[0]:
        centres = polar(unit(centres))
    standing = standing_of(admitted.atoms, admitted.client_of_atom, unit(centres))
    labels = np.where(matches(standing, found.weights, r), standing.labels, -1)
    check_no_empty(labels, r)
    certificate = Certificate(found.kmeans_objective, found.kmeans_lower_bound, np.zeros(r))
    return Outcome(centres, labels, standing.signs, found.weights, found.embedding, certificate, standing)


METHODS: dict[str, Callable[[Admitted, int, Options], Outcome]] = {
    "consensus": _consensus,
    "srf-ica": _spectral("median", align=True),
    "srf-ica-noalignment": _spectral("median", align=False),
    "sf-ica": _spectral("mean", align=True),
    "naive-mean": _naive(np.mean),
    "naive-median": _naive(np.median),
}


def _sorted_aggregate(admitted: Admitted, found: Outcome, method: str, taken: dict[str, object]) -> Aggregate:
    """Put components in their order (support, then spread) and sign (largest entry positive), and clients by name."""
    r = found.centres.shape[1]
    mixing, flips = fix_signs(unit(found.centres))
    labels = found.labels
    spread = group_medians(angles_to(admitted.atoms, mixing, labels), labels, r, empty=90.0)
    supports = np.zeros((len(admitted.clients), r + 1), dtype=bool)  # a client counts once; label -1 is the last column
    supports[admitted.client_of_atom, labels] = True
    support = supports[:, :r].sum(axis=0)

    order = np.lexsort((spread, -support))
    rank = np.append(np.argsort(order), -1)  # the last entry keeps the label -1
    norms = np.linalg.norm(found.centres, axis=0)
    flipped = np.append(flips, 1.0)
    standing = replace(
        found.standing,
        labels=rank[found.standing.labels],
        signs=found.standing.signs * flipped[found.standing.labels],
    )
    trust = assess(admitted, mixing[:, order], norms[order], found.weights, standing)
    by_name, place, atom_order = _by_name(admitted)
    return Aggregate(
        mixing=mixing[:, order],
        centres=(found.centres * flips)[:, order],
        labels=rank[labels][atom_order],
        signs=(found.signs * flipped[labels])[atom_order],
        clients=tuple(admitted.clients[k] for k in by_name),
        client_of_atom=place,
        spectrum=np.zeros(0) if found.embedding is None else found.embedding.spectrum,
        support=support[order],
        spread=spread[order],
        trust=trust.rows(by_name),
        rejected=admitted.rejected,
        method=method,
        options={**taken, "affinity_residual": 0.0 if found.embedding is None else found.embedding.residual},
        atoms=admitted.atoms.whole()[:, atom_order] if admitted.given is None else admitted.given,
        terms=admitted.terms,
        certificate=replace(found.certificate, median_gap=found.certificate.median_gap[order]),
    )


def _by_name(admitted: Admitted) -> tuple[IntArray, IntArray, IntArray | slice]:
    """Order of the clients by name; for each atom then, its client's place; and the order of the atoms."""
    names = admitted.clients
    if admitted.given is not None:  # very many atoms stay in their order
        return np.arange(len(names)), admitted.client_of_atom, slice(None)
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__))
    place = np.argsort(by_name)[admitted.client_of_atom]
    atom_order = np.argsort(place, kind="stable")
    return by_name, place[atom_order], atom_order
