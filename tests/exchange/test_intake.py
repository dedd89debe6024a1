"""The coordinator's mailbox: every file is answered, none stops the rest."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fedica.exchange import Received, TrustedKeys, read_contributions, write_contribution
from fedica.records import Contribution, Rejection


@pytest.fixture
def mailbox(contribution: Contribution, tmp_path: Path) -> Path:
    folder = tmp_path / "mail"
    folder.mkdir()
    write_contribution(replace(contribution, client="b"), folder / "2.safetensors")
    write_contribution(replace(contribution, client="a"), folder / "1.safetensors")
    (folder / "3.safetensors").write_bytes(b"")
    (folder / "4.safetensors").mkdir()
    (folder / ".hidden.safetensors").write_bytes(b"x")
    (folder / ".2.safetensors.0123.tmp").write_bytes(b"x")
    (folder / "notes.txt").write_bytes(b"x")
    return folder


def test_a_bad_file_does_not_stop_the_rest(mailbox: Path) -> None:
    """A folder gives its *.safetensors files by name: contributions, and a rejection for each bad file."""
    items = list(read_contributions(mailbox))
    assert [x.contribution.client for x in items if isinstance(x, Received)] == ["a", "b"]
    bad = [x for x in items if isinstance(x, Rejection)]
    assert [(x.client, Path(x.source).name) for x in bad] == [
        ("(unknown)", "3.safetensors"),
        ("(unknown)", "4.safetensors"),
    ]
    assert "at least 8 bytes; got 0" in bad[0].reason
    assert "it is a folder" in bad[1].reason


def test_files_and_folders_mix_and_a_file_is_read_once(mailbox: Path) -> None:
    """A file that is named and also lies in a named folder counts once, in the place where it came first."""
    items = list(read_contributions([mailbox / "2.safetensors", mailbox, f"{mailbox}/../mail/1.safetensors"]))
    assert [x.contribution.client for x in items if isinstance(x, Received)] == ["b", "a"]
    assert len(items) == 4


def test_missing_and_empty_places_are_answered(tmp_path: Path) -> None:
    """A path without a file, an empty folder, an impossible name: a rejection each."""
    (tmp_path / "empty").mkdir()
    items = list(read_contributions([tmp_path / "missing", tmp_path / "empty", "a\0b"]))
    assert all(isinstance(x, Rejection) for x in items)
    reasons = [x.reason for x in items if isinstance(x, Rejection)]
    assert "No such file" in reasons[0]
    assert "no *.safetensors file" in reasons[1]
    assert "cannot be the path" in reasons[2]
    kinds = [x.kind for x in items if isinstance(x, Rejection)]
    assert kinds == ["unreadable-file", "empty-folder", "unreadable-file"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_locked_folder_is_answered(tmp_path: Path) -> None:
    """A folder that may not be read gives a rejection."""
    (tmp_path / "locked").mkdir(mode=0)
    (item,) = read_contributions(tmp_path / "locked")
    assert isinstance(item, Rejection)


def test_a_refused_client_is_named(mailbox: Path, trusted: TrustedKeys) -> None:
    """An unsigned file is rejected in its client's name."""
    named = [x.client for x in read_contributions(mailbox, trusted=trusted) if isinstance(x, Rejection)]
    assert named == ["a", "b", "(unknown)", "(unknown)"]


def test_files_are_read_one_by_one(mailbox: Path) -> None:
    """The iterator is lazy: a coordinator with many files holds one at a time."""
    items = read_contributions(mailbox)
    next(items)
    for path in mailbox.glob("2*"):
        path.unlink()
    assert isinstance(next(items), Rejection)
