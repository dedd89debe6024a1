"""Clients with different features: put them into one order, and fill the entries that some clients lack.

1. The features are those of the study, or those that at least half of all clients have.
2. Clients that have most of them in common are aggregated on the features that all of these have. That gives each atom
   its component, its sign and its length, for every client that has enough of the features.
3. An entry that a client lacks is filled: first with the median over the clients that have it, then with the entry of
   the aggregate of all clients, until that settles. So a client moves only the features that it has.

EEG with an average reference is known up to a constant over channels: a client that lacks some channels has subtracted
the mean of the others. Where most clients declare it (``reference`` is "average") atoms are compared without their mean
over the features that they share, and brought to the mean over all of them when they are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.blocks import columns_of
from fedica.errors import GroupingError
from fedica.records import Contribution, Rejection
from fedica.server.admission import AgreedFeatures, Refused, Screened, common_features, with_enough_features
from fedica.server.aggregate import aggregate
from fedica.server.assign import assign_atoms

CORE_SHARE = 0.5
"""The core of the clients has at least this share of all features in common."""
N_ROUNDS = 3
"""Times the filled entries are renewed from the aggregate; the third changes less than rounding."""
MAX_FILL_DISTANCE = 0.5
"""Only atoms within this distance (a tangent) of their component take part in the medians, and are filled."""
MIN_LENGTH = 1e-9
"""An atom, of norm one, that is shorter than this on some features is zero there."""

Level = Callable[[Array], Array]
"""Subtract the column mean (average reference), or do nothing."""


@dataclass(frozen=True, eq=False)
class Filled:
    """Contributions that all have the same features.

    Parameters
    ----------
    contributions : tuple of Contribution
        In the order of arrival, all with ``features``.
    features : tuple of str, optional
        The features, in order; ``None`` if no client names any.
    lacking : mapping of str to tuple of str
        The features that a client lacks, for each client that lacks some; they were filled.
    surplus : mapping of str to tuple of str
        The features that a client has besides, for each client that has some; they were left out.
    rejected : tuple of Rejection
        Clients that have too few of the features, and why.
    """

    contributions: tuple[Contribution, ...]
    features: tuple[str, ...] | None
    lacking: dict[str, tuple[str, ...]]
    surplus: dict[str, tuple[str, ...]]
    rejected: tuple[Rejection, ...]


def fill_features(
    contributions: Iterable[Contribution], *, features: Sequence[str] | None = None, n_components: int | None = None
) -> Filled:
    """Give all contributions the same features in the same order.

    Parameters
    ----------
    contributions : iterable of Contribution
        One per client. Those that do not name their features are returned as they are.
    features : sequence of str, optional
        The features that are wanted, in order; by default those that at least half of all clients have.
    n_components : int, optional
        r, as for `aggregate`.

    Returns
    -------
    Filled
        What can be aggregated, and what was done to it.

    Examples
    --------
    Three clients of four channels; the second lacks one. It is filled from the others, and does not move the result.

    >>> import numpy as np
    >>> from fedica import Contribution, aggregate, fill_features
    >>> caps = {"client-1": "Cz Fz Oz Pz", "client-2": "Cz Fz Oz", "client-3": "Cz Fz Oz Pz"}
    >>> maps = np.array([[0.9, 0.1], [0.3, 0.2], [0.1, 0.8], [0.3, 0.55]])
    >>> cut = {client: maps[: len(cap.split())] for client, cap in caps.items()}
    >>> unit = {client: rows / np.linalg.norm(rows, axis=0) for client, rows in cut.items()}
    >>> contributions = [Contribution(c, unit[c], 5000, features=cap.split()) for c, cap in caps.items()]
    >>> filled = fill_features(contributions, n_components=2)
    >>> filled.lacking
    {'client-2': ('Pz',)}
    >>> aggregate(filled.contributions, 2).support
    array([3, 3])
    """
    arrived = list(contributions)
    agreed = common_features(arrived) if features is None else AgreedFeatures(tuple(features), True, {})
    if agreed is None:
        return Filled(tuple(arrived), None, {}, {}, ())
    refused: Refused = []
    wanted, kept = agreed.names, with_enough_features(arrived, agreed, refused)
    own = {c.client: set(c.features or wanted) for c in kept}
    lacking = {client: tuple(name for name in wanted if name not in names) for client, names in own.items()}
    surplus = {client: tuple(sorted(names - set(wanted))) for client, names in own.items()}
    lacking, surplus = ({client: names for client, names in x.items() if names} for x in (lacking, surplus))
    if lacking or surplus:
        kept = _fill([_place(c, wanted) for c in kept], n_components)
    return Filled(tuple(kept), wanted, lacking, surplus, tuple(rejection for _, rejection in refused))


def strengths_to_use(screened: Screened) -> list[Array | None]:
    """Return the strengths of each client that `fill_features` leaves: those of other features are not of these."""
    wanted = None if screened.features is None else set(screened.features)
    complete = [wanted is None or c.features is None or set(c.features) == wanted for c in screened.contributions]
    return [c.gram if whole else None for c, whole in zip(screened.contributions, complete, strict=True)]


def _place(contribution: Contribution, wanted: tuple[str, ...]) -> tuple[Contribution, BoolArray]:
    """Put a client's rows where they belong, zero where it has none; say which rows it has."""
    if contribution.features is None or contribution.features == wanted:
        return contribution, np.ones(contribution.n_features, dtype=np.bool_)
    place = {name: k for k, name in enumerate(contribution.features)}
    have = np.array([name in place for name in wanted])
    atoms = np.zeros((len(wanted), contribution.n_atoms))
    atoms[have] = contribution.atoms[[place[name] for name in wanted if name in place]]
    if have.all() and len(contribution.features) == len(wanted):  # in another order
        return replace(contribution, features=wanted, atoms=atoms), have
    atoms[:, np.linalg.norm(atoms, axis=0) < 1e-12] = 1.0  # only in features that no other client has
    return replace(contribution, features=wanted, atoms=atoms, gram=None, noise_floor=None), have  # of other features


