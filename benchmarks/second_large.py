"""What a second message costs at r = 64, d = 128 and 1,000 clients: time of server and client, bytes, passes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from seeds import table
from threadpoolctl import threadpool_limits

from fedica import Aggregate, aggregate, refine, score
from fedica.arrays import Array
from fedica.blocks import rows_of
from fedica.exchange.scores import scores_to_bytes
from fedica.ica.whitening import whiten
from fedica.simulate import atoms_federation

N_COMPONENTS, N_FEATURES, N_CLIENTS, N_FIRST = 64, 128, 1000, 30
N_SAMPLES, N_CLIENT = 500, 100_000
"""Samples of each of the clients of the server's measurement, and of the client that is timed."""
REPEATS = 5


class Passes:
    """Data in blocks that counts how often it is read to its end."""

    def __init__(self, X: Array) -> None:
        self.X, self.shape, self.count = X, X.shape, 0

    def __iter__(self) -> Iterator[Array]:
        """Yield blocks of 10,000 samples."""
        yield from np.array_split(self.X, max(len(self.X) // 10_000, 1))
        self.count += 1


def large() -> str:
    """Return the section of the page, with what was asked for beside each number."""
    drawn = atoms_federation(N_FIRST, N_COMPONENTS, n_features=N_FEATURES, condition=5.0, random_state=100)
    first = aggregate(drawn.contributions, N_COMPONENTS)
    rng = np.random.default_rng(100)
    names = [f"client-{k:04d}" for k in range(N_CLIENTS)]
    sent = [score(_data(drawn.mixing, N_SAMPLES, rng), first, client=name) for name in names]
    with threadpool_limits(1):
        start, spent = time.perf_counter(), time.process_time()
        result = refine(first, sent)
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
        ratio, n_passes = _client(first, _data(drawn.mixing, N_CLIENT, rng))
    assert result.refinement is not None
    lines = [
        ["server: `refine`, seconds of one thread's CPU time (wall time)", f"{spent:.1f} ({seconds:.1f})", "10"],
        ["one message, KB", f"{len(scores_to_bytes(sent[0])) / 1000:.1f}", "80"],
        ["client: passes over the data", str(n_passes), "1"],
        ["client: `score` over the whitening pass of a fit, CPU time", f"{ratio:.2f}", "3"],
    ]
    text = (
        f"## What it costs\n\nr = {N_COMPONENTS}, d = {N_FEATURES}, {N_CLIENTS:,} clients with {N_SAMPLES} samples "
        f"each ({N_FIRST} of them behind the first answer; the step was "
        f"{'' if result.refinement.taken else 'not '}taken). "
        f"The client has {N_CLIENT:,} samples; medians of {REPEATS} runs of one thread."
    )
    return f"{text}\n\n{table(('what', 'measured', 'at most'), lines)}"


def _data(mixing: Array, n: int, rng: np.random.Generator) -> Array:
    return np.asarray(rng.laplace(size=(n, mixing.shape[1])) @ mixing.T)


def _client(result: Aggregate, X: Array) -> tuple[float, int]:
    """Return the time of a second message over that of whitening, and the passes over the data."""
    counted = Passes(X)
    score(counted, result, client="a")
    seconds: dict[str, list[float]] = {"score": [], "whiten": []}
    for _ in range(REPEATS):
        for name, work in (
            ("score", lambda: score(X, result, client="a")),
            ("whiten", lambda: whiten(rows_of(X), N_COMPONENTS)),
        ):
            start = time.process_time()
            work()
            seconds[name].append(time.process_time() - start)
    return float(np.median(seconds["score"]) / np.median(seconds["whiten"])), counted.count
