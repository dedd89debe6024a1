"""Start Flower's SuperLink with the checks of `fedica.flower.guard`, and with files for its user alone."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from logging import ERROR
from pathlib import Path

from flwr.common.logger import log
from flwr.superlink import extensions
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, flower_superlink
from starlette.middleware import Middleware

from fedica.errors import OptionError
from fedica.flower.guard import CONNECTIONS, FLEET, FleetGuard, OwnerGuard
from fedica.flower.scaffold import FLEET_PATHS

_GRACE = 10.0
"""Seconds that a process has to end by itself after its SuperExec."""


def prepare_process() -> None:
    """Let this process and those that it starts make files for their user alone, and find Flower's commands.

    The users of connections are looked up where Linux tells them; another system is refused.
    """
    os.umask(0o077)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if not CONNECTIONS.exists():
        raise OptionError(
            f"{CONNECTIONS}: not found. The ports of Flower are closed to other users of a machine by what Linux tells "
            "there; run coordinators and clients on Linux."
        )


class WatchedLifespan(SuperLinkLifespan):
    """A SuperLink that ends with its SuperExec: without it, runs are accepted and never start."""

    def startup(self) -> None:
        """Start everything, and watch the SuperExec."""
        super().startup()
        if self.superexec_process is not None:
            end_with(self.superexec_process.wait, "SuperLink")


def end_with(wait: Callable[[], object], name: str) -> None:
    """End this process, of this name, some time after its SuperExec; its supervisor starts both again.

    wait : returns when the SuperExec has ended.
    """

    def end() -> None:
        wait()
        time.sleep(_GRACE)  # both may have been told to end
        log(ERROR, "fedica: the SuperExec of this %s has ended, and the %s with it", name, name)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def main(options: list[str], *, max_bytes: int) -> None:
    """Run the SuperLink until it is stopped. max_bytes : the most that a node may send in a run."""
    prepare_process()
    open_to_all = [f"{FLEET}{name}" for name in FLEET_PATHS]
    vars(extensions)["get_middleware"] = lambda: (
        Middleware(OwnerGuard, open_paths=open_to_all),
        Middleware(FleetGuard, max_bytes=max_bytes),
    )
    vars(sys.modules[SuperLinkLifespan.__module__])["SuperLinkLifespan"] = WatchedLifespan
    sys.argv = ["flower-superlink", *options]
    flower_superlink()
