"""Hostile files and killed writers, a bounded number of each; the long runs are the two scripts beside this file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(script: str, *arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", HERE / script, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mutated_files_are_valid_or_refused_soon_and_in_little_memory() -> None:
    """Hostile files for every reader: each gives a valid record or a FedicaError, in a processor second and 200 MB."""
    said = run("fuzz.py", "--count", "1000", "--reader", "all")
    for reader in ("contribution", "aggregate", "details", "scores", "study", "key", "inspect"):
        assert re.search(rf"^{reader}: 10\d\d files .*'accepted': [1-9]", said, re.MULTILINE), said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")
def test_a_killed_writer_leaves_nothing_or_something_whole() -> None:
    """SIGKILL before every single step, and at random moments: absent, old and whole, or new and whole."""
    said = run("kills.py", "--count", "10")
    for writer in ("write_contribution", "write_folder", "write_scores", "refine_result"):
        assert f"{writer}: killed before each of" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")
def test_flipped_bits_meeting_writers_floods_of_junk_and_hostile_texts() -> None:
    """Nothing passes unnoticed, nothing is half, no good client is lost, nothing unprintable is shown."""
    said = run("hostile.py", "--flips", "1000", "--writes", "60", "--junk", "600", "--texts", "20")
    assert re.findall("^[a-z]+(?=:)", said, re.MULTILINE) == ["flips", "writes", "junk", "texts"]
