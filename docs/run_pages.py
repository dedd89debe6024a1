"""Run the code of pages, from top to bottom in an empty folder each, and compare what it prints with the text.

Usage: python docs/run_pages.py docs/tutorials/*.md

``python`` blocks are programs of their own, ``console`` blocks commands of fedica with what they print on stdout, and
``pycon`` blocks one session of Python.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^(`{3,}|:{3,})(.*?)\n(.*?)^\1[ ]*$", flags=re.MULTILINE | re.DOTALL)
SAME_NUMBER = 0.25
"""Decimals of a transcript may differ by this share: libraries of linear algebra round in their own ways."""


class Block(NamedTuple):
    """One fenced block: its language, or directive, and its text."""

    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(language.strip(), body) for _, language, body in FENCE.findall(text)]


def run_programs(page: Path, folder: Path) -> None:
    """Run the programs and commands of a page in a folder; what they print must be what stands there."""
    for block in blocks_of(page):
        run_block(block, page.name, folder, None)


def run_page(page: Path, folder: Path) -> None:
    """Run all code of a page in a folder, the sessions of Python too."""
    session: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for block in blocks_of(page):
            run_block(block, page.name, folder, session)


def run_block(block: Block, page: str, folder: Path, session: dict[str, Any] | None) -> None:
    """Run one block; that of a session only if there is one."""
    if block.language == "python":
        run([sys.executable, "-c", block.text], folder)
    elif block.language == "console":
        for command, printed in commands_of(block.text):
            program, *arguments = shlex.split(command)
            assert program == "fedica", f"{page}: only fedica is run here, not {program}"
            said = run([sys.executable, "-c", "from fedica.cli import main; main()", *arguments], folder)
            assert_same(printed, said, f"{page}: {command}")
    elif block.language == "pycon" and session is not None:
        test = doctest.DocTestParser().get_doctest(block.text, session, page, page, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        failed, _ = runner.run(test, clear_globs=False)
        session.update(test.globs)
        assert failed == 0, f"{page}: a session of Python prints something else, see above"


def run(program: list[str], folder: Path) -> str:
    """Run a program in a folder, and return what it printed."""
    environment = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False, encoding="utf-8"
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return pairs of a command and what stands below it."""
    parts = re.split(r"^\$ ", re.sub(r"\\\n\s*", "", text), flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def assert_same(written: str, said: str, where: str) -> None:
    """Compare words, and decimals roughly; ``...`` stands for anything."""
    wanted, got = written.split(), said.split()
    while wanted and got:
        if wanted[0] == "...":
            wanted = wanted[1:]
            got = got if wanted else []
            while wanted and got and not alike(wanted[0], got[0]):
                got = got[1:]
            continue
        assert alike(wanted[0], got[0]), f"{where}\nwritten: {' '.join(wanted[:12])}\ngot:     {' '.join(got[:12])}"
        wanted, got = wanted[1:], got[1:]
    assert wanted in ([], ["..."]), f"{where}\nwritten, but not said: {' '.join(wanted[:12])}"
    assert got == [], f"{where}\nsaid, but not written: {' '.join(got[:12])}"


def alike(word: str, other: str) -> bool:
    """Tell whether words are equal, or both decimals and about the same, or both rules of a table."""
    if word == other or (set(word) == set(other) == {"─"}):
        return True
    if not all(re.fullmatch(r"-?\d+\.\d+[.,]?", text) for text in (word, other)):
        return False
    one, two = (float(text.rstrip(".,")) for text in (word, other))
    return abs(one - two) <= SAME_NUMBER * max(abs(one), abs(two)) + 0.1


def main(pages: list[Path]) -> None:
    """Run pages one after the other; the first difference ends it."""
    for page in pages:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                run_page(page.resolve(), Path(folder))
            except AssertionError as difference:
                sys.exit(f"{page} does not say what happens: {difference}")
        print(f"{page}: as it says, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
