"""Text from other people's files reaches terminals, tables and pages as printable text, and loses no result."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app
from fedica.exchange import contribution_from_bytes, contribution_to_bytes, read_folder
from fedica.records import Contribution

HOSTILE = "\x1b]0;title\x07\x9b2J\nError: forged\r\u202egnp\u2069\u200b\ufeff"
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def good(k, **fields):
    rng = np.random.default_rng(k)
    return Contribution(f"good-{k}", np.eye(4)[:, :3] + 0.01 * rng.standard_normal((4, 3)), 100, **fields)


@pytest.fixture
def inbox(tmp_path):
    """Four good contributions, one of them in a file with a hostile name."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    for k in range(4):
        name = f"{HOSTILE}.safetensors" if k == 3 else f"good-{k}.safetensors"
        (folder / name).write_bytes(contribution_to_bytes(good(k, features=["=1+1", "f\u202e\ufeff", "c", "d"])))
    return folder


def aggregate(inbox, output, *more):
    result = CliRunner().invoke(app, ["aggregate", str(inbox), "-o", str(output), "--report", *more])
    assert result.exit_code == 0, result.output
    return result


def test_a_file_name_that_is_no_utf8_loses_nobodys_result(tmp_path):
    """Linux takes any bytes for a name; the file with it counts as any other."""
    (tmp_path / "inbox").mkdir()
    for k in range(3):
        path = os.path.join(os.fsencode(tmp_path / "inbox"), b"\xff\xfe%d.safetensors" % k)
        try:
            with open(path, "wb") as stream:
                stream.write(contribution_to_bytes(good(k)))
        except OSError:
            pytest.skip("this file system takes UTF-8 alone")
    with open(os.path.join(os.fsencode(tmp_path / "inbox"), b"junk\xff.safetensors"), "wb") as stream:
        stream.write(b"junk")
    aggregate(tmp_path / "inbox", tmp_path / "result")
    found = read_folder(tmp_path / "result")
    assert sorted(found.aggregate.clients) == ["good-0", "good-1", "good-2"]
    assert [x.source.endswith("junk\\udcff.safetensors") for x in found.aggregate.rejected] == [True]
    assert sum("\\udcff\\udcfe" in origin.source for origin in found.provenance) == 3


def test_nothing_unprintable_reaches_a_terminal_a_table_or_a_page(tmp_path, inbox):
    """Controls, line breaks and marks of direction in names of files, clients and features are escaped everywhere."""
    (inbox / f"junk {HOSTILE}.safetensors").write_bytes(b"junk")
    said = aggregate(inbox, tmp_path / "result", "--verbose")
    shown = CliRunner().invoke(app, ["inspect", *map(str, sorted(inbox.glob("*"))[:1])])
    as_json = aggregate(inbox, tmp_path / "result-2", "--json")
    texts = [said.stdout, said.stderr, shown.output, as_json.stdout]
    texts += [path.read_text() for path in (tmp_path / "result").iterdir() if path.suffix != ".safetensors"]
    for whole in texts:
        text = re.sub(r"<script>.*?</script>", "", whole, flags=re.DOTALL)  # scripts of our own have tabs
        assert not UNPRINTABLE.search(text), UNPRINTABLE.search(text)
        assert not re.search("^Error: forged", text, re.MULTILINE)
    assert json.loads(as_json.stdout)["n_rejected"] == 1


def test_no_table_has_a_formula_whatever_separates_its_cells(tmp_path):
    """Commas, semicolons, tabs: no cell of text starts with a sign of a formula, in results and in exports."""
    hostile = [f"{before}{sign}HYPERLINK(1)" for before in ("", " ", "a;", "a; ", "a,", "a|") for sign in "=+-@'＝"]
    (tmp_path / "inbox").mkdir()
    (tmp_path / "bids").mkdir()
    for k in range(3):
        atoms = np.eye(36)[:, :2] + 0.001 * np.random.default_rng(k).standard_normal((36, 2))
        sent = Contribution(f"={hostile[2 * k]}", atoms, 100, features=hostile)
        (tmp_path / "inbox" / f"={k}.safetensors").write_bytes(contribution_to_bytes(sent))
    aggregate(tmp_path / "inbox", tmp_path / "result")
    for output in ("out.csv", "bids"):
        done = CliRunner().invoke(app, ["export", str(tmp_path / "result"), "-o", str(tmp_path / output)])
        assert done.exit_code == 0, done.output
    tables = [*tmp_path.rglob("*.csv"), *tmp_path.rglob("*.tsv")]
    assert len(tables) == 4 + 1 + 2
    for table in tables:
        for delimiter in ",;\t|":
            cells = csv.reader(io.StringIO(table.read_text()), delimiter=delimiter)
            assert not [cell for row in cells for cell in row if re.match(r" *[=+\-@＝][A-Z]", cell)], table


