"""One hostile client that knows the code: how far can it move a component of group ICA? A search for the worst message.

A client enters the mean projector as ``P / K`` with ``0 <= P <= 1``, whatever it sends, so that the search is over
``P``. First order: the response of every component to a small ``P`` is measured; for a direction in which a component
is to move, the best ``P`` is then the projector on the positive eigenspace of that response, and the best direction for
a ``P`` is where the component goes: both in turn, from random directions. From there, and from attacks that people
would think of, random steps follow. What they end at is sent to `aggregate` itself, and that alone is counted; the best
ones go on with random steps that `aggregate` itself judges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica import Aggregate, Contribution, aggregate
from fedica.arrays import Array, polar
from fedica.blocks import rows_of
from fedica.ica import Whitened
from fedica.ica.fast import FastICAStep, newton_steps
from fedica.matching import match
from fedica.server import admit
from fedica.server.group.counting import who_counts
from fedica.server.group.find import MAX_CAPS, find_group
from fedica.server.group.influence import Moved, Response, capped
from fedica.server.group.spans import spans_of

N_TURNS = 8
"""Turns between the best message and the best direction."""
SMALL = 0.1
"""Share of one client's weight at which the response is measured."""
KINDS = (
    "response",
    "response and span",
    "random span",
    "edge",
    "planted",
    "planted and edge",
    "turned",
    "bent",
    "turned and bent",
    "honest",
)
N_BEST = 2
"""Starts that go on with steps that `aggregate` judges."""


@dataclass(frozen=True, eq=False)
class Arena:
    """Honest clients, what they find, and how far leaving one of them out moves each component, in degrees.

    replaced : the honest client in whose place the hostile one is.
    """

    honest: list[Contribution]
    replaced: Contribution
    found: Aggregate
    left_out: Array  # (K, r)

    @classmethod
    def of(cls, honest: list[Contribution], r: int) -> Arena:
        """Aggregate all but the first, and all but the first and each other one."""
        replaced, *honest = honest
        found = aggregate(honest, r, method="group")
        others = [honest[:k] + honest[k + 1 :] for k in range(len(honest))]
        moved = [moved_degrees(found.mixing, aggregate(own, r, method="group").mixing) for own in others]
        return cls(honest, replaced, found, np.array(moved))

    def moved_by(self, message: Contribution) -> tuple[Array, str]:
        """Return how far each component moves when this client joins, (r,), and the verdict on it."""
        result = aggregate([*self.honest, message], self.found.n_components, method="group")
        return moved_degrees(self.found.mixing, result.mixing), result.trust[message.client].verdict


def moved_degrees(before: Array, after: Array) -> Array:
    """Return the angle of each component to the one that it became, (r,)."""
    labels = match(after, before).labels
    cosines = np.abs(np.sum(after * before[:, labels], axis=0))
    return np.asarray(np.degrees(np.arccos(np.minimum(cosines, 1.0)))[np.argsort(labels)])


