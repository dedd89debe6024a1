"""Pages made of sections, each of which can be measured alone: the others stay on the page as they are."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from measuring import facts

Measure = Callable[[argparse.Namespace], str]
"""Measures a section, and returns it in Markdown without its heading."""


@dataclass(frozen=True)
class Page:
    """A page of the documentation.

    introduction : what stands above all sections; sections : by a short name, in the order of the page, the heading of
    each and what measures it; of : the parts of the package that the numbers belong to, all of it by default.
    """

    introduction: str
    sections: Mapping[str, tuple[str, Measure]]
    of: tuple[str, ...] = ()

    def add_options(self, parser: argparse.ArgumentParser, output: str) -> None:
        """Add the options that all pages have."""
        parser.add_argument("--section", action="append", choices=self.sections, help="this one alone; may be repeated")
        parser.add_argument("--jobs", type=int, default=2)
        parser.add_argument("--output", type=Path, default=Path(output))

    def write(self, options: argparse.Namespace) -> None:
        """Measure the sections that are asked for; a run that is stopped leaves those that are done."""
        for name in options.section or self.sections:
            heading, measure = self.sections[name]
            version = facts(*self.of)
            text = f"{heading}\n\n*Measured on {version['date']}, commit {version['sources']}.*\n\n{measure(options)}"
            options.output.write_text(self.with_section(options.output, name, text), encoding="utf-8")
            print(f"wrote {options.output}: {heading}", flush=True)

    def with_section(self, path: Path, name: str, text: str) -> str:
        """Return the page with this section anew."""
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        parts = {part.partition("\n")[0]: part.strip() for part in before.split("\n## ")[1:]}
        parts[self.sections[name][0]] = text.strip()
        headings = [heading for heading, _ in self.sections.values() if heading in parts]
        return "\n".join([self.introduction, *(f"## {parts[heading]}\n" for heading in headings)])
