"""Whole files: written so that nobody sees half of one, read so that nothing floods or blocks the reader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedica.errors import FormatError, InputError
from fedica.exchange.files import file_name, read_bounded, write_atomic, write_new

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    """The old file stands whole, and no temporary file stays, when the content breaks off."""
    path = tmp_path / "a"
    write_atomic(path, [b"old"])

    def breaks_off() -> Iterator[bytes]:
        yield b"new, but"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, breaks_off())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_write_replaces_the_old_file(tmp_path: Path) -> None:
    """Writing again gives the new content alone."""
    write_atomic(tmp_path / "a", [b"old and long"])
    write_atomic(tmp_path / "a", [b"n", memoryview(b"ew")])
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["missing/a", "", "folder", "nul\0byte"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, name: str) -> None:
    """A missing folder, a folder in the place of the file, an impossible name: an InputError, and nothing left."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"cannot be|must be a regular file"):
        write_atomic(f"{tmp_path}/{name}", [b"x"])
    assert os.listdir(tmp_path) == ["folder"]


@posix
def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    """A file is as open as the user's umask says, unlike what tempfile would make."""
    mask = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", [b"x"])
        write_new(tmp_path / "b", [b"x"], mode=0o600)
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_a_file_at_the_limit_is_read_and_one_above_is_not(tmp_path: Path) -> None:
    """The limit is inclusive; the error gives both numbers."""
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bounded(path, limit=5, what="a test") == b"12345"
    with pytest.raises(FormatError, match="at most 4 bytes; this file has 5"):
        read_bounded(path, limit=4, what="a test")


@posix
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A FIFO without a writer, a device that never ends, a folder: to read any of them would never end."""
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path / "fifo", "pipe"), (Path("/dev/zero"), "device"), (tmp_path, "folder")):
        with pytest.raises(FormatError, match=f"regular file; it is a {kind}"):
            read_bounded(path, limit=10**9, what="a test")


@posix
def test_a_file_that_becomes_a_fifo_between_two_looks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is made again on the open file: an attacker who swaps it wins nothing."""
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo")
    honest = os.stat(tmp_path / "file")
    monkeypatch.setattr("fedica.exchange.files.os.stat", lambda path: honest)
    with pytest.raises(FormatError, match="it is a pipe"):
        read_bounded(tmp_path / "fifo", limit=10, what="a test")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_file_that_lies_about_its_size_is_refused() -> None:
    """Files under /proc claim zero bytes and give more: what is read is not what was announced."""
    with pytest.raises(FormatError, match="expected 0 bytes, as announced"):
        read_bounded("/proc/self/status", limit=10**6, what="a test")


@given(st.text(min_size=1, max_size=120))
def test_a_file_name_stays_in_its_folder(name: str) -> None:
    """Whatever a client is called, its file's name has no separator, no leading dot and no forbidden letter."""
    safe = file_name(name)
    assert 0 < len(safe) <= 100
    assert all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in safe)
    assert safe[0] not in ".-"
    assert file_name(safe) == safe


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_distinct_names_have_distinct_files(one: str, other: str) -> None:
    """Two clients never share a file."""
    assert (file_name(one) == file_name(other)) == (one == other)


@pytest.mark.parametrize("name", ["con", "NUL.txt", "com1", "a/b", "a:b", "..", ".hidden", "-rf", "end.", "é" * 100])
def test_dangerous_names_are_changed(name: str) -> None:
    """Windows devices, paths, options and hidden files are no names of files; the same letters elsewhere are."""
    assert file_name(name) != name
    assert file_name("client-07.a_b") == "client-07.a_b"
