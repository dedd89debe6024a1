"""Fetching from a package index that is a folder: what is kept, what is refused, what is said; no network."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import replace

import pytest

from fedica.datasets import archive as archive_room
from fedica.datasets import data_folder
from fedica.datasets.__main__ import main as fetch_all
from fedica.datasets.archive import Archive, fetch
from fedica.errors import FetchError, InputError

NUMBERS = b"a,b\n1,2\n"
OTHER = b"more"
METADATA = b"Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n"
BUILD_SYSTEM = b'[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is all that pip knows of, and an empty cache folder."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("FEDICA_DATA", str(tmp_path / "cache"))
    return folder


def make_wheel(index) -> Archive:
    files = {
        "tinydata/numbers.csv": NUMBERS,
        "tinydata/deep/other.txt": OTHER,
        "tinydata/unwanted.bin": b"x" * 1000,
        "tinydata-1.0.dist-info/METADATA": METADATA,
        "tinydata-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    path = index / "tinydata-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
        wheel.writestr("tinydata-1.0.dist-info/RECORD", record + "tinydata-1.0.dist-info/RECORD,,\n")
    members = {"tinydata/numbers.csv": sha(NUMBERS), "tinydata/deep/other.txt": sha(OTHER)}
    return Archive("tinydata", "1.0", sha(path.read_bytes()), 1, members)


def make_source_archive(index, tmp_path, build_system: bytes) -> Archive:
    """A source archive whose own code, if it ran, would leave a mark."""
    mark = f"open({str(tmp_path / 'ran')!r}, 'w')".encode()
    files = {"PKG-INFO": METADATA, "setup.py": mark, "data/numbers.csv": NUMBERS}
    if build_system:
        files["pyproject.toml"] = build_system
    path = index / "tinydata-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"tinydata-1.0/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return Archive("tinydata", "1.0", sha(path.read_bytes()), 1, {"data/numbers.csv": sha(NUMBERS)}, source=True)


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_only_what_is_wanted_is_kept(index):
    """The members of a wheel lie in the cache under their own names; the archive and its other files do not."""
    files = fetch(make_wheel(index))
    assert files["numbers.csv"].read_bytes() == NUMBERS
    assert files["other.txt"].read_bytes() == OTHER
    assert everything_in(data_folder()) == [os.path.join("tinydata-1.0", name) for name in ("numbers.csv", "other.txt")]


@pytest.mark.parametrize("build_system", [BUILD_SYSTEM, b""], ids=["hatchling", "setup.py"])
def test_a_source_archive_is_read_and_never_run(index, tmp_path, build_system):
    """For pip to hand it over it wants metadata: it gets what the archive says; nothing is built or fetched for it."""
    files = fetch(make_source_archive(index, tmp_path, build_system))
    assert files["numbers.csv"].read_bytes() == NUMBERS
    assert not (tmp_path / "ran").exists()


def test_files_of_one_name_are_told_apart_by_their_folders(index):
    """Runs of a study that differ by their folder alone: each is kept, and found."""
    wheel = make_wheel(index)
    path = index / "tinydata-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "a") as archive:
        for run in ("run1", "run2"):
            archive.writestr(f"tinydata/{run}/bold.nii", run)
    members = {f"tinydata/{run}/bold.nii": sha(run.encode()) for run in ("run1", "run2")}
    pinned = replace(wheel, sha256=sha(path.read_bytes()), members={**wheel.members, **members})
    files = fetch(pinned)
    assert list(files) == ["numbers.csv", "other.txt", "run1_bold.nii", "run2_bold.nii"]
    assert files["run2_bold.nii"].read_bytes() == b"run2"


def test_what_is_kept_serves_without_a_network(index):
    """A second fetch asks nobody."""
    archive = make_wheel(index)
    fetch(archive)
    (index / "tinydata-1.0-py3-none-any.whl").unlink()
    assert fetch(archive)["numbers.csv"].read_bytes() == NUMBERS


def test_a_file_that_was_damaged_in_the_cache_is_fetched_again(index):
    """A file of the right name and wrong content is never returned."""
    archive = make_wheel(index)
    fetch(archive)["numbers.csv"].write_bytes(NUMBERS[:3])
    assert fetch(archive)["numbers.csv"].read_bytes() == NUMBERS


def test_another_file_under_the_same_name_is_refused(index):
    """The index offers something whose SHA-256 is not the pinned one: a changed, or a truncated archive."""
    archive = make_wheel(index)
    path = index / "tinydata-1.0-py3-none-any.whl"
    whole = path.read_bytes()
    for content in (whole[:-100], whole.replace(NUMBERS, NUMBERS.replace(b"1", b"7"))):
        path.write_bytes(content)
        with pytest.raises(FetchError, match=rf"offers another file than the one whose SHA-256 is {archive.sha256}"):
            fetch(archive)
    assert everything_in(data_folder()) == []


def test_our_own_check_does_not_rely_on_that_of_pip(index, monkeypatch, tmp_path):
    """Whatever brought the file: it must be the pinned one."""
    archive = make_wheel(index)
    (tmp_path / "wrong.whl").write_bytes(b"wrong")
    monkeypatch.setattr(archive_room, "pip_download", lambda *_, **__: tmp_path / "wrong.whl")
    with pytest.raises(FetchError, match="not the archive"):
        fetch(archive)


def test_an_interruption_leaves_whole_files_and_the_next_fetch_goes_on(index, monkeypatch):
    """Ctrl-C after the first member: no scratch folder, no half file."""
    archive = make_wheel(index)
    write = archive_room.write_atomic

    def interrupted(path, chunks):
        if path.name == "other.txt":
            raise KeyboardInterrupt
        write(path, chunks)

    monkeypatch.setattr(archive_room, "write_atomic", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(archive)
    folder = data_folder() / "tinydata-1.0"
    assert [path.name for path in folder.iterdir()] == ["numbers.csv"]
    monkeypatch.undo()
    for name, value in {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FEDICA_DATA", str(folder.parent))
    assert fetch(archive)["other.txt"].read_bytes() == OTHER


def test_without_a_network_one_sentence_says_what_to_do(index):
    """Which package, and three ways out."""
    with pytest.raises(FetchError, match=r"tinydata==1\.0: it could not be downloaded .* FEDICA_DATA .* PIP_INDEX_URL"):
        fetch(Archive("tinydata", "1.0", "0" * 64, 1, {"tinydata/numbers.csv": "0" * 64}))


def test_without_pip_one_sentence_says_so(index, monkeypatch, tmp_path):
    """Environments of other tools have none."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=os.name != "nt")
    bare = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(FetchError, match="pip, which is not installed"):
        fetch(make_wheel(index))


