"""Start Flower's SuperNode so that it runs the apps of the client's policy alone, and no other user takes its tasks."""

from __future__ import annotations

import os
import secrets
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from logging import ERROR
from pathlib import Path
from typing import Any

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supercore.superexec import run_superexec as superexec_loop
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, SubprocessExecutor
from flwr.supercore.utils import disable_process_dumping
from flwr.supernode import main as runtime_api
from flwr.supernode import start_client_internal as node_loop
from flwr.supernode.cli.flower_supernode import flower_supernode
from flwr.supernode.runtime.run_clientapp import run_clientapp

from fedica.errors import FormatError, PolicyError
from fedica.exchange.files import PRIVATE, make_private_folder, sha256, write_atomic
from fedica.flower.apps import bundle_fingerprint
from fedica.flower.guard import OwnerGuard
from fedica.flower.handover import within_patience
from fedica.flower.persistent import PersistentConnection
from fedica.flower.superlink import end_with, prepare_process


def check_app(run: Run, bundle: Fab, allowed: Collection[str]) -> None:
    """Refuse an app that the client's policy does not name, or a bundle that is not what the run says it is.

    Flower finds an installed app by the run's name and version and the bundle's hash: all three must be the bundle's.
    """
    found, name, version = bundle_fingerprint(bundle.content)
    said = sha256(bundle.content), name, version
    if (bundle.hash_str, run.fab_id, run.fab_version) != said or run.fab_hash != bundle.hash_str:
        raise FormatError("the run names another app than the one that was sent.")
    if found not in allowed:
        raise PolicyError(f"this client's policy does not name the app with the fingerprint {found} (apps).")


class CheckedConnection:
    """The functions by which a SuperNode talks to its SuperLink; a message of an unknown app is refused on arrival.

    The refused message is answered with Flower's error of an invalid app; nothing of the app is stored or started.
    """

    def __init__(self, connection: tuple[Any, ...], allowed: Collection[str]) -> None:
        self._calls = PersistentConnection(connection).functions()
        self._allowed = frozenset(allowed)
        self._checked: dict[int, Fab] = {}

    def functions(self) -> tuple[Any, ...]:
        """Return the functions in Flower's order."""
        return tuple({**self._calls, "receive": self.receive, "get_fab": self.get_fab}.values())

    def receive(self) -> tuple[Message, ObjectTree] | None:
        """Return the next message, if its app is allowed."""
        received: tuple[Message, ObjectTree] | None = self._calls["receive"]()
        if received is None:
            return None
        message, run_id = received[0], received[0].metadata.run_id
        try:
            if run_id not in self._checked:
                run = self._calls["get_run"](run_id)
                bundle = self._calls["get_fab"](run.fab_hash, run_id)
                check_app(run, bundle, self._allowed)
                self._checked[run_id] = bundle
        except (FormatError, PolicyError) as error:
            log(ERROR, "fedica: run %s was refused before anything of it was started: %s", run_id, error)
            self._answer(message)
            return None
        return received

    def get_fab(self, _fab_hash: str, run_id: int) -> Fab:
        """Return the bundle that was checked, never another one."""
        if run_id not in self._checked:
            raise RunNotRunningException
        return self._checked[run_id]

    def _answer(self, message: Message) -> None:
        reply = Message(Error(ErrorCode.INVALID_FAB, "its policy does not name this app"), reply_to=message)
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            _, session = self._calls["send"](reply, get_object_tree(reply), 0.0)
            for name, part in get_all_nested_objects(reply).items():
                self._calls["push_object"](reply.metadata.run_id, session, name, part.deflate())


def check_apps_on_arrival(allowed: Collection[str]) -> None:
    """Let the SuperNode of this process refuse every app but those allowed."""
    connect: Callable[..., Any] = vars(node_loop)["http_request_response"]

    @contextmanager
    def checked(*arguments: Any) -> Iterator[tuple[Any, ...]]:
        with connect(*arguments) as connection:
            yield CheckedConnection(connection, allowed).functions()

    vars(node_loop)["http_request_response"] = checked


def close_runtime_port() -> None:
    """Close the port by which the SuperNode hands out tasks to other users of the machine."""
    create = runtime_api.create_app

    def guarded(*arguments: Any, **options: Any) -> Any:
        app = create(*arguments, **options)
        app.add_middleware(OwnerGuard)
        return app

    vars(runtime_api)["create_app"] = guarded


def drop_unfinished_answers() -> None:
    """Let the SuperNode of this process go on if its app does not hand over all of its answer."""
    vars(node_loop)["_push_messages"] = within_patience(vars(node_loop)["_push_messages"])


def run_copy(work: Callable[[], None]) -> int:
    """Do the work in a copy of this process, which ends with it; return the number of the copy."""
    sys.stdout.flush()
    sys.stderr.flush()
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        work()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class CopyingExecutor(SubprocessExecutor):
    """Run each message's app in a copy of the SuperExec, which has imported what the app needs: that takes seconds."""

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Start the app."""
        run_copy(
            lambda: run_clientapp(
                runtime_api_address=spec.runtime_api_address,
                token=spec.token,
                insecure=spec.insecure,
                parent_pid=spec.parent_pid,
            )
        )
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Let the system forget the copies that have ended."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def run_superexec(port: int, secret: bytes, supernode: int) -> None:
    """Run the SuperExec of the SuperNode on this port until that process ends."""
    import fedica.flower.client_app  # noqa: F401, PLC0415 - for the copies of this process

    disable_process_dumping(strict=False)
    vars(superexec_loop)["get_executor"] = lambda *_arguments, **_options: CopyingExecutor()
    superexec_loop.run_superexec(f"127.0.0.1:{port}", insecure=True, superexec_auth_secret=secret, parent_pid=supernode)


def main(options: list[str], apps: Collection[str], secret: Path, port: int) -> None:
    """Run the SuperNode, and the SuperExec that starts its apps, until they are stopped.

    apps : fingerprints of those that may run. secret : file for what the two share. port : the SuperNode's own.
    """
    prepare_process()
    make_private_folder(secret.parent)
    shared, supernode = secrets.token_bytes(32), os.getpid()
    write_atomic(secret, [shared], mode=PRIVATE)
    superexec = run_copy(lambda: run_superexec(port, shared, supernode))
    end_with(lambda: os.waitpid(superexec, 0), "node")  # which would take messages and never answer
    check_apps_on_arrival(apps)
    close_runtime_port()
    drop_unfinished_answers()
    sys.argv = ["flower-supernode", *options, "--isolation", "process", "--superexec-auth-secret-file", str(secret)]
    flower_supernode()
