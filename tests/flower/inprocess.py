"""A federation in one process: real apps, real messages, Flower's own wire format."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from fedica.flower.client_app import app as client_app
from fedica.flower.envelope import Envelope, answer_with, open_envelope
from fedica.flower.server_app import app as server_app

MIXING = np.linalg.qr(np.random.default_rng(5).standard_normal((6, 3)))[0] @ np.diag([1.0, 1.2, 0.9])


def client_data(seed, n_samples=600):
    """Samples of three Laplace sources in six features: every client has the same mixing matrix."""
    rng = np.random.default_rng(seed)
    noise = 0.01 * rng.standard_normal((n_samples, 6))
    return rng.laplace(size=(n_samples, 3)) @ MIXING.T + noise


def through_the_wire(message):
    """The message as it arrives: taken to pieces and put together as Flower does it."""
    with no_object_id_recompute():
        message.metadata.__dict__["_message_id"] = message.object_id
        contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
        arrived = inflate_object_from_contents(message.object_id, contents)
    arrived.metadata.__dict__["_message_id"] = message.metadata.message_id
    return arrived


def answer(content, request):
    """A reply with this content, in the envelope that the request asks for."""
    return Message(answer_with(content, open_envelope(request.content)[0]["nonce"]), reply_to=request)


def request_for(content, node, kind="train.contribution", *, nonce="n" * 32, seconds=60.0, run_id=76, key=None):
    """A request of the coordinator."""
    return Message(Envelope(nonce, seconds, run_id, kind).seal(content, key), node, kind)


class Clock:
    """The clock of fedica.flower.collect, for tests of deadlines: it leaps when told to, not when a machine is slow."""

    def __init__(self):
        self.leapt = 0.0

    def monotonic(self):
        """Seconds; before the first leap no deadline of an hour is near, after it all are over."""
        return time.monotonic() + self.leapt

    def leap(self, seconds):
        """Let this much time pass at once."""
        self.leapt += seconds

    sleep = staticmethod(time.sleep)


HOUR = 3600.0
"""A deadline that only `Clock.leap` reaches."""


class LocalGrid(Grid):
    """Nodes that are functions from a message to a reply; one that raises gives what Flower gives then."""

    def __init__(self, nodes, public_keys=None):
        self.nodes = dict(nodes)
        self.public_keys = public_keys or {}
        self.replies = {}
        self.asked = []
        self.lock = threading.Lock()

    def set_run(self, run):
        """Nothing to set."""

    run = None

    def create_message(self, *_arguments, **_options):
        """Flower's old way."""
        raise NotImplementedError

    def get_node_ids(self):
        """All are connected."""
        return list(self.nodes)

    def get_nodes(self):
        """With the keys that are known."""
        return [NodeInfo(node_id=node, public_key=self.public_keys.get(node, b"")) for node in self.nodes]

    def push_messages(self, messages):
        """Deliver, and let the node work when its reply is first pulled."""
        ids = []
        for message in messages:
            arrived = through_the_wire(message)
            with self.lock:
                self.asked.append((arrived.metadata.dst_node_id, arrived.metadata.message_type))
                self.replies[arrived.metadata.message_id] = (arrived, self.nodes[arrived.metadata.dst_node_id])
            ids.append(arrived.metadata.message_id)
        return ids

    def pull_messages(self, message_ids):
        """Give each reply as often as it is asked for: it is the app that must not count twice."""
        came = []
        for message_id in message_ids:
            request, node = self.replies[message_id]
            try:
                reply = node(request)
            except Exception as error:
                reply = Message(Error(code=2, reason=f"{type(error)}:<'{error}'>"), reply_to=request)
            if reply is not None:
                came += [through_the_wire(x) for x in (reply if isinstance(reply, list) else [reply])]
        return came

    def send_and_receive(self, messages, *, timeout=None):
        """Flower's own loop, which fedica does not use."""
        raise NotImplementedError


@dataclass
class InProcess:
    """The folder of a federation, its clients, and how to run it."""

    folder: Path
    clients: dict = field(default_factory=dict)
    run_id: int = 76  # that of the last run

    def add(self, name, *, data=None, policy="max-components = 3\nmin-samples = 100\n", file="data.npy", folder=None):
        """Add a client with data of its own, or with a watched folder; returns it as a node."""
        home = self.folder / "clients" / f"{len(self.clients)}-{name}"
        home.mkdir(parents=True)
        np.save(home / file, client_data(len(self.clients)) if data is None else data)
        (home / "policy.toml").write_text(policy)
        config = {
            "client": name,
            "data": str(folder or home / file),
            "policy": str(home / "policy.toml"),
            "output": str(home / "output"),
        }
        number = 1000 + len(self.clients)
        self.clients[number] = lambda message: client_app(
            message, Context(self.run_id, number, config, RecordDict(), {})
        )
        return number

    def home(self, number):
        """A client's folder."""
        return next(path for path in (self.folder / "clients").iterdir() if path.name.startswith(f"{number - 1000}-"))

    def coordinator(self, **settings):
        """Write the coordinator's settings."""
        lines = [f"{name.replace('_', '-')} = {value!r}".replace("'", '"') for name, value in settings.items()]
        (self.folder / "coordinator.toml").write_text('results = "results"\n' + "\n".join(lines) + "\n")

    def run(self, grid=None, **run_config):
        """Run the server's app, each time under the next number; returns its folder."""
        self.run_id += 1
        limits = {"deadline_seconds": 600.0, "return_seconds": 600.0, "wait_seconds": 0.2}
        settings = {"components": 3} | limits | run_config
        config = {name.replace("_", "-"): value for name, value in settings.items()}
        server_app(grid or LocalGrid(self.clients), Context(self.run_id, 1, {}, RecordDict(), config))
        return self.newest

    @property
    def newest(self):
        """The folder of the last run: its number is the highest."""
        return max((self.folder / "results").iterdir(), key=lambda path: [int(x) for x in path.name.split("-")[1:]])
