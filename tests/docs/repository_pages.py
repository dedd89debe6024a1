"""What the tests of the pages share: where the pages are, and their blocks, links and anchors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(r"^(`{3,}|:{3,})(.*?)\n(.*?)^\1[ ]*$", flags=re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block: its language, or directive, and its text."""

    language: str
    text: str


def blocks_of(page):
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(language.strip(), body) for _, language, body in FENCE.findall(text)]


def prose_of(page):
    """A page without its fenced blocks and code spans: what may hold links."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors_of(page):
    """The anchors that a repository page gives its headings: lower case, without signs, hyphens for blanks."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-") for heading in headings}
