"""The client's app with faults that a file switches on and off, for tests with real processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedica.flower import client_app

app = ClientApp()


def told() -> str:
    """The fault that this client has now."""
    return Path(os.environ["FAULT"]).read_text() if Path(os.environ["FAULT"]).exists() else ""


def mark(event: str, context: Context) -> None:
    """Tell the test that a handler has begun, and in which process."""
    path = Path(f"{os.environ['FAULT']}.{event}-{context.run_id}")
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)


def kill_this_process(sends: str) -> None:
    """By kill -9, when a part of the answer has been handed to the node, or all of it."""
    from flwr.supernode.runtime import run_clientapp

    push = run_clientapp.push_objects

    def killed(objects: Any, push_object: Any, *, object_ids_to_push: set[str], **options: Any) -> None:
        parts = sorted(object_ids_to_push)[: 1 if sends == "a part" else None]
        push(objects, push_object, object_ids_to_push=set(parts), **options)
        os.kill(os.getpid(), signal.SIGKILL)

    run_clientapp.push_objects = killed


def wait_while(fault: str) -> None:
    """Wait until this client has another fault."""
    while told() == fault:
        time.sleep(0.1)


@app.train("contribution")
def contribution(message: Message, context: Context) -> Message | None:
    """Answer as the fault says that the file $FAULT names."""
    fault = told()
    mark("asked", context)
    if fault == "raise":
        raise RuntimeError("a handler that raises")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        client_app.contribute = lambda *_arguments, **_options: time.sleep(3600)
    if fault == "waits":
        wait_while(fault)
    if fault.startswith("killed when it has sent "):
        kill_this_process(fault.removeprefix("killed when it has sent "))
    if fault == "announce":
        from flwr.supernode.runtime import run_clientapp

        run_clientapp.push_objects = lambda *_arguments, **_options: None
    return client_app.contribution(message, context)


@app.train("scores")
def scores(message: Message, context: Context) -> Message:
    """Answer as ever, unless the fault is one of the second round."""
    fault = told()
    mark("scored", context)
    if fault == "killed in round 2":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "waits in round 2":
        wait_while(fault)
    return client_app.scores(message, context)


@app.query("aggregate")
def aggregate(message: Message, context: Context) -> Message:
    """Apply the aggregate as ever, unless the fault is one of this phase."""
    fault = told()
    mark("returned", context)
    if fault == "waits with the aggregate":
        wait_while(fault)
    return client_app.aggregate(message, context)
