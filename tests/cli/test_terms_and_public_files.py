"""Who decides on terms, and what is published: as 0.1.0 got them wrong, with commands and names that it had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import Contribution, read_aggregate, write_contribution
from fedica.arrays import unit
from fedica.cli import app

TRUE = unit(np.random.default_rng(0).standard_normal((4, 3)))


def send(name, atoms, seed, **fields):
    """Write the contribution of a client, whose atoms have small errors."""
    noisy = unit(atoms + 0.01 * np.random.default_rng(seed).standard_normal(atoms.shape))
    write_contribution(Contribution(name, noisy, 500, **fields), Path("inbox") / f"{name}.safetensors")


@pytest.fixture(autouse=True)
def _inbox(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("inbox").mkdir()


def combined(*options):
    result = CliRunner().invoke(app, ["aggregate", "inbox", "--components", "3", "-o", "result", *options])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("lie", [{"features": ("a", "b", "c", "d")}, {"study": "mine"}, {"mixing": "orthogonal"}])
def test_a_few_that_declare_a_term_do_not_set_it(lie):
    """Silence of most is a vote: nobody that says nothing is refused, and the public matrix is theirs."""
    for k in range(7):
        send(f"honest-{k}", TRUE, k)
    for k in range(2):
        send(f"hostile-{k}", unit(np.random.default_rng(50).standard_normal((4, 3))), 10 + k, **lie)
    combined()
    clients = Path("result/clients.csv").read_text()
    assert all(f"honest-{k}" in clients for k in range(7))
    public = read_aggregate("result/aggregate.safetensors")
    assert np.abs(public.mixing.T @ TRUE).max(axis=0).min() > 0.99
    assert not any(getattr(public.terms, name) for name in lie)


def test_what_two_clients_send_is_not_published():
    """Unless that is asked for in words: a public column would be an atom of one of them."""
    for k in range(2):
        send(f"client-{k}", TRUE, k)
    combined()
    assert not Path("result/aggregate.safetensors").exists()
    assert Path("result/details.safetensors").exists()
