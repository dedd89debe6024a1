"""What the tests of ``kill -9`` share: the phases of a run, and what a run comes to whoever is killed.

Which process is killed in which phase, and where (test_kills.py, test_more_kills.py, test_late_kills.py,
test_processes.py). R: ``fedica flower resume`` gives the bytes of an undisturbed run. G: the run goes on, and gives
them by itself. N: the client's answer had not arrived; the client is named, and takes part in the next run.

======================  =======  =======  ==========  ========  =========
process                 before   during   server      second    aggregate
                        answers  answers  aggregates  messages  goes back
======================  =======  =======  ==========  ========  =========
SuperLink               R kills  R kills  R late      R kills   R more
its SuperExec           R late   R more   R late      R late    R more
server's app            R kills  R kills  R late      R kills   R more
``fedica flower run``   G more   G late   G late      G kills   G more
proxy (nginx)           G more   G more   G late      G kills   G more
client's SuperNode      N proc.  G more   G late      N kills   N more
client's SuperExec      N proc.  G more   G late      G kills   N more
client's app            N proc.  N proc.  has ended   N kills   N more
======================  =======  =======  ==========  ========  =========

Where a client's node or SuperExec is killed and the run goes on, the client had answered. Of its app, which ends with
its answer, one is killed in the middle of handing it over (N), another one in the moment after (G, late).
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Mapping
from typing import NamedTuple

from deployment import BIN, building, wait_until
from faulty import Faulty

CLIENTS = "abcd"
ROUNDS = {"rounds": 2}
"""Settings of the runs whose bytes are compared; nobody who lives misses a deadline."""


class Phase(NamedTuple):
    """A moment of a run: the faults that hold it there, of clients and of the server's app, and how it is noticed."""

    faults: Mapping[str, str]
    reached: Callable[[Faulty, int], bool]


def arrived(folder, inbox="inbox"):
    """The clients whose messages are in an inbox of a run."""
    return "".join(sorted(path.stem for path in (folder / inbox).glob("*.safetensors")))


def has_arrived(which, clients, inbox="inbox"):
    """Return a function: whether all of these are asked, and the messages of those clients and no others are there."""

    def reached(killed, run_id):
        asked = all(which(killed, client, run_id) for client in CLIENTS)
        return asked and arrived(killed.results(run_id), inbox) == clients

    return reached


def is_held(result, inbox="inbox"):
    """Return a function: whether the server's app is held without this result, and all messages are there."""

    def reached(killed, run_id):
        folder = killed.results(run_id)
        return killed.held(run_id) and arrived(folder, inbox) == CLIENTS and not (folder / result).exists()

    return reached


PHASES = {
    "before the answers": Phase(dict.fromkeys(CLIENTS, "waits"), has_arrived(Faulty.asked, "")),
    "during the answers": Phase({"c": "waits"}, has_arrived(Faulty.asked, "abd")),
    "while the server aggregates": Phase({"server": "waits while it aggregates"}, is_held("result")),
    "while the result is written": Phase({"server": "waits while it writes"}, is_held("result")),
    "during the second messages": Phase({"c": "waits in round 2"}, has_arrived(Faulty.scored, "abd", "round-2/inbox")),
    "while the server refines": Phase({"server": "waits while it refines"}, is_held("round-2/result", "round-2/inbox")),
    "while the aggregate goes back": Phase(
        {"c": "waits with the aggregate"},
        lambda killed, run_id: all(killed.returned(client, run_id) for client in CLIENTS),
    ),
}


class Killed(Faulty):
    """Four clients whose processes, and the coordinator's, are killed; each test leaves all of them running."""

    def reach(self, phase, **faults):
        """Submit a run, with faults beside those that hold it in this phase; returns its folder, in that phase."""
        self.set_faults(PHASES[phase].faults | faults)
        return self._await(phase, self.submit(**ROUNDS))

    def reach_by_command(self, phase, **faults):
        """The same with ``fedica flower run``."""
        self.set_faults(PHASES[phase].faults | faults)
        return self._await(phase, self.start_command(**ROUNDS))

    def start_command(self, **settings):
        """Start ``fedica flower run``, which is the process "run"; returns the number of its run."""
        results = self.root / "coordinator" / "results"
        before = set(results.iterdir())
        self.start("run", [BIN / "fedica", "flower", "run", self.root, "--set", self.settings(**settings)], self.env)
        (folder,) = wait_until(lambda: set(results.iterdir()) - before, 300, "the folder of the run")
        return int(folder.name.removeprefix("run-"))

    def _await(self, phase, run_id):
        wait_until(lambda: PHASES[phase].reached(self, run_id), 300, phase)
        return self.results(run_id)

    def set_faults(self, faults):
        """Let clients and the server's app have these faults, and no others."""
        for name in (*CLIENTS, "server"):
            self.fault(name, faults.get(name, ""))

    def kill_command(self):
        """Kill ``fedica flower run`` while it waits for the run."""
        process = self.processes["run"]
        assert process.poll() is None
        self.stop("run", signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL

    def bring_back(self, *clients):
        """Start nodes that were killed as soon as Flower takes them for gone, which is after a minute."""
        wait_until(lambda: not {*clients} & {*self.online()}, 300, f"{clients} are gone")
        for client in clients:
            self.start_node(client)
        wait_until(lambda: self.online() == list(CLIENTS), 300, "four clients")

    def resume(self, folder):
        """Let everybody work again, and finish the run of this folder."""
        self.set_faults({})
        wait_until(lambda: self.online() == list(CLIENTS), 300, "four clients")
        with building():  # as ``fedica flower resume`` does, which takes seconds to start
            run_id = self.control.resume(folder)
        self.control.follow(run_id, print, folder)

    def applied(self, folder, clients=CLIENTS):
        """Whether these clients have the last aggregate of a run, and no other one."""
        last = (folder / "round-2" / "result" / "aggregate.safetensors").read_bytes()
        kept = [self.folder / f"{client}-output" / folder.name / "aggregate.safetensors" for client in clients]
        return all(path.read_bytes() == last for path in kept)


def files_of(folder):
    """What the files of a run say, whatever its number; nonces are random, and nobody reads what a kill left behind."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and path.name != "nonces.json" and not any(part.startswith(".") for part in name.parts):
            found[str(name)] = re.sub(folder.name.encode(), b"run-N", path.read_bytes())
    for name in [name for name in found if name.endswith("summary.json")]:
        said = json.loads(found[name])
        fingerprints = said.pop("files")  # also of tables that tell paths, so that they tell the run's number
        found[name] = json.dumps([said, sorted(fingerprints)]).encode()
    return found


def differing(folder, other):
    """The files in which two runs differ, or which one of them lacks."""
    first, second = files_of(folder), files_of(other)
    assert len(second) > 20
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def kill_and_resume(killed, undisturbed, process, phase):
    """Kill one of the coordinator's processes in a phase: resumed, the run gives the bytes of an undisturbed one."""
    folder = killed.reach(phase)
    killed.kill(process)
    assert not (folder / "not-applied.csv").exists()
    killed.resume(folder)
    assert differing(folder, undisturbed) == []
    assert killed.applied(folder)
