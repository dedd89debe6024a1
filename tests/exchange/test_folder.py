"""The result folder: everything about one aggregate, replaced as a whole, never at the cost of a stranger's file."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedica
from fedica.errors import FormatError, InputError
from fedica.exchange import Provenance, as_public, details, read_folder, write_folder
from fedica.exchange.folder import FILES
from fedica.exchange.replace_folder import aside_of, replace_folder
from fedica.records import Aggregate, Contribution


def test_everything_written_is_read(aggregate: Aggregate, provenance: list[Provenance], tmp_path: Path) -> None:
    """The aggregate, its public part, where the contributions came from, and the summary come back."""
    write_folder(aggregate, tmp_path / "out", provenance=provenance, min_support=1)
    assert sorted(os.listdir(tmp_path / "out")) == sorted(FILES)
    result = read_folder(tmp_path / "out")
    np.testing.assert_array_equal(result.aggregate.atoms, aggregate.atoms)
    np.testing.assert_array_equal(result.public.mixing, aggregate.mixing)
    assert list(result.provenance) == provenance
    assert os.listdir(tmp_path) == ["out"]


def test_the_summary_says_it_all_in_plain_json(
    aggregate: Aggregate, provenance: list[Provenance], tmp_path: Path
) -> None:
    """Counts, method, options, verdicts and guarantees, without NaN; a term that nobody declared is null."""
    write_folder(aggregate, tmp_path / "out", provenance=provenance, min_support=1)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    expected = {
        "format": "fedica.summary",
        "version": "1",
        "method": "consensus",
        "study": "rest-2024",
        "n_features": 3,
        "n_components": 2,
        "n_clients": 2,
        "n_atoms": 4,
        "n_rejected": 1,
        "support": [2, 1],
        "spread_degrees": [0.5, 12.0],
        "verdicts": {"outlying": 1, "trusted": 1},
        "kmeans_gamma": pytest.approx(0.25),
        "median_gap": 1e-12,
        "independence": "samples",
        "mixing": "general",
        "options": aggregate.options,
    }
    assert {name: summary[name] for name in expected} == expected
    assert set(summary["files"]) == set(FILES) - {"summary.json"}
    numbers = {"angle": 45.0, "n_samples": 0, "missing": [1]}
    assert [(row["kind"], row["numbers"]) for row in summary["clients"]] == [
        ("agrees", {"angle": 0.25}),
        ("far", numbers),
    ]
    assert (summary["rejected"][0]["kind"], summary["rejected"][0]["numbers"]["n_wanted"]) == ("unnamed-features", 3)
    odd = replace(aggregate, spread=np.array([np.nan, 1.0]), trust=None, certificate=None)
    write_folder(odd, tmp_path / "out", min_support=1)
    again = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert (again["spread_degrees"], again["verdicts"], again["kmeans_gamma"]) == ([None, 1.0], None, None)


def test_the_same_aggregate_gives_the_same_bytes(aggregate: Aggregate, tmp_path: Path) -> None:
    """There is no clock and no chance in a result folder."""
    for name in ("one", "two"):
        write_folder(aggregate, tmp_path / name, min_support=1)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_newer_result_replaces_the_older_with_its_report(aggregate: Aggregate, tmp_path: Path) -> None:
    """An old result goes as a whole: its report and the system's own files too, and nothing is left beside it."""
    write_folder(aggregate, tmp_path / "out", min_support=1)
    (tmp_path / "out" / "report.html").write_text("old")
    (tmp_path / "out" / ".DS_Store").write_text("finder")
    write_folder(replace(aggregate, method="srf-ica"), tmp_path / "out", min_support=1)
    assert read_folder(tmp_path / "out").aggregate.method == "srf-ica"
    assert sorted(os.listdir(tmp_path / "out")) == sorted(FILES)
    assert os.listdir(tmp_path) == ["out"]


def test_missing_folders_above_are_made(aggregate: Aggregate, tmp_path: Path) -> None:
    """An output deep in folders that do not exist yet is no error; an empty folder is taken."""
    write_folder(aggregate, tmp_path / "a" / "b" / "out", min_support=1)
    (tmp_path / "empty").mkdir()
    write_folder(aggregate, tmp_path / "empty", min_support=1)
    assert read_folder(tmp_path / "a" / "b" / "out").summary == read_folder(tmp_path / "empty").summary


