"""What of Flower's inside is relied on (docs/deploy.md, "The version of Flower"), one test for each.

A new version of Flower is taken by changing the pin of pyproject.toml and making these pass.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import fields
from inspect import iscoroutinefunction, signature
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import (
    FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE,
    SUPERLINK_NODE_ID,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_TOLERANCE,
    ErrorCode,
    Status,
    SubStatus,
)
from flwr.proto.message_pb2 import ObjectTree, PushObjectResponse
from flwr.proto.node_pb2 import Node, NodeInfo
from flwr.server.superlink.linkstate.linkstate_factory import LinkStateFactory
from flwr.supercore.constant import NOOP_FEDERATION_ID, NodeStatus, TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.object_store.object_store_factory import ObjectStoreFactory
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.superexec import run_superexec as superexec_loop
from flwr.supercore.superexec.executor import ExecutionSpec, SubprocessExecutor
from flwr.superlink import extensions
from flwr.superlink import main as superlink
from flwr.superlink.cli import flower_superlink
from flwr.superlink.federation.noop_federation_manager import NoOpFederationManager
from flwr.supernode import main as supernode
from flwr.supernode import start_client_internal as node_loop
from flwr.supernode.cli.flower_supernode import _start_supernode_http_api
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.runtime.run_clientapp import run_clientapp
from starlette.middleware import Middleware
from uvicorn.protocols.http import h11_impl, httptools_impl

from fedica.flower import apps, check, collect, guard
from fedica.flower.certs import make_certificates
from fedica.flower.envelope import Envelope
from fedica.flower.scaffold import FLEET_PATHS, Federation, write_federation
from fedica.flower.superlink import WatchedLifespan

COMMAND = sys.modules[flower_superlink.__module__]


class CalledError(Exception):
    """Flower called what fedica put in its place."""


def test_the_superlink_asks_its_extensions_for_middleware_and_puts_it_outermost(monkeypatch):
    """`fedica.flower.superlink` gives its guards there."""
    monkeypatch.setattr(extensions, "get_middleware", lambda: ("ours",))
    assert superlink._get_middleware()[0] == "ours"


def test_uvicorn_gives_the_first_middleware_what_holds_the_connection():
    """`fedica.flower.guard.opened_by` asks the kernel about it; nothing between uvicorn and the guard may wrap it."""
    for cycle in (h11_impl.RequestResponseCycle, httptools_impl.RequestResponseCycle):
        assert "transport" in signature(cycle).parameters
        assert iscoroutinefunction(cycle.receive)

    seen = []

    class First:
        def __init__(self, _app):
            pass

        async def __call__(self, _scope, receive, _send):
            seen.append(receive)

    def receive():
        raise AssertionError

    for app in (FastAPI(middleware=[Middleware(First)]), FastAPI()):
        if not app.user_middleware:  # as the SuperNode's is given its guard
            app.add_middleware(First)
        asyncio.run(app({"type": "http", "path": "/", "method": "GET", "headers": []}, receive, None))
    assert seen == [receive, receive]


def test_the_superlink_looks_up_what_starts_its_superexec(monkeypatch):
    """`fedica.flower.superlink` gives it one that ends with the SuperExec."""

    def create(_config, lifespan):
        assert lifespan == "ours"
        raise CalledError

    monkeypatch.setattr(superlink, "create_app", create)
    monkeypatch.setattr(COMMAND, "SuperLinkLifespan", "ours")
    with pytest.raises(CalledError):
        COMMAND._run_superlink_http_api(None)


def test_a_superlink_ends_with_its_superexec(monkeypatch):
    """Started as Flower starts it; here it is a program that ends at once."""
    ended = threading.Event()
    monkeypatch.setattr(COMMAND, "_get_superexec_command", lambda **_options: [sys.executable, "-c", ""])
    monkeypatch.setattr("fedica.flower.superlink._GRACE", 0.0)
    monkeypatch.setattr(os, "_exit", lambda _code: ended.set())
    said = SimpleNamespace(isolation=COMMAND.ISOLATION_MODE_SUBPROCESS, host="127.0.0.1", port=1, certificates=None)
    said.ssl_ca_certfile = said.runtime_dependency_install = said.health_server_address = None
    WatchedLifespan(said, SimpleNamespace(objectstore_factory=None, state=lambda: None)).startup()
    assert ended.wait(600)


def test_the_supernode_looks_up_its_connection_and_its_port_when_it_starts(monkeypatch):
    """`fedica.flower.supernode` replaces both before."""

    @contextmanager
    def connect(*_arguments):
        yield tuple(range(8))

    monkeypatch.setattr(node_loop, "http_request_response", connect)
    with node_loop._init_connection("127.0.0.1:1", False) as functions:
        assert functions == tuple(range(8))

    def create(**_options):
        raise CalledError

    monkeypatch.setattr(supernode, "create_app", create)
    with pytest.raises(CalledError):
        _start_supernode_http_api(SimpleNamespace(superexec_auth_secret=None), None)


def test_the_superexec_looks_up_its_executor_when_it_starts_and_lets_it_see_to_its_processes(monkeypatch):
    """`fedica.flower.supernode` gives it one that copies the process: `launch` is told what `run_clientapp` takes."""
    seen = []

    class Executor(SubprocessExecutor):
        def reconcile(self):
            seen.append("reconcile")
            raise CalledError

        def close(self):
            seen.append("close")

    monkeypatch.setattr(superexec_loop, "get_executor", lambda *_arguments, **_options: Executor())
    monkeypatch.setattr(superexec_loop, "register_signal_handlers", lambda **_options: None)
    with pytest.raises(CalledError):
        superexec_loop.run_superexec("127.0.0.1:1", insecure=True, superexec_auth_secret=b"x")
    assert seen == ["reconcile", "close"]
    passed = {"runtime_api_address", "token", "insecure", "parent_pid"}
    assert passed <= {field.name for field in fields(ExecutionSpec)}
    assert passed <= set(signature(run_clientapp).parameters)


def test_a_part_of_an_answer_that_the_superlink_does_not_take_is_an_error_of_its_own():
    """`fedica.flower.persistent` announces the answer anew."""
    push = make_push_object_fn_protobuf(lambda _request: PushObjectResponse(stored=False), Node(), 1, "session")
    with pytest.raises(ObjectPushError):
        push("0" * 64, b"")


@pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")
def test_an_answer_may_be_announced_again_and_only_what_is_missing_of_it_is_asked_for(database):
    """By `PersistentConnection.push_object`, and by Flower itself where a connection could not be made."""
    state = database()
    run = state.create_run("fedica/app", "1", "0", {}, NOOP_FEDERATION_ID, None, "account", TaskType.SERVER_APP)
    answer = RecordDict({"fields": ConfigRecord({"x": 1})})
    tree, parts = get_object_tree(answer), {x: part.deflate() for x, part in get_all_nested_objects(answer).items()}
    whole, field = tree.object_id, tree.children[0].object_id
    sessions = [state.start_session(run) for _ in range(2)]
    assert set(state.preregister_object_tree(tree, sessions[0])) == set(parts) == {whole, field}
    assert state.store_object(run, sessions[0], field, parts[field])
    assert not state.store_object(run, sessions[0], field, parts[field])
    assert state.preregister_object_tree(tree, sessions[1]) == [whole]
    assert state.store_object(run, "", whole, parts[whole])  # in whichever session it is waited for


def test_a_message_whose_app_cannot_be_fetched_is_ignored_and_the_node_goes_on(federation):
    """What `CheckedConnection.get_fab` raises for an app that was not checked."""
    assert federation

    def not_running(*_arguments):
        raise RunNotRunningException

    received = Message(RecordDict(), 7, "train"), ObjectTree()
    state = SimpleNamespace(get_run=lambda _run: None)
    functions = {"get_run": lambda _run: SimpleNamespace(fab_hash=""), "get_fab": not_running}
    pulled = node_loop._pull_and_store_message(
        state,
        None,
        {},
        lambda: received,
        **functions,
        pull_object=None,
        confirm_message_received=None,
        trusted_entities=None,
    )
    assert pulled is None


def test_a_node_with_a_key_needs_the_ten_paths_and_there_are_two_more():
    """The two serve nodes without keys; a new path would have to be let through, or kept out, on purpose."""
    fleet = {path.removeprefix(guard.FLEET) for _, path in PROTOBUF_REQUEST_TYPES if path.startswith(guard.FLEET)}
    assert fleet - set(FLEET_PATHS) == {"register-node", "unregister-node"}
    assert fleet >= set(FLEET_PATHS)


def test_the_id_of_a_message_is_a_hash_of_its_content(federation):
    """With a nonce in the content nobody can guess it."""
    assert federation
    ids = {Message(Envelope(nonce, 1.0, 7, "train").seal(RecordDict(), None), 7, "train").object_id for nonce in "ab"}
    assert len(ids) == 2
    assert {len(name) for name in ids} == {64}


def test_parts_of_a_message_fit_a_request_and_the_count_of_parts_bounds_its_size():
    """The proxy and `FleetGuard` let 8 MiB through, and count parts of at least 4 MiB."""
    assert guard._CHUNK <= FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE < guard.MAX_BODY


@pytest.fixture
def database(tmp_path):
    """Return a function: what the SuperLink keeps in its file, as it reads it after a start."""

    def database():
        path = str(tmp_path / "state.db")
        return LinkStateFactory(path, NoOpFederationManager(), ObjectStoreFactory(path)).state()

    return database


@pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")
def test_nodes_keep_their_numbers_when_the_superlink_is_started_again(database):
    """The nonces of a run are kept by them: `fedica.flower.finish.keep_nonces`."""
    node = database().create_node("account", "name", b"a public key", 30.0)
    assert database().get_node_id_by_public_key(b"a public key") == node


@pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")
def test_a_run_that_is_stopped_is_over(database):
    """`Control.resume` stops a run whose processes were killed, and another one carries it on."""
    state = database()
    run = state.create_run("fedica/app", "1", "0", {}, NOOP_FEDERATION_ID, None, "account", TaskType.SERVER_APP)
    assert state.get_run_status({run})[run].status != Status.FINISHED
    assert state.stop_run(run)
    assert database().get_run_status({run})[run].status == Status.FINISHED


def test_the_coordinators_and_the_nodes_requests_and_what_is_told_of_a_node():
    """`Control` and `check_connection` send them as Flower's own commands do."""
    for name in ("ListNodes", "ListRuns", "RegisterNode", "UnregisterNode", "StartRun", "StopRun"):
        assert callable(getattr(ControlHttpClient, name))
    for name in ("ActivateNode", "DeactivateNode"):
        assert callable(getattr(FleetHttpClient, name))
    told = {"node_id", "public_key", "status", "last_activated_at", "last_deactivated_at", "unregistered_at"}
    assert told <= set(NodeInfo.DESCRIPTOR.fields_by_name)
    assert FlowerError.from_json('{"code": 1, "detail": "why"}').message == "why"


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_a_bundle_holds_the_page_and_flowers_own_list(tmp_path):
    """`fedica.flower.apps.bundle_fingerprint` takes nothing else."""
    certs = make_certificates(tmp_path / "certs", ["a"], host="127.0.0.1")
    write_federation(tmp_path / "federation", Federation("127.0.0.1", 8443, 8000, certs.folder))
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(tmp_path / "federation" / "app"))) as bundle:
        assert sorted(bundle.namelist()) == sorted([apps.PAGE, apps._LIST])


def test_the_words_and_numbers_of_flower():
    """States of runs and nodes, codes of errors, the coordinator's node, and how far clocks may differ."""
    assert (Status.FINISHED, SubStatus.COMPLETED, NodeStatus.ONLINE) == ("finished", "completed", "online")
    named = {
        ErrorCode.LOAD_CLIENT_APP_EXCEPTION: 1,
        ErrorCode.CLIENT_APP_RAISED_EXCEPTION: 2,
        ErrorCode.MESSAGE_UNAVAILABLE: 3,
        ErrorCode.REPLY_MESSAGE_UNAVAILABLE: 4,
        ErrorCode.NODE_UNAVAILABLE: 5,
        ErrorCode.INVALID_FAB: 7,
        ErrorCode.CLIENT_APP_CRASHED: 8,
    }
    assert all(code == number for code, number in named.items())
    assert set(collect._ERRORS) == set(named.values())
    assert SUPERLINK_NODE_ID == 1
    assert check._MAX_AHEAD < SYSTEM_TIME_TOLERANCE
    assert check._MAX_BEHIND < TIMESTAMP_TOLERANCE
