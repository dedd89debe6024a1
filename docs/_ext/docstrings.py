"""Docstrings as they are written: a bar is a bar, and a name in backticks is a link where there is a page for it."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext import autosummary


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen where docstrings are read and where names are looked up."""
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Eqs.")  # or a summary would end there
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("missing-reference", find_at_the_top)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def keep_bars(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Write ``|cos|`` in running text as absolute value, which reStructuredText takes for a substitution."""
    for i, line in enumerate(lines):
        if "``" not in line and not line.lstrip().startswith((">>>", "...", "..")):
            lines[i] = re.sub(r"(?<!\\)\|", r"\\|", line)


def find_at_the_top(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Look a name of a docstring up among the public names; leave it as text if it exists but has no page.

    Only for `name`, which becomes a reference if it can be imported, so that it does exist. References that were
    written out, as those of the pages are, must be found or fail.
    """
    if node.get("reftype") != "obj" or node.get("refdomain") != "py":
        return None
    domain: Any = env.get_domain("py")
    last = node["reftarget"].rpartition(".")[2]
    anywhere = [name for name in domain.objects if name.endswith(f".{last}")]
    target = f"fedica.{last}" if f"fedica.{last}" in domain.objects else anywhere[0] if len(anywhere) == 1 else None
    return (
        content
        if target is None
        else domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)
    )
