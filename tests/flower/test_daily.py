"""What a coordinator does every day, and what it is told: commands without a SuperLink behind them."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.errors import FedicaError, InputError
from fedica.exchange.files import write_atomic
from fedica.flower import control
from fedica.flower.certs import make_certificates
from fedica.flower.control import Control, Member
from fedica.flower.coordinator import parse_run_settings
from fedica.flower.members import add_client, revoke_client
from fedica.flower.scaffold import Federation, write_federation
from fedica.flower.summary import summarise


@pytest.fixture
def consortium(tmp_path, monkeypatch):
    """A federation of a and b whose SuperLink is a set of names."""
    certs = make_certificates(tmp_path / "certs", ["a", "b"], host="127.0.0.1")
    write_federation(tmp_path / "federation", Federation("127.0.0.1", 8443, 8000, certs.folder))
    registered = {}

    def members(made):
        names = sorted(made._keys().values())
        return [Member(x, registered.get(x, ""), x == "a", "2026-11-17 17:25" * (x == "a"), "") for x in names]

    monkeypatch.setattr(Control, "members", members)
    monkeypatch.setattr(Control, "register", lambda _made, client: registered.update({client: f"{len(registered):04}"}))
    monkeypatch.setattr(Control, "unregister", lambda _made, client: registered.pop(client, None))
    return Control(tmp_path / "federation")


def test_clients_of_a_new_federation_are_registered_and_the_proxy_knows_them(consortium):
    """Keys and policies are there: nothing is made anew, and a second time there is nothing to do."""
    files, stale = add_client(consortium, "a")
    assert [path.name for path in files] == ["ca.crt", "a.key", "a.key", "a.toml"]
    assert not stale
    assert add_client(consortium, "a") is None


def test_a_client_that_was_added_halfway_is_added_by_the_same_command(consortium, monkeypatch):
    """Interrupted before the proxy's page was written: its keys are taken, and not made again."""

    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedica.flower.members.write_atomic", interrupted)
        with pytest.raises(KeyboardInterrupt):
            add_client(consortium, "d")
    before = (consortium.certificates.nodes / "d.key").read_bytes()
    _, stale = add_client(consortium, "d")
    assert stale
    assert (consortium.certificates.nodes / "d.key").read_bytes() == before
    assert '"d";' in (consortium.folder / "proxy" / "nginx.conf").read_text()


def test_a_client_that_makes_its_own_keys_sends_both_public_halves(consortium, tmp_path):
    """One of them alone is refused, and nothing is registered."""
    own = make_certificates(tmp_path / "own", ["d"], host="127.0.0.1")
    for folder in ("nodes", "signing"):
        (own.folder / folder / "d.pub").rename(consortium.certificates.folder / folder / "d.pub")
        if folder == "nodes":
            with pytest.raises(InputError, match=r"signing/d\.pub: not found"):
                add_client(consortium, "d")
    files, _ = add_client(consortium, "d")
    assert [path.name for path in files] == ["ca.crt", "d.toml"]


def test_a_revoked_client_leaves_no_key_behind_and_may_come_back(consortium):
    """With new keys."""
    add_client(consortium, "b")
    before = (consortium.certificates.nodes / "b.pub").read_bytes()
    revoke_client(consortium, "b")
    assert not list(consortium.certificates.folder.rglob("b.*"))
    assert (consortium.folder / "revoked" / "b.node.pub").read_bytes() == before
    assert '"b";' not in (consortium.folder / "proxy" / "nginx.conf").read_text()
    add_client(consortium, "b")
    assert (consortium.certificates.nodes / "b.pub").read_bytes() != before


def test_a_folder_of_the_proxy_that_cannot_be_written_changes_nothing(consortium, monkeypatch):
    """Said before keys are made or a client is cut off."""
    monkeypatch.setattr(os, "access", lambda path, _mode: "proxy" not in str(path))
    for work, client in ((add_client, "d"), (revoke_client, "a")):
        with pytest.raises(InputError, match="nothing was changed"):
            work(consortium, client)
    assert sorted(consortium._keys().values()) == ["a", "b"]


@pytest.mark.parametrize("name", ["../x", "a b", "x.pub"])
def test_a_name_that_cannot_be_a_file_is_refused(consortium, name):
    """Before anything is made."""
    with pytest.raises(FedicaError):
        add_client(consortium, name)


def test_status_is_a_table_that_fits_a_terminal(consortium, monkeypatch):
    """Client, node, state, last seen, last contribution, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    add_client(consortium, "a")
    said = CliRunner().invoke(program, ["flower", "status", str(consortium.folder)])
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines if line.strip()[:2] in ("a ", "b ")]
    assert rows == [
        ["a", "...0000", "online", "2026-11-17", "17:25", "never"],
        ["b", "not", "registered", "never", "never"],
    ]


def test_settings_of_a_run_are_checked_before_it_is_submitted():
    """A name that does not exist, and a value that is missing or of another kind."""
    assert parse_run_settings("") == {}
    text = "components=3 fail-on='weak' method=\"group\" deadline-seconds=600 require-all=true"
    values = {"components": 3, "fail-on": "weak", "method": "group", "deadline-seconds": 600, "require-all": True}
    assert parse_run_settings(text) == values
    for wrong, sentence in {
        "componnts=3": "there is no setting 'componnts'",
        "components=": "NAME=VALUE",
        "components": "NAME=VALUE",
        "method=group": "NAME=VALUE",
        "components=3.5": "a whole number",
        "rounds=0": "rounds",
    }.items():
        with pytest.raises(FedicaError, match=sentence):
            parse_run_settings(wrong)


def test_a_run_tells_who_counted_and_who_was_left_out_and_why(three, monkeypatch):
    """Of the last round's result; by the command too."""
    for number in three.clients:
        page = three.home(number) / "policy.toml"
        page.write_text(page.read_text() + "max-rounds = 2\n")
    three.add("d", policy="max-components = 2\nmin-samples = 2\n")
    folder = three.run(rounds=2)
    found = summarise(folder)
    assert (found.clients, found.result) == (("a", "b", "c"), folder / "round-2" / "result")
    assert list(found.left_out) == ["d"]
    said = list(found.lines())
    assert said[0] == "3 clients aggregated, 1 left out."
    assert "its policy does not allow it" in said[1]
    write_atomic(folder / "not-applied.csv", [b"client,reason,source,kind\na,its disk is full,,\n"])
    assert list(summarise(folder).lines())[-1] == "aggregate not applied: a: its disk is full"
    (folder / "not-applied.csv").unlink()
    assert list(summarise(folder).lines())[-1] == "Nothing went back to the clients."

    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(control, "Control", lambda _folder: control_of(folder))
    outcome = CliRunner().invoke(program, ["flower", "run", str(three.folder)])
    assert outcome.exit_code == 0, outcome.output
    assert "3 clients aggregated, 1 left out" in " ".join(outcome.stdout.split())
    assert outcome.stdout.splitlines()[-1] == str(folder / "round-2" / "result")  # a path is never wrapped


def control_of(folder):
    """A SuperLink whose run is over."""

    class Over:
        def start_run(self, _settings):
            return 77

        def follow(self, _run_id, _tell):
            return folder

    return Over()
