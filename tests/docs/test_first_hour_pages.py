"""What a new user looks for in the pages is there: installation, tutorials, the report, words, frequent questions."""

from __future__ import annotations

import re

import pytest
from repository_pages import ROOT, blocks_of

DOCS = ROOT / "docs"
REAL_DATA = {
    "eeg": "fetch_eeg_five",
    "fmri": "fetch_fmri_slice",
    "expression": "fetch_ecoli",
    "clinical": "load_breast_cancer",
}
"""Which real data each tutorial writes into files."""


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def sections(name):
    """What stands below each heading of the second level, by heading."""
    _, *parts = re.split(r"(?m)^## (.+)$", text_of(name))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def reached(name="index", folder=""):
    """Pages that a page's contents lead to, itself included."""
    contents = re.findall(r"(?ms)^```\{toctree\}\n(.*?)^```$", text_of(f"{folder}{name}.md"))
    pages = {f"{folder}{name}"}
    for entry in (line.strip() for text in contents for line in text.split("\n")):
        if entry and not entry.startswith(":") and (DOCS / f"{folder}{entry}.md").is_file():
            below, _, own = f"{folder}{entry}".rpartition("/")
            pages |= reached(own, f"{below}/" if below else "")
    return pages


def test_the_front_page_leads_to_what_a_new_user_needs():
    """Installation, how to read the report, the glossary, frequent questions and the tutorials; none of them empty."""
    wanted = {
        "install",
        "report",
        "glossary",
        "questions",
        "tutorials/index",
        *(f"tutorials/{name}" for name in REAL_DATA),
    }
    assert wanted <= reached()
    for page in wanted:
        assert text_of(f"{page}.md").startswith("# ")
        assert len(text_of(f"{page}.md").split()) > 100
    assert "(images/report.png)](report.md)" in text_of("index.md")


@pytest.mark.parametrize("name", REAL_DATA)
def test_a_tutorial_has_commands_and_python_on_real_data(name):
    """From files to a result that is used: all steps as commands, and the same once more in Python."""
    parts = sections(f"tutorials/{name}.md")
    commands = "\n".join(
        line for line in parts["With commands"].split("\n") if line.startswith(("$ fedica ", "    ", "> "))
    )
    for command in ("study new", "local", "aggregate"):
        assert f"$ fedica {command} " in commands, command
    assert "--report" in commands
    assert re.search(r"\$ fedica (apply|export) ", commands)
    assert REAL_DATA[name] in parts["The files"]
    python = re.findall(r"(?ms)^```pycon\n(.*?)^```$", parts["In Python"])
    assert ">>> " in "".join(python)
    assert re.search(r"aggregate|combine|FederatedICA", "".join(python))
    assert {block.language for block in blocks_of(DOCS / "tutorials" / f"{name}.md")} >= {"console", "python", "pycon"}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Why are many clients outlying?", r"reference, filter, units"),
        ("How many components?", r"not more than the smallest client's samples support"),
        ("How many samples does a client need?", r"40 r² samples"),
        ("Is a contribution personal data?", r"\*\*one person\*\*.* personal data"),
    ],
)
def test_frequent_questions_are_answered(question, answer):
    """The four that new users asked, each with an answer of more than a sentence."""
    below = sections("questions.md")[question]
    assert len(below.split()) > 40
    assert re.search(answer, below, flags=re.DOTALL)


def test_the_glossary_has_the_words_of_the_commands():
    """Every word that a result is told in has a row."""
    rows = re.findall(r"(?m)^\| ([^|]+) \| [^|]+ \|$", text_of("glossary.md"))
    words = {word for row in rows for word in row.split(", ")}
    assert words >= {"client", "atom", "contribution", "component", "aggregate", "study", "support", "weak", "outlying"}


def test_thumbnails_of_the_gallery_are_large_enough_to_be_read():
    """Figures of ten inches hold text: at 160 pixels, as sphinx-gallery shows them, nobody reads it."""
    shown = re.search(r"sphx-glr-thumbnails \{\s*grid-template-columns: .*?(\d+)px", text_of("_static/fedica.css"))
    stored = re.search(r'"thumbnail_size": \((\d+), (\d+)\)', text_of("conf.py"))
    assert int(shown[1]) >= 300
    assert int(stored[1]) >= 2 * int(shown[1])
