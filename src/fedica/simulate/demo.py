"""The main job on real data, start to end: twelve clients, one message each, and six photographs come back."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import Array, unit
from fedica.evaluate import recovery_error
from fedica.exchange import read_contribution, write_contribution
from fedica.exchange.files import PathLike, cannot_write
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
from fedica.simulate.picture import RecoveredPictures, draw_picture, import_matplotlib
from fedica.simulate.streams import stream

PICTURE = "photographs.png"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ClientRow:
    """One client of the demo.

    Parameters
    ----------
    client : str
        Its name.
    fault : str
        What is wrong with it.
    height, width : int
        Pixels that it holds.
    sent : int
        Bytes of the one message that it sent.
    error : float
        Error of its own mixing matrix, divided by sqrt(r).
    verdict : str
        What the server makes of it, knowing the contributions alone; empty if the default method does not judge.
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
    """One way to put the contributions together: its name, its error divided by sqrt(r), and its seconds."""

    method: str
    error: float
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """What the demo found and where it left it.

    Parameters
    ----------
    clients : tuple of ClientRow
        Every client by itself.
    methods : tuple of MethodRow
        Every method of the server, on the same contributions.
    default : str
        The method that the picture shows: what `aggregate` does when no method is named.
    pooled : float
        Error of one ICA on all pixels in one place, the wrong ones with them.
    pooled_honest : float
        The same without the clients whose pixels are wrong: as if somebody had known them.
    contributions : Path
        Folder with the clients' messages.
    picture : Path
        The picture.
    aggregate : Aggregate
        What the default method made of the contributions.
    seconds : float
        From start to end.
    """

    clients: tuple[ClientRow, ...]
    methods: tuple[MethodRow, ...]
    default: str
    pooled: float
    pooled_honest: float
    contributions: Path
    picture: Path
    aggregate: Aggregate
    seconds: float

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
        Where the contributions and the picture go; made if it does not exist.
    photographs : ndarray of shape (6, height, width), optional
        Smaller pictures, say; those of `load_photographs` unless given.
    condition : float
        Condition number of the mixing matrix; 1: orthogonal. Above about 3 the grouping of "srf-ica" can fail.
    random_state : int
        Draws the mixing matrix, the faults, and the order and signs in which the clients send their atoms: ICA leaves
        both open, and the convention of `LocalICA` would help the methods that do not align.
    progress : callable, optional
        Called with one short text before each step.

    Returns
    -------
    DemoResult
        The same for the same ``random_state``, but for the seconds.

    Raises
    ------
    MissingExtraError
        If scikit-image or matplotlib is not installed.
    """
    start = time.perf_counter()
    say = progress or (lambda _: None)
    import_matplotlib()  # says at once what is missing, not after the work
    originals = load_photographs() if photographs is None else photographs
    federation = photograph_federation(originals, condition=condition, random_state=random_state)
    folder = _make_folder(Path(directory) / "contributions")

    sent = []
    for client in federation.clients:
        say(f"{client.name} fits its own pixels")
        contribution = _fit(client.name, [client])
        sent.append(folder / f"{client.name}.safetensors")
        write_contribution(scramble(contribution, stream(random_state, "order", len(sent))), sent[-1])

    say("the server aggregates the contributions")
    received = [read_contribution(path) for path in sent]
    together = aggregate(received, len(federation.names), random_state=random_state)
    methods = tuple(_run_method(method, received, federation, random_state) for method in METHODS)

    say("for comparison: one ICA on the pooled pixels")
    honest = [client for client in federation.clients if client.honest]
    pooled, pooled_honest = (_error(_fit("pooled", group).atoms, federation) for group in (federation.clients, honest))

    say("the picture is drawn")
    lone = next(k for k, client in enumerate(federation.clients) if client.fault == "few pixels")
    picture = Path(directory) / PICTURE
    draw_picture(
        federation,
        lone=_recover(federation.clients[lone].name, received[lone].atoms, federation),
        together=_recover(together.method, together.mixing, federation),
        path=picture,
    )
    return DemoResult(
        clients=tuple(
            ClientRow(
                client=client.name,
                fault=client.fault,
                height=client.box[2],
                width=client.box[3],
                sent=path.stat().st_size,
                error=_error(own.atoms, federation),
                verdict="" if together.trust is None else together.trust[client.name].verdict,
            )
            for client, path, own in zip(federation.clients, sent, received, strict=True)
        ),
        methods=methods,
        default=together.method,
        pooled=pooled,
        pooled_honest=pooled_honest,
        contributions=folder,
        picture=picture,
        aggregate=together,
        seconds=time.perf_counter() - start,
    )


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def _fit(name: str, clients: Sequence[PhotographClient]) -> Contribution:
    """Fit one ICA to the differences of the clients' pixels; a client's own seed is no secret, so all take 0."""
    samples = np.concatenate([differences(client.pixels) for client in clients])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few pixels may not be enough: a fault like the others
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
    """Unmix the intensities of all pixels, and give every picture the order and sign of the original it resembles."""
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
