"""What goes with every message: a number that only the two ends know, a time limit, and the coordinator's signature.

The number (nonce) is drawn anew for each client and run. An answer must repeat it, so that nobody who has not seen the
request can answer it; and since Flower's own id of a message is a hash of its content, nobody can guess that id either.
The coordinator signs run, kind, nonce, limit and content: a client whose policy names the coordinator's key takes
messages that this key signed for this run, and no other.

Where a run is resumed, another run of Flower carries its messages: the envelope names the run that they belong to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedica.errors import FormatError, PolicyError
from fedica.exchange import SigningKey
from fedica.exchange.files import sha256

DOMAIN = b"fedica.flower.v1\0"
"""What every signed message starts with: a signature made for anything else means nothing here."""
ENVELOPE = "envelope"


@dataclass(frozen=True)
class Envelope:
    """The fields of a message's envelope. run_id and kind are those of the message itself."""

    nonce: str
    seconds: float  # how long the answer is waited for
    run_id: int
    kind: str
    resumes: int = 0  # the run that it belongs to, if that is another one

    @property
    def of_run(self) -> int:
        """The run that the message belongs to."""
        return self.resumes or self.run_id

    def seal(self, content: RecordDict, key: SigningKey | None) -> RecordDict:
        """Return the content with this envelope, signed if there is a key."""
        signature = "" if key is None else key.private.sign(self._signed(content)).hex()
        record = ConfigRecord({"nonce": self.nonce, "seconds": self.seconds, "signature": signature})
        record["resumes"] = str(self.resumes)  # Flower's numbers of runs do not fit the integers of its records
        return RecordDict({**content, ENVELOPE: record})

    def check(self, content: RecordDict, signature: str, public_key: str) -> None:
        """Refuse a content that this key did not sign in this envelope."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
            key.verify(bytes.fromhex(signature), self._signed(content))
        except (InvalidSignature, ValueError) as error:
            raise PolicyError(
                "the message is not signed for this run by the coordinator's key that this client's policy names."
            ) from error

    def _signed(self, content: RecordDict) -> bytes:
        said = [self.run_id, self.resumes, self.kind, self.nonce, self.seconds, digest_of(content)]
        return DOMAIN + json.dumps(said).encode()


def read_envelope(content: RecordDict, run_id: int, kind: str) -> tuple[Envelope, str, RecordDict]:
    """Return the envelope of a request, its signature (may be empty), and the content without both."""
    fields, rest = open_envelope(content)
    nonce, seconds, signature = (fields.get(name) for name in ("nonce", "seconds", "signature"))
    resumes = str(fields.get("resumes"))
    if not (isinstance(nonce, str) and nonce and isinstance(seconds, float) and isinstance(signature, str)) or not (
        resumes.isdecimal()
    ):
        raise FormatError(
            "a request must come in an envelope with its nonce and its time limit; the server's does not."
        )
    return Envelope(nonce, seconds, run_id, kind, int(resumes)), signature, rest


def open_envelope(content: RecordDict) -> tuple[dict[str, Any], RecordDict]:
    """Return the fields of an envelope, none if there is none, and the content without it."""
    record = content.get(ENVELOPE)
    rest = RecordDict({name: value for name, value in content.items() if name != ENVELOPE})
    return dict(record) if isinstance(record, ConfigRecord) else {}, rest


def answer_with(content: RecordDict, nonce: str) -> RecordDict:
    """Return the content of an answer, with the nonce of its request."""
    return RecordDict({**content, ENVELOPE: ConfigRecord({"nonce": nonce})})


def digest_of(content: RecordDict) -> str:
    """Return a hash of everything in a content; refuse records that fedica does not send."""
    parts: list[list[str]] = []
    for name in sorted(content):
        record = content[name]
        if isinstance(record, ArrayRecord):
            parts += [[name, key, array.stype, sha256(array.data)] for key, array in sorted(record.items())]
        elif isinstance(record, ConfigRecord):
            parts.append([name, json.dumps(dict(record), sort_keys=True)])
        else:
            raise FormatError(f"the record {name!r} is of a kind that fedica does not send.")
    return sha256(json.dumps(parts).encode())
