"""Many clients in Flower's simulation, from ``flwr run`` to the result: ``python tests/flower/simulation.py``.

Needs ``pip install 'fedica[simulation]'``. Prints how long it took, and fails if a client is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from deployment import BIN, Deployment, wait_until

from fedica.exchange import read_folder

POLICY = "max-components = 3\nmin-samples = 100\n"


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same within IPv6, and ::1, as the kernel writes them."""


def listening_addresses(data):
    """The addresses that the processes of the simulation of this folder listen on, as the kernel writes them."""
    sockets, mark = set(), f"FEDICA_SIMULATION={data}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                sockets |= {os.readlink(path) for path in (process / "fd").iterdir()}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {fields[1].split(":")[0] for fields in lines if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets}


def simulate(folder, n_clients, n_samples):
    """Run one simulation in a folder; returns seconds from ``flwr run`` to the result, and to the end of the run."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((6, 3))
    (folder / "data").mkdir()
    for k in range(n_clients):
        np.save(folder / "data" / f"client-{k:04}.npy", rng.laplace(size=(n_samples, 3)) @ mixing.T)
    (folder / "data" / "policy.toml").write_text(POLICY)
    with Deployment(folder, {"any": np.zeros((1, 1))}) as deployment:
        *_, lines = (lines for _, lines in deployment.plan)
        exported = dict(x.split("=", 1) for line in lines if line.startswith("export ") for x in shlex.split(line)[1:])
        env = {**deployment.env, **exported, "FEDICA_SIMULATION": str(folder / "data")}
        deployment.start("superlink", shlex.split(lines[-2]), env)
        wait_until(lambda: "startup complete" in deployment.log("superlink"), 300, "SuperLink")
        command = shlex.split(lines[-1].replace("num-supernodes=1 ", f"num-supernodes={n_clients} "))
        started = time.monotonic()
        settings = "components=3 expect-clients=0 deadline-seconds=300.0 return-seconds=300.0"
        run = deployment.start("run", [BIN / command[0], *command[1:], "--run-config", settings], env)
        results = deployment.root / "coordinator" / "results"
        addresses = set()

        def has_result():
            addresses.update(listening_addresses(folder / "data"))
            return list(results.glob("run-*/result/summary.json"))

        wait_until(has_result, 400, "a result")
        to_result = time.monotonic() - started
        assert addresses <= LOOPBACK, addresses
        assert "0000000000000000FFFF00000100007F" in addresses, "no socket of Ray was seen"
        wait_until(lambda: list(results.glob("run-*/not-applied.csv")), 400, "all clients applied it")
        to_end = time.monotonic() - started
        run.wait(60)
        (result,) = results.glob("run-*/result")
        aggregate = read_folder(result).aggregate
        assert len(aggregate.clients) == n_clients, aggregate.rejected[:3]
        assert len((result.parent / "not-applied.csv").read_text().splitlines()) == 1
    return to_result, to_end


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=300)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        result, end = simulate(Path(temporary), chosen.clients, chosen.samples)
    print(f"{chosen.clients} clients: {result:.0f} s to the result, {end:.0f} s until all had applied it")
