"""No command destroys what it reads, a key, or what is no file; what tells of single clients is its owner's alone."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app
from fedica.exchange import keygen, write_contribution, write_study
from fedica.records import Contribution, Study

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, pipes and modes of POSIX")
FEATURES = list("abcd")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data, a study, keys, an inbox and a result, in the current folder."""
    folder = tmp_path_factory.mktemp("outputs")
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(300, 3)) @ rng.standard_normal((3, 4))
    np.savetxt(folder / "data.csv", X, delimiter=",", header="a,b,c,d", comments="")
    (folder / "names.txt").write_text("a\nb\nc\nd\n")
    (folder / "inbox").mkdir()
    basis = np.linalg.qr(rng.standard_normal((4, 3)))[0]
    for k in range(4):
        sent = Contribution(f"c{k}", basis + 0.01 * rng.standard_normal((4, 3)), 300, features=FEATURES)
        write_contribution(sent, folder / "inbox" / f"c{k}.safetensors")
    write_study(Study("s", FEATURES), folder / "study.json")
    keygen("north", folder / "keys")
    (folder / "link.csv").symlink_to(folder / "data.csv")
    (folder / "hard.csv").hardlink_to(folder / "data.csv")
    os.mkfifo(folder / "pipe.csv")
    assert run("aggregate", folder / "inbox", "-o", folder / "result", "--report").exit_code == 0
    (folder / "mixing-link.csv").symlink_to(folder / "result" / "aggregate.safetensors")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "local data.csv -o data.csv",
        "local data.csv -o link.csv",
        "local link.csv -o data.csv",
        "local data.csv -o hard.csv",
        "local data.csv -o pipe.csv",
        "local data.csv -o inbox",
        "local data.csv --study study.json -o study.json",
        "local data.csv --features names.txt -o names.txt",
        "local data.csv --key keys/north.key -o keys/north.key",
        "local data.csv -o keys/north.key",
        "local data.csv -o keys/north.pub",
        "apply result data.csv -o data.csv",
        "apply result data.csv -o hard.csv",
        "apply result data.csv -o result/clients.csv",
        "apply result data.csv -o pipe.csv",
        "aggregate inbox -o inbox",
        "aggregate inbox/c0.safetensors inbox/c1.safetensors -o inbox",
        "aggregate inbox --trust-keys keys -o keys",
        "aggregate inbox --like result -o result",
        "aggregate inbox -o data.csv",
        "export result -o result/mixing.csv",
        "export mixing-link.csv -o mixing-link.csv",
        "export result -o pipe.csv",
        "report result -o result/details.safetensors",
        "report result -o result/summary.json",
        "report result -o pipe.csv",
        "study new --id s --from data.csv -o data.csv",
        "study new --id s --features names.txt -o names.txt",
        "keygen north -o keys",
    ],
)
def test_what_would_be_lost_is_kept(place, monkeypatch, words):
    """One sentence, exit code 1, and every file is as it was."""
    monkeypatch.chdir(place)
    before = {path: (path.lstat().st_ino, path.is_file() and path.read_bytes()) for path in place.rglob("*")}
    result = run(*words.split())
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    after = {path: (path.lstat().st_ino, path.is_file() and path.read_bytes()) for path in place.rglob("*")}
    assert after == before


def test_outputs_beside_their_inputs_are_written(place, monkeypatch):
    """A refusal is no habit: another name in the same folder, and an older output, are fine."""
    monkeypatch.chdir(place)
    for words in ("local data.csv -o new.safetensors", "apply result data.csv -o sources.csv", "report result"):
        for _ in range(2):
            assert run(*words.split()).exit_code == 0


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_what_tells_of_single_clients_is_its_owners_alone(place, monkeypatch, tmp_path, umask):
    """Sources, the report, its figures and the coordinator's files; the public file may be read by others."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(place)
    old = os.umask(umask)
    try:
        assert run("aggregate", "inbox", "-o", tmp_path / "result", "--report").exit_code == 0
        assert run("apply", "result", "data.csv", "-o", tmp_path / "sources.csv").exit_code == 0
        assert run("apply", "result", "data.csv", "-o", tmp_path / "sources.npy").exit_code == 0
        assert run("report", "result", "-o", tmp_path / "page.html", "--figures", tmp_path / "figures").exit_code == 0
    finally:
        os.umask(old)
    files = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert files.pop(tmp_path / "result" / "aggregate.safetensors") == 0o666 & ~umask
    assert set(files.values()) == {0o600}
    assert len(files) == 6 + 1 + 2 + 1 + 8
