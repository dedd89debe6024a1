"""What the tests of the pages share: where the pages are, and their blocks, links and anchors."""

from __future__ import annotations

import re
from pathlib import Path

from run_pages import FENCE, blocks_of

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
"""They need the real data sets: ``make docs`` runs them."""
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *TUTORIALS,
]
__all__ = ["PAGES", "ROOT", "TUTORIALS", "anchors_of", "blocks_of", "prose_of"]


def prose_of(page):
    """A page without its fenced blocks and code spans: what may hold links."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors_of(page):
    """The anchors that a repository page gives its headings: lower case, without signs, hyphens for blanks."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-") for heading in headings}
