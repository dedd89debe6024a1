"""Ed25519 signatures of contributions: each key is bound to one client's name.

The signature covers everything in the file but itself: client, study, key and all atoms. The file's bytes must be the
canonical serialisation, so that no bit of a signed file can change unnoticed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.exchange.files import PRIVATE, cannot_write, file_name, read_bounded, sync_folder, write_new
from fedica.exchange.format import Container, is_canonical, serialise
from fedica.exchange.json_files import plain_bytes, read_plain
from fedica.records import Reason, check_client
from fedica.records.fields import set_fields

DOMAIN = b"fedica.contribution.v1\0"
"""What every signed message starts with: a signature made for anything else means nothing here."""
KEY = "fedica.key"
"""The format of a public key's file."""
MAX_KEY_FILE = 16 * 1024
_HEX_KEY = re.compile(r"[0-9a-f]{64}")
_HEX_SIGNATURE = re.compile(r"[0-9a-f]{128}")
_FIELD = 2**255 - 19
_ORDER_8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL_ORDER = frozenset({0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8})
"""The y of the eight points whose order divides 8: signatures under such a key hold for messages that nobody signed."""


@dataclass(frozen=True)
class SigningKey:
    """A client's private key. Its text shows the public half alone.

    Parameters
    ----------
    private : Ed25519PrivateKey
        The key.
    client : str, optional
        Whose it is, where that is known; it then signs nothing in another name.
    """

    private: Ed25519PrivateKey
    client: str | None = None

    @property
    def public(self) -> str:
        """The public key, in hexadecimal."""
        return self.private.public_key().public_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r}, client={self.client!r})"


@dataclass(frozen=True)
class TrustedKeys(Mapping[str, str]):
    """The public key that is trusted for each client: a mapping from the client's name to hexadecimal.

    Parameters
    ----------
    by_client : mapping of str to str
        One key per client, one client per key.
    """

    by_client: Mapping[str, str]

    def __post_init__(self) -> None:
        owners: dict[str, str] = {}
        for client, key in self.by_client.items():
            check_public_key(key, f"client {client!r}: a public key")
            if key in owners:
                raise InputError(
                    f"clients {owners[key]!r} and {client!r} have the same key; a key stands for one client."
                )
            owners[key] = client
        set_fields(self, by_client=dict(self.by_client))

    def __getitem__(self, client: str) -> str:
        return self.by_client[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_client)

    def __len__(self) -> int:
        return len(self.by_client)


def check_public_key(key: object, what: str) -> str:
    """Return a public key in hexadecimal if it can stand for one client; refuse one that anybody can sign for."""
    if not isinstance(key, str) or not _HEX_KEY.fullmatch(key):
        raise InputError(f"{what} must be 64 hexadecimal digits; got {str(key)[:80]!r}.")
    y = int.from_bytes(bytes.fromhex(key), "little") % 2**255  # the highest bit is the sign of x
    if y >= _FIELD or y in _SMALL_ORDER:
        raise InputError(f"{what} must be one that fedica keygen makes; got {key[:16]!r}...: anybody can sign for it.")
    return key


def keygen(client: str, folder: PathLike) -> tuple[Path, Path]:
    """Make a key for one client: its private and its public file, which carry the client's name.

    Parameters
    ----------
    client : str
        The client; the coordinator will trust the key for this name alone.
    folder : path-like
        Where to write ``CLIENT.key`` (private: for the owner alone, never to be sent) and ``CLIENT.pub`` (to be sent to
        the coordinator, by a channel that both trust). It is made if need be; existing files are never overwritten.

    Returns
    -------
    private, public : Path
        The two files.
    """
    client = check_client(client, "a client's name")
    stem = Path(folder) / file_name(client)
    private, public = stem.with_name(stem.name + ".key"), stem.with_name(stem.name + ".pub")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    card = plain_bytes(KEY, {"client": client, "ed25519": SigningKey(key).public})
    for path in (private, public):
        if path.exists():
            raise InputError(f"{path}: there is a key already, and keys are never overwritten. Move it away first.")
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        write_new(private, [pem], mode=0o600)
        try:
            write_new(public, [card], mode=PRIVATE)
        except BaseException:
            private.unlink()  # half of a pair is of no use, and would stand in the way
            raise
        sync_folder(stem.parent)
    except OSError as error:
        raise cannot_write(error.filename or folder, error) from error
    except ValueError as error:
        raise InputError(f"{os.fspath(folder)!r} cannot be the path of a folder ({error}).") from error
    return private, public


