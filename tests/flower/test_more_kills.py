"""``kill -9`` after the answers, and of the processes without which a run goes on by itself: ``make faults``."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from deployment import BIN, Deployment, wait_until
from faulty import FILES, ROUNDS, Faulty, differing, rows_of
from inprocess import client_data

LOSSY_NODE = Path(__file__).with_name("lossy_node.py")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Four clients whose processes, and the coordinator's, are killed; each test leaves all of them running."""
    with Faulty(tmp_path_factory.mktemp("killed"), "abcd") as deployment:
        deployment.start_all()
        wait_until(lambda: deployment.online() == list("abcd"), 300, "four clients")
        yield deployment


@pytest.fixture(scope="module")
def undisturbed(killed):
    """The folder of a run of two rounds in which nothing was killed."""
    run_id = killed.submit(**ROUNDS)
    assert killed.finish(run_id, 600) == "finished:completed"
    return killed.results(run_id)


def arrived(folder):
    """The clients whose contributions are in the inbox of a run."""
    return sorted(path.stem for path in (folder / "inbox").glob("*.safetensors"))


def applied(killed, folder, clients="abcd"):
    """Whether these clients have the last aggregate of a run, and no other one."""
    last = (folder / "round-2" / "result" / "aggregate.safetensors").read_bytes()
    kept = [killed.folder / f"{client}-output" / folder.name / "aggregate.safetensors" for client in clients]
    return all(path.read_bytes() == last for path in kept)


@pytest.mark.parametrize(
    ("process", "phase"),
    [
        ("superexec", "during the answers"),
        ("superlink", "while the aggregate goes back"),
        ("server app", "while the aggregate goes back"),
        ("superexec", "while the aggregate goes back"),
    ],
)
def test_a_kill_loses_nothing_and_resume_gives_the_bytes_of_an_undisturbed_run(killed, undisturbed, process, phase):
    """By kill -9; a SuperLink ends with its SuperExec. Who has the aggregate already takes the same one again."""
    answers = phase == "during the answers"
    killed.fault("c", "waits" if answers else "waits with the aggregate")
    run_id = killed.submit(**ROUNDS)
    folder = killed.results(run_id)
    if answers:
        wait_until(lambda: killed.asked("c", run_id) and arrived(folder) == list("abd"), 300, phase)
    else:
        wait_until(lambda: all(killed.returned(client, run_id) for client in "abcd"), 300, phase)
    killed.kill(process)
    killed.fault("c", "")
    assert not (folder / "not-applied.csv").exists()
    wait_until(lambda: killed.online() == list("abcd"), 300, "four clients")
    killed.fedica("resume", folder)
    assert differing(folder, undisturbed) == []
    assert applied(killed, folder)


def test_the_command_the_proxy_and_a_node_killed_before_and_during_the_answers_change_no_byte(killed, undisturbed):
    """By kill -9: ``fedica flower run``, nginx, and a SuperNode after its answer; it is back for the second round."""
    for client in "abcd":
        killed.fault(client, "waits")
    before = set(undisturbed.parent.iterdir())
    settings = "components=3 rounds=2 wait-seconds=300.0 deadline-seconds=300.0 return-seconds=300.0"
    command = killed.start("run", [BIN / "fedica", "flower", "run", killed.root, "--set", settings], killed.env)
    (folder,) = wait_until(lambda: set(undisturbed.parent.iterdir()) - before, 300, "the folder of the run")
    run_id = int(folder.name.removeprefix("run-"))
    wait_until(lambda: all(killed.asked(client, run_id) for client in "abcd"), 300, "before the answers")
    assert arrived(folder) == []
    killed.stop("run", signal.SIGKILL)
    assert command.returncode == -signal.SIGKILL
    killed.kill_proxy()
    for client in "abd":
        killed.fault(client, "")
    wait_until(lambda: arrived(folder) == list("abd"), 300, "during the answers")
    killed.stop("d", signal.SIGKILL)
    killed.kill_proxy()
    killed.keep_starting("d", 300)
    assert arrived(folder) == list("abd")  # what had arrived is there
    killed.fault("c", "")
    assert killed.finish(run_id, 600) == "finished:completed"
    assert differing(folder, undisturbed) == []
    assert applied(killed, folder)


def test_clients_killed_while_the_aggregate_goes_back_are_named_and_lose_nothing_but_it(killed, undisturbed):
    """By kill -9: one's app, another one's SuperNode, and the proxy. What they had sent is in the result."""
    for client in "cd":
        killed.fault(client, "waits with the aggregate")
    run_id = killed.submit(**ROUNDS)
    folder = killed.results(run_id)
    wait_until(lambda: all(killed.returned(client, run_id) for client in "abcd"), 300, "the aggregate went back")
    os.kill(killed.returned("c", run_id), signal.SIGKILL)
    killed.stop("d", signal.SIGKILL)
    killed.kill_proxy()
    assert killed.finish(run_id, 600) == "finished:completed"
    assert set(differing(folder, undisturbed)) == {"not-applied.csv"} < set(FILES)
    assert set(rows_of(folder / "not-applied.csv")) == {"c", "d"}
    assert applied(killed, folder, "ab")
    for client in "cd":
        killed.fault(client, "")
        assert not (killed.folder / f"{client}-output" / folder.name / "sources.npy").exists()
    killed.keep_starting("d", 300)


class Lossy(Deployment):
    """A federation in which each node loses one confirmation, of the request of its name."""

    def start_node(self, client, **changes):
        """By ``fedica`` that loses it."""
        return super().start_node(client, env={"LOST": client}, **changes)

    def start(self, name, arguments, env, umask=0):
        """A node by another program."""
        program = [BIN / "python", LOSSY_NODE, *arguments[1:]] if name in self.data else arguments
        return super().start(name, program, env, umask)


def test_an_answer_arrives_also_if_the_proxy_was_killed_before_it_was_confirmed(tmp_path):
    """Flower would ask for nothing more of an answer that was announced, and refuse a part that is there."""
    data = {name: client_data(k) for k, name in enumerate(("PushMessages", "PushObject"))}
    with Lossy(tmp_path, data, shielded=False) as deployment:
        deployment.start_all()
        wait_until(lambda: len(deployment.online()) == 2, 300, "two clients")
        run_id = deployment.submit(**{"deadline-seconds": 120.0, "return-seconds": 120.0})
        assert deployment.finish(run_id, 600) == "finished:completed"
        assert arrived(deployment.results(run_id)) == sorted(data)
