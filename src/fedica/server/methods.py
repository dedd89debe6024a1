"""The methods of `aggregate`, each a record: what it runs, and what the other rooms need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray, check_choice, unit
from fedica.blocks import Drawn, draw_clients
from fedica.records import Certificate, Trust
from fedica.server.admission import Admitted
from fedica.server.agreement import matched_atoms
from fedica.server.assign import Assignment, assign_atoms
from fedica.server.centres import (
    client_weights,
    geometric_medians,
    group_means,
    index_in_client,
    naive_centres,
    narrow_components,
)
from fedica.server.clusters import check_no_empty, kmeans
from fedica.server.consensus import find_consensus, finish_consensus
from fedica.server.embedding import EMBEDDINGS, Embedding
from fedica.server.group import choose_n_directions, find_group, judge_group
from fedica.server.signs import align_signs

AFFINITIES = ("auto", *EMBEDDINGS)
MAX_ABSOLUTE = 50_000
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
class Judgement:
    """What holds of components and clients.

    Parameters
    ----------
    trust : Trust
        Of each client.
    support, weighted_support : ndarray of shape (r,)
        How many clients have each component, and how many count in it.
    spread : ndarray of shape (r,)
        Typical angle of a component to the clients that have it, in degrees.
    spectrum : ndarray
        Leading eigenvalues, largest first.
    options : mapping
        What the result says of how it came about.
    explained_variance : ndarray of shape (K, r), optional
        Share of each client's variance that each component explains.
    """

    trust: Trust
    support: IntArray
    weighted_support: IntArray
    spread: Array
    spectrum: Array
    options: Mapping[str, Any]
    explained_variance: Array | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method finds.

    Parameters
    ----------
    centres : ndarray of shape (d, r)
        Raw centres.
    labels, signs, weights : ndarray of shape (R,)
        Component of every atom, its sign, and how much it counts in the centre.
    embedding : Embedding, optional
        Of the atoms, if the method groups them.
    certificate : Certificate
        How near the optimum the grouping and the medians are.
    assignment : Assignment
        The atoms against the centres.
    drawn : Drawn, optional
        The clients in the random order in which some of them were looked at first; ``None``: nothing was drawn.
    judgement : Judgement, optional
        Of the method itself; ``None``: the atoms of each group decide.
    """

    centres: Array
    labels: IntArray
    signs: Array
    weights: Array
    embedding: Embedding | None
    certificate: Certificate
    assignment: Assignment
    drawn: Drawn | None
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Method:
    """One method of `aggregate`.

    Parameters
    ----------
    name : str
        As the caller writes it.
    run : callable
        From the admitted atoms, r and the options to what the method finds.
    auto_affinity : {"absolute", "squared"}
        What "auto" means; "squared" in any case above ``MAX_ABSOLUTE`` atoms.
    in_paper : bool
        Whether it is one of the paper's.
    centres_groups : bool
        Whether a component is the centre of a group of aligned atoms, so that their scatter tells its error.
    matches_atoms : bool
        Whether it works out which atom of which client is which component, for any contributions; one that pools spans
        needs spatial ones.
    choose : callable, optional
        From the admitted atoms and the options to the number of components; by default `choose_components`.
    """

    name: str
    run: Callable[[Admitted, int, Options], Outcome]
    auto_affinity: str = "absolute"
    in_paper: bool = True
    centres_groups: bool = False
    matches_atoms: bool = True
    choose: Callable[[Admitted, Options], int] | None = None

    def settled_affinity(self, affinity: str, n_atoms: int) -> str:
        """Return the affinity to use with this number of atoms: "absolute" or "squared"."""
        if affinity != "auto":
            return affinity
        return self.auto_affinity if n_atoms <= MAX_ABSOLUTE else "squared"


def _consensus(admitted: Admitted, r: int, options: Options) -> Outcome:
    """Algorithm 1, then the steps that withstand hostile clients: see `fedica.server.consensus`."""
    found = find_consensus(
        admitted,
        r,
        client_weights(admitted.n_samples, options.weights),
        affinity=options.affinity,
        n_init=options.n_init,
        rng=options.rng,
    )
    centres, weights = finish_consensus(found.centres, admitted.terms), found.weights
    assignment, labels = _match_to(admitted, centres, weights)
    narrow = narrow_components(labels, weights, admitted.client_of_atom, r)
    if narrow.any():  # a centre of one or two clients can be one client's own atom: average all that match
        weights = np.where(narrow[labels] & (labels >= 0), 1.0, weights)
        signs = assignment.signs
        means = group_means(admitted.atoms, labels, r, signs=signs, weights=weights, otherwise=centres)
        centres = finish_consensus(np.where(narrow, means, centres), admitted.terms)
        assignment, labels = _match_to(admitted, centres, weights)
    check_no_empty(labels, r)
    certificate = Certificate(*found.grouped.kmeans_bounds, np.zeros(r))
    return Outcome(
        centres, labels, assignment.signs, weights, found.grouped.embedding, certificate, assignment, found.drawn
    )