def read_signing_key(path: PathLike) -> SigningKey:
    """Read a private key: an Ed25519 key in PEM, without a password.

    If its public half lies beside it, as `keygen` leaves them, the key knows whose it is.
    """
    data = read_bounded(path, limit=MAX_KEY_FILE, what="a private key")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FormatError(
            f"{os.fspath(path)}: expected an Ed25519 private key in PEM without a password ({error}). "
            "Make one with: fedica keygen"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise FormatError(f"{os.fspath(path)}: expected an Ed25519 private key; got {type(key).__name__}.")
    signing_key = SigningKey(key)
    beside = next((half for end in (".pub", ".PUB") if (half := Path(path).with_suffix(end)).exists()), None)
    if beside is None:
        return signing_key
    client, public = read_public_key(beside)
    if public != signing_key.public:
        raise FormatError(f"{beside}: it is not the public half of {os.fspath(path)}. Keep each key with its own half.")
    return replace(signing_key, client=client)


def exposed_key_note(path: PathLike) -> tuple[str, ...]:
    """Return a sentence if other users of the machine can read the file of a private key, where files have modes."""
    mode = os.stat(path).st_mode if os.name == "posix" else 0
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return ()
    return (
        f"{os.fspath(path)}: other users of this machine can use this private key (its mode is "
        f"{stat.S_IMODE(mode):04o}). Run: chmod 600 {os.fspath(path)}",
    )


def read_public_key(path: PathLike) -> tuple[str, str]:
    """Read a public key file: the client's name, and its key in hexadecimal."""
    source = os.fspath(path)
    fields = read_plain(path, KEY, limit=MAX_KEY_FILE)
    client, key = fields.get("client"), fields.get("ed25519")
    try:
        return check_client(client, "a client's name"), check_public_key(key, "'ed25519'")
    except InputError as error:
        raise FormatError(f"{source}: {error}") from error


def read_trusted_keys(folder: PathLike) -> TrustedKeys:
    """Read all ``*.pub`` files of a folder. One that cannot be read is an error: trust is not to be guessed."""
    try:
        paths = sorted(p for p in Path(folder).iterdir() if p.suffix.lower() == ".pub" and p.name[0] != ".")
    except (OSError, ValueError) as error:
        raise FormatError(f"{os.fspath(folder)!r}: no folder of trusted keys can be read there ({error}).") from error
    if not paths:
        raise FormatError(f"{os.fspath(folder)}: expected a folder of trusted keys; there is no *.pub file in it.")
    keys: dict[str, str] = {}
    for path in paths:
        client, key = read_public_key(path)
        if client in keys:
            raise FormatError(f"{path}: there is another key for client {client!r} in this folder. Keep one of them.")
        keys[client] = key
    return TrustedKeys(keys)


def sign(container: Container, client: str, key: SigningKey) -> Container:
    """Return the client's container with the fields ``key`` and ``signature``."""
    if key.client not in (None, client):
        raise InputError(f"client {client!r} cannot sign with the key of client {key.client!r}: it would be refused.")
    unsigned = replace(container, metadata={**container.metadata, "key": key.public})
    signature = key.private.sign(_message(unsigned)).hex()
    return replace(container, metadata={**unsigned.metadata, "signature": signature})


def check_signature_fields(metadata: Mapping[str, str]) -> None:
    """Refuse a key without a signature, a signature without a key, and what is neither."""
    for name, form in (("key", _HEX_KEY), ("signature", _HEX_SIGNATURE)):
        if ("key" in metadata or "signature" in metadata) and not form.fullmatch(metadata.get(name, "")):
            raise InputError(
                "a signed contribution must have 'key' and 'signature', of 64 and 128 hexadecimal digits; got "
                f"{name!r} {metadata.get(name, 'missing')[:40]!r}. Sign it again, or leave both out."
            )


def check_signature(container: Container, data: bytes, client: str, trusted: TrustedKeys) -> None:
    """Refuse a file that the client's trusted key did not sign exactly as it is."""
    key, signature = container.metadata.get("key"), container.metadata.get("signature")
    if key is None or signature is None:
        raise Reason("unsigned", {"client": client}).error(InputError)
    if key != trusted.get(client):
        owner = next((name for name, known in trusted.items() if known == key), "")
        kind = "other-key" if client in trusted else "no-trusted-key"
        raise Reason(kind, {"client": client, "key": key[:64], "owner": owner}).error(InputError)
    if not is_canonical(container, data):
        raise Reason("not-canonical", {"client": client}).error(InputError)
    unsigned = replace(container, metadata={k: v for k, v in container.metadata.items() if k != "signature"})
    try:
        if not _HEX_SIGNATURE.fullmatch(signature):
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), _message(unsigned))
    except InvalidSignature:
        raise Reason("bad-signature", {"client": client}).error(InputError) from None


def _message(container: Container) -> bytes:
    """Return what is signed: the domain, and the SHA-512 of the canonical bytes without the signature."""
    digest = hashlib.sha512()
    for chunk in serialise(container.metadata, container.tensors):
        digest.update(chunk)
    return DOMAIN + digest.digest()
