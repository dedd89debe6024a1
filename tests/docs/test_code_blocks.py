"""Every block of code in the pages runs: transcripts here, ``>>>`` as doctests, commands through their parser."""

from __future__ import annotations

import re
import shlex
import tomllib

import click
import pytest
import typer.main
from repository_pages import PAGES, ROOT, TUTORIALS, blocks_of
from run_pages import assert_same, main, run_page, run_programs

from fedica.cli import app
from fedica.readers import READERS

RUN = [
    page
    for page in PAGES
    if page not in TUTORIALS and any(block.language in ("console", "python") for block in blocks_of(page))
]
KNOWN = {
    "pycon": "run as doctests: make unit names the pages",
    "console": "run here, and compared with what stands below",
    "python": "run here, before what follows on the page",
    "": "commands, which the parser must accept, or what is no code: layouts, drawings, what a program printed",
}
NOT_FEDICA = {
    "make": "what runs these tests",
    "nginx": "needs a deployment",
    "pip": "needs a network",
    "python": "made by hand; the page that it makes is tested",
    "python3": "needs a network",
}
"""First words of command lines that are not run, with the reason."""


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_transcripts_say_what_happens(page, tmp_path):
    """The programs and commands of a page, from top to bottom in an empty folder, print what stands there."""
    if page.name == "threats.md":
        (tmp_path / "channels.txt").write_text("Fz\nCz\nPz\n", encoding="utf-8")
    run_programs(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_known_not_to_be(page):
    """A language that nobody runs, or a command that is neither fedica's nor excused, is a mistake."""
    for block in blocks_of(page):
        if block.language.startswith("{") or ":" in block.language:
            continue  # a directive of Sphinx
        assert block.language in KNOWN, f"{page.name}: blocks of {block.language!r} would not be run"
        if block.language == "":
            for line in command_lines(block.text):
                program, *arguments = shlex.split(line)
                if program == "fedica":
                    parse(arguments, f"{page.name}: {line}")


def test_what_is_not_run_is_excused_by_name():
    """Each excuse is used, so that the list does not grow old."""
    words = {
        line.split()[0]
        for page in PAGES
        for block in blocks_of(page)
        if not block.language
        for line in block.text.split("\n")
        if line.strip()
    }
    assert {word for word in NOT_FEDICA if word not in words} == set()


@pytest.mark.parametrize(
    "line", ["aggregate inbox --outpt result", "agregate inbox -o result", "local data.csv --components many -o a"]
)
def test_a_wrong_command_line_is_found(line):
    """An option, a command or a value that does not exist."""
    with pytest.raises(pytest.fail.Exception):
        parse(line.split(), line)


def test_a_transcript_that_says_something_else_is_found():
    """Other words, other whole numbers, more or fewer lines; decimals may differ a little, ``...`` is anything."""
    assert_same(
        "3 sources, 0.0117 against 0.02.\n...\nend", "3 sources, 0.0112 against 0.021.\nmore\nand more\nend", ""
    )
    for said in ("4 sources, 0.0117", "3 sources, 0.9117", "3 sources,", "3 sources, 0.0117 more", "3 atoms, 0.0117"):
        with pytest.raises(AssertionError):
            assert_same("3 sources, 0.0117", said, "")


def test_make_unit_runs_the_doctests_of_all_pages():
    """The pages are named where ``make unit`` calls pytest."""
    assert "docs/*.md" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_make_docs_runs_the_tutorials():
    """All four, and the page that lists them."""
    assert "run_pages.py docs/tutorials/*.md" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {page.stem for page in TUTORIALS} == {"index", "eeg", "fmri", "expression", "clinical"}
    for page in TUTORIALS:
        languages = {block.language for block in blocks_of(page)}
        assert page.stem == "index" or {"python", "console", "pycon"} <= languages


def test_a_tutorial_that_says_something_else_ends_make_docs(tmp_path):
    """A session sees the files that a program wrote and the names of earlier blocks; a wrong line is found."""
    program = "```python\nopen('a.txt', 'w').write('7')\n```\n"
    session = "```pycon\n>>> n = int(open('a.txt').read())\n\n```\n```pycon\n>>> n + 1\n8\n\n```\n"
    page = tmp_path / "page.md"
    page.write_text(program + session, encoding="utf-8")
    run_page(page, tmp_path)
    page.write_text(program + session.replace("\n8\n", "\n9\n"), encoding="utf-8")
    with pytest.raises(SystemExit, match="does not say what happens"):
        main([page])


def test_the_page_of_installation_names_every_extra():
    """All but those for the developers of fedica."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert {name for name in extras if f"| `pip install 'fedica[{name}]'`" not in page} == {
        *("bench", "dev", "docs", "test")
    }


def test_the_page_of_formats_names_every_reader():
    """Each suffix that is read, with the extra that it needs on the same line."""
    lines = [
        line for line in (ROOT / "docs" / "data.md").read_text(encoding="utf-8").split("\n") if line.startswith("| `.")
    ]
    for suffix, reader in READERS.items():
        (line,) = (line for line in lines if f"`{suffix}`" in line)
        assert f"`fedica[{reader.extra}]`" in line if reader.extra else "| `fedica` |" in line


def command_lines(text):
    """Command lines of a block, those joined by a backslash or by indentation as one; a leading $ is taken off."""
    joined = re.sub(r"\\\n\s*", " ", text)
    joined = re.sub(r"(?<=\S)\n {4}(?=-)", " ", joined)
    lines = [line.removeprefix("$ ").strip() for line in joined.split("\n")]
    return [line for line in lines if re.match(r"fedica [a-z]", line) and "[OPTIONS]" not in line]


def parse(arguments, where):
    """Let the command's own parser read the arguments; nothing is run."""
    command = typer.main.get_command(app)
    try:
        context = click.Context(command, info_name="fedica")
        while isinstance(command, click.Group):
            name, command, arguments = command.resolve_command(context, arguments)
            if command is None:
                pytest.fail(f"{where}: there is no command {name!r}")
        command.make_context(command.name, list(arguments))
    except click.ClickException as error:
        pytest.fail(f"{where}: {error.format_message()}")
