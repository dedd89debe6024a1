"""A client whose data is a folder that exports are put into."""

from __future__ import annotations

import os

import numpy as np
import pytest
from inprocess import client_data

from fedica import read_contribution
from fedica.errors import InputError
from fedica.exchange import read_folder
from fedica.flower import watched
from fedica.flower.watched import newest_finished

LONG_AGO = 1_700_000_000


def export(path, n_samples, changed=LONG_AGO):
    """Put a file into the folder, last changed at this time."""
    np.save(path, client_data(9, n_samples))
    os.utime(path, (changed, changed))


@pytest.fixture
def folder(tmp_path):
    """A folder with two exports, of 300 and 400 samples, and what a program copies."""
    made = tmp_path / "exports"
    made.mkdir()
    export(made / "monday.npy", 300)
    export(made / "tuesday.npy", 400, LONG_AGO + 1)
    export(made / ".wednesday.npy", 500, LONG_AGO + 2)
    (made / "wednesday.npy.part").write_bytes(b"half")
    return made


def test_a_run_uses_the_newest_file_for_all_its_messages_and_the_next_run_a_newer_one(three, folder, monkeypatch):
    """A file that arrives between two messages of a run is for the next one."""
    client = three.add("watching", folder=folder)
    first = three.run()
    assert read_contribution(first / "inbox" / "watching.safetensors").n_samples == 400

    take = three.clients[client]

    def exporting(message):
        if message.metadata.message_type == "query.aggregate":
            export(folder / "thursday.npy", 700, LONG_AGO + 3)
        return take(message)

    monkeypatch.setitem(three.clients, client, exporting)
    second = three.run()
    assert read_contribution(second / "inbox" / "watching.safetensors").n_samples == 400
    assert np.load(three.home(client) / "output" / second.name / "sources.npy").shape[0] == 400
    third = three.run()
    assert read_contribution(third / "inbox" / "watching.safetensors").n_samples == 700


def test_a_file_that_grows_is_waited_for(folder, monkeypatch):
    """It is taken when it has not changed over one whole pause, whatever the clock of its server says."""
    growing = folder / "thursday.npy"
    growing.write_bytes(b"1")
    os.utime(growing, (2 * LONG_AGO, 2 * LONG_AGO))  # in the future
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) < 3:
            with growing.open("ab") as stream:
                stream.write(b"2")
            os.utime(growing, (2 * LONG_AGO, 2 * LONG_AGO))

    monkeypatch.setattr(watched.time, "sleep", sleep)
    assert newest_finished(folder, 10.0) == growing
    assert pauses == [10.0, 10.0, 10.0]


def test_a_file_that_changes_while_it_is_read_is_not_used(three, folder, monkeypatch):
    """The client is listed with the kind of error, and nothing of it is aggregated."""
    from fedica.flower import client_app

    three.add("watching", folder=folder)
    contribute = client_app.contribute

    def changing(data, **options):
        sent = contribute(data, **options)
        if options["client"] == "watching":
            export(data, 450, LONG_AGO + 4)
        return sent

    monkeypatch.setattr(client_app, "contribute", changing)
    result = read_folder(three.run() / "result").aggregate
    (rejection,) = result.rejected
    assert rejection.client == "watching"
    assert "its data cannot be used" in rejection.reason


def test_an_empty_folder_is_one_sentence(tmp_path):
    """With the kinds of files that it may hold."""
    with pytest.raises(InputError, match="a watched folder must hold a data file"):
        newest_finished(tmp_path, 1.0)
