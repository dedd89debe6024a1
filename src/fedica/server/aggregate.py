"""Algorithm 1 on one page: all contributions in, one global mixing matrix out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from fedica.arrays import IntArray, RandomState, check_choice, check_int, fix_signs, generator, unit
from fedica.blocks import draw_clients, group_medians, reordered
from fedica.errors import GroupingError
from fedica.records import Aggregate, AtomArray, Contribution
from fedica.server.admission import Admitted, admit
from fedica.server.agreement import angles_to
from fedica.server.centres import WEIGHTS, count_clients, count_weighted_clients
from fedica.server.choose_n_components import choose_components
from fedica.server.explained import explained_variance
from fedica.server.methods import AFFINITIES, METHOD_NAMES, Judgement, Method, Options, Outcome, settled_method
from fedica.server.replication import replicating_components
from fedica.server.trust import assess
from fedica.threads import threads_for_blocks


def aggregate(
    contributions: Iterable[Contribution] | AtomArray,
    n_components: int | None = None,
    *,
    method: str = "auto",
    affinity: str = "auto",
    weights: str | None = None,
    n_init: int = 10,
    on_bad: str = "raise",
    replication: bool = False,
    random_state: RandomState = 0,
) -> Aggregate:
    """Assign the atoms of all clients to components, align their signs, and take a robust centre of each group.

    Parameters
    ----------
    contributions : iterable of Contribution, or AtomArray
        One per client, in any order. Memory is bounded: the atoms of an iterable that is no list, such as one that
        reads files, go to a temporary file when they are many; an `AtomArray` may be a memory-mapped file, or lie on a
        cluster, and is read by blocks.
    n_components : int, optional
        r, the number of components. By default the number that most clients agree on, the gap in the spectrum, or the
        number that replicate; components are then dropped that one client supports alone, or fewer than half as many
        as support the typical one.
    method : {"auto", "consensus", "srf-ica", "srf-ica-noalignment", "sf-ica", "naive-mean", "naive-median", "group"}
        "auto" takes "group" for spatial contributions if more than half of the clients sent strengths, else
        "consensus"; ``method`` and ``options["method_because"]`` of the result say which, and why. The others: ours,
        which withstands hostile clients; Algorithm 1 of the paper to the letter; what the paper compares it with;
        or "group", for spatial contributions of clients that cannot separate the components alone: their spans are
        pooled, and one ICA finds the components. It uses the strengths that contributions may carry; those without
        count as plain projectors.
    affinity : {"auto", "absolute", "squared"}
        Of two atoms: the paper's absolute inner product, in time that grows with the square of the number of atoms; or
        its square, in linear time. "auto" is "squared" for "consensus", and for the paper's methods "absolute" up to
        50,000 atoms, "squared" beyond. ``options`` of the result holds the one used.
    weights : {None, "samples"}
        Whether a client with fewer declared samples than the median client weighs less; none weighs more.
    n_init : int
        Random starts of k-means.
    on_bad : {"raise", "reject"}
        What to do with a contribution that does not fit the others: raise an error, or leave it out and list it in
        ``rejected`` of the result.
    replication : bool
        Whether to test which components replicate across clients, for ``replicates`` of the result: each client is
        compared with the components of the half of the clients that it does not belong to. Takes about as long again.
        Nothing is tested where spans are pooled ("group").
    random_state : int, RandomState, Generator or None
        Seed of the random starts.

    Returns
    -------
    Aggregate
        The global mixing matrix, with labels, trust of each client, and how it was computed.

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
    check_choice(method, "method", METHOD_NAMES)
    check_choice(affinity, "affinity", AFFINITIES)
    if weights is not None:
        check_choice(weights, "weights", WEIGHTS)
    n_init = check_int(n_init, "n_init", minimum=1)
    if n_components is not None:
        check_int(n_components, "n_components", minimum=1)
    rng = generator(random_state)
    admitted = admit(contributions, on_bad=on_bad)
    chosen, because = settled_method(method, admitted.terms.independence, admitted.grams)
    options = Options(
        affinity=chosen.settled_affinity(affinity, admitted.client_of_atom.size),
        weights=weights,
        n_init=n_init,
        seed=int(random_state) if isinstance(random_state, int | np.integer) else None,
        rng=rng,
    )
    with threads_for_blocks():
        if n_components is None:
            result = _run_unknown(chosen, admitted, options)
        else:
            result = _run(chosen, admitted, options, n_components, "given")
        if replication and chosen.matches_atoms:
            found = replicating_components(admitted, result.mixing, n_init=n_init, rng=rng)
            result = replace(result, replicates=found)
    return result if because is None else replace(result, options={**result.options, "method_because": because})


