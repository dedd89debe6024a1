"""Files as a whole: written so that nobody sees half of one, read so that nothing can flood or block the reader."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.text import MAX_PATH, show_text

PRIVATE = 0o600
"""The mode of files that tell of single clients: for their owner alone."""

_SAFE_LETTERS = re.compile(r"[^A-Za-z0-9._-]+")
_WINDOWS_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


def read_bounded(path: PathLike, *, limit: int, what: str, head: int | None = None) -> bytes:
    """Return the bytes of a regular file of at most ``limit`` bytes; the size is checked before memory is taken.

    ``head``: how many bytes to read from its start; by default all.

    A directory, a FIFO or a device is refused without being opened for long: a FIFO without a writer would block an
    ordinary ``open`` for ever.
    """
    shown = show_text(os.fspath(path), MAX_PATH)
    try:
        _check_regular(os.stat(path), limit, shown, what)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        with open(os.open(path, flags), "rb", buffering=0) as stream:
            status = os.fstat(stream.fileno())  # the path may lead elsewhere by now
            _check_regular(status, limit, shown, what)
            expected = status.st_size if head is None else min(head, status.st_size)
            data = stream.read(expected + (head is None))
    except OSError as error:
        raise FormatError(f"{shown}: cannot be read ({error.strerror or error}). {_REMEDY_READ}") from error
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{shown!r} cannot be the path of a file ({error}).") from error
    if data is None or len(data) != expected:
        raise FormatError(
            f"{shown}: expected {expected} bytes, as announced; got {len(data or b'')}. "
            "Is it still being written? Read it again when it is complete."
        )
    return data


def write_atomic(path: PathLike, chunks: Iterable[bytes | memoryview], *, mode: int = 0o666) -> None:
    """Write the chunks to a temporary file beside ``path``, flush it to disk, and rename it to ``path``.

    Whoever reads ``path``, even after a crash at any moment, finds nothing, the old file whole, or the new file whole.
    A crash may leave ``.NAME.*.tmp`` behind, which nothing here ever reads. What is no regular file is not replaced.
    """
    target = Path(path)
    _check_kind(target, folder=False)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        write_new(temporary, chunks, mode=mode)
        try:
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    except ValueError as error:
        raise InputError(f"{os.fspath(path)!r} cannot be the path of a file ({error}).") from error


def write_new(path: PathLike, chunks: Iterable[bytes | memoryview], *, mode: int = 0o666) -> None:
    """Write a file that must not exist yet, and flush it to disk; if that fails, it does not exist afterwards either.

    ``mode`` is subject to the user's umask.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, mode)
    try:
        with open(descriptor, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone whatever the umask."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def check_output(path: PathLike, inputs: Iterable[PathLike | object | None] = (), *, folder: bool = False) -> None:
    """Refuse an output that cannot be written, or that would destroy something, before any work is done.

    Parameters
    ----------
    path : path-like
        The file or folder to write. Its folder must exist; what it replaces must be a regular file that is no key, or
        with ``folder`` a folder.
    inputs : iterable
        What is read for it: files and folders. None of them may be the output, by whatever name (a link, a hard link),
        nor lie in the folder that is replaced. What is no path is ignored.
    folder : bool
        Whether a folder is written.
    """
    target, shown = real_path(path), show_text(os.fspath(path), MAX_PATH)
    if shown == "-":
        raise InputError("-: results are written to files, not to stdout. Give the name of a file.")
    if not target.parent.is_dir():
        raise InputError(f"{shown}: cannot be written: there is no folder {str(target.parent)!r}. Make it first.")
    if _check_kind(target, folder=folder) is None:
        return
    for source in inputs:
        if isinstance(source, str | os.PathLike) and _would_be_lost(real_path(source), target):
            raise InputError(
                f"{shown}: it is an input too ({show_text(os.fspath(source))}), which would be lost. Choose another "
                "name for the output."
            )
    if not folder and _is_key(target):
        raise InputError(f"{shown}: there is a key, and keys are never overwritten. Choose another name.")


def sync_folder(folder: PathLike) -> None:
    """Flush a folder's list of names to disk where the system can (Windows cannot, and need not)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cannot_write(path: PathLike, error: OSError) -> InputError:
    """Return the error to raise when a file or folder cannot be written."""
    return InputError(
        f"{os.fspath(path)}: cannot be written ({error.strerror or error}). "
        "Check that its folder exists, that you may write there, and that the disk has room."
    )


def real_path(path: PathLike) -> Path:
    """Return the path with all links followed; one that no file can have is an `InputError`."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be the path of a file or folder ({error}).") from error


def sha256(*chunks: bytes | memoryview) -> str:
    """Return the SHA-256 of the bytes, in hexadecimal."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def file_name(name: str) -> str:
    """Return a client's name as the name of a file: no separators, no devices, distinct for distinct names.

    A name of plain letters, digits, dots, dashes and underscores stays as it is; any other gets eight digits of its
    SHA-256, so that ``a/b`` and ``a:b`` do not meet.
    """
    plain = _SAFE_LETTERS.sub("_", name).lstrip(".-")[:80]
    if plain == name and not _WINDOWS_DEVICES.match(name) and not name.endswith("."):
        return name
    return f"{plain.rstrip('.')}-{sha256(name.encode('utf-8', 'surrogatepass'))[:8]}".lstrip("-")


_REMEDY_READ = "Check the path, and that you may read it."


def _check_regular(status: os.stat_result, limit: int, shown: str, what: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for test, name in _KINDS if test(status.st_mode)), "something else")
        raise FormatError(f"{shown}: {what} must be a regular file; it is {kind}.")
    if status.st_size > limit:
        raise FormatError(f"{shown}: {what} has at most {limit} bytes; this file has {status.st_size}.")


def _check_kind(target: Path, *, folder: bool) -> os.stat_result | None:
    """Return the status of what an output replaces, if there is anything; refuse all but a regular file or a folder."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot_write(target, error) from error
    except ValueError as error:
        raise InputError(f"{os.fspath(target)!r} cannot be the path of a file ({error}).") from error
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        kind = next((name for test, name in _KINDS if test(status.st_mode)), "a file")
        wanted = "a folder" if folder else "a regular file"
        raise InputError(f"{target}: the output must be {wanted}; there is {kind} of this name. Choose another name.")
    return status


def _would_be_lost(source: Path, target: Path) -> bool:
    try:
        return target in source.parents or os.path.samefile(source, target)
    except OSError:  # there is no such input: its reader says so
        return False


def _is_key(path: Path) -> bool:
    """Tell whether a file is a private or public key, from its first bytes."""
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        head = stream.read(200)
        return head.startswith(b"-----BEGIN") or b'"fedica.key"' in head
    return False


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
