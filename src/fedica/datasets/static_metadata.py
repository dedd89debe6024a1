"""A build backend that builds nothing: it tells pip what a source archive already says of itself.

Before pip hands a source archive over, it asks the archive's own build backend for the package's metadata, although the
download needs none: that would fetch a build system from the index and run code of the archive. `install` puts
this file where pip looks for the backends of the archives that we want; it copies PKG-INFO, and no code of theirs runs.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

BACKENDS = ("hatchling/build.py", "setuptools/build_meta.py")
"""The backends that the source archives name, or that pip takes where an archive names none."""


def install(folder: Path) -> Path:
    """Make the folder one that, on Python's path, holds this file under the name of each backend."""
    for backend in BACKENDS:
        place = folder / backend
        place.parent.mkdir(parents=True)
        (place.parent / "__init__.py").touch()
        shutil.copyfile(__file__, place)
    return folder


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Tell pip that nothing is needed (PEP 517)."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    """Write the metadata of the archive that lies in the current folder, and return its name (PEP 517)."""
    lines = Path("PKG-INFO").read_text(encoding="utf-8").splitlines()
    said = dict(line.split(": ", 1) for line in lines if line.startswith(("Name: ", "Version: ")))
    folder = Path(metadata_directory, f"{said['Name']}-{said['Version']}.dist-info")
    folder.mkdir()
    shutil.copyfile("PKG-INFO", folder / "METADATA")
    return folder.name


__legacy__ = sys.modules[__name__]  # what pip calls for an archive with a setup.py alone
