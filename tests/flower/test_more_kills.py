"""``kill -9`` while the aggregate goes back, and of processes without which a run goes on: ``make faults``."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from deployment import BIN, Deployment, wait_until
from faulty import rows_of
from inprocess import client_data
from kills import arrived, differing, kill_and_resume

LOSSY_NODE = Path(__file__).with_name("lossy_node.py")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


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
    """A SuperLink ends with its SuperExec. Who has the aggregate already takes the same one again."""
    kill_and_resume(killed, undisturbed, process, phase)


def test_the_command_the_proxy_and_nodes_killed_before_and_during_the_answers_change_no_byte(killed, undisturbed):
    """``fedica flower run``, nginx, a SuperNode and a client's SuperExec; both clients had answered, and come back."""
    folder = killed.reach_by_command("before the answers")
    killed.kill_command()
    killed.kill_proxy()
    killed.set_faults({"c": "waits"})
    wait_until(lambda: arrived(folder) == "abd", 300, "during the answers")
    killed.stop("d", signal.SIGKILL)
    killed.kill_superexec("b")
    killed.kill_proxy()
    killed.bring_back("d", "b")
    assert arrived(folder) == "abd"  # what had arrived is there
    killed.set_faults({})
    assert killed.finish(int(folder.name.removeprefix("run-")), 600) == "finished:completed"
    assert differing(folder, undisturbed) == []
    assert killed.applied(folder)


def test_clients_killed_while_the_aggregate_goes_back_are_named_and_lose_nothing_but_it(killed, undisturbed):
    """One's app, another one's SuperNode, a third one's SuperExec, ``fedica flower run`` and the proxy."""
    others = dict.fromkeys("bd", "waits with the aggregate")
    folder = killed.reach_by_command("while the aggregate goes back", **others)
    run_id = int(folder.name.removeprefix("run-"))
    killed.kill_command()
    os.kill(killed.returned("c", run_id), signal.SIGKILL)
    killed.stop("d", signal.SIGKILL)
    killed.kill_superexec("b")
    killed.kill_proxy()
    assert killed.finish(run_id, 600) == "finished:completed"
    assert differing(folder, undisturbed) == ["not-applied.csv"]
    assert set(rows_of(folder / "not-applied.csv")) == {"b", "c", "d"}
    assert killed.applied(folder, "a")
    killed.set_faults({})
    for client in "cd":
        assert not (killed.folder / f"{client}-output" / folder.name / "sources.npy").exists()
    killed.bring_back("d", "b")


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
        assert arrived(deployment.results(run_id)) == "".join(sorted(data))
