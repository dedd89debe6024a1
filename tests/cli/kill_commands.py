"""Kill ``fedica local`` and ``fedica aggregate`` with SIGKILL: the output is absent, old and whole, or new and whole.

    python tests/cli/kill_commands.py --count 200

POSIX only: each command runs in a fork of this process, so that a kill costs milliseconds and not an import.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fedica.cli import app
from fedica.exchange import read_contribution
from fedica.simulate import federation

_spec = importlib.util.spec_from_file_location("kills", Path(__file__).parents[1] / "exchange" / "kills.py")
assert _spec is not None
assert _spec.loader is not None
kills = importlib.util.module_from_spec(_spec)
sys.modules["kills"] = kills
_spec.loader.exec_module(kills)


def run(*words: object) -> None:
    """Run a command of the program in this process; it must succeed."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            app([str(word) for word in words], prog_name="fedica")
        except SystemExit as done:
            if done.code:
                raise AssertionError(said.getvalue()) from done


def look_at_contribution(path: Path) -> object:
    if path.exists():
        read_contribution(path)
    return kills.look_at_file(path)


def writers(folder: Path) -> list[object]:
    """Two commands, each of which can write one of two versions."""
    fed = federation(4, 3, n_features=4, n_samples=500, random_state=0)
    inbox = folder / "inbox"
    inbox.mkdir()
    for client in fed.clients:
        data = folder / f"{client.name}.csv"
        np.savetxt(data, client.X, delimiter=",", header="a,b,c,d", comments="")
        run("local", data, "-o", inbox / f"{client.name}.safetensors", "--components", 3)
    data = folder / f"{fed.clients[0].name}.csv"
    return [
        kills.Writer(
            lambda i, path: run("local", data, "-o", path, "--client", f"version-{i}", "--components", 3),
            look_at_contribution,
            "local",
        ),
        kills.Writer(
            lambda i, path: run("aggregate", inbox, "-o", path, "--components", 2 + i),
            kills.look_at_folder,
            "aggregate",
        ),
    ]


def kill(count: int, seed: int, *, steps: bool) -> dict[str, Counter[str]]:
    """Kill each command before every step (if asked to) and at random moments; return what was found."""
    folder = Path(tempfile.mkdtemp(prefix="fedica-kill-commands-"))
    flush, os.fsync = os.fsync, lambda descriptor: None  # a kill, unlike a power cut, loses nothing that was written
    found = {}
    try:
        with threadpool_limits(1):  # threads do not survive a fork
            for writer in writers(folder):
                versions = []
                for i in range(2):
                    writer.write(i, folder / f"{writer.name}-{i}")
                    versions.append(writer.look(folder / f"{writer.name}-{i}"))
                assert versions[0] != versions[1]
                if steps:
                    found[f"{writer.name}, before every step"] = kills.every_step(writer, folder, versions)
                moments = kills.random_moments(writer, folder, versions, count, seed)
                found[f"{writer.name}, at random moments"] = moments
    finally:
        os.fsync = flush
        shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="how many kills at random moments, for each command")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for what, outcomes in kill(arguments.count, arguments.seed, steps=True).items():
        print(f"{what}: {outcomes.total()} runs: {dict(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
