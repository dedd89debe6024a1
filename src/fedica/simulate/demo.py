"""The complete workflow on real data: twelve clients recover six mixed photographs from one message each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import Array, PathLike, unit
from fedica.evaluate import recovery_error
from fedica.exchange import read_contribution, write_contribution
from fedica.exchange.files import cannot_write
from fedica.local import LocalICA
from fedica.matching import match
from fedica.records import Aggregate, Contribution
from fedica.server import METHODS, aggregate
from fedica.simulate.atoms import scramble
from fedica.simulate.photographs import (
    PhotographClient,
    PhotographFederation,
    differences,
    load_photographs,
    photograph_federation,
    unmix,
)
from fedica.simulate.picture import RecoveredPictures, draw_picture, matplotlib_figure
from fedica.simulate.streams import stream

PICTURE = "photographs.png"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ClientRow:
    """One client: its fault, the size of its tile, the bytes it sent, its own error / sqrt(r), the server's verdict.

    The verdict is based on the contributions alone; it is empty if the default method gives none.
    """

    client: str
    fault: str
    height: int
    width: int
    sent: int
    error: float
    verdict: str


@dataclass(frozen=True)
class MethodRow:
    """One method: its name, its error divided by sqrt(r), and the seconds it took."""

    method: str
    error: float
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo and the files it wrote."""

    clients: tuple[ClientRow, ...]  # every client alone
    methods: tuple[MethodRow, ...]  # every method of the server, on the same contributions
    default: str  # the method shown in the picture: the default of `aggregate`
    pooled: float  # error of one ICA on the pooled pixels, the faulty ones included
    pooled_honest: float  # the same without the clients whose pixels are faulty
    contributions: Path  # folder with the clients' messages
    picture: Path
    aggregate: Aggregate  # result of the default method
    seconds: float  # total time

    def error_of(self, method: str) -> float:
        """Return the error of one method."""
        return next(row.error for row in self.methods if row.method == method)


def run_demo(
    directory: PathLike,
    *,
    photographs: Array | None = None,
    condition: float = 3.0,
    random_state: int = 0,
    progress: Progress | None = None,
) -> DemoResult:
    """Mix six photographs, fit every client, send the messages as files, aggregate them, and draw the result.

    Parameters
    ----------
    directory : path-like
        Folder for the contributions and the picture; created if it does not exist.
    photographs : ndarray of shape (6, height, width), optional
        Pictures to use instead of those of `load_photographs`, for example smaller ones.
    condition : float
        Condition number of the mixing matrix; 1: orthogonal. Above about 3 the grouping of "srf-ica" can fail.
    random_state : int
        Seed for the mixing matrix, the faults, and the order and signs in which the clients send their atoms: ICA
        leaves both undetermined, and the convention of `LocalICA` would help the methods that do not align.
    progress : callable, optional
        Called with a short text before each step.

    Returns
    -------
    DemoResult
        Reproducible for a given ``random_state``, except for the seconds.
    """
    start = time.perf_counter()
    say = progress or (lambda _: None)
    matplotlib_figure()  # fails before the work starts if matplotlib is missing
    originals = load_photographs() if photographs is None else photographs
    federation = photograph_federation(originals, condition=condition, random_state=random_state)
    folder = _make_folder(Path(directory) / "contributions")
    sent = _fit_and_send(federation, folder, random_state, say)

    say("the server aggregates the contributions")
    received = [read_contribution(path) for path in sent]
    together = aggregate(received, len(federation.names), random_state=random_state)
    methods = tuple(
        _run_method(method, received, federation, random_state)
        for method, record in METHODS.items()
        if record.matches_atoms
    )

    say("for comparison: one ICA on the pooled pixels")
    honest = [client for client in federation.clients if client.honest]
    pooled, pooled_honest = (_error(_fit("pooled", group).atoms, federation) for group in (federation.clients, honest))

    say("drawing the picture")
    return DemoResult(
        clients=tuple(map(partial(_client_row, federation, together), federation.clients, sent, received)),
        methods=methods,
        default=together.method,
        pooled=pooled,
        pooled_honest=pooled_honest,
        contributions=folder,
        picture=_draw(federation, received, together, Path(directory) / PICTURE),
        aggregate=together,
        seconds=time.perf_counter() - start,
    )


def _fit_and_send(federation: PhotographFederation, folder: Path, random_state: int, say: Progress) -> list[Path]:
    """Fit every client and write its contribution, in random order and signs; return the files."""
    sent = []
    for k, client in enumerate(federation.clients, start=1):
        say(f"{client.name} fits its own pixels")
        sent.append(folder / f"{client.name}.safetensors")
        write_contribution(scramble(_fit(client.name, [client]), stream(random_state, "order", k)), sent[-1])
    return sent


def _client_row(
    federation: PhotographFederation, together: Aggregate, client: PhotographClient, path: Path, own: Contribution
) -> ClientRow:
    return ClientRow(
        client=client.name,
        fault=client.fault,
        height=client.box[2],
        width=client.box[3],
        sent=path.stat().st_size,
        error=_error(own.atoms, federation),
        verdict="" if together.trust is None else together.trust[client.name].verdict,
    )


def _draw(federation: PhotographFederation, received: Sequence[Contribution], together: Aggregate, path: Path) -> Path:
    """Draw what the first client with few pixels recovers, and what the federation recovers."""
    k = next(k for k, client in enumerate(federation.clients) if client.fault == "few pixels")
    lone = _recover(federation.clients[k].name, received[k].atoms, federation)
    draw_picture(federation, lone=lone, together=_recover(together.method, together.mixing, federation), path=path)
    return path


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def _fit(name: str, clients: Sequence[PhotographClient]) -> Contribution:
    """Fit one ICA to the differences of the clients' pixels; all clients use seed 0."""
    samples = np.concatenate([differences(client.pixels) for client in clients])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # expected with few pixels
        return LocalICA(n_components=samples.shape[1], random_state=0).fit(samples).contribution(name)


def _run_method(
    method: str, received: Sequence[Contribution], federation: PhotographFederation, random_state: int
) -> MethodRow:
    start = time.perf_counter()
    result = aggregate(received, len(federation.names), method=method, random_state=random_state)
    seconds = time.perf_counter() - start
    return MethodRow(method, _error(result.mixing, federation), seconds)


def _error(mixing: Array, federation: PhotographFederation) -> float:
    return float(recovery_error(mixing, federation.mixing).relative)


def _recover(who: str, mixing: Array, federation: PhotographFederation) -> RecoveredPictures:
    """Unmix the intensities of all pixels, and match order and signs of the pictures to the originals."""
    pictures = unmix(mixing, federation.mixtures)
    found, original = (_pixels_as_columns(stack) for stack in (pictures, federation.sources))
    resembles = match(found, original)
    order = np.argsort(resembles.labels)
    return RecoveredPictures(
        who,
        pictures=pictures[order] * resembles.signs[order, None, None],
        correlations=resembles.cosines[order],
        error=_error(mixing, federation),
    )


def _pixels_as_columns(pictures: Array) -> Array:
    flat = pictures.reshape(pictures.shape[0], -1).T
    return unit(flat - flat.mean(axis=0))  # so that inner products are correlations