def test_a_folder_with_anything_else_in_it_is_left_alone(aggregate: Aggregate, tmp_path: Path) -> None:
    """A folder that holds somebody's file is refused, and nothing in it changes."""
    write_folder(aggregate, tmp_path / "out", min_support=1)
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match=r"it holds 'thesis\.txt', which would be lost"):
        write_folder(replace(aggregate, method="x"), tmp_path / "out", min_support=1)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


def test_places_that_cannot_be_replaced_are_refused(
    aggregate: Aggregate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, the current folder, a mount point, an impossible name: one sentence each."""
    (tmp_path / "file").write_text("x")
    monkeypatch.chdir(tmp_path)
    for place, problem in (
        (tmp_path / "file", "there is a file of this name"),
        (".", "the current folder or to a mount point"),
        ("/", "the current folder or to a mount point"),
        (tmp_path / "file" / "out", "cannot be written"),
        ("a\0b", "cannot be the path"),
    ):
        with pytest.raises(InputError, match=problem):
            write_folder(aggregate, place, min_support=1)
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_to_a_folder_is_followed(aggregate: Aggregate, tmp_path: Path) -> None:
    """The folder that a link names is replaced; the link stays."""
    (tmp_path / "real").mkdir()
    try:
        (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    except OSError:
        pytest.skip("no symbolic links here")
    write_folder(aggregate, tmp_path / "link", min_support=1)
    assert (tmp_path / "link").is_symlink()
    assert read_folder(tmp_path / "real").aggregate.method == "consensus"


def test_a_result_that_stood_aside_comes_back(aggregate: Aggregate, tmp_path: Path) -> None:
    """Killed between the two renames: the reader says where the old result is, the next writer brings it back first."""
    out = tmp_path / "out"
    write_folder(aggregate, out, min_support=1)
    out.rename(aside_of(out))
    with pytest.raises(FormatError, match=r"An interrupted run left .* as .*\.out\.fedica-old: rename it"):
        read_folder(out)
    with pytest.raises(ZeroDivisionError):
        replace_folder(out, {"summary.json": (1 // 0 for _ in "x")}, FILES)  # type: ignore[misc]
    assert read_folder(out).aggregate.method == "consensus"
    assert os.listdir(tmp_path) == ["out"]


def test_an_old_result_that_was_not_deleted_in_time_goes_with_the_next(aggregate: Aggregate, tmp_path: Path) -> None:
    """Killed after the second rename: the new result stands, and the next writer deletes what waits aside."""
    out = tmp_path / "out"
    write_folder(aggregate, out, min_support=1)
    write_folder(replace(aggregate, method="older"), aside_of(out), min_support=1)
    write_folder(replace(aggregate, method="newer"), out, min_support=1)
    assert read_folder(out).aggregate.method == "newer"
    assert os.listdir(tmp_path) == ["out"]


def test_what_killed_writers_left_is_cleaned_when_it_is_old(aggregate: Aggregate, tmp_path: Path) -> None:
    """A half-written folder of an hour ago goes; one of a minute ago may be a live writer's, and stays."""
    for name, age in (("old", 7200), ("young", 60)):
        folder = tmp_path / f".out.fedica-new-{name}"
        folder.mkdir()
        (folder / "mixing.csv").write_text("half")
        os.utime(folder, (time.time() - age, time.time() - age))
    (tmp_path / ".other.fedica-new-x").mkdir()
    write_folder(aggregate, tmp_path / "out", min_support=1)
    assert sorted(os.listdir(tmp_path)) == [".other.fedica-new-x", ".out.fedica-new-young", "out"]


def test_when_the_new_folder_cannot_take_its_place_the_old_one_returns(
    aggregate: Aggregate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that fails half-way is undone."""
    out = tmp_path / "out"
    write_folder(aggregate, out, min_support=1)
    rename = os.rename

    def failing(source: Any, target: Any) -> None:
        if "fedica-new" in str(source):
            raise PermissionError(13, "Access is denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(InputError, match=r"cannot be written \(Access is denied\)"):
        write_folder(replace(aggregate, method="new"), out, min_support=1)
    assert read_folder(out).aggregate.method == "consensus"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["aggregate.safetensors", "details.safetensors"])
def test_files_of_two_runs_are_not_mixed(aggregate: Aggregate, tmp_path: Path, name: str) -> None:
    """A file that was copied from another result is noticed by its fingerprint."""
    write_folder(aggregate, tmp_path / "one", min_support=1)
    write_folder(replace(aggregate, method="other"), tmp_path / "two", min_support=1)
    (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    with pytest.raises(FormatError, match=r"not the file that summary\.json beside it was written with"):
        read_folder(tmp_path / "one")


def test_a_folder_that_lacks_a_file_is_refused(aggregate: Aggregate, tmp_path: Path) -> None:
    """A missing folder, a missing summary, missing details: refused, naming what is missing."""
    with pytest.raises(FormatError, match="there is no result folder of this name"):
        read_folder(tmp_path / "out")
    write_folder(aggregate, tmp_path / "out", min_support=1)
    for name in ("details.safetensors", "summary.json"):
        (tmp_path / "out" / name).unlink()
        with pytest.raises(FormatError, match=f"{re.escape(name)}: cannot be read"):
            read_folder(tmp_path / "out")


@pytest.mark.parametrize("rows", ["x", [1], [{"client": "a"}], [{"client": 5}]])
def test_a_summary_with_broken_provenance_is_refused(aggregate: Aggregate, tmp_path: Path, rows: object) -> None:
    """The list of contributions has its fields in their types, or is refused."""
    write_folder(aggregate, tmp_path / "out", min_support=1)
    path = tmp_path / "out" / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "contributions": rows}))
    with pytest.raises(FormatError, match="'contributions' must be a list of objects"):
        read_folder(tmp_path / "out")


@pytest.mark.parametrize("method", ["consensus", "srf-ica", "naive-mean"])
def test_what_the_server_computes_goes_to_disk_and_back(method: str, tmp_path: Path) -> None:
    """Real results, with trust and without, are written and read without loss; their bytes are the same again."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((6, 3)))[0]
    contributions = [
        Contribution(f"client-{k}", mixing + 0.02 * rng.standard_normal((6, 3)), 1000 if k else None) for k in range(8)
    ]
    result = fedica.aggregate(contributions, 3, method=method)
    write_folder(result, tmp_path / "one", min_support=1)
    read = read_folder(tmp_path / "one").aggregate
    write_folder(read, tmp_path / "two", min_support=1)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    assert (read.trust is None) == (result.trust is None)
    assert repr(read) == repr(result)


def test_what_is_withheld_is_in_the_details_alone(aggregate: Aggregate, tmp_path: Path) -> None:
    """Published components have the first numbers everywhere; the tables say which are published."""
    order = np.array([1, 0])
    write_folder(aggregate.renumbered(order, np.ones(2)), tmp_path / "out", min_support=2)
    result = read_folder(tmp_path / "out")
    assert result.public is not None
    np.testing.assert_array_equal(result.public.mixing, aggregate.mixing[:, :1])
    np.testing.assert_array_equal(result.aggregate.mixing, aggregate.mixing)
    assert result.aggregate.labels.tolist() == aggregate.labels.tolist()
    assert (tmp_path / "out" / "mixing.csv").read_text(encoding="utf-8").startswith("feature,component_0\n")
    assert (result.summary["min_support"], result.summary["n_withheld"]) == (2, 1)
    with (tmp_path / "out" / "components.csv").open(encoding="utf-8") as file:
        assert [row["published"] for row in csv.DictReader(file)] == ["true", "false"]


def test_a_folder_without_a_public_file_is_a_result(aggregate: Aggregate, tmp_path: Path) -> None:
    """With two clients nothing goes to the clients; an older public file does not stay behind."""
    write_folder(aggregate, tmp_path / "out", min_support=1)
    write_folder(aggregate, tmp_path / "out")
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == set(FILES) - {"aggregate.safetensors", "mixing.csv"}
    result = read_folder(tmp_path / "out")
    assert result.public is None
    assert result.aggregate.n_components == 2
    with pytest.raises(InputError, match=r"no component of this result could be published.*--min-support 1"):
        as_public(tmp_path / "out")


def test_atoms_that_are_too_many_for_the_details_do_not_stop_the_result(
    aggregate: Aggregate, provenance: list[Provenance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else is written, with the fingerprint of each contribution; who needs the details is told."""
    monkeypatch.setattr(details, "DETAILS", replace(details.DETAILS, max_numbers=aggregate.atoms.size - 1))
    write_folder(aggregate, tmp_path / "result", provenance=provenance, min_support=1)
    written = {path.name for path in (tmp_path / "result").iterdir()}
    assert written == set(FILES) - {"details.safetensors"}
    assert all(origin.sha256 in (tmp_path / "result" / "clients.csv").read_text() for origin in provenance)
    with pytest.raises(FormatError, match=r"written without details\.safetensors, which takes"):
        read_folder(tmp_path / "result")
