"""Certificates and keys of one federation: one CA for each side of the proxy, a node key and a signing key per client.

The outer CA signs the certificate of the proxy, which clients see; the inner one that of the SuperLink on loopback,
which the proxy sees. The inner CA's private key is not kept; the outer one's is kept for the next certificate and must
be stored safely.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedica.arrays import PathLike, check_int
from fedica.errors import InputError
from fedica.exchange import file_name, keygen
from fedica.exchange.files import PRIVATE, cannot_write, make_private_folder, read_bounded, write_atomic, write_new
from fedica.records import check_client
from fedica.text import list_names

_AUTHORITY_DAYS = 3650
"""How long the outer CA holds, unless the certificates hold longer: it does not end when they do."""
_MAX_PEM = 64 * 1024
_CURVE = ec.SECP384R1()  # Flower's nodes refuse Ed25519


class Certificates:
    """Paths of the certificates and keys of one federation, in the folder that `make_certificates` filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.key"  # the outer CA's private key
        self.ca = folder / "ca.crt"  # the outer CA's certificate, which goes to every client
        self.proxy = folder / "proxy.crt", folder / "proxy.key"
        self.inner_ca = folder / "inner-ca.crt"  # for the proxy, and for flwr on the coordinator's machine
        self.superlink = folder / "superlink.crt", folder / "superlink.key"
        self.nodes = folder / "nodes"  # CLIENT.key for the client alone, CLIENT.pub for the coordinator
        self.signing = folder / "signing"  # the same for the keys that clients sign contributions with
        self.coordinator = folder / "coordinator" / "coordinator.key"  # the coordinator signs with it; .pub beside it


def make_certificates(folder: PathLike, clients: Sequence[str], *, host: str, days: int = 730) -> Certificates:
    """Make the certificates for TLS, valid for ``days``, and the keys of clients and coordinator.

    Nothing is overwritten.

    folder : made, and must be empty if it exists. host : the name or address by which clients reach the coordinator.
    """
    check_int(days, "days", minimum=1, maximum=3650)
    names = [check_key_name(client) for client in clients]
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"certificates need at least one client, and each client once; got {list_names(names) or 'none'}."
        )
    made = Certificates(Path(folder))
    try:
        make_empty_folder(made.folder)
        for part in (made.nodes, made.signing, made.coordinator.parent):
            make_private_folder(part)
        outer_key, outer = _authority("fedica federation", max(_AUTHORITY_DAYS, days + 365))
        _write_key(made.authority, outer_key)
        _write_certificate(made.ca, outer)
        _write_servers(made, host, outer_key, outer, days)
        for name in names:
            make_client_keys(made, name)
        keygen("coordinator", made.coordinator.parent)
    except OSError as error:
        raise cannot_write(error.filename or made.folder, error) from error
    return made


def make_client_keys(certificates: Certificates, client: str) -> None:
    """Make a client's node key and signing key."""
    _write_node_key(certificates.nodes, check_key_name(client))
    keygen(client, certificates.signing)


def renew_certificates(certificates: Certificates, *, host: str, days: int) -> None:
    """Replace the certificates of the proxy and the SuperLink; the authority that clients know stays."""
    check_int(days, "days", minimum=1, maximum=3650)
    key = load_pem_private_key(read_bounded(certificates.authority, limit=_MAX_PEM, what="the authority's key"), None)
    outer = x509.load_pem_x509_certificate(read_bounded(certificates.ca, limit=_MAX_PEM, what="a certificate"))
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    if ends >= outer.not_valid_after_utc:
        raise InputError(
            f"{certificates.ca}: the authority's certificate ends on {outer.not_valid_after_utc:%Y-%m-%d}, before the "
            "new ones would. Give fewer days, or make new certificates with fedica flower certs."
        )
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    _write_servers(certificates, host, key, outer, days)


def make_empty_folder(folder: Path) -> None:
    """Make a folder for its owner alone, or refuse one that holds anything."""
    make_private_folder(folder)
    if any(folder.iterdir()):
        raise InputError(f"{folder}: the folder is not empty, and files are never overwritten. Give another folder.")


def check_key_name(client: str) -> str:
    """Return a client's name if it can be a file's name: the files of its node key carry it."""
    if file_name(check_client(client, "a client's name")) != client or client.endswith(".pub"):
        raise InputError(f"client {client!r}: a node key's file has its client's name; use letters, digits, . _ and -.")
    return client


def _authority(name: str, days: int) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(_CURVE)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return key, builder.sign(key, hashes.SHA384())


def _write_servers(
    made: Certificates, host: str, outer_key: ec.EllipticCurvePrivateKey, outer: x509.Certificate, days: int
) -> None:
    """Write the certificate of the proxy, and an authority of its own for that of the SuperLink."""
    _write_pair(made.proxy, _server(host, [host], outer_key, outer, days))
    inner_key, inner = _authority("fedica coordinator", days + 1)
    _write_certificate(made.inner_ca, inner)
    _write_pair(made.superlink, _server("localhost", ["localhost", "127.0.0.1"], inner_key, inner, days))


def _server(
    name: str, hosts: Sequence[str], ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, days: int
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(_CURVE)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    builder = _builder(subject, ca.subject, key.public_key(), days)
    builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return key, builder.sign(ca_key, hashes.SHA384())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise InputError(f"a host must be a name or an IP address; got {host!r} ({error}).") from error


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    write_atomic(path, [certificate.public_bytes(Encoding.PEM)], mode=PRIVATE)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    write_atomic(path, [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())], mode=PRIVATE)


def _write_pair(paths: tuple[Path, Path], pair: tuple[ec.EllipticCurvePrivateKey, x509.Certificate]) -> None:
    _write_certificate(paths[0], pair[1])
    _write_key(paths[1], pair[0])


def _write_node_key(folder: Path, client: str) -> None:
    key = ec.generate_private_key(_CURVE)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_new(folder / f"{client}.key", [private], mode=PRIVATE)
    write_new(folder / f"{client}.pub", [public, f" {client}\n".encode()], mode=PRIVATE)
