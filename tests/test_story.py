"""The whole story on the command line: five clients, five files, one result, better sources."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from typer.testing import CliRunner

from fedica.cli import app
from fedica.exchange import read_aggregate
from fedica.local import LocalICA
from fedica.simulate import federation

R, D, SAMPLES = 10, 12, [5000, 4000, 3000, 5000, 100]


def fedica(*words):
    """Run a command that must succeed; return what it prints as JSON."""
    result = CliRunner().invoke(app, [str(word) for word in (*words, "--json")], prog_name="fedica")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def correlation(found, truth):
    """Median over the true sources of the absolute correlation with the source that is matched to it."""
    strength = np.abs(np.corrcoef(found.T, truth.T)[: found.shape[1], found.shape[1] :])
    return np.median(strength[linear_sum_assignment(strength, maximize=True)])


def write_csv(path, X):
    header = ";".join(["subject", *(f'"channel {i}"' for i in range(X.shape[1]))])
    lines = [";".join([f"s{k}", *(repr(x).replace(".", ",") for x in row)]) for k, row in enumerate(X.tolist())]
    path.write_text("\n".join([header, *lines]), encoding="utf-8-sig")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_whole_story(tmp_path, seed):
    """Sources by the global matrix are as good as by a good client's own fit, and much better at a client with 100."""
    truth = federation(5, R, n_features=D, n_samples=SAMPLES, condition=3, law="laplace", noise=0.02, random_state=seed)
    names = tmp_path / "channels.txt"
    names.write_text("".join(f"channel {i}\n" for i in range(D)))
    study = tmp_path / "study.json"
    fedica("study", "new", "--id", "story", "--features", names, "--components", R, "--unit", "uV", "-o", study)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for client in truth.clients:
        data = tmp_path / f"{client.name}.csv"
        write_csv(data, client.X)
        sent = fedica("local", data, "--study", study, "-o", inbox / f"{client.name}.safetensors")
        assert sent["leaves"].keys() >= {"atoms", "client", "study"}
        assert any("'subject'" in note for note in sent["notes"])

    summary = fedica("aggregate", inbox, "--study", study, "--require-all", "-o", tmp_path / "result")
    assert summary["n_clients"] == 5
    assert all(row["verdict"] != "outlying" for row in summary["clients"])
    public = tmp_path / "result" / "aggregate.safetensors"
    assert read_aggregate(public).terms.study == "story"

    for client in truth.clients:
        output = tmp_path / f"{client.name}-sources.npy"
        said = fedica("apply", public, tmp_path / f"{client.name}.csv", "--study", study, "-o", output)
        together = correlation(np.load(output), client.sources)
        alone = correlation(LocalICA(R, random_state=0).fit_transform(client.X), client.sources)
        if len(client.X) > 100:
            assert together >= alone
            assert said["more_independent"]
        else:
            assert 1 - together**2 < 0.1 * (1 - alone**2)  # a tenth of the variance that is not explained
            assert any("unseen samples are few" in note for note in said["notes"])
