"""One hostile client that knows the code: how far can it move a component of group ICA? A search for the worst message.

A client enters the mean projector as ``P / K`` with ``0 <= P <= 1``, whatever it sends, so that the search is over
``P``. First order: the response of every component to a small ``P`` is measured; for a direction in which a component
is to move, the best ``P`` is then the projector on the positive eigenspace of that response, and the best direction for
a ``P`` is where the component goes: both in turn, from random directions. From there, and from attacks that people
would think of, random steps follow. What they end at is sent to `aggregate` itself, and that alone is counted.
"""

from __future__ import annotations

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
from fedica.server.group.influence import Response, capped, influences
from fedica.server.group.spans import spans_of

N_OUTSIDE = 6
"""Directions of the attacker's own, besides the leading ones of the honest clients."""
N_TURNS = 8
"""Turns between the best message and the best direction."""
SMALL = 0.1
"""Share of one client's weight at which the response is measured."""
KINDS = ("response", "response and span", "random span", "edge", "planted", "planted and edge")


@dataclass(frozen=True, eq=False)
class Arena:
    """Honest clients, what they find, and how far leaving one of them out moves each component, in degrees."""

    honest: list[Contribution]
    found: Aggregate
    left_out: Array  # (K, r)

    @classmethod
    def of(cls, honest: list[Contribution], r: int) -> Arena:
        """Aggregate all of them, and all but each."""
        found = aggregate(honest, r, method="group")
        others = [honest[:k] + honest[k + 1 :] for k in range(len(honest))]
        moved = [moved_degrees(found.mixing, aggregate(own, r, method="group").mixing) for own in others]
        return cls(honest, found, np.array(moved))

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
    """What the server does, in few dimensions: the leading directions of the honest clients, and some outside."""

    def __init__(self, arena: Arena, rng: np.random.Generator) -> None:
        admitted, r = admit(arena.honest), arena.found.n_components
        spans, self.n_clients = spans_of(admitted), len(arena.honest)
        weights = find_group(admitted, r, np.ones(self.n_clients), np.random.default_rng(0)).weights
        directions = spans.leading(weights, max(3 * r, r + 30))[0]
        outside = rng.standard_normal((len(directions), N_OUTSIDE))
        self.basis = np.linalg.qr(np.column_stack([directions, outside]))[0]
        halves = [x @ t for x, t in zip(spans.along(self.basis), spans.factors, strict=True)]
        self.inside = np.array([half @ half.T for half in halves])
        self.sizes, self.norms, self.n_features = spans.sizes, spans.norms, len(directions)
        self.mean = np.einsum("k,kij->ij", weights, self.inside)
        self.components = self.basis.T @ polar(arena.found.mixing)
        self.start = self._components(self.mean, self.components)

    def moved(self, turn: Array) -> Array:
        """Return the components with a client whose projector is that on turn's columns, (q, r)."""
        projector = turn @ turn.T
        inside = np.concatenate([self.inside, projector[None]])
        sizes, norms = np.append(self.sizes, np.trace(projector)), np.append(self.norms, np.linalg.norm(projector))
        counts = who_counts(inside, sizes, norms, self.n_features).counts
        weights = counts / counts.sum()
        if not counts[-1]:
            return self.start
        found = self.start
        for _ in range(MAX_CAPS + 1):
            mean = np.einsum("k,kij->ij", weights, inside)
            found = self._components(mean, found)
            before, weights = weights, self._capped(weights, inside, mean, found)
            if np.allclose(weights, before, rtol=0.01, atol=0):
                break
        return found

    def _capped(self, weights: Array, inside: Array, mean: Array, found: Array) -> Array:
        """Return the weights that the server gives next; it takes all clients to have all components here."""
        values, vectors = (x[..., ::-1] for x in np.linalg.eigh(mean))
        leading = np.arange(found.shape[1])
        response = Response.of(self.basis @ vectors, values, leading, vectors[:, leading].T @ found)
        moved = influences(response, vectors.T @ inside @ vectors, weights)
        return capped(weights, moved, np.ones(moved.shape, dtype=np.bool_))

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


def best_message(response: Array, direction: Array) -> Array:
    """Return the projector, as orthonormal columns, that moves a component most. response : (q, q, q)."""
    for _ in range(N_TURNS):
        values, vectors = np.linalg.eigh(np.einsum("u,uab->ab", direction, response))
        turn = vectors[:, values > 1e-9 * np.abs(values).max()]
        moved = np.einsum("uab,ab->u", response, turn @ turn.T)
        direction = moved / max(float(np.linalg.norm(moved)), 1e-300)
    return turn


def first_turn(model: Model, response: Array, component: int, kind: str, rng: np.random.Generator) -> Array:
    """Return where a start begins, (q, m), orthonormal columns. response : of the component, (q, q, q)."""
    q, r = len(model.mean), model.start.shape[1]
    order = np.argsort(-np.diagonal(model.mean))
    edge, own = np.eye(q)[:, order[r : 2 * r]], rng.standard_normal((q, 1))
    others = np.delete(model.start, component, axis=1)
    between = model.start[:, [component]] + rng.uniform(0.3, 2.0) * edge[:, rng.integers(r, size=1)]
    columns = {
        "response": best_message(response, rng.standard_normal(q)),
        "response and span": np.column_stack([best_message(response, rng.standard_normal(q)), others]),
        "random span": rng.standard_normal((q, int(rng.integers(1, 2 * r)))),
        "edge": np.column_stack([edge[:, : rng.integers(1, r)], others]),
        "planted": np.column_stack([model.start, own]),
        "planted and edge": np.column_stack([others, between]),
    }[kind]
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, values > 1e-6 * values[0]])


def climb(model: Model, turn: Array, component: int, n_steps: int, rng: np.random.Generator) -> Array:
    """Return a message that moves the component farther, after random steps whose size follows their success."""
    best, size = _degrees(model, turn, component), 0.3
    for _ in range(n_steps):
        tried = turn + size * rng.standard_normal(turn.shape) / np.sqrt(len(turn))
        if rng.random() < 0.1 and turn.shape[1] > 1:
            tried = np.delete(tried, rng.integers(turn.shape[1]), axis=1)
        elif rng.random() < 0.1:
            tried = np.column_stack([tried, rng.standard_normal(len(turn))])
        tried = np.linalg.qr(tried)[0]
        degrees = _degrees(model, tried, component)
        better = degrees > best
        turn, best, size = (tried, degrees, size * 1.5) if better else (turn, best, max(size * 0.9, 0.01))
    return turn


def _degrees(model: Model, turn: Array, component: int) -> float:
    cosine = abs(float(model.moved(turn)[:, component] @ model.start[:, component]))
    return float(np.degrees(np.arccos(min(cosine, 1.0))))


@dataclass(frozen=True, eq=False)
class Attack:
    """What one start ended at: how far each component moved, (r,), by which kind of start, and the verdict on it."""

    kind: str
    moved: Array
    verdict: str


def search(arena: Arena, starts: range, n_steps: int) -> list[Attack]:
    """Return what each of these starts ended at, after n_steps random steps; they take components and kinds in turn."""
    rng = np.random.default_rng(starts.start)
    model = Model(arena, rng)
    responses, r = model.responses(), arena.found.n_components
    found = []
    for number in starts:
        component, kind = number % r, KINDS[number // r % len(KINDS)]
        turn = climb(model, first_turn(model, responses[component], component, kind, rng), component, n_steps, rng)
        message = Contribution("hostile", model.basis @ turn, 100, independence="features")
        found.append(Attack(kind, *arena.moved_by(message)))
    return found
