"""The program ``fedica``. Nothing here takes long to import, so that Ctrl-C is answered from the first moment."""

from __future__ import annotations

import sys

from fedica.text import STOPPED


def main() -> None:
    """Load the commands and run the one that was asked for."""
    try:
        from fedica.cli import main as run  # noqa: PLC0415 - takes long
    except KeyboardInterrupt:
        sys.stderr.write(f"Error: {STOPPED}\n")
        sys.exit(130)
    run()
