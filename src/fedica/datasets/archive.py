"""Take a few files out of a package that carries them: download once, check, keep.

A package is pinned by the SHA-256 of its archive, and each file in it by its own, so a file in the cache folder is used
only if it is, to the bit, the one that the code was written for. It is downloaded by pip, which knows the user's
mirrors, proxies and certificates; nothing of the package is installed or run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedica.datasets import static_metadata
from fedica.errors import FetchError
from fedica.exchange.files import cannot_write, write_atomic


@dataclass(frozen=True)
class Archive:
    """One file of a package index, and the files in it that are of use.

    Parameters
    ----------
    package, version : str
        Its name and version on the index.
    sha256 : str
        Of the archive.
    megabytes : int
        Its size, to be shown while it is downloaded.
    members : mapping of str to str
        Path of each file inside the archive, and its SHA-256.
    platform : tuple of str
        For a wheel of one platform: the options that make pip take this one everywhere.
    source : bool
        Whether it is a source archive (.tar.gz), not a wheel.
    """

    package: str
    version: str
    sha256: str
    megabytes: int
    members: Mapping[str, str]
    platform: tuple[str, ...] = ()
    source: bool = False

    @property
    def name(self) -> str:
        """Package and version, as they are written in file names."""
        return f"{self.package}-{self.version}"

    def read(self, path: Path, member: str) -> bytes:
        """Return one member of the downloaded archive."""
        if self.source:
            with tarfile.open(path) as tar:
                stream = tar.extractfile(f"{self.name}/{member}")
                data = b"" if stream is None else stream.read()
        else:
            with zipfile.ZipFile(path) as wheel:
                data = wheel.read(member)
        if hashlib.sha256(data).hexdigest() != self.members[member]:
            raise FetchError(f"{self.name}: {member} in it does not have the SHA-256 {self.members[member]}.")
        return data


def data_folder() -> Path:
    """Return the folder in which data sets are kept.

    ``FEDICA_DATA`` if it is set; otherwise ``fedica`` in the system's folder for caches.

    Returns
    -------
    Path
        The folder; it need not exist yet.
    """
    chosen = os.environ.get("FEDICA_DATA")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fedica" / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fedica"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedica"


def fetch(archive: Archive) -> dict[str, Path]:
    """Return the path of each member of the archive, by the last part of its name; download it if need be.

    Members with the same last part are told apart by the folder that they are in.
    """
    folder = data_folder() / archive.name
    counts = Counter(Path(member).name for member in archive.members)
    kept = {
        member: folder / "_".join(Path(member).parts[-1 if counts[Path(member).name] == 1 else -2 :])
        for member in archive.members
    }
    if not all(_is_pinned(path, archive.members[member]) for member, path in kept.items()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
                downloaded = _download(archive, Path(scratch))
                for member, path in kept.items():  # each in one step: an interruption leaves whole files or none
                    write_atomic(path, [archive.read(downloaded, member)])
        except OSError as error:
            raise cannot_write(folder, error) from error
    return {path.name: path for path in kept.values()}


def _is_pinned(path: Path, sha256: str) -> bool:
    """Whether the file is there and has this SHA-256."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _download(archive: Archive, scratch: Path) -> Path:
    """Return the downloaded archive, checked; on a terminal a line shows while it is downloaded."""
    shown = sys.stderr.isatty()
    if shown:
        sys.stderr.write(f"Fetching {archive.name} ({archive.megabytes} MB) into {data_folder()} ...")
        sys.stderr.flush()
    try:
        path = pip_download(archive, scratch)
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
    if not _is_pinned(path, archive.sha256):
        raise FetchError(f"{archive.name}: the downloaded file is not the archive whose SHA-256 is {archive.sha256}.")
    return path


def pip_download(archive: Archive, scratch: Path) -> Path:
    """Return the file that pip puts into an empty folder; pip itself takes none but that of the pinned SHA-256."""
    requirement, target = scratch / "requirement.txt", scratch / "download"
    requirement.write_text(f"{archive.package}=={archive.version} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
    source = ["--no-binary", ":all:", "--no-build-isolation"]
    kind = source if archive.source else ["--only-binary", ":all:", *archive.platform]
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python", *kind]
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and no shell
            [*command, "--retries", "2", "--dest", str(target), "--requirement", str(requirement)],
            env=_pip_environment(scratch),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise FetchError(f"{archive.name}: pip cannot be run ({error}).") from error
    files = list(target.iterdir()) if target.is_dir() else []
    if done.returncode != 0 or len(files) != 1:
        raise FetchError(f"{archive.package}=={archive.version}: {_explain(done.stderr, archive.sha256)}")
    return files[0]


def _pip_environment(scratch: Path) -> dict[str, str]:
    """Return the user's environment without what forbids a single download, and with our build backend."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PIP_CONSTRAINT", "PIP_NO_DEPS"}}
    return environment | {
        "PYTHONPATH": str(static_metadata.install(scratch / "backends")),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
        "PIP_USE_PEP517": "1",  # never setup.py, which would run
    }


def _explain(complaint: str, sha256: str) -> str:
    """Put what pip wrote on stderr into one sentence, and say what to do."""
    if "No module named pip" in complaint:
        return "data sets are downloaded with pip, which is not installed here. Run: python -m ensurepip"
    if "DO NOT MATCH THE HASHES" in complaint:
        return (
            f"the index that pip is told to use offers another file than the one whose SHA-256 is {sha256}; it was not "
            "used. Check which index or mirror that is."
        )
    lines = [line for line in complaint.splitlines() if line.startswith("ERROR")] or complaint.splitlines() or ["?"]
    return (
        f"it could not be downloaded ({lines[0][:150]}). Is there a network? Run python -m fedica.datasets where there "
        "is one, and set FEDICA_DATA to the folder that it names; or set PIP_INDEX_URL or PIP_FIND_LINKS to where the "
        "package is."
    )
