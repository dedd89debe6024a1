"""A small federation on the disk."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.exchange import write_contribution
from fedica.local import LocalICA
from fedica.simulate import federation


@pytest.fixture(scope="session")
def small_federation():
    """Five clients with 2000 samples of four sources in six features, in general position."""
    return federation(5, 4, n_features=6, n_samples=2000, condition=3, noise=0.01, random_state=3)


@pytest.fixture(scope="session")
def small_contributions(small_federation):
    """What the five clients send."""
    names = [f"f{i}" for i in range(6)]
    return [
        LocalICA(4, random_state=0).fit(client.X).contribution(client.name, features=names)
        for client in small_federation.clients
    ]


@pytest.fixture
def inbox(tmp_path, small_contributions):
    """A folder with the five files."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    for contribution in small_contributions:
        write_contribution(contribution, folder / f"{contribution.client}.safetensors")
    return folder


@pytest.fixture
def data_file(tmp_path, small_federation):
    """The data of the first client as a csv with names."""
    path = tmp_path / "data.csv"
    header = ",".join(f"f{i}" for i in range(6))
    np.savetxt(path, small_federation.clients[0].X, delimiter=",", header=header, comments="")
    return path