def test_a_file_called_pip_in_the_current_folder_is_not_run(index, monkeypatch, tmp_path):
    """A folder of downloads may hold anything."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "pip.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path / "here")
    assert fetch(make_wheel(index))["numbers.csv"].read_bytes() == NUMBERS
    assert not (tmp_path / "ran").exists()


def test_a_cache_folder_that_cannot_be_made(index, monkeypatch, tmp_path):
    """A file stands where the folder should be."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDICA_DATA", str(tmp_path / "file"))
    with pytest.raises(InputError, match="cannot be written"):
        fetch(make_wheel(index))


def test_progress_is_for_terminals(index, monkeypatch, capsys):
    """Said and taken back on a terminal; nothing elsewhere."""
    archive = make_wheel(index)
    fetch(archive)["numbers.csv"].unlink()
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fetch(archive)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Fetching tinydata-1.0 (1 MB)")
    assert err.endswith("\r\x1b[K")


def test_the_folder_is_the_users_choice_or_the_systems(monkeypatch, tmp_path):
    """FEDICA_DATA first."""
    monkeypatch.setenv("FEDICA_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("FEDICA_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_folder() == tmp_path / "fedica"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_folder().parts[-3:] == ("Library", "Caches", "fedica")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert data_folder() == tmp_path / "fedica" / "data"


def test_fetching_all_goes_on_after_a_failure_and_says_so(index, monkeypatch, capsys):
    """``python -m fedica.datasets`` with nothing to be had: a sentence for each archive, and exit code 1."""

    def unreachable(archive, _scratch):
        raise FetchError(f"{archive.package}=={archive.version}: no network.")

    monkeypatch.setattr(archive_room, "pip_download", unreachable)
    assert fetch_all() == 1
    out, err = capsys.readouterr()
    for package in ("pymodulon", "pyntbci", "pyprep", "nitime", "eeglabio", "pymvpa2", "pylossless"):
        assert f"{package}==" in err
    assert str(data_folder()) in out


def test_importing_fedica_imports_no_data_set():
    """They are for whoever asks."""
    code = "import sys, fedica; sys.exit(any(name.startswith('fedica.datasets') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
