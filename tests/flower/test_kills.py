"""``kill -9`` of the coordinator's and the clients' processes at every phase of a run: ``make faults``."""

from __future__ import annotations

import signal

import pytest
from deployment import wait_until
from faulty import ROUNDS, Faulty, differing, rows_of

from fedica.exchange import read_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Four clients whose processes, and the coordinator's, are killed; each test leaves all of them running."""
    with Faulty(tmp_path_factory.mktemp("killed"), "abcd") as deployment:
        deployment.start_all()
        wait_until(lambda: deployment.online() == list("abcd"), 300, "four clients")
        yield deployment


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


@pytest.fixture(scope="module")
def undisturbed(killed):
    """The folder of a run of two rounds in which nothing was killed."""
    run_id = killed.submit(**ROUNDS)
    assert killed.finish(run_id, 600) == "finished:completed"
    return killed.results(run_id)


@pytest.mark.parametrize("process", ["superlink", "server app"])
@pytest.mark.parametrize("phase", ["before the answers", "during the answers", "during the second messages"])
def test_a_kill_loses_nothing_and_resume_gives_the_bytes_of_an_undisturbed_run(killed, undisturbed, process, phase):
    """By kill -9; then the other clients are asked, and all get the aggregate of the last round, once."""
    waiting = {"before the answers": "abcd", "during the answers": "c"}.get(phase, "")
    for client in waiting or "c":
        killed.fault(client, "waits" if waiting else "waits in round 2")
    run_id = killed.submit(**ROUNDS)
    folder = killed.results(run_id)
    inbox, count = folder / ("inbox" if waiting else "round-2/inbox"), 0 if len(waiting) == 4 else 3
    asked = killed.asked if waiting else killed.scored
    wait_until(lambda: asked("c", run_id) and len(list(inbox.glob("*.safetensors"))) == count, 300, phase)
    killed.kill(process)
    for client in waiting or "c":
        killed.fault(client, "")
    wait_until(lambda: killed.online() == list("abcd"), 300, "four clients")
    killed.fedica("resume", folder)
    assert differing(folder, undisturbed) == []
    for client in "abcd":
        kept = killed.folder / f"{client}-output" / folder.name / "aggregate.safetensors"
        assert kept.read_bytes() == (folder / "round-2" / "result" / "aggregate.safetensors").read_bytes()


def test_a_proxy_and_a_superexec_that_are_killed_cost_no_later_run(killed):
    """By kill -9. Without its SuperExec a SuperLink would accept runs and never start them: it ends."""
    killed.kill_superexec("superlink")
    killed.kill_proxy()
    killed.start_superlink()
    wait_until(lambda: killed.online() == list("abcd"), 300, "four clients")
    run_id = killed.submit(**{"deadline-seconds": 120.0, "return-seconds": 120.0})
    assert killed.finish(run_id, 600) == "finished:completed"
    assert clients_of(killed, run_id) == list("abcd")


def test_processes_killed_in_the_second_round_leave_the_first_result(killed):
    """A client's app and another one's SuperNode: they are left out of the second result, and named."""
    killed.fault("c", "killed in round 2")
    killed.fault("d", "waits in round 2")
    run_id = killed.submit(**{"rounds": 2, "deadline-seconds": 150.0, "return-seconds": 40.0})
    wait_until(lambda: killed.scored("d", run_id), 300, "d was asked for a second message")
    killed.stop("d", signal.SIGKILL)
    assert killed.finish(run_id, 600) == "finished:completed"
    folder = killed.results(run_id)
    assert clients_of(killed, run_id) == list("abcd")
    assert rows_of(folder / "result" / "rejected.csv") == {}
    rows = rows_of(folder / "round-2" / "result" / "rejected.csv")
    print("killed in the second round:", rows)
    assert set(rows) == {"c", "d"}
    assert read_folder(folder / "round-2" / "result").aggregate.refinement.round == 2

    killed.fault("d", "")
    killed.keep_starting("d", 300)
