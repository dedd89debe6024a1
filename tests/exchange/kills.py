"""Kill a writer with SIGKILL, before every step and at random moments: it leaves nothing, the old or the new, whole.

    python tests/exchange/kills.py --count 200

POSIX only: the writer is a fork of this process, so that a kill costs milliseconds and not an import.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedica import LocalICA, aggregate, exchange, score
from fedica.exchange.folder import FILES
from fedica.exchange.replace_folder import aside_of
from fedica.records import Contribution
from fedica.simulate import federation
from fedica.workflow.refine import refine_result

GOLDEN = Path(__file__).parent / "golden"
# Everything by which a writer changes what stands on the disk.
SYSTEM_CALLS = ("open", "mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "link")


@dataclass(frozen=True)
class Writer:
    """Something that writes one of two versions to a path, and what each version is on the disk."""

    write: Callable[[int, Path], None]
    look: Callable[[Path], object]
    name: str


def look_at_file(path: Path) -> object:
    return path.read_bytes() if path.exists() else None


def look_at_folder(path: Path) -> object:
    if not path.exists():
        return None
    assert sorted(os.listdir(path)) == sorted(FILES), os.listdir(path)
    exchange.read_folder(path)
    return {name: (path / name).read_bytes() for name in FILES}


def refining(folder: Path) -> Writer:
    """Second messages of eight clients, or of seven, refine a first result, which stands whatever happens."""
    drawn = federation(8, 3, n_samples=300, random_state=0)
    sent = [LocalICA(3, random_state=0).fit(c.X).contribution(c.name) for c in drawn.clients]
    first, paths = folder / "first-result", []
    exchange.write_folder(aggregate(sent, 3), first, min_support=1)
    before, public = look_at_folder(first), exchange.read_folder(first).public
    (folder / "second").mkdir()
    for client in drawn.clients:
        paths.append(folder / "second" / f"{client.name}.safetensors")
        exchange.write_scores(score(client.X, public, client=client.name), paths[-1])

    def look(path: Path) -> object:
        assert look_at_folder(first) == before, "the first result is not what it was"
        return look_at_folder(path)

    def write(i: int, path: Path) -> None:
        refine_result(first, paths[i:], path)

    return Writer(write, look, "refine_result")


def writers(folder: Path) -> list[Writer]:
    atoms = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 50)))[0]
    contributions = [Contribution(f"version-{i}", np.roll(atoms, i, axis=1), 10) for i in range(2)]
    details = exchange.read_details(GOLDEN / "details.safetensors")
    aggregates = [replace(details, method=f"version-{i}") for i in range(2)]
    second = exchange.read_scores(GOLDEN / "v2" / "scores.safetensors")
    scores = [replace(second, client=f"version-{i}") for i in range(2)]
    return [
        Writer(lambda i, path: exchange.write_contribution(contributions[i], path), look_at_file, "write_contribution"),
        Writer(
            lambda i, path: exchange.write_folder(aggregates[i], path, min_support=1), look_at_folder, "write_folder"
        ),
        Writer(lambda i, path: exchange.write_scores(scores[i], path), look_at_file, "write_scores"),
        refining(folder),
    ]


def in_child(work: Callable[[], None]) -> int:
    """Start the work in a forked child; return its process id."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    return child


def kill_after(steps: int) -> None:
    """Make this process kill itself before its n-th system call that changes the disk."""
    left = steps

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return run

    for name in SYSTEM_CALLS:
        setattr(os, name, counted(getattr(os, name)))


def check(writer: Writer, path: Path, versions: list[object], *, had_old: bool) -> str:
    """Say what stands there: absent, or version 0 or 1 whole; if an old result is out of sight, it is whole aside."""
    found = writer.look(path)
    if found is None:
        if had_old:  # killed between the two renames
            assert writer.look(aside_of(path)) in versions, "the old result is lost"
        return "absent"
    assert found in versions, f"{path}: neither version"
    return "old" if found == versions[0] else "new"


def every_step(writer: Writer, folder: Path, versions: list[object]) -> Counter[str]:
    """Kill the writer before each of its steps, without and with an old result; then write again, which must work."""
    outcomes: Counter[str] = Counter()
    for had_old in (False, True):
        for steps in range(1000):
            path = folder / f"{writer.name}-{had_old}-{steps}" / "out"
            path.parent.mkdir()
            if had_old:
                writer.write(0, path)

            def work(steps: int = steps, path: Path = path) -> None:
                kill_after(steps)
                writer.write(1, path)

            _, status = os.waitpid(in_child(work), 0)
            outcomes[check(writer, path, versions, had_old=had_old)] += 1
            writer.write(1, path)
            assert writer.look(path) == versions[1], "the next writer did not recover"
            assert not aside_of(path).exists()
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0
                break
        else:
            raise AssertionError("the writer never finished")
    return outcomes


def random_moments(writer: Writer, folder: Path, versions: list[object], count: int, seed: int) -> Counter[str]:
    """Kill a writer that writes the two versions in turn, ``count`` times; what it left is what the next one finds."""
    rng = random.Random(seed)  # noqa: S311 - moments, not secrets
    outcomes: Counter[str] = Counter()
    path = folder / f"{writer.name}-random" / "out"
    path.parent.mkdir()
    start = time.perf_counter()
    for _ in range(5):
        writer.write(0, folder / f"{writer.name}-timed")
    seconds = (time.perf_counter() - start) / 5

    ready, started = os.pipe()

    def work() -> None:
        os.write(started, b"x")
        while True:
            for i in range(2):
                writer.write(i, path)

    for _ in range(count):
        had_old = path.exists() or aside_of(path).exists()
        child = in_child(work)
        os.read(ready, 1)
        time.sleep(rng.uniform(0, 4 * seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the writer failed before it was killed"
        outcomes[check(writer, path, versions, had_old=had_old)] += 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="how many kills at random moments, for each writer")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fedica-kills-"))
    os.fsync = lambda descriptor: None  # a kill, unlike a power cut, loses nothing that was written; this saves seconds
    for writer in writers(folder):
        versions = []
        for i in range(2):
            writer.write(i, folder / f"{writer.name}-{i}")
            versions.append(writer.look(folder / f"{writer.name}-{i}"))
        steps = every_step(writer, folder, versions)
        moments = random_moments(writer, folder, versions, arguments.count, arguments.seed)
        print(
            f"{writer.name}: killed before each of {steps.total() - 2} steps: {dict(steps)}; "
            f"at {moments.total()} random moments: {dict(moments)}"
        )
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
