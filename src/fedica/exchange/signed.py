"""What all messages of clients have in common, contributions and scores: who sends them, and who signed them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from numpy.typing import NDArray

from fedica.errors import ContributionError, FormatError, InputError
from fedica.exchange.format import Container, FileKind, chunks_within, parse
from fedica.exchange.signatures import SigningKey, TrustedKeys, check_signature, check_signature_fields, sign
from fedica.records import check_client

Record = TypeVar("Record")


def read_message(
    data: bytes,
    kind: FileKind,
    record_of: Callable[[Container, str], Record],
    *,
    source: str,
    trusted: TrustedKeys | None,
) -> tuple[Record, Container]:
    """Return the record that the bytes of a message hold, and its container; errors name the client.

    record_of : from the container and its client to the record. trusted : if given, the message must be signed by the
    key that is trusted for the client that it names.
    """
    container = parse(data, kind, source)
    client = _client_of(container)
    with _naming_client(client, source):
        if trusted is not None:
            check_signature(container, data, client, trusted)
        check_signature_fields(container.metadata)
        return record_of(container, client), container


def message_chunks(
    kind: FileKind,
    client: str,
    content_of: Callable[[], tuple[Mapping[str, str], Mapping[str, NDArray[Any]]]],
    record_of: Callable[[Container, str], object],
    *,
    key: SigningKey | None,
    float32: bool = False,
) -> list[bytes | memoryview]:
    """Return the bytes of a message, in chunks, signed if there is a key; errors name the client.

    content_of : makes the metadata and the tensors. record_of : as for `read_message`. float32 : whether arrays in
    single precision stay so.
    """
    source = f"client {client!r}"
    with _naming_client(client, source):
        container = Container(source, *content_of())
        record_of(container, client)  # refuse to write what a reader would refuse
        if key is not None:
            container = sign(container, client, key)
        return chunks_within(kind, container.metadata, container.tensors, float32=float32)


@contextlib.contextmanager
def _naming_client(client: str, source: str) -> Iterator[None]:
    """Turn what goes wrong inside into an error that names the client and starts with the source."""
    try:
        yield
    except InputError as error:
        sentence = str(error) if str(error).startswith(source) else f"{source}: {error}"
        raise ContributionError(sentence, client, kind=error.kind, numbers=error.numbers) from error


def _client_of(container: Container) -> str:
    """Return the client that a message says it is from."""
    if "client" not in container.metadata:
        raise FormatError(
            f"{container.source}: the metadata field 'client' is missing: a contribution says who sends it."
        )
    try:
        return check_client(container.metadata["client"], "a client's name")
    except InputError as error:
        raise FormatError(f"{container.source}: {error}") from error
