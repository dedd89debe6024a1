"""API pages, one per subpackage, generated from the public names that it declares."""

from __future__ import annotations

import inspect
import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

ROOMS = {
    "fedica": "Main functions and classes",
    "fedica.local": "Client",
    "fedica.ica": "Whitening and solvers",
    "fedica.server": "Server",
    "fedica.records": "Records",
    "fedica.exchange": "Files and signatures",
    "fedica.readers": "Readers",
    "fedica.interop": "Conversion from and to other tools",
    "fedica.workflow": "Workflow: the functions behind the commands",
    "fedica.report": "Reports and figures",
    "fedica.evaluate": "Evaluation against a known truth",
    "fedica.matching": "Matching atoms",
    "fedica.simulate": "Simulated federations and attacks",
    "fedica.datasets": "Data sets",
    "fedica.errors": "Errors",
}
"""Subpackages and the headings of their pages, in the order of the index."""

STEPS = {
    "fedica.ica": ("whitening", "moments", "l4", "kurtosis", "deflation", "fast", "adapters"),
    "fedica.server": (
        *("missing_features", "affinity", "embedding", "clusters", "signs", "centres", "assign", "agreement"),
        *("consensus", "trust.verdicts", "trust.likeness", "choose_n_components"),
    ),
    "fedica.simulate": ("photographs", "hostile", "hidden", "mistakes", "laws"),
}
"""Modules whose functions are listed as well: the steps of the algorithms, to which the page on the method refers."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("config-inited", lambda app, _: write_pages(Path(app.srcdir) / "api"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(folder: Path) -> None:
    """Write index.rst and one page per subpackage; an unchanged page keeps its modification time."""
    folder.mkdir(exist_ok=True)
    pages = {room.replace("fedica.", ""): room_page(room, title) for room, title in ROOMS.items()}
    entries = "\n".join(f"   {name}" for name in pages)
    index = (
        f"{heading('API', '=')}\nAll public names, by subpackage, with their docstrings.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{entries}\n"
    )
    shutil.rmtree(folder / "generated", ignore_errors=True)  # removes pages of names that no longer exist
    for name, text in {**pages, "index": index}.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def room_page(room: str, title: str) -> str:
    """Return the page of a subpackage: its docstring, its public names, and the functions of its steps."""
    module = import_module(room)
    lines = [heading(f"{title}: {room}", "="), f".. automodule:: {room}\n   :no-members:\n"]
    public = [name for name in public_names(module) if is_class_or_function(getattr(module, name))]
    lines.append(table(room, public))
    for step in STEPS.get(room, ()):
        part = import_module(f"{room}.{step}")
        public = [
            name for name, value in vars(part).items() if is_own_function(value, part) and not name.startswith("_")
        ]
        lines += [heading(f"{room}.{step}", "-"), f"{summary(part)}\n"]
        lines.append(table(f"{room}.{step}", public))
    return "\n".join(lines)


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module declares, or else defines, without those that have their page elsewhere.

    Names of ``fedica`` itself are on its page; names that a subpackage takes from another are on the other's page.
    """
    declared = getattr(module, "__all__", None)
    if declared is None:
        own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        declared = [name for name, value in own.items() if getattr(value, "__module__", "") == module.__name__]
    if module.__name__ == "fedica":
        return list(declared)
    elsewhere = set(import_module("fedica").__all__) | {name for name in declared if home(module, name) in ROOMS}
    return [name for name in declared if name not in elsewhere]


def home(module: ModuleType, name: str) -> str:
    """Return the other subpackage that defines a public name of a module, or nothing if the module does."""
    defined_in = ".".join(getattr(getattr(module, name), "__module__", "").split(".")[:2])
    return "" if defined_in == module.__name__ else defined_in


def is_class_or_function(value: object) -> bool:
    """Tell whether a value has its own page; tables and type aliases are documented where they are used."""
    return inspect.isclass(value) or inspect.isfunction(value)


def summary(module: ModuleType) -> str:
    """Return the first paragraph of a module's docstring."""
    return (inspect.getdoc(module) or "").split("\n\n")[0]


def is_own_function(value: object, module: ModuleType) -> bool:
    """Tell whether a value is a function defined in this module."""
    return inspect.isfunction(value) and value.__module__ == module.__name__


def table(module: str, names: list[str]) -> str:
    """Return a table of names, each with its own page."""
    if not names:
        return ""
    rows = "\n".join(f"   {name}" for name in names)
    return f".. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{rows}\n"


def heading(text: str, underline: str) -> str:
    """Return a heading."""
    return f"{text}\n{underline * len(text)}\n"
