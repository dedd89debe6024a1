"""A bounded version of kill_commands.py, and the program itself, killed as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedica.exchange import read_contribution

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
HOLD_AFTER_THE_FIT = (
    "import signal; from fedica.local import LocalICA; fit = LocalICA.fit; "
    "LocalICA.fit = lambda *a, **k: (fit(*a, **k), print('fitted', flush=True), signal.pause())"
)
"""The program says that it has fitted, and goes no further."""


def test_killed_at_random_moments_the_commands_leave_nothing_half():
    """Ten kills of each command: absent, old and whole, or new and whole. In a process of its own: it forks."""
    script = Path(__file__).with_name("kill_commands.py")
    code = f"import runpy; kill = runpy.run_path({str(script)!r})['kill']; print(kill(10, 1, steps=False))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    assert "local, at random moments" in result.stdout
    assert "aggregate, at random moments" in result.stdout


def test_the_real_program_killed_while_it_works(tmp_path):
    """An old contribution stays whole when the program that replaces it is killed."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", rng.laplace(size=(1000, 5)) @ rng.standard_normal((5, 5)))
    output = tmp_path / "a.safetensors"
    program = "from fedica.cli import main; main()"
    arguments = ["local", str(tmp_path / "data.npy"), "--components", "2", "-o", str(output), "--client"]
    subprocess.run([sys.executable, "-c", program, *arguments, "old"], check=True, capture_output=True, timeout=600)
    process = subprocess.Popen(
        [sys.executable, "-c", f"{HOLD_AFTER_THE_FIT}; {program}", *arguments, "new"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "fitted\n"  # in the middle of the work
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert read_contribution(output).client == "old"