def _run_unknown(method: Method, admitted: Admitted, options: Options) -> Aggregate:
    """Aggregate the admitted atoms into as many components as they show."""
    if method.choose is not None:
        return _run(method, admitted, options, method.choose(admitted, options), "shuffled")
    n_components, source = choose_components(admitted, n_init=options.n_init, rng=options.rng)
    result = _run(method, admitted, options, n_components, source)
    n_supported = int((result.support >= max(2.0, np.median(result.support) / 2)).sum())
    if 0 < n_supported < result.n_components and len(admitted.clients) > 1:  # one client alone is no support
        result = _run(method, admitted, options, n_supported, "support")
    return result


def _run(method: Method, admitted: Admitted, options: Options, r: int, source: str) -> Aggregate:
    """Aggregate the admitted atoms into r components. source : where the number r comes from."""
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
    options_used = {
        "n_components": r,
        "n_components_from": source,
        "affinity": options.affinity,
        "weights": options.weights,
        "n_init": options.n_init,
        "random_state": options.seed,  # None: a generator was given, so the run cannot be repeated
    }
    return _sorted_aggregate(admitted, method.run(admitted, r, options), method.name, options_used)


def _sorted_aggregate(admitted: Admitted, found: Outcome, method: str, options_used: dict[str, object]) -> Aggregate:
    """Put components in their order (support, then spread) and sign (largest entry positive), and clients by name."""
    mixing, labels = unit(found.centres), found.labels
    judged = found.judgement or _judge_by_atoms(admitted, found)
    by_name, place, atom_order = _by_name(admitted)
    result = Aggregate(
        mixing=mixing,
        centres=found.centres,
        labels=labels[atom_order],
        signs=found.signs[atom_order],
        clients=tuple(admitted.clients[k] for k in by_name),
        client_of_atom=place,
        spectrum=judged.spectrum,
        support=judged.support,
        spread=judged.spread,
        trust=judged.trust.rows(by_name),
        rejected=admitted.rejected,
        method=method,
        options={**options_used, **judged.options},
        atoms=_in_order(admitted, atom_order),
        terms=admitted.terms,
        certificate=found.certificate,
        weighted_support=judged.weighted_support,
        explained_variance=None if judged.explained_variance is None else judged.explained_variance[by_name],
    )
    order = np.lexsort((judged.spread, -judged.support))
    return result.renumbered(order, fix_signs(mixing)[1][order])


def _judge_by_atoms(admitted: Admitted, found: Outcome) -> Judgement:
    """Judge components and clients by the atoms of each group."""
    r, labels, owner, embedding = found.centres.shape[1], found.labels, admitted.client_of_atom, found.embedding
    drawn = found.drawn or draw_clients(admitted.atoms, owner, np.random.default_rng(0))
    return Judgement(
        trust=assess(admitted, found.centres, found.weights, found.assignment, drawn),
        support=count_clients(labels, owner, r),
        weighted_support=count_weighted_clients(labels, found.weights, owner, r),
        spread=group_medians(angles_to(admitted.atoms, unit(found.centres), labels), labels, r, empty=90.0),
        spectrum=np.zeros(0) if embedding is None else embedding.spectrum,
        options={"affinity_residual": 0.0 if embedding is None else embedding.residual},
        explained_variance=explained_variance(admitted, unit(found.centres)),
    )


def _in_order(admitted: Admitted, atom_order: IntArray | slice) -> Any:
    """Return the atoms in this order; those of an `AtomArray`, and those in a temporary file, stay where they are."""
    if isinstance(atom_order, slice):
        return admitted.source_array
    return reordered(admitted.atoms, atom_order)


def _by_name(admitted: Admitted) -> tuple[IntArray, IntArray, IntArray | slice]:
    """Return the order of the clients by name, the client of each atom in that order, and the order of the atoms."""
    names = admitted.clients
    if admitted.source_array is not None:  # an AtomArray keeps its order
        return np.arange(len(names)), admitted.client_of_atom, slice(None)
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__))
    place = np.argsort(by_name)[admitted.client_of_atom]
    atom_order = np.argsort(place, kind="stable")
    return by_name, place[atom_order], atom_order
