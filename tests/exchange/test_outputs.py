"""Where an output may go: never where an input, a key, or what is no regular file is; and who may read it."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from fedica.errors import InputError
from fedica.exchange import keygen, write_aggregate, write_details, write_folder
from fedica.exchange.files import check_output, write_atomic

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, pipes and modes of POSIX")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n")
    return path


def aliases(source, folder):
    """Other names of the same file."""
    (folder / "link").symlink_to(source)
    (folder / "hard").hardlink_to(source)
    (folder / "sub").mkdir()
    (folder / "loop").symlink_to(folder)
    return [
        source,
        folder / "link",
        folder / "hard",
        folder / "sub" / ".." / source.name,
        folder / "loop" / source.name,
    ]


def test_an_input_is_never_the_output_by_whatever_name(source, tmp_path):
    """A link, a hard link, another way through folders: the same file."""
    for name in aliases(source, tmp_path):
        for given, output in ((source, name), (name, source)):
            with pytest.raises(InputError, match="is an input too"):
                check_output(output, [None, object(), given])
    check_output(tmp_path / "other.csv", [source])
    (tmp_path / "other.csv").write_text("1,2\n")
    check_output(tmp_path / "other.csv", [source, tmp_path / "missing.csv"])


def test_stdout_is_no_file(tmp_path, monkeypatch):
    """A minus means stdout elsewhere: nobody wants a file of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not to stdout"):
        check_output("-")


def test_a_key_is_never_overwritten(source, tmp_path):
    """Neither half, whatever it is called, also when it is not an input."""
    private, public = keygen("north", tmp_path / "keys")
    private.rename(tmp_path / "out.safetensors")
    for path in (tmp_path / "out.safetensors", public):
        with pytest.raises(InputError, match="keys are never overwritten"):
            check_output(path, [source])


def test_what_is_no_regular_file_is_neither_replaced_nor_waited_for(tmp_path):
    """A pipe, a socket, a folder, and links to them; a pipe without a reader does not block."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "socket", "folder", "link"):
        before = os.lstat(tmp_path / name)
        for write in (check_output, lambda path: write_atomic(path, [b"x"])):
            with pytest.raises(InputError, match="must be a regular file"):
                write(tmp_path / name)
        assert os.lstat(tmp_path / name).st_ino == before.st_ino
    with pytest.raises(InputError, match="must be a regular file; there is a device"):
        check_output("/dev/null")


def test_a_folder_is_not_replaced_under_its_inputs(source, tmp_path):
    """An input inside the folder would go with it; a file cannot be a folder."""
    with pytest.raises(InputError, match="is an input too"):
        check_output(tmp_path, [source], folder=True)
    with pytest.raises(InputError, match="must be a folder; there is a file"):
        check_output(source, folder=True)
    with pytest.raises(InputError, match="there is no folder"):
        check_output(tmp_path / "no" / "such" / "file")


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_the_public_file_can_be_read_by_others(tmp_path, aggregate, provenance, umask):
    """Whatever the umask, all else in a result folder is the coordinator's alone."""
    old = os.umask(umask)
    try:
        write_folder(aggregate, tmp_path / "result", provenance=provenance, min_support=1)
        write_details(aggregate, tmp_path / "details.safetensors")
        write_aggregate(aggregate, tmp_path / "public.safetensors", min_support=1)
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "result").iterdir()}
    assert modes.pop("aggregate.safetensors") == 0o666 & ~umask
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "details.safetensors").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public.safetensors").stat().st_mode) == 0o666 & ~umask