class Model:
    """What the server does, in few dimensions: the leading directions of the honest clients, and some outside.

    Outside are: directions of the attacker's own, one for each component; those along which the ICA's slopes change
    most; and the strongest of the client that it replaced. A message is a factor (q, m) of its projector.
    """

    def __init__(self, arena: Arena, rng: np.random.Generator) -> None:
        admitted, r = admit(arena.honest), arena.found.n_components
        spans, self.n_clients = spans_of(admitted), len(arena.honest)
        weights = find_group(admitted, r, np.ones(self.n_clients), np.random.default_rng(0)).weights
        self.n_seen = max(3 * r, r + 30)
        directions = spans.leading(weights, self.n_seen)[0]
        outside = rng.standard_normal((len(directions), r))
        replaced = spans_of(admit([arena.replaced]))
        factor = replaced.atoms.whole() @ replaced.factors[0]
        strongest = np.linalg.svd(factor, full_matrices=False)[0][:, : 2 * r]
        bent = _bent(polar(arena.found.mixing), directions)[:, : 2 * r]
        self.basis = np.linalg.qr(np.column_stack([directions, bent, strongest, outside]))[0]
        self.outside, self.replaced, self.bent = (_unit(self.basis.T @ x) for x in (outside, strongest, bent))
        halves = [x @ t for x, t in zip(spans.along(self.basis), spans.factors, strict=True)]
        inner = [t.T @ product @ t for t, product in zip(spans.factors, spans.products, strict=True)]
        self.inside = np.array([half @ half.T for half in halves])
        self.squares = np.array([half @ x @ half.T for half, x in zip(halves, inner, strict=True)])
        self.sizes, self.norms, self.n_features = spans.sizes, spans.norms, len(directions)
        self.mean = np.einsum("k,kij->ij", weights, self.inside)
        self.components = self.basis.T @ polar(arena.found.mixing)
        self.start = self._components(self.mean, self.components)

    def moved(self, factor: Array) -> Array:
        """Return the components with a client that sends this, (q, r)."""
        projector = factor @ factor.T
        inside = np.concatenate([self.inside, projector[None]])
        squares = np.concatenate([self.squares, (projector @ projector)[None]])
        sizes, norms = np.append(self.sizes, np.trace(projector)), np.append(self.norms, np.linalg.norm(projector))
        counts = who_counts(inside, sizes, norms, self.n_features).counts
        weights = counts / counts.sum()
        if not counts[-1]:
            return self.start
        found = self.start
        for _ in range(MAX_CAPS + 1):
            mean = np.einsum("k,kij->ij", weights, inside)
            found = self._components(mean, found)
            before, weights = weights, self._capped(weights, inside, squares, found)
            if np.allclose(weights, before, rtol=0.01, atol=0):
                break
        return found

    def _capped(self, weights: Array, inside: Array, squares: Array, found: Array) -> Array:
        """Return the weights that the server gives next; it takes all clients to have all components here."""
        values, vectors = np.linalg.eigh(np.einsum("k,kij->ij", weights, inside))
        values, seen = values[: -self.n_seen - 1 : -1], vectors[:, : -self.n_seen - 1 : -1]
        leading = np.arange(found.shape[1])
        response = Response.of(self.basis @ seen, values, leading, seen[:, leading].T @ found)
        own, first = seen.T @ inside @ seen, seen[:, leading]
        unseen = first.T @ squares @ first - own[:, leading] @ own[:, :, leading]
        moved = Moved.of(response, own, unseen, weights)
        return capped(weights, moved, np.ones(moved.whole.shape, dtype=np.bool_))

    def moved_a_little(self, turn: Array) -> Array:
        """Return the same with a small share of the weight, which nobody caps."""
        weight = SMALL / (self.n_clients + 1)
        return self._components((1 - weight) * self.mean + weight * turn @ turn.T, self.start)

    def _components(self, mean: Array, start: Array) -> Array:
        vectors = np.linalg.eigh(mean)[1][:, -start.shape[1] :]
        white = Whitened(rows_of(self.basis @ vectors * np.sqrt(self.n_features)))
        run = newton_steps(FastICAStep(white), polar(vectors.T @ start), goal=1e-4, max_iter=40)
        found = vectors @ run.matrix
        return found * np.sign(np.sum(found * start, axis=0))

    def responses(self) -> Array:
        """Return by how much each component moves along each direction per unit of P, (r, q, q, q)."""
        q = len(self.mean)
        response = np.zeros((self.start.shape[1], q, q, q))
        for a in range(q):
            for b in range(a, q):
                axis = np.eye(q)[:, [a]] if a == b else (np.eye(q)[:, [a]] + np.eye(q)[:, [b]]) / np.sqrt(2)
                step = ((self.moved_a_little(axis) - self.start) / SMALL).T
                response[:, :, a, b] = response[:, :, b, a] = step
        diagonal = np.einsum("rqaa->rqa", response).copy()
        off = response - (diagonal[..., :, None] + diagonal[..., None, :]) / 2  # P = (e_a + e_b)(e_a + e_b)' / 2
        index = np.arange(q)
        off[..., index, index] = diagonal
        return off


def _bent(components: Array, directions: Array) -> Array:
    """Return the directions, outside those given, along which the slopes of the ICA change most: orthonormal columns.

    components : (d, r), directions : (d, q).
    """
    y = components * np.sqrt(len(components))
    slope = np.tanh(y)
    curves = [(1 - slope[:, [i]] ** 2) * y for i in range(y.shape[1])]
    bent = np.column_stack([slope, *curves])
    return np.linalg.svd(bent - directions @ (directions.T @ bent), full_matrices=False)[0]


def best_message(response: Array, direction: Array) -> Array:
    """Return the projector, as orthonormal columns, that moves a component most. response : (q, q, q)."""
    for _ in range(N_TURNS):
        values, vectors = np.linalg.eigh(np.einsum("u,uab->ab", direction, response))
        turn = vectors[:, values > 1e-9 * np.abs(values).max()]
        moved = np.einsum("uab,ab->u", response, turn @ turn.T)
        direction = moved / max(float(np.linalg.norm(moved)), 1e-300)
    return turn


