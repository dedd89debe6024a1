"""Records with every field filled, and the keys of two clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedica.arrays import unit
from fedica.exchange import Provenance, SigningKey, TrustedKeys
from fedica.records import Aggregate, Certificate, Contribution, Reason, Rejection, Study, Terms, Trust

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Path:
    return GOLDEN


@pytest.fixture
def contribution() -> Contribution:
    # Whole numbers over 5: the same bits on every machine.
    atoms = np.array([[0.6, 0.0, 0.8], [0.8, 0.0, -0.6], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    return Contribution(
        "client-07",
        atoms,
        5000,
        features=["Fp1", "Fp2", "Größe (µV)", 'the "last", one'],
        solver="auto",
        independence="samples",
        mixing="general",
        study="rest-2024",
        extra={"note": "two\nlines", "software": "own"},
    )


@pytest.fixture
def full_contribution() -> Contribution:
    """Give a contribution that declares everything."""
    return Contribution(
        "client-07",
        np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]]),
        5000,
        features=["Fp1", "Fp2", "Cz"],
        solver="auto",
        independence="features",
        mixing="general",
        study="rest-2024",
        reference="average",
        grid="3 x 1 x 1 voxels; 2 0 0 0; 0 2 0 0; 0 0 2 0",
        gram=np.array([[2.0, 0.5], [0.5, 1.0]]),
        noise_floor=0.125,
        uncertain=[1],
        persons=12,
        preprocessing={"highpass": "1 Hz", "filter": "FIR, zero phase"},
        serial=3,
        extra={"software": "own"},
    )


@pytest.fixture
def aggregate() -> Aggregate:
    mixing = np.array([[0.6, 0.8], [0.8, -0.6], [0.0, 0.0]])
    atoms = np.array([[0.6, -0.8, 0.6, 0.0], [0.8, 0.6, 0.8, 0.0], [0.0, 0.0, 0.0, 1.0]])
    trust = Trust(
        ("client-a", "client-b"),
        ("trusted", "outlying"),
        (Reason("agrees", {"angle": 0.25}), Reason("far", {"angle": 45.0, "n_samples": 0, "missing": (1,)})),
        np.array([0.25, 45.0]),
        np.array([[0.0, 0.5], [45.0, 90.0]]),
        np.array([[True, True], [True, False]]),
        np.array([0, 1]),
        np.array([0.125, np.nan]),
    )
    return Aggregate(
        mixing=mixing,
        centres=mixing * [1.0, 0.5],
        labels=np.array([0, 1, 0, -1]),
        signs=np.array([1.0, -1.0, 1.0, 1.0]),
        clients=("client-a", "client-b"),
        client_of_atom=np.array([0, 0, 1, 1]),
        spectrum=np.array([1.5, 0.5, 0.25]),
        support=np.array([2, 1]),
        spread=np.array([0.5, 12.0]),
        trust=trust,
        rejected=(Rejection.because("client-c", "unnamed-features", "mail/c.safetensors", n_features=5, n_wanted=3),),
        method="consensus",
        options={"affinity": "squared", "n_init": 10, "weights": None, "cut": 2.5, "flag": True},
        atoms=atoms,
        terms=Terms(3, ("x", "y", "z"), "samples", "general", "rest-2024"),
        certificate=Certificate(0.125, 0.1, np.array([0.0, 1e-12])),
    )


@pytest.fixture
def study() -> Study:
    return Study(
        "rest-2024",
        ["Fp1", "Fp2", "Größe"],
        units=["µV", "µV", "cm"],
        scales=[1.0, 1.0, 0.1],
        mixing="orthogonal",
        n_components=2,
        min_samples=100,
        declare_samples="rounded",
    )


@pytest.fixture
def provenance() -> list[Provenance]:
    return [
        Provenance("client-a", 5000, "mail/a.safetensors", 11_000, "0a" * 32, "0.1.0", "0b" * 32, verified=True),
        Provenance("client-b", None, "mail/b.safetensors", 12_000, "0c" * 32, "", None, verified=False),
    ]


@pytest.fixture
def key() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


@pytest.fixture
def other_key() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64))))


@pytest.fixture
def trusted(key: SigningKey, other_key: SigningKey) -> TrustedKeys:
    return TrustedKeys({"client-07": key.public, "client-08": other_key.public})


@pytest.fixture
def random_contribution() -> Contribution:
    """Give 64 features, 20 atoms, and the names of the 64 channels of a common EEG cap."""
    letters = ("Fp", "AF", "F", "FC", "C", "CP", "P", "PO")
    atoms = unit(np.random.default_rng(0).standard_normal((64, 20)))
    features = [f"{name}{i}" for name in letters for i in range(1, 9)]
    return Contribution(
        "hospital-of-the-north-07",
        atoms,
        123_456,
        features=features,
        solver="auto",
        independence="samples",
        mixing="general",
        study="resting-state-eeg-2024",
    )
