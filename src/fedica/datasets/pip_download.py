"""Download one pinned file of a package index with pip, which knows the user's mirrors, proxies and certificates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fedica.datasets import static_metadata
from fedica.errors import FetchError


def pip_download(
    requirement: str, sha256: str, scratch: Path, *, platform: Sequence[str] = (), source: bool = False
) -> Path:
    """Return the file that pip puts into ``scratch`` for a pinned requirement, such as ``"numpy==2.0.0"``.

    Parameters
    ----------
    requirement : str
        A package and its version.
    sha256 : str
        Of the file; pip takes no other.
    scratch : Path
        An empty folder.
    platform : sequence of str
        Options that choose among the wheels of several platforms.
    source : bool
        Whether the source archive is wanted, not the wheel.

    Raises
    ------
    FetchError
        If it cannot be had; the sentence says what to do.
    """
    wanted = scratch / "requirement.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    target = scratch / "download"
    kind = ["--no-binary", ":all:", "--no-build-isolation"] if source else ["--only-binary", ":all:", *platform]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python", *kind]
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and no shell
            [*command, "--retries", "2", "--dest", str(target), "--requirement", str(wanted)],
            env=_environment(scratch),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise FetchError(f"{requirement}: pip cannot be run ({error}).") from error
    files = list(target.iterdir()) if target.is_dir() else []
    if done.returncode != 0 or len(files) != 1:
        raise FetchError(_sentence(requirement, sha256, done.stderr))
    return files[0]


def _environment(scratch: Path) -> dict[str, str]:
    """Return pip's environment: the user's, without what forbids a single download, and with our build backend."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PIP_CONSTRAINT", "PIP_NO_DEPS"}}
    backends = static_metadata.install(scratch / "backends")
    environment["PYTHONPATH"] = str(backends)
    return environment | {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
        "PIP_USE_PEP517": "1",  # never setup.py, which would run
    }


def _sentence(requirement: str, sha256: str, complaint: str) -> str:
    if "No module named pip" in complaint:
        return (
            f"{requirement}: data sets are downloaded with pip, which is not installed here. Run: python -m ensurepip"
        )
    if "DO NOT MATCH THE HASHES" in complaint:
        return (
            f"{requirement}: the index that pip is told to use offers another file than the one whose SHA-256 is "
            f"{sha256}; it was not used. Check which index or mirror that is."
        )
    lines = [line for line in complaint.splitlines() if line.startswith("ERROR")] or complaint.splitlines() or ["?"]
    return (
        f"{requirement}: it could not be downloaded ({lines[0][:150]}). Is there a network? Run python -m "
        "fedica.datasets where there is one, and set FEDICA_DATA to the folder that it names; or set PIP_INDEX_URL or "
        "PIP_FIND_LINKS to where the package is."
    )