def first_message(model: Model, response: Array, component: int, kind: str, rng: np.random.Generator) -> Array:
    """Return where a start begins, a factor (q, m). response : of the component, (q, q, q)."""
    q, r = len(model.mean), model.start.shape[1]
    order = np.argsort(-np.diagonal(model.mean))
    edge, own = np.eye(q)[:, order[r : 2 * r]], rng.standard_normal((q, 1))
    others = np.delete(model.start, component, axis=1)
    between = model.start[:, [component]] + rng.uniform(0.3, 2.0) * edge[:, rng.integers(r, size=1)]
    bent = model.bent @ rng.standard_normal((model.bent.shape[1], r))
    aside, curved = (rng.uniform(0.3, 2.0) * _unit(x) for x in (model.outside, bent))
    columns = {
        "response": best_message(response, rng.standard_normal(q)),
        "response and span": np.column_stack([best_message(response, rng.standard_normal(q)), others]),
        "random span": rng.standard_normal((q, int(rng.integers(1, 2 * r)))),
        "edge": np.column_stack([edge[:, : rng.integers(1, r)], others]),
        "planted": np.column_stack([model.start, own]),
        "planted and edge": np.column_stack([others, between]),
        "turned": model.start + aside,
        "bent": model.start + curved,
        "turned and bent": model.start + aside + curved,
        "honest": model.replaced,
    }[kind]
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, values > 1e-6 * values[0]])


def climb(turn: Array, degrees: Callable[[Array], float], n_steps: int, rng: np.random.Generator) -> Array:
    """Return a message of more degrees, after random steps whose size follows their success."""
    best, size = degrees(turn), 0.3
    for _ in range(n_steps):
        tried = turn + size * rng.standard_normal(turn.shape) / np.sqrt(len(turn))
        if rng.random() < 0.1 and turn.shape[1] > 1:
            tried = np.delete(tried, rng.integers(turn.shape[1]), axis=1)
        elif rng.random() < 0.1:
            tried = np.column_stack([tried, rng.standard_normal(len(turn))])
        tried = _at_most_one(tried)
        reached = degrees(tried)
        better = reached > best
        turn, best, size = (tried, reached, size * 1.5) if better else (turn, best, max(size * 0.9, 0.01))
    return turn


def _at_most_one(factor: Array) -> Array:
    """Return a factor of a projector: no singular value is above one, the largest is one."""
    left, values, right = np.linalg.svd(factor, full_matrices=False)
    return np.asarray(left * np.minimum(values / min(float(values[0]), 1.0), 1.0) @ right)


def message_of(factor: Array) -> Contribution:
    """Return what a client sends for the server to make this of it, (d, m): by strengths, over a noise floor of one."""
    left, values, _ = np.linalg.svd(factor, full_matrices=False)
    variances = 1 / np.maximum(1 - values**2, 1e-5)  # the first is so loud that the floor counts whole (G2)
    return Contribution("hostile", left, 100, independence="features", gram=np.diag(variances), noise_floor=1.0)


def _unit(columns: Array) -> Array:
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


@dataclass(frozen=True, eq=False)
class Attack:
    """What one start ended at: the message, how far each component moved, (r,), by which kind of start, the verdict."""

    kind: str
    component: int
    turn: Array
    moved: Array
    verdict: str


class Search:
    """A search for the message that moves a component farthest, with a random generator of its own."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.arena, self.rng = arena, np.random.default_rng(seed)
        self.model = Model(arena, self.rng)
        self.responses = self.model.responses()
        self.honest = arena.left_out.max(axis=0)

    def run(self, starts: range, n_steps: int, n_more: int) -> list[Attack]:
        """Return what each start ended at after n_steps random steps; the best ones go on for n_more.

        Starts take components and kinds in turn.
        """
        found = [self._attack(number, n_steps) for number in starts]
        order = np.argsort([-(x.moved / self.honest).max() for x in found])
        for index in order[:N_BEST].tolist():
            found[index] = self._go_on(found[index], n_more)
        return found

    def _attack(self, number: int, n_steps: int) -> Attack:
        """Climb in the model, and send what was found."""
        model, r = self.model, self.model.start.shape[1]
        component, kind = number % r, KINDS[number // r % len(KINDS)]

        def degrees(turn: Array) -> float:
            return _angle(model.moved(turn)[:, component], model.start[:, component])

        first = first_message(model, self.responses[component], component, kind, self.rng)
        turn = climb(first, degrees, n_steps, self.rng)
        return Attack(kind, component, turn, *self._send(turn))

    def _go_on(self, attack: Attack, n_more: int) -> Attack:
        """Climb in `aggregate` itself, by the component that moved farthest against what honest clients do to it."""
        component = int(np.argmax(attack.moved / self.honest))
        turn = climb(attack.turn, lambda tried: float(self._send(tried)[0][component]), n_more, self.rng)
        return Attack(attack.kind, component, turn, *self._send(turn))

    def _send(self, turn: Array) -> tuple[Array, str]:
        return self.arena.moved_by(message_of(self.model.basis @ turn))


def _angle(first: Array, second: Array) -> float:
    cosine = abs(float(first @ second))
    return float(np.degrees(np.arccos(min(cosine, 1.0))))