def test_what_is_said_of_a_rejection_is_bounded(tmp_path, inbox):
    """Forty clients that disagree with a thousand characters each: no sentence repeats them all."""
    for k in range(10, 50):
        sent = good(k, grid=f"{k} {'g' * 900}", features=["=1+1", "f\u202e\ufeff", "c", "d"])
        (inbox / f"{k}.safetensors").write_bytes(contribution_to_bytes(sent))
    result = CliRunner().invoke(app, ["aggregate", str(inbox), "-o", str(tmp_path / "result")])
    assert len(result.output) < 300_000
    if result.exit_code == 0:
        with open(tmp_path / "result" / "rejected.csv", encoding="utf-8", newline="") as stream:
            assert max(len(row["reason"]) for row in csv.DictReader(stream)) <= 2000


def with_metadata(data, **metadata):
    """Change the metadata of a file, as no writer of ours would."""
    n_header = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n_header])
    header["__metadata__"] |= metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + n_header :]


def test_seventeen_files_with_megabytes_of_a_term_refuse_nobody_else(tmp_path, inbox):
    """Each says another grid, longer than any grid is; what is said of them is short, and the others count."""
    for k in range(17):
        data = contribution_to_bytes(replace(good(0), client=f"hostile-{k}"))
        (inbox / f"hostile-{k}.safetensors").write_bytes(with_metadata(data, grid=f"{k} {'g' * 3_900_000}"))
    said = aggregate(inbox, tmp_path / "result")
    assert len(said.output) < 100_000
    found = read_folder(tmp_path / "result").aggregate
    assert sorted(found.clients) == [f"good-{k}" for k in range(4)]
    assert len(found.rejected) == 17


def test_a_file_with_much_besides_what_was_asked_for_is_refused(tmp_path, inbox):
    """Fields that nobody knows have 64 KB together: a contribution is no way to send other things."""
    data = contribution_to_bytes(replace(good(0), client="much"))
    (inbox / "much.safetensors").write_bytes(with_metadata(data, a="x" * 40_000, b="x" * 40_000))
    aggregate(inbox, tmp_path / "result")
    (refused,) = read_folder(tmp_path / "result").aggregate.rejected
    assert "at most 65536 bytes" in refused.reason


def test_figures_for_papers_are_drawn_whatever_features_are_called(tmp_path, inbox):
    """A PDF of matplotlib cannot hold a name that has a character of no width in it."""
    pytest.importorskip("matplotlib")
    aggregate(inbox, tmp_path / "result")
    words = ["report", tmp_path / "result", "-o", tmp_path / "page.html", "--figures", tmp_path / "figures"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(list((tmp_path / "figures").iterdir())) == 8
    for path in (tmp_path / "figures").glob("*.svg"):
        assert not UNPRINTABLE.search(path.read_text()), path


def test_what_clients_declare_is_printable_in_files_for_people(tmp_path, inbox):
    """The study that all contributions name: in the tables, the summary, the report and a derivative."""
    for path in inbox.iterdir():
        sent = contribution_from_bytes(path.read_bytes())
        path.write_bytes(contribution_to_bytes(replace(sent, study="s\u200b\u202e\u2028")))
    aggregate(inbox, tmp_path / "result")
    (tmp_path / "bids").mkdir()
    assert CliRunner().invoke(app, ["export", str(tmp_path / "result"), "-o", str(tmp_path / "bids")]).exit_code == 0
    for path in tmp_path.rglob("*.*"):
        if path.is_file() and path.suffix != ".safetensors":
            text = re.sub(r"<script>.*?</script>", "", path.read_text(), flags=re.DOTALL)
            assert not UNPRINTABLE.search(text.replace("\t", "") if path.suffix == ".tsv" else text), path
    assert json.loads((tmp_path / "result" / "summary.json").read_text())["study"] == "s\u200b\u202e\u2028"
