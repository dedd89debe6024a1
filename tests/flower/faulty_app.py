"""The client's app with faults that a file switches on and off, for tests with real processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedica.flower import client_app

app = ClientApp()


def told() -> str:
    """The fault that this client has now."""
    return Path(os.environ["FAULT"]).read_text() if Path(os.environ["FAULT"]).exists() else ""


def wait_while(fault: str) -> None:
    """Wait until this client has another fault."""
    while told() == fault:
        time.sleep(0.1)


@app.train("contribution")
def contribution(message: Message, context: Context) -> Message | None:
    """Answer as the fault says that the file $FAULT names."""
    fault = told()
    Path(f"{os.environ['FAULT']}.asked-{context.run_id}").touch()
    if fault == "raise":
        raise RuntimeError("a handler that raises")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        client_app.contribute = lambda *_arguments, **_options: time.sleep(3600)
    if fault == "waits":
        wait_while(fault)
    if fault == "announce":
        from flwr.supernode.runtime import run_clientapp

        run_clientapp.push_objects = lambda *_arguments, **_options: None
    return client_app.contribution(message, context)


@app.train("scores")
def scores(message: Message, context: Context) -> Message:
    """Answer as ever, unless the fault is one of the second round."""
    fault = told()
    Path(f"{os.environ['FAULT']}.scored-{context.run_id}").touch()
    if fault == "killed in round 2":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "waits in round 2":
        wait_while(fault)
    return client_app.scores(message, context)


@app.query("aggregate")
def aggregate(message: Message, context: Context) -> Message:
    """Answer the second message as ever."""
    return client_app.aggregate(message, context)