def _match_to(admitted: Admitted, centres: Array, weights: Array) -> tuple[Assignment, IntArray]:
    """Return the atoms against the centres, (d, r), and the component of every atom that matches one, (R,)."""
    assignment = assign_atoms(admitted.atoms, admitted.client_of_atom, unit(centres))
    matched = matched_atoms(assignment, weights, centres.shape[1])
    return assignment, np.where(matched, assignment.labels, -1)  # (C6)


def _spectral(centre: str, align: bool) -> Callable[[Admitted, int, Options], Outcome]:
    """Algorithm 1, or an ablation of it: steps 1 to 6, one per line."""

    def run(admitted: Admitted, r: int, options: Options) -> Outcome:
        atoms, owner = admitted.atoms, admitted.client_of_atom  # (d, R): step 1
        embedding = EMBEDDINGS[options.affinity](atoms, r)  # Eqs. (9)-(10): steps 2 and 3
        drawn, rng = draw_clients(atoms, owner, options.rng), options.rng
        clusters = kmeans(embedding.points.kept(), r, n_init=options.n_init, rng=rng, sample=drawn.sample())  # Eq. (11)
        labels = clusters.labels  # step 4
        signs = align_signs(atoms, labels, r) if align else np.ones(labels.size)  # Eq. (14): step 5
        weights = client_weights(admitted.n_samples, options.weights)[owner]
        if centre == "median":
            medians = geometric_medians(atoms, labels, r, signs=signs, weights=np.sqrt(weights))  # Eq. (16): step 6
            centres, gap = medians.centres, medians.gap
            weights = np.sqrt(weights) / np.maximum(medians.distance, 1e-9)  # the median is the mean with these weights
        else:
            centres, gap = group_means(atoms, labels, r, signs=signs, weights=weights), np.zeros(r)  # Eq. (15)
        certificate = Certificate(clusters.objective, clusters.lower_bound, gap)
        assignment = assign_atoms(atoms, owner, unit(centres))
        return Outcome(centres, labels, signs, weights, embedding, certificate, assignment, drawn)

    return run


def _naive(combine: Callable[..., Array]) -> Callable[[Admitted, int, Options], Outcome]:
    """Combine columns by their index: no grouping, no alignment."""

    def run(admitted: Admitted, r: int, options: Options) -> Outcome:
        atoms, owner = admitted.atoms, admitted.client_of_atom
        labels = index_in_client(owner, r)
        check_no_empty(labels, r)
        centres = naive_centres(atoms, labels, r, combine)
        ones = np.ones(labels.size)
        assignment = assign_atoms(atoms, owner, unit(centres))
        drawn, certificate = draw_clients(atoms, owner, options.rng), Certificate(None, None, np.zeros(r))
        return Outcome(centres, labels, ones, ones, None, certificate, assignment, drawn)

    return run


def _group(admitted: Admitted, r: int, options: Options) -> Outcome:
    """Pool the spans, then one spatial ICA: see `fedica.server.group`."""
    found = find_group(admitted, r, client_weights(admitted.n_samples, options.weights), options.rng)
    trust, support, spread = judge_group(admitted, found)
    weights = found.weights[admitted.client_of_atom]
    assignment, labels = _match_to(admitted, found.components, weights)
    with_strengths = sum(gram is not None for gram in admitted.grams)
    told = {"n_with_strengths": with_strengths, "n_plain_projectors": len(admitted.clients) - with_strengths}
    return Outcome(
        found.components,
        labels,
        assignment.signs,
        weights,
        None,
        Certificate(None, None, np.zeros(r)),
        assignment,
        None,
        Judgement(trust, support, support, spread, found.eigenvalues, told, found.explained),
    )


def _choose_for_group(admitted: Admitted, options: Options) -> int:
    return choose_n_directions(admitted, client_weights(admitted.n_samples, options.weights))


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("consensus", _consensus, auto_affinity="squared", in_paper=False, centres_groups=True),
        Method("srf-ica", _spectral("median", align=True), centres_groups=True),
        Method("srf-ica-noalignment", _spectral("median", align=False)),
        Method("sf-ica", _spectral("mean", align=True), centres_groups=True),
        Method("naive-mean", _naive(np.mean)),
        Method("naive-median", _naive(np.median)),
        Method("group", _group, in_paper=False, matches_atoms=False, choose=_choose_for_group),
    )
}
"""All methods by name: ours first, then Algorithm 1 of the paper, what the paper compares it with, and group ICA."""
AUTO = "auto"
"""Takes "group" or "consensus", by what the contributions carry."""
METHOD_NAMES = (AUTO, *METHODS)


def settled_method(method: str, independence: str | None, grams: Sequence[Array | None]) -> tuple[Method, str | None]:
    """Return the method to run, and for "auto" why it was taken.

    grams : (K,), strengths of each client. A minority that sends or withholds strengths does not decide.
    """
    if check_choice(method, "method", METHOD_NAMES) != AUTO:
        return METHODS[method], None
    n_told = sum(gram is not None for gram in grams)
    if independence != "features":
        return METHODS["consensus"], "the contributions are not spatial"
    if 2 * n_told > len(grams):
        return METHODS["group"], f"the contributions are spatial, and {n_told} of {len(grams)} clients sent strengths"
    return METHODS["consensus"], f"{n_told} of {len(grams)} clients sent strengths; group needs more than half"
