"""Fingerprints of Flower apps: a client runs those alone that its policy names.

The app of fedica is one page, pyproject.toml, which points into the installed package. Its fingerprint is that of what
the page says, not of its bytes: Flower writes the page anew when it bundles an app.
"""

from __future__ import annotations

import io
import json
import tomllib
import zipfile
from typing import Any

from fedica.errors import FormatError
from fedica.exchange.files import sha256

PAGE = "pyproject.toml"
_LIST = ".info/CONTENT"  # Flower's own list of what a bundle holds
_MAX_PAGE = 256 * 1024


def page_fingerprint(page: bytes) -> str:
    """Return the fingerprint of an app that consists of this pyproject.toml alone."""
    return sha256(json.dumps(_read_page(page), sort_keys=True).encode())


def bundle_fingerprint(bundle: bytes) -> tuple[str, str, str]:
    """Return fingerprint, name and version of the app in a bundle of Flower (FAB), which must hold its page alone.

    Nothing of it is unpacked to disk, imported or run.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
            names = sorted(archive.namelist())
            if names != sorted([PAGE, _LIST]):
                raise FormatError(f"an app of fedica is its page {PAGE!r} alone; got {', '.join(names)[:200]}.")
            if archive.getinfo(PAGE).file_size > _MAX_PAGE:
                raise FormatError(f"the page of an app has at most {_MAX_PAGE} bytes.")
            page = archive.read(PAGE)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise FormatError(f"the app is not a bundle that Flower wrote ({error}).") from error
    said = _read_page(page)
    try:
        name = f"{said['tool']['flwr']['app']['publisher']}/{said['project']['name']}"
        return page_fingerprint(page), name, str(said["project"]["version"])
    except (KeyError, TypeError) as error:
        raise FormatError(f"the page of an app must name publisher, name and version; {error} is missing.") from error


def _read_page(page: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(page.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FormatError(f"the page of an app is not TOML ({error}).") from error
