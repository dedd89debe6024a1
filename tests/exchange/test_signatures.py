"""Signatures: a coordinator who trusts keys takes what those clients signed, as they signed it, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from fedica.errors import ContributionError, FedicaError, FormatError, InputError
from fedica.exchange import (
    SigningKey,
    TrustedKeys,
    contribution_from_bytes,
    contribution_to_bytes,
    keygen,
    read_contribution,
    read_public_key,
    read_signing_key,
    read_trusted_keys,
    write_contribution,
)
from fedica.exchange.contributions import CONTRIBUTION
from fedica.exchange.format import parse, serialise
from fedica.exchange.signatures import exposed_key_note
from fedica.records import Contribution, Study
from fedica.workflow.combine import combine


def resigned(data: bytes, **changes: str) -> bytes:
    """The canonical bytes of the file with some metadata changed, and the old signature."""
    container = parse(data, CONTRIBUTION, "file")
    return b"".join(serialise({**container.metadata, **changes}, container.tensors))


def test_the_whole_way_from_keygen_to_a_trusted_contribution(contribution: Contribution, tmp_path: Path) -> None:
    """A client makes a key, sends its public half, signs; the coordinator reads what it trusts."""
    private, public = keygen("client-07", tmp_path / "client")
    (tmp_path / "trusted").mkdir()
    (tmp_path / "trusted" / public.name).write_bytes(public.read_bytes())
    write_contribution(contribution, tmp_path / "c.safetensors", key=read_signing_key(private))
    trusted = read_trusted_keys(tmp_path / "trusted")
    read = read_contribution(tmp_path / "c.safetensors", trusted=trusted)
    np.testing.assert_array_equal(read.atoms, contribution.atoms)
    assert "signature" not in read.extra


def test_every_flipped_bit_is_refused(contribution: Contribution, key: SigningKey, trusted: TrustedKeys) -> None:
    """No single bit of a signed file can change: every one is tried."""
    data = bytearray(contribution_to_bytes(contribution, key=key))
    assert contribution_from_bytes(bytes(data), trusted=trusted).client == "client-07"
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FedicaError):
            contribution_from_bytes(bytes(data), trusted=trusted)
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("cut", [1, 8, 64, 100])
def test_bytes_added_or_lost_are_refused(
    contribution: Contribution, key: SigningKey, trusted: TrustedKeys, cut: int
) -> None:
    """A signed file is taken whole or not at all."""
    data = contribution_to_bytes(contribution, key=key)
    for altered in (data[:-cut], data + bytes(cut), bytes(cut) + data):
        with pytest.raises(FedicaError):
            contribution_from_bytes(altered, trusted=trusted)


def test_an_unsigned_contribution_is_refused_by_name(contribution: Contribution, trusted: TrustedKeys) -> None:
    """Without a signature the client is named, and told how to sign."""
    with pytest.raises(ContributionError, match="client 'client-07' sent an unsigned contribution") as caught:
        contribution_from_bytes(contribution_to_bytes(contribution), trusted=trusted)
    assert (caught.value.client, caught.value.kind) == ("client-07", "unsigned")


@pytest.mark.parametrize("field", ["client", "study", "n_samples", "features", "solver", "note", "fedica"])
def test_every_field_is_signed(contribution: Contribution, key: SigningKey, trusted: TrustedKeys, field: str) -> None:
    """Any field changed under the old signature is refused."""
    data = contribution_to_bytes(contribution, key=key)
    other = {"features": '["a","b","c","d"]', "n_samples": "6000", "client": "client-08"}.get(field, "other")
    altered = resigned(data, **{field: other})
    assert getattr(contribution_from_bytes(altered), field, other) is not None
    with pytest.raises(ContributionError, match=r"was altered|did not sign with the key that is trusted for it"):
        contribution_from_bytes(altered, trusted=trusted)


def test_a_field_that_is_added_is_refused(contribution: Contribution, key: SigningKey, trusted: TrustedKeys) -> None:
    """Nothing can be put beside what was signed."""
    with pytest.raises(ContributionError, match="was altered"):
        contribution_from_bytes(resigned(contribution_to_bytes(contribution, key=key), more="x"), trusted=trusted)


def test_a_replay_from_another_study_is_refused(
    contribution: Contribution, key: SigningKey, trusted: TrustedKeys, tmp_path: Path
) -> None:
    """A genuine file of another study is refused by name, although its signature holds."""
    write_contribution(contribution, tmp_path / "c.safetensors", key=key)
    study = Study("task-2025", contribution.features or ())
    with pytest.raises(InputError, match="client 'client-07' sent a contribution for another study"):
        combine(tmp_path / "c.safetensors", trust_keys=trusted, study=study, min_clients=1)


def test_another_clients_trusted_key_is_refused(
    contribution: Contribution, other_key: SigningKey, trusted: TrustedKeys
) -> None:
    """A trusted client cannot speak for another one; the error names both."""
    data = contribution_to_bytes(contribution, key=other_key)
    with pytest.raises(ContributionError, match=r"client 'client-07' did not sign .* that of client 'client-08'"):
        contribution_from_bytes(data, trusted=trusted)


def test_an_unknown_key_and_an_unknown_client_are_refused(
    contribution: Contribution, key: SigningKey, trusted: TrustedKeys
) -> None:
    """A key that nobody trusts, and a client without a trusted key, are refused by name."""
    stranger = SigningKey(Ed25519PrivateKey.generate())
    with pytest.raises(ContributionError, match=r"client 'client-07' did not sign .* which is unknown"):
        contribution_from_bytes(contribution_to_bytes(contribution, key=stranger), trusted=trusted)
    with pytest.raises(ContributionError, match=r"client 'client-07' has no trusted key"):
        contribution_from_bytes(
            contribution_to_bytes(contribution, key=key), trusted=TrustedKeys({"client-09": stranger.public})
        )


def test_another_spelling_of_a_signed_file_is_refused(
    contribution: Contribution, key: SigningKey, trusted: TrustedKeys
) -> None:
    """The same content with one more space, or a signature in capitals, is not what was signed."""
    data = contribution_to_bytes(contribution, key=key)
    n_header = int.from_bytes(data[:8], "little")
    longer = (n_header + 8).to_bytes(8, "little") + data[8 : 8 + n_header] + b" " * 8 + data[8 + n_header :]
    assert contribution_from_bytes(longer).client == "client-07"
    with pytest.raises(ContributionError, match="canonical serialisation"):
        contribution_from_bytes(longer, trusted=trusted)
    signature = parse(data, CONTRIBUTION, "file").metadata["signature"]
    with pytest.raises(ContributionError, match="was altered"):
        contribution_from_bytes(resigned(data, signature=signature.upper()), trusted=trusted)


def test_a_key_signs_in_the_name_of_its_owner_alone(contribution: Contribution, tmp_path: Path) -> None:
    """A client that signs with another client's key learns it before it sends, when the halves lie together."""
    private, public = keygen("client-08", tmp_path)
    with pytest.raises(ContributionError, match="'client-07' cannot sign with the key of client 'client-08'"):
        contribution_to_bytes(contribution, key=read_signing_key(private))
    public.unlink()
    assert read_signing_key(private).client is None


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    """A second keygen for the same client leaves both files as they are."""
    paths = keygen("client-07", tmp_path)
    before = [path.read_bytes() for path in paths]
    with pytest.raises(InputError, match="keys are never overwritten"):
        keygen("client-07", tmp_path)
    paths[0].unlink()
    with pytest.raises(InputError, match="keys are never overwritten"):
        keygen("client-07", tmp_path)
    assert not paths[0].exists()
    assert paths[1].read_bytes() == before[1]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_the_private_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The private file has mode 0600, whatever the umask; its text never shows the secret."""
    mask = os.umask(0)
    try:
        private, _ = keygen("client-07", tmp_path)
    finally:
        os.umask(mask)
    assert private.stat().st_mode & 0o777 == 0o600
    key = read_signing_key(private)
    assert repr(key) == f"SigningKey(public={key.public!r}, client='client-07')"


@pytest.mark.parametrize("client", ["../../escape", "a/b", "con", ".hidden", "=cmd()"])
def test_a_clients_name_does_not_lead_out_of_the_folder(tmp_path: Path, client: str) -> None:
    """Whatever the client is called, its keys lie in the folder, and carry its name."""
    private, public = keygen(client, tmp_path / "keys")
    assert {private.parent, public.parent} == {tmp_path / "keys"}
    assert read_public_key(public)[0] == client


def test_one_key_stands_for_one_client(key: SigningKey, tmp_path: Path) -> None:
    """The same key for two names, or two keys for one name, are refused when they are loaded."""
    with pytest.raises(InputError, match="client 'a': a public key must be 64 hexadecimal digits; got 'AB'"):
        TrustedKeys({"a": "AB"})
    with pytest.raises(InputError, match="clients 'a' and 'b' have the same key"):
        TrustedKeys({"a": key.public, "b": key.public})
    _, public = keygen("a", tmp_path)
    (tmp_path / "b.pub").write_bytes(public.read_bytes())
    with pytest.raises(FormatError, match="another key for client 'a'"):
        read_trusted_keys(tmp_path)


SMALL_ORDER = {
    "0100000000000000000000000000000000000000000000000000000000000000": 1,
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": 2,
    "0000000000000000000000000000000000000000000000000000000000000000": 4,
    "0000000000000000000000000000000000000000000000000000000000000080": 4,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05": 8,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa": 8,
}
"""All points of the curve whose order divides 8, as RFC 8032 writes them."""
NOT_CANONICAL = ("ee" + 30 * "ff" + "7f", "ed" + 30 * "ff" + "7f", 32 * "ff")


@pytest.mark.parametrize("public", [*SMALL_ORDER, *NOT_CANONICAL])
def test_a_key_for_which_anybody_can_sign_is_refused(public: str, tmp_path: Path) -> None:
    """Keys of small order, and the same in another form: in Python and in files."""
    with pytest.raises(InputError, match="client 'a': a public key must be one that fedica keygen makes"):
        TrustedKeys({"a": public})
    card = {"format": "fedica.key", "version": "1", "client": "a", "ed25519": public}
    (tmp_path / "a.pub").write_text(json.dumps(card))
    with pytest.raises(FormatError, match=r"a\.pub: 'ed25519' must be one that fedica keygen makes"):
        read_trusted_keys(tmp_path)


def test_keys_with_capital_endings_are_read(tmp_path: Path) -> None:
    """As some systems write them: in the folder of trusted keys, and beside the private one."""
    private, public = keygen("client-07", tmp_path)
    public.rename(tmp_path / "client-07.PUB")
    assert read_trusted_keys(tmp_path)["client-07"] == read_signing_key(private).public
    assert read_signing_key(private).client == "client-07"


def test_a_key_without_a_signature_is_refused_also_where_no_key_is_trusted(
    contribution: Contribution, key: SigningKey
) -> None:
    """And a signature without a key, and what has not the form of one: nobody takes such a file for a signed one."""
    container = parse(contribution_to_bytes(contribution, key=key), CONTRIBUTION, "file")
    for change in ({"signature": None}, {"key": None}, {"key": "AB"}, {"signature": "x" * 128}):
        metadata = {k: v for k, v in {**container.metadata, **change}.items() if v is not None}
        with pytest.raises(ContributionError, match="must have 'key' and 'signature', of 64 and 128 hexadecimal"):
            contribution_from_bytes(b"".join(serialise(metadata, container.tensors)))


@pytest.mark.skipif(os.name != "posix", reason="elsewhere files have no modes")
def test_a_private_key_that_others_can_read_is_told_of(tmp_path: Path) -> None:
    """As keygen leaves it there is nothing to say."""
    private, _ = keygen("client-07", tmp_path)
    assert exposed_key_note(private) == ()
    private.chmod(0o640)
    (note,) = exposed_key_note(private)
    assert "its mode is 0640" in note
    assert f"chmod 600 {private}" in note


def test_a_folder_of_keys_that_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    """A missing folder, an empty one, or one broken key: an error, not silent trust in the rest."""
    with pytest.raises(FormatError, match="no folder of trusted keys"):
        read_trusted_keys(tmp_path / "missing")
    with pytest.raises(FormatError, match=r"no \*\.pub file"):
        read_trusted_keys(tmp_path)
    keygen("a", tmp_path)
    (tmp_path / "b.pub").write_text('{"format":"fedica.key","version":"1","client":"b","ed25519":"00"}')
    with pytest.raises(FormatError, match="64 hexadecimal digits; got '00'"):
        read_trusted_keys(tmp_path)
    (tmp_path / "b.pub").write_text(json.dumps({"format": "fedica.key", "version": "1", "ed25519": "07" * 32}))
    with pytest.raises(FormatError, match=r"b\.pub: a client's name must be a text"):
        read_trusted_keys(tmp_path)


def test_keys_that_cannot_be_written_are_one_sentence(tmp_path: Path) -> None:
    """A file in the place of the folder, an impossible name: an InputError, and no half of a pair."""
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper", "a\0b"):
        with pytest.raises(InputError, match="cannot be"):
            keygen("client-07", folder)
    assert os.listdir(tmp_path) == ["file"]


def test_a_key_comes_with_its_public_half_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full after the private key leaves neither file."""
    fsync, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        keygen("client-07", tmp_path)
    assert os.listdir(tmp_path) == []


def test_other_keys_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """An RSA key, a key with a password, a public key, nonsense, another's half beside it."""
    path = tmp_path / "k.key"
    ours = Ed25519PrivateKey.generate()
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for data in (
        rsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ours.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
        b"nonsense",
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=r"k\.key: expected an Ed25519 private key"):
            read_signing_key(path)
    path.write_bytes(ours.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    _, public = keygen("other", tmp_path / "other")
    path.with_suffix(".pub").write_bytes(public.read_bytes())
    with pytest.raises(FormatError, match=r"k\.pub: it is not the public half"):
        read_signing_key(path)
