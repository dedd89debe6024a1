"""No bad input ends in a traceback: one sentence on stderr and exit code 1, or wrong usage and 2."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app
from fedica.exchange import keygen, write_aggregate, write_contribution, write_study
from fedica.records import Contribution, Study
from fedica.server import aggregate

PROGRAM = [sys.executable, "-m", "fedica"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with good files, and many bad ones."""
    folder = tmp_path_factory.mktemp("bad")
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(300, 3)) @ rng.standard_normal((3, 4))
    np.save(folder / "good.npy", X)
    np.savetxt(folder / "good.csv", X, delimiter=",", header="a,b,c,d", comments="")
    (folder / "inbox").mkdir()
    basis = np.linalg.qr(rng.standard_normal((4, 3)))[0]
    sent = [Contribution(f"c{k}", basis + 0.01 * rng.standard_normal((4, 3)), 300) for k in range(4)]
    for contribution in sent:
        write_contribution(contribution, folder / "inbox" / f"{contribution.client}.safetensors")
    result = aggregate(sent, 3)
    write_aggregate(result, folder / "good.safetensors")
    write_study(Study("s", list("abcd"), n_components=3), folder / "study.json")
    write_study(Study("s", list("wxyz")), folder / "other-study.json")
    keygen("c0", folder / "keys")

    texts = {
        "empty.csv": "",
        "header-only.csv": "a,b\n",
        "ragged.csv": "a,b\n1,2\n3\n",
        "text.csv": "a,b\nx,y\nz,w\n",
        "hole.csv": "a,b\n1,2\n,3\n4,5\n",
        "one-row.csv": "a,b\n1,2\n",
        "typo.csv": "a,b\n1,2\n3,x\n4,5\n5,6\n",
        "flat.csv": "a,b\n" + "1,2\n" * 20,
        "twice.csv": "a,a\n1,2\n2,1\n",
        "names.txt": "a\nzz\n",
        "no-names.txt": "\n",
        "broken.json": "{",
        "list.json": "[]",
        "deep.json": "[" * 100_000,
        "wrong-study.json": '{"format": "fedica.study", "version": "1", "id": "s", "features": []}',
        "new-study.json": '{"format": "fedica.study", "version": "9"}',
        "bad.key": "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n",
        "data.xlsx": "x",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "zero.csv").write_bytes(b"a,b\n\0\0\n")
    (folder / "junk.npy").write_bytes(b"\x93NUMPYjunk")
    (folder / "junk.npz").write_bytes(b"PK\x03\x04")
    (folder / "junk.parquet").write_bytes(b"PAR1PAR1")
    (folder / "junk.safetensors").write_bytes(b"\xff" * 40)
    (folder / "cut.safetensors").write_bytes((folder / "good.safetensors").read_bytes()[:-9])
    np.save(folder / "cube.npy", np.zeros((2, 2, 2)))
    np.save(folder / "complex.npy", np.zeros((9, 2), dtype=complex))
    np.save(folder / "object.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save(folder / "infinite.npy", np.full((9, 2), np.inf))
    (folder / "bad-keys").mkdir()
    (folder / "bad-keys" / "x.pub").write_text("{}")
    (folder / "strangers").mkdir()
    (folder / "strangers" / "thesis.txt").write_text("two years of work")
    (folder / "file").write_text("x")
    os.mkfifo(folder / "pipe.csv")
    return folder


BAD = [
    *(
        (f"local {name} -o out.safetensors", 1)
        for name in (
            *("empty.csv", "header-only.csv", "ragged.csv", "text.csv", "hole.csv", "one-row.csv", "typo.csv"),
            *("flat.csv", "twice.csv", "zero.csv", "junk.npy", "junk.npz", "junk.parquet", "cube.npy", "complex.npy"),
            *("object.npy", "infinite.npy", "data.xlsx", "no-such.csv", "inbox", "pipe.csv", "names.txt"),
        )
    ),
    ("local good.csv -o no/such/folder/out.safetensors", 1),
    ("local good.csv -o inbox", 1),
    ("local good.csv -o out.safetensors --components 99", 1),
    ("local good.csv -o out.safetensors --components 0", 2),
    ("local good.csv -o out.safetensors --components many", 2),
    ("local good.csv -o out.safetensors --solver magic", 1),
    ("local good.csv -o out.safetensors --independence magic", 2),
    ("local good.csv -o out.safetensors --features names.txt", 1),
    ("local good.csv -o out.safetensors --features no-names.txt", 1),
    ("local good.csv -o out.safetensors --study broken.json", 1),
    ("local good.csv -o out.safetensors --study list.json", 1),
    ("local good.csv -o out.safetensors --study deep.json", 1),
    ("local good.csv -o out.safetensors --study wrong-study.json", 1),
    ("local good.csv -o out.safetensors --study new-study.json", 1),
    ("local good.csv -o out.safetensors --study other-study.json", 1),
    ("local good.csv -o out.safetensors --study study.json --components 4", 1),
    ("local good.csv -o out.safetensors --key bad.key", 1),
    ("local good.csv -o out.safetensors --key no-such.key", 1),
    ("local good.csv -o out.safetensors --key keys/c0.key --client c1", 1),
    ("local good.csv -o out.safetensors --client ''", 1),
    ("local good.csv -o out.safetensors --min-samples 9999", 1),
    ("local good.csv -o out.safetensors --quiet --verbose", 1),
    ("local good.csv", 2),
    ("local", 2),
    ("inspect", 2),
    *(
        (f"inspect {name}", 1)
        for name in (
            *("junk.safetensors", "cut.safetensors", "good.csv", "broken.json", "list.json", "deep.json", "inbox"),
            *("no-such", "keys/c0.key", "pipe.csv", "empty.csv"),
        )
    ),
    ("aggregate no-such -o out", 1),
    ("aggregate junk.safetensors -o out", 1),
    ("aggregate good.safetensors -o out", 1),
    ("aggregate keys -o out", 1),
    ("aggregate inbox", 2),
    ("aggregate inbox -o strangers", 1),
    ("aggregate inbox -o file", 1),
    ("aggregate inbox -o no/such/out", 1),
    ("aggregate inbox -o out --method magic", 1),
    ("aggregate inbox -o out --affinity magic", 1),
    ("aggregate inbox -o out --weights magic", 1),
    ("aggregate inbox -o out --components 99", 1),
    ("aggregate inbox -o out --min-clients 9", 1),
    ("aggregate inbox -o out --exclude nobody", 1),
    ("aggregate inbox -o out --fail-on magic", 2),
    ("aggregate inbox -o out --trust-keys bad-keys", 1),
    ("aggregate inbox -o out --trust-keys no-such", 1),
    ("aggregate inbox -o out --trust-keys keys", 1),
    ("aggregate inbox -o out --study study.json", 1),
    ("aggregate inbox -o out --like junk.safetensors", 1),
    ("aggregate inbox -o out --like no-such", 1),
    ("aggregate inbox junk.safetensors -o out --require-all", 1),
    ("apply good.safetensors good.npy -o out.txt", 1),
    ("apply good.safetensors no-such.csv -o out.npy", 1),
    ("apply good.safetensors text.csv -o out.npy", 1),
    ("apply good.safetensors one-row.csv -o out.npy", 1),
    ("apply junk.safetensors good.npy -o out.npy", 1),
    ("apply inbox/c0.safetensors good.npy -o out.npy", 1),
    ("apply inbox good.npy -o out.npy", 1),
    ("apply good.safetensors good.npy -o out.npy --components 9", 1),
    ("apply good.safetensors good.npy -o out.npy --study broken.json", 1),
    ("apply good.safetensors good.npy -o no/such/out.npy", 1),
    ("study new --id s", 1),
    ("study new --id s --features no-such.txt -o new.json", 1),
    ("study new --id s --features names.txt --from good.csv -o new.json", 1),
    ("study new --id s --from good.npy -o new.json", 1),
    ("study new --id s --features names.txt -o study.json", 1),
    ("study new --id s --features names.txt --components 3 -o new.json", 1),
    ("study new --id s --features names.txt --scale 0 -o new.json", 1),
    ("study new --features names.txt", 2),
    ("keygen c0 -o keys", 1),
    ("keygen c9 -o file", 1),
    ("keygen ''", 1),
    ("keygen", 2),
]


def words_of(line):
    return ["" if word == "''" else word for word in line.split(" ")]


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
@pytest.mark.parametrize(("line", "code"), BAD, ids=[line for line, _ in BAD])
def test_no_bad_input_ends_in_a_traceback(place, monkeypatch, line, code):
    """One sentence, the right exit code, nothing on stdout, and nothing written."""
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.rglob("*"))
    result = CliRunner().invoke(app, words_of(line), prog_name="fedica")
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stdout == ""
    if code == 1:
        assert result.stderr.startswith("Error: ")
        assert len([text for text in result.stderr.splitlines() if not text.startswith("Note: ")]) == 1
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in place.rglob("*")) == before


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
@pytest.mark.parametrize(
    "line",
    ["local typo.csv -o out.safetensors", "aggregate keys -o out"],
)
def test_nor_does_the_real_program(place, line):
    """As a process of its own."""
    result = subprocess.run(
        [*PROGRAM, *words_of(line)], capture_output=True, text=True, cwd=place, timeout=600, check=False
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
