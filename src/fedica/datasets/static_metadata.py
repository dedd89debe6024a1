"""A build backend that builds nothing: the metadata it gives pip is the PKG-INFO of a source archive.

pip asks the build backend of a source archive for metadata before it downloads it, which would fetch a build system and
run code of the archive. `install` puts this file where pip looks for these backends, so that none of their code runs.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

BACKENDS = ("hatchling/build.py", "setuptools/build_meta.py")
"""The backends that our source archives name, or that pip takes where an archive names none."""


def install(folder: Path) -> Path:
    """Make a folder for Python's path that holds this file under the name of each backend."""
    for backend in BACKENDS:
        place = folder / backend
        place.parent.mkdir(parents=True)
        (place.parent / "__init__.py").touch()
        shutil.copyfile(__file__, place)
    return folder


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Return that nothing is needed (PEP 517)."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    """Write the metadata of the archive unpacked in the current folder, and return its name (PEP 517)."""
    lines = Path("PKG-INFO").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if line.startswith(("Name: ", "Version: ")))
    folder = Path(metadata_directory, f"{fields['Name']}-{fields['Version']}.dist-info")
    folder.mkdir()
    shutil.copyfile("PKG-INFO", folder / "METADATA")
    return folder.name


__legacy__ = sys.modules[__name__]  # the backend of an archive that has only a setup.py
