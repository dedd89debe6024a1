"""One real deployment on loopback: TLS, node keys, three SuperNodes, two messages, through nginx where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="pip install 'fedica[flower]'")
sys.path.insert(0, str(Path(__file__).parent))

from deployment import NGINX, Deployment

from fedica.cli import app as program

from .conftest import client_data  # noqa: TID252


def test_three_clients_from_certificates_to_the_same_folder_as_the_file_path(tmp_path):
    """The commands of ``fedica flower up``, and ``fedica aggregate`` on what came: the same files, byte by byte."""
    data = {client: client_data(k) for k, client in enumerate("abc")}
    with Deployment(tmp_path, data, shielded=NGINX is not None) as deployment:
        deployment.start_all()
        run_id = deployment.submit()
        status = deployment.finish(run_id, 60)
        assert status == "finished:completed", deployment.log("superlink")[-3000:]
        folder = deployment.results(run_id)
        arguments = ["aggregate", str(folder / "inbox"), "--components", "3", "-o", str(tmp_path / "again")]
        outcome = CliRunner().invoke(program, arguments)
        assert outcome.exit_code == 0, outcome.output
        names = sorted(path.name for path in (folder / "result").iterdir())
        assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
        differ = [x for x in names if (folder / "result" / x).read_bytes() != (tmp_path / "again" / x).read_bytes()]
        assert differ == []
        assert sorted(path.stem for path in (folder / "inbox").iterdir()) == ["a", "b", "c"]
        assert (folder / "not-applied.csv").read_text().splitlines() == ["client,reason,source"]
        for client in data:
            kept = tmp_path / f"{client}-output" / f"run-{run_id}"
            assert sorted(path.name for path in kept.iterdir()) == ["aggregate.safetensors", "sources.npy"]
