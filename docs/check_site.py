"""Check a built site: every link between its pages, every anchor and picture exists; nothing comes from elsewhere.

Usage: python docs/check_site.py out/docs
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src"}
LOADED = {"img", "link", "script", "source"}
"""Elements that a browser loads by itself: they must not need a network."""


class Page(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to, and what it is called."""
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if target := values.get(LINKS.get(tag, "")):
            self.links.append((tag, target))


def faults_of(site: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere."""
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    faults = []
    for path, page in pages.items():
        for tag, target in page.links:
            parts = urlsplit(target)
            where = f"{path.relative_to(site)}: {target}"
            if parts.scheme or parts.netloc:
                if tag in LOADED and parts.scheme != "data":
                    faults.append(f"{where} needs a network")
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file():
                faults.append(f"{where} does not exist")
            elif file in pages and unquote(parts.fragment) not in pages[file].anchors:
                faults.append(f"{where}: the page has no such anchor")
    return faults


def main(site: Path) -> None:
    """Print what is wrong, and fail if anything is."""
    if not (site / "index.html").is_file():
        sys.exit(f"{site} holds no site; run: make docs")
    faults = faults_of(site.resolve())
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        sys.exit(f"{len(faults)} links lead nowhere.")
    print(f"{site}/index.html: every link, anchor and picture exists.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
