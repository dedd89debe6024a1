"""``kill -9`` of the coordinator's and the clients' processes before and during the answers: ``make faults``."""

from __future__ import annotations

import signal

import pytest
from deployment import wait_until
from faulty import rows_of
from kills import arrived, kill_and_resume

from fedica.exchange import read_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


def clients_of(deployment, run_id):
    """The clients of a run's result."""
    return sorted(read_folder(deployment.results(run_id) / "result").aggregate.clients)


def test_the_superlink_stopped_and_started_in_the_middle(killed, request):
    """The run fails or resumes cleanly, and Flower says which; the next run has everybody."""
    killed.fault("c", "waits")
    run_id = killed.submit(**{"deadline-seconds": 60.0, "return-seconds": 40.0})
    wait_until(lambda: killed.asked("c", run_id), 300, "c was asked")
    killed.stop("superlink")
    killed.start_superlink()
    killed.fault("c", "")
    status, folder = killed.finish(run_id, 600), killed.results(run_id)
    print("after the SuperLink's restart:", status, sorted(path.name for path in folder.iterdir()))
    if status == "finished:completed":
        assert clients_of(killed, run_id) == list("abcd")
    else:
        assert status.startswith("finished:failed")
        assert not (folder / "result").exists()
    wait_until(lambda: killed.online() == list("abcd"), 300, "four clients")
    following = request.getfixturevalue("undisturbed")
    assert sorted(read_folder(following / "result").aggregate.clients) == list("abcd")


@pytest.mark.parametrize("process", ["superlink", "server app"])
@pytest.mark.parametrize("phase", ["before the answers", "during the answers", "during the second messages"])
def test_a_kill_loses_nothing_and_resume_gives_the_bytes_of_an_undisturbed_run(killed, undisturbed, process, phase):
    """The other clients are asked, and all get the aggregate of the last round, once."""
    kill_and_resume(killed, undisturbed, process, phase)


def test_processes_killed_in_the_second_round_leave_the_first_result(killed):
    """A client's app and another one's SuperNode: they are left out of the second result, and named.

    The command, the proxy and the SuperExec of a client whose second message is there cost nothing.
    """
    killed.set_faults({"c": "killed in round 2", "d": "waits in round 2"})
    run_id = killed.start_command(**{"rounds": 2, "deadline-seconds": 150.0, "return-seconds": 40.0})
    folder = killed.results(run_id)
    wait_until(lambda: killed.scored("d", run_id) and arrived(folder, "round-2/inbox") == "ab", 300, "the second round")
    killed.kill_command()
    killed.stop("d", signal.SIGKILL)
    killed.kill_superexec("b")
    killed.kill_proxy()
    assert killed.finish(run_id, 600) == "finished:completed"
    assert clients_of(killed, run_id) == list("abcd")
    assert rows_of(folder / "result" / "rejected.csv") == {}
    rows = rows_of(folder / "round-2" / "result" / "rejected.csv")
    print("killed in the second round:", rows)
    assert set(rows) == {"c", "d"}
    assert arrived(folder, "round-2/inbox") == "ab"
    assert read_folder(folder / "round-2" / "result").aggregate.refinement.round == 2

    killed.set_faults({})
    killed.bring_back("d", "b")