def _fill(placed: list[tuple[Contribution, BoolArray]], n_components: int | None) -> list[Contribution]:
    """Fill what every client lacks; placed : contributions on all features, with the rows that they have."""
    placed.sort(key=_by_content)  # independent of names and order of arrival
    level = _without_mean if _have_average_reference([c for c, _ in placed]) else _unchanged
    mixing, common = _aggregate_core(placed, n_components, level)
    reference = _medians(placed, mixing, common, level)
    for _ in range(N_ROUNDS):
        filled = [_completed(c, have, reference, level) for c, have in placed]
        reference = aggregate(filled, n_components, on_bad="reject").mixing
    return [_completed(c, have, reference, level) for c, have in placed]


def _aggregate_core(
    placed: list[tuple[Contribution, BoolArray]], n_components: int | None, level: Level
) -> tuple[Array, BoolArray]:
    """Aggregate the core of the clients on the features that all of it have: (mixing, mask of these features).

    Components that differ on all features may be one on some of them. Then the half of the core that has fewest
    features leaves it: whoever lacks features can make the core smaller, and not stop the run.
    """
    have = [own for _, own in placed]
    n_directions = (n_components or 1) + (level is _without_mean)  # without the mean, features have one fewer
    core = _core(have, [c.n_atoms for c, _ in placed], n_directions)
    while True:
        common = np.logical_and.reduce([have[k] for k in core])
        on_common = [_on_rows(placed[k][0], common, level) for k in core]
        try:
            result = aggregate([c for c in on_common if c is not None], n_components, on_bad="reject")
        except GroupingError:
            if len(core) == 1:
                raise
            core = core[: (len(core) + 1) // 2]
        else:
            return result.mixing, common


def _on_rows(contribution: Contribution, rows: BoolArray, level: Level) -> Contribution | None:
    """Return a contribution on some rows, without the atoms that are zero there; ``None`` if all are."""
    atoms = level(np.array(contribution.atoms[rows]))
    seen = np.linalg.norm(atoms, axis=0) > MIN_LENGTH
    if not seen.any():
        return None
    return replace(contribution, features=None, atoms=atoms[:, seen], gram=None, noise_floor=None, uncertain=None)


def _with_directions(contribution: Contribution, atoms: Array) -> Contribution:
    """Return the contribution with other atoms; one that would become zero stays as it is."""
    lost = np.linalg.norm(atoms, axis=0) <= MIN_LENGTH
    return replace(contribution, atoms=unit(np.where(lost, contribution.atoms, atoms)))


def _by_content(placed: tuple[Contribution, BoolArray]) -> tuple[int, bytes, bytes, int]:
    contribution, have = placed
    return contribution.n_atoms, np.asarray(contribution.atoms).tobytes(), have.tobytes(), contribution.n_samples or 0


def _have_average_reference(contributions: Sequence[Contribution]) -> bool:
    """Whether most clients declare an average reference; one alone cannot decide it."""
    return 2 * sum(c.reference == "average" for c in contributions) > len(contributions)


def _without_mean(columns: Array) -> Array:
    return np.asarray(columns - columns.mean(axis=0))


def _unchanged(columns: Array) -> Array:
    return columns


def _core(have: list[BoolArray], n_atoms: list[int], n_directions: int) -> list[int]:
    """Return the core of the clients, those with most features first.

    Clients are added from the one with most features on, as long as enough features stay in common: half of all, as
    many as most clients have atoms, and as many as the components need. A client with more atoms than that is not in
    the core, so no single client decides on what is enough, or is the core alone because it has all features and
    others lack some.
    """
    n_features = have[0].size
    enough = max(int(np.median(n_atoms)), int(np.ceil(CORE_SHARE * n_features)), min(n_directions, n_features))
    order = sorted((k for k, n in enumerate(n_atoms) if n <= enough), key=lambda k: -int(have[k].sum()))
    common, core = have[order[0]], [order[0]]
    for k in order[1:]:
        if (common & have[k]).sum() >= enough:
            common, core = common & have[k], [*core, k]
    return core


def _medians(placed: list[tuple[Contribution, BoolArray]], mixing: Array, common: BoolArray, level: Level) -> Array:
    """Extend a matrix on the common features to all of them: each entry is the median over the clients that have it.

    mixing : (common features, r), unit columns. Every atom is scaled to the length that its component has on the
    features that the two share.
    """
    n_features, r = common.size, mixing.shape[1]
    reference = np.zeros((n_features, r))
    reference[common] = mixing
    entries: list[list[Array]] = [[] for _ in range(r)]
    for contribution, have in placed:
        if not (have & common).any():  # nothing tells which of its atoms is which component
            continue
        scaled, labels, near = _match_on_rows(contribution, have & common, reference, level)
        for k in np.flatnonzero(near):
            entries[labels[k]].append(np.where(have, scaled[:, k], np.nan))
    for a in range(r):
        column = np.array(entries[a]) if entries[a] else np.full((1, n_features), np.nan)
        seen = np.isfinite(column).any(axis=0) & ~common
        reference[seen, a] = np.nanmedian(column[:, seen], axis=0)
    return unit(level(reference))


def _match_on_rows(
    contribution: Contribution, rows: BoolArray, reference: Array, level: Level
) -> tuple[Array, IntArray, BoolArray]:
    """Match a client's atoms on some rows.

    Return the atoms with the sign, scale and mean of their component, (d, r_k), their labels, and which are near.
    """
    own, goal = level(np.array(contribution.atoms[rows])), level(reference[rows])
    owner = np.zeros(contribution.n_atoms, dtype=np.int64)
    assignment = assign_atoms(columns_of(unit(own), owner), owner, unit(goal))
    target = np.linalg.norm(goal, axis=0)[assignment.labels]
    scale = assignment.signs * target / np.maximum(np.linalg.norm(own, axis=0), 1e-12)
    scaled = contribution.atoms * scale
    above = scaled[rows] - own * scale  # the mean that was subtracted, one per atom
    offset = (reference[rows] - goal)[0, assignment.labels] - above[0]
    near = np.asarray(assignment.distance <= MAX_FILL_DISTANCE)
    return scaled + np.where(near, offset, 0.0), assignment.labels, near


def _completed(contribution: Contribution, have: BoolArray, reference: Array, level: Level) -> Contribution:
    """Fill the entries that a client lacks from the components that its atoms match; with zero if they match none."""
    if have.all():
        atoms = np.asarray(contribution.atoms)
        same = np.abs(level(atoms) - atoms).max() < 1e-12
        return contribution if same else _with_directions(contribution, level(atoms))
    scaled, labels, near = _match_on_rows(contribution, have, reference, level)
    fill = np.where(near, reference[:, labels], 0.0)
    filled = np.where(have[:, None], scaled, fill)
    filled = np.where(near, level(filled), filled)
    signs = np.where(np.sum(filled * contribution.atoms, axis=0) < 0, -1.0, 1.0)  # atoms keep their sign
    return _with_directions(contribution, filled * signs)
