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


@app.train("contribution")
def contribution(message: Message, context: Context) -> Message | None:
    """Answer as the fault says that the file $FAULT names."""
    fault = Path(os.environ["FAULT"]).read_text() if Path(os.environ["FAULT"]).exists() else ""
    Path(os.environ["FAULT"] + ".asked").touch()
    if fault == "raise":
        raise RuntimeError("a handler that raises")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        client_app.contribute = lambda *_arguments, **_options: time.sleep(3600)
    if fault.startswith("late"):
        time.sleep(float(fault.removeprefix("late ")))
        Path(os.environ["FAULT"] + ".over").touch()
    if fault == "announce":
        from flwr.supernode.runtime import run_clientapp

        run_clientapp.push_objects = lambda *_arguments, **_options: None
    return client_app.contribution(message, context)


@app.query("aggregate")
def aggregate(message: Message, context: Context) -> Message:
    """Answer the second message as ever."""
    return client_app.aggregate(message, context)
