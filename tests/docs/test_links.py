"""The pages as a repository shows them: every link, anchor and picture exists."""

from __future__ import annotations

import re

import pytest
from repository_pages import PAGES, anchors_of, prose_of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page):
    """A file that exists and, after #, a heading of it; what Sphinx resolves is checked when the site is built."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            broken.append(target)
    assert broken == []


def test_the_anchors_of_a_page_are_those_of_its_headings(tmp_path):
    """Signs and code marks go, blanks become hyphens; a comment in a block of code is no heading."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Public aggregate (`fedica.aggregate`)\n\n```\n# no heading\n```\n\n## What holds\n", encoding="utf-8"
    )
    assert anchors_of(page) == {"public-aggregate-fedicaaggregate", "what-holds"}
