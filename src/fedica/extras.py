"""Optional packages, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedica.errors import MissingExtraError


def import_extra(module: str, who: str, extra: str, package: str = "") -> Any:
    """Return an optional module; where it is missing, say who needs its package and which extra installs it."""
    try:
        return import_module(module)
    except ImportError:
        sentence = f"{who} needs {package or module}. Install it with: pip install 'fedica[{extra}]'"
        raise MissingExtraError(sentence) from None
