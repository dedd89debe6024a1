"""The server's app, which a file holds at a step until it is killed or let go, for tests with real processes."""

from __future__ import annotations

import sys

from faulty_app import mark, told, wait_while
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedica.flower import server_app

app = ServerApp()
STEPS = {
    "waits while it aggregates": (sys.modules["fedica.workflow.combine"], "write_folder"),
    "waits while it writes": (sys.modules["fedica.exchange.replace_folder"], "_swap"),
    "waits while it refines": (sys.modules["fedica.workflow.refine"], "write_folder"),
}
"""For each fault the function before which the app is held: a result is computed, or written beside its place."""


def hold(fault: str, context: Context) -> None:
    """Hold the app at this step while the file $FAULT says so."""
    module, name = STEPS[fault]
    work = vars(module)[name]

    def held(*arguments: object, **options: object) -> object:
        if told() == fault:
            mark("held", context)
            wait_while(fault)
        return work(*arguments, **options)

    setattr(module, name, held)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation as ever."""
    for fault in STEPS:
        hold(fault, context)
    server_app.app(grid, context)
