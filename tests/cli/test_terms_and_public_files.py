"""Who decides on terms, and what is published: as 0.1.0 got them wrong, with commands and names that it had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import Contribution, Study, aggregate, read_aggregate, write_contribution
from fedica.arrays import unit
from fedica.cli import app
from fedica.exchange import keygen, read_folder, read_signing_key, write_study

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


def test_two_that_name_more_features_do_not_refuse_twenty_that_name_none():
    """Their names would ask for five features, and the others, of .npy files, have four without names."""
    for k in range(20):
        send(f"honest-{k}", TRUE, k)
    for k in range(2):
        send(f"hostile-{k}", unit(np.random.default_rng(50).standard_normal((5, 3))), 30 + k, features=tuple("abcde"))
    combined()
    assert set(read_folder("result").aggregate.clients) == {f"honest-{k}" for k in range(20)}
    assert read_aggregate("result/aggregate.safetensors").mixing.shape == (4, 3)


def test_two_insiders_of_different_grids_do_not_stop_a_study_with_keys():
    """They have trusted keys and say what the study does not ask for; the grid is in ``extra``, where 0.1.0 had it."""
    names = tuple("abcd")
    write_study(Study("s", names, n_components=3), "study.json")
    Path("keys").mkdir()
    for k in range(7):
        private, public = keygen(f"client-{k}", "private")
        public.rename(Path("keys") / public.name)
        noisy = unit(TRUE + 0.01 * np.random.default_rng(k).standard_normal(TRUE.shape))
        extra = {"grid": f"{k + 1} mm"} if k < 2 else {}
        sent = Contribution(f"client-{k}", noisy, 500, features=names, study="s", extra=extra)
        write_contribution(sent, Path("inbox") / f"{k}.safetensors", key=read_signing_key(private))
    combined("--study", "study.json", "--trust-keys", "keys")
    assert {f"client-{k}" for k in range(2, 7)} <= set(read_folder("result").aggregate.clients)


@pytest.mark.parametrize(("support", "seeds"), [(2, (0, 1, 3, 6)), (3, (12, 19, 20, 24))])
def test_no_public_column_is_one_clients_atom(support, seeds):
    """Of nine clients two or three have the last component; 0.1.0 gave one of their atoms back with all these seeds."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = np.linalg.qr(rng.standard_normal((12, 5)))[0]
        sent = []
        for k in range(9):
            own = truth[:, : 5 if k < support else 4]
            noisy = own + 0.05 * rng.uniform(0.2, 2) * rng.standard_normal(own.shape)
            sent.append(Contribution(f"client-{k}", noisy, 1000))
            write_contribution(sent[-1], Path("inbox") / f"{k}.safetensors")
        result = CliRunner().invoke(app, ["aggregate", "inbox", "--components", "5", "-o", "result"])
        assert result.exit_code == 0, result.output
        public = read_aggregate("result/aggregate.safetensors").mixing
        assert max(np.abs(one.atoms.T @ public).max() for one in sent) < 1 - 1e-9
        assert public.shape[1] >= 4


def test_the_columns_of_two_clients_are_nobodys_atoms():
    """The coordinator's own result has them all, and none is what one of the two sent."""
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.standard_normal((12, 4)))[0]
    sent = [Contribution(f"client-{k}", truth + 0.04 * rng.standard_normal(truth.shape), 1000) for k in range(2)]
    mixing = aggregate(sent, 4).mixing
    assert max(np.abs(one.atoms.T @ mixing).max() for one in sent) < 1 - 1e-6


def test_what_two_clients_send_is_not_published():
    """Unless that is asked for in words: a public column would be an atom of one of them."""
    for k in range(2):
        send(f"client-{k}", TRUE, k)
    combined()
    assert not Path("result/aggregate.safetensors").exists()
    assert Path("result/details.safetensors").exists()
