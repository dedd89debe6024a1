"""Take a few files out of a package that carries them: download once, check, keep.

A package is pinned by the SHA-256 of its archive, and each file in it by its own, so a file in the cache folder is used
only if it is, to the bit, the one that the code was written for. Nothing of the package is installed or run.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedica.datasets.pip_download import pip_download
from fedica.errors import FetchError
from fedica.exchange.files import cannot_write, write_atomic


@dataclass(frozen=True)
class Archive:
    """One file of a package index, and the files in it that are of use.

    Parameters
    ----------
    package, version : str
        What it is called there.
    sha256 : str
        Of the archive.
    megabytes : int
        Its size, for people who wait.
    members : mapping of str to str
        Path of each file inside the archive, and its SHA-256.
    platform : tuple of str
        For a wheel that exists once a platform: the options that make pip take this one everywhere.
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


def data_folder() -> Path:
    """Return the folder in which data sets are kept.

    ``FEDICA_DATA`` if it is set; otherwise ``fedica`` in the folder that the system has for such things.

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
    """Return where each member of the archive lies, by the last part of its name; download it if need be."""
    folder = data_folder() / archive.name
    kept = {member: folder / Path(member).name for member in archive.members}
    if not all(_is(path, archive.members[member]) for member, path in kept.items()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
                _unpack(_download(archive, Path(scratch)), archive, kept)
        except OSError as error:
            raise cannot_write(folder, error) from error
    return {path.name: path for path in kept.values()}


def _is(path: Path, sha256: str) -> bool:
    """Whether the file is there, and is the one that was pinned."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _download(archive: Archive, scratch: Path) -> Path:
    with _progress(f"Fetching {archive.name} ({archive.megabytes} MB) into {data_folder()}"):
        path = pip_download(
            f"{archive.package}=={archive.version}",
            archive.sha256,
            scratch,
            platform=archive.platform,
            source=archive.source,
        )
    if not _is(path, archive.sha256):
        raise FetchError(f"{archive.name}: what was downloaded is not the archive whose SHA-256 is {archive.sha256}.")
    return path


def _unpack(path: Path, archive: Archive, kept: Mapping[str, Path]) -> None:
    """Take the members out, each into its place in one step: an interruption leaves whole files or none."""
    for member, data in _members(path, archive):
        if hashlib.sha256(data).hexdigest() != archive.members[member]:
            raise FetchError(f"{archive.name}: {member} in it is not the file whose SHA-256 was noted.")
        write_atomic(kept[member], [data])


def _members(path: Path, archive: Archive) -> Iterator[tuple[str, bytes]]:
    if not archive.source:
        with zipfile.ZipFile(path) as wheel:
            yield from ((member, wheel.read(member)) for member in archive.members)
        return
    with tarfile.open(path) as tar:
        for entry in tar:
            member = entry.name.partition("/")[2]  # below the folder of the archive's own name
            stream = tar.extractfile(entry) if member in archive.members else None
            if stream is not None:
                yield member, stream.read()


@contextmanager
def _progress(sentence: str) -> Iterator[None]:
    """Say on a terminal what takes time, and take it back when it is done."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"{sentence} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
