"""``kill -9`` after the answers, while the server aggregates, and whatever else is killed late: ``make faults``."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from deployment import BIN, wait_until
from kills import arrived, differing, kill_and_resume

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


@pytest.mark.parametrize(
    ("process", "phase"),
    [
        ("superexec", "before the answers"),
        ("superlink", "while the server aggregates"),
        ("superexec", "while the server aggregates"),
        ("server app", "while the server aggregates"),
        ("server app", "while the result is written"),
        ("superexec", "during the second messages"),
        ("server app", "while the server refines"),
    ],
)
def test_a_kill_loses_nothing_and_resume_gives_the_bytes_of_an_undisturbed_run(killed, undisturbed, process, phase):
    """All answers are in the inbox from the moment in which they arrive; nobody sees half of a result."""
    kill_and_resume(killed, undisturbed, process, phase)


def test_the_command_the_proxy_and_nodes_killed_while_the_server_aggregates_change_no_byte(killed, undisturbed):
    """``fedica flower run``, nginx, a SuperNode and a client's SuperExec; both are back for the second round."""
    folder = killed.reach_by_command("while the server aggregates")
    killed.kill_command()
    killed.kill_proxy()
    killed.stop("d", signal.SIGKILL)
    killed.kill_superexec("a")
    killed.bring_back("d", "a")
    assert killed.held(int(folder.name.removeprefix("run-")))
    assert not (folder / "result").exists()
    killed.set_faults({})
    assert killed.finish(int(folder.name.removeprefix("run-")), 600) == "finished:completed"
    assert differing(folder, undisturbed) == []
    assert killed.applied(folder)


def test_the_command_and_an_app_killed_during_the_answers_change_no_byte(killed, undisturbed):
    """``fedica flower run``, and the app of a client in the moment in which its node has all of its answer."""
    folder = killed.reach_by_command("during the answers", a="killed when it has sent all")
    killed.kill_command()
    killed.set_faults({})
    assert killed.finish(int(folder.name.removeprefix("run-")), 600) == "finished:completed"
    assert differing(folder, undisturbed) == []
    assert killed.applied(folder)


def test_a_run_that_is_killed_while_it_is_resumed_is_resumed_again(killed, undisturbed):
    """``fedica flower resume`` and the server's app of the run that it started; what had arrived is not asked again."""
    folder = killed.reach("during the answers")
    killed.kill("server app")
    app = killed.asked("c", int(folder.name.removeprefix("run-")))
    killed.set_faults({})
    wait_until(lambda: not Path(f"/proc/{app}").exists(), 300, "c is ready to be asked again")
    killed.set_faults({"c": "waits"})
    marks = set(killed.folder.glob("*.fault.asked-*"))
    killed.start("resume", [BIN / "fedica", "flower", "resume", folder], killed.env)
    (asked,) = wait_until(lambda: set(killed.folder.glob("*.fault.asked-*")) - marks, 300, "a client is asked again")
    assert asked.name.startswith("c.")
    assert arrived(folder) == "abd"
    killed.stop("resume", signal.SIGKILL)
    killed.kill("server app")
    killed.set_faults({})
    killed.fedica("resume", folder)
    assert differing(folder, undisturbed) == []
    assert killed.applied(folder)
