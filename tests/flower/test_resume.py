"""Runs that were interrupted: what arrived stands in the inbox, and ``fedica flower resume`` finishes from it."""

from __future__ import annotations

import shutil

import pytest
from inprocess import LocalGrid
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.exchange import read_folder
from fedica.flower import fleet, reception, rounds, server_app
from fedica.flower.certs import make_certificates
from fedica.flower.coordinator import read_node_keys


class Killed(BaseException):
    """What ends the server's app in the middle, as a signal does."""


@pytest.fixture
def keyed(three, tmp_path):
    """Return a function: a grid of the three clients, whose node keys the coordinator knows."""
    certs = make_certificates(tmp_path / "certs", list("abc"), host="127.0.0.1")
    keys = {name: key for key, name in read_node_keys(certs.nodes).items()}
    three.coordinator(node_keys=str(certs.nodes), min_support=1)
    for number in three.clients:
        page = three.home(number) / "policy.toml"
        page.write_text(page.read_text() + "max-rounds = 2\n")
    return lambda: LocalGrid(three.clients, {1000 + k: keys[name] for k, name in enumerate("abc")})


def kill_before(monkeypatch, owner, name, count=1):
    """End the server's app before a function is called for this time."""
    calls, work = [], getattr(owner, name)

    def counting(*arguments, **options):
        calls.append(name)
        if len(calls) == count:
            raise Killed
        return work(*arguments, **options)

    monkeypatch.setattr(owner, name, counting)


PHASES = {
    "before anybody is asked": (server_app, "keep_nonces", 1, 3),
    "before the answers": (server_app, "ask_into", 1, 3),
    "during the answers": (reception.Inbox, "take", 2, 2),
    "after the answers": (server_app, "combine_inbox", 1, 0),
    "after the result": (server_app, "refine_in_rounds", 1, 0),
    "during the second messages": (reception.Inbox, "take", 5, 0),
    "after the second messages": (rounds, "refine_result", 1, 0),
    "after the last round": (server_app, "_return_aggregate", 1, 0),
    "while the aggregate goes back": (fleet.Fleet, "_open", 8, 0),
}
"""The function before whose call the app is killed, at which of them, and how many contributions are missing then."""


def files_of(folder):
    """The bytes of every file of a run by its name, but for the nonces."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "nonces.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def undisturbed(three, tmp_path):
    """Return a function: a run's files; the next run has its number, since tables tell the paths of files."""

    def undisturbed(*arguments, **options):
        folder = three.run(*arguments, **options).rename(tmp_path / "undisturbed")
        for client in three.clients:
            shutil.rmtree(three.home(client) / "output")
        three.run_id -= 1
        return files_of(folder)

    return undisturbed


def run_until_killed(monkeypatch, run, *kills):
    """Run with these kills, each as arguments of `kill_before`."""
    with monkeypatch.context() as patch:
        for kill in kills:
            kill_before(patch, *kill)
        with pytest.raises(Killed):
            run()


@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_at_any_phase_and_a_resume_give_the_bytes_of_an_undisturbed_run(
    three, keyed, undisturbed, monkeypatch, phase
):
    """Only who has not answered is asked again, and each client gets the aggregate of the last round."""
    expected = undisturbed(keyed(), rounds=2)
    *kill, missing = PHASES[phase]
    run_until_killed(monkeypatch, lambda: three.run(keyed(), rounds=2), kill)
    killed, grid = three.newest, keyed()
    three.run(grid, resume=killed.name)
    assert files_of(killed) == expected
    assert [kind for _, kind in grid.asked].count("train.contribution") == missing
    assert (killed / "not-applied.csv").read_text().splitlines() == ["client,reason,source,kind"]
    last = (killed / "round-2" / "result" / "aggregate.safetensors").read_bytes()
    for client in three.clients:
        assert (three.home(client) / "output" / killed.name / "aggregate.safetensors").read_bytes() == last


def test_a_resumed_run_that_is_killed_is_resumed_again(three, keyed, undisturbed, monkeypatch):
    """By a third run of Flower, with the nonces of the first."""
    expected, take = undisturbed(keyed()), (reception.Inbox, "take")
    run_until_killed(monkeypatch, lambda: three.run(keyed()), (*take, 2))
    killed = three.newest
    run_until_killed(monkeypatch, lambda: three.run(keyed(), resume=killed.name), (*take, 2))
    three.run(keyed(), resume=killed.name)
    assert files_of(killed) == expected


def test_who_is_away_when_a_run_is_resumed_is_listed(three, keyed, monkeypatch):
    """Contributions that had arrived count also if their clients are away; who had sent nothing is named."""
    run_until_killed(monkeypatch, lambda: three.run(keyed()), (reception.Inbox, "take", 3))
    killed = three.newest
    arrived = sorted(path.stem for path in (killed / "inbox").iterdir())
    three.run(LocalGrid({}), resume=killed.name)
    result = read_folder(killed / "result").aggregate
    assert sorted(result.clients) == arrived
    assert sorted([*arrived, *(rejection.client for rejection in result.rejected)]) == ["a", "b", "c"]


def resume(three, folder):
    settings = str(three.folder / "coordinator.toml")
    arguments = ["flower", "resume", str(folder), "--without-clients", "--settings", settings]
    return CliRunner().invoke(program, arguments)


@pytest.fixture
def kill(three, monkeypatch):
    """Return a function: run until so many answers have been written, then end the server's app; returns the folder."""

    def kill(n_answers):
        kills = (reception.Inbox, "take", n_answers + 1), (server_app, "combine_inbox")
        run_until_killed(monkeypatch, three.run, *kills)
        assert not (three.newest / "result").exists()
        return three.newest

    return kill


def test_without_the_clients_all_answers_and_a_kill_give_the_result_of_an_undisturbed_run(three, kill, undisturbed):
    """But for what the clients say to the aggregate, which they do not get."""
    expected = undisturbed()
    folder = kill(3)
    outcome = resume(three, folder)
    assert outcome.exit_code == 0, outcome.output
    assert files_of(folder) == {name: data for name, data in expected.items() if name != "not-applied.csv"}


def test_what_arrived_before_a_kill_is_not_lost(three, kill):
    """Two of three: without the clients, the result is theirs."""
    folder = kill(2)
    arrived = sorted(path.stem for path in (folder / "inbox").iterdir())
    assert len(arrived) == 2
    assert resume(three, folder).exit_code == 0
    assert sorted(read_folder(folder / "result").aggregate.clients) == arrived


def test_who_refused_before_the_kill_is_listed_with_its_reason(three, kill):
    """A failure is written as it arrives, too."""
    three.add("d", policy="max-components = 2\nmin-samples = 2\n")
    folder = kill(4)
    assert resume(three, folder).exit_code == 0
    (rejection,) = read_folder(folder / "result").aggregate.rejected
    assert (rejection.client, rejection.kind) == ("d", "refused")
    assert "its policy does not allow it" in rejection.reason


def test_a_run_that_is_over_is_not_resumed_and_another_folder_neither(three, tmp_path):
    """One sentence, and exit code 1."""
    for path, sentence in ((three.run(), "nothing to resume"), (tmp_path, "run.json")):
        outcome = resume(three, path)
        assert outcome.exit_code == 1
        assert sentence in " ".join(outcome.output.split())
