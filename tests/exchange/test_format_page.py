"""docs/format.md is the contract: its numbers, fields and columns are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedica.exchange import Provenance, write_folder
from fedica.exchange.aggregates import AGGREGATE
from fedica.exchange.contributions import CONTRIBUTION, RESERVED
from fedica.exchange.details import DETAILS, TENSORS, TRUST_TENSORS
from fedica.exchange.field_values import MAX_VALUE
from fedica.exchange.folder import FILES
from fedica.exchange.header import MAX_DIMENSIONS, MAX_KEY, MAX_METADATA, MAX_TENSORS
from fedica.exchange.studies import _FEATURE_FIELDS, _FIELDS, MAX_STUDY_BYTES
from fedica.records import CONTRIBUTION_FIELDS, Aggregate

PAGE = Path(__file__).parents[2] / "docs" / "format.md"


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The page by its headings, each section on one line."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    return {part.split("\n")[0].split(" (")[0]: " ".join(part.split()) for part in parts}


def test_the_limits_are_those_of_the_code(sections: dict[str, str]) -> None:
    """Every number on the page is the one that is checked."""
    container = sections["The container"]
    assert f"At most {MAX_TENSORS} tensors and {MAX_METADATA} metadata fields" in container
    assert f"at most {MAX_KEY} characters" in container
    assert f"at most {MAX_DIMENSIONS} dimensions" in container
    contribution = sections["Contribution"]
    assert f"{MAX_VALUE:,} characters" in contribution
    for number in (CONTRIBUTION.max_numbers, CONTRIBUTION.max_header, CONTRIBUTION.max_bytes):
        assert f"{number:,}" in contribution
    for kind, section in ((AGGREGATE, "Public aggregate"), (DETAILS, "Details")):
        assert f"{kind.max_numbers:,} numbers, a header of {kind.max_header:,} bytes" in sections[section]
    assert f"{MAX_STUDY_BYTES:,} bytes" in sections["Study"]


def test_the_table_of_contribution_fields_is_the_declaration() -> None:
    """Whoever adds a field puts this table on the page: one row per field of `Contribution`, in their order."""
    rows = [("field", "form", "", "since", "clients must agree", "meaning"), ("---",) * 6]
    for name, field in CONTRIBUTION_FIELDS.items():
        must, agree = "MUST" if field.required else "MAY", "yes" if field.must_agree else ""
        rows.append((f"`{name}`", field.form.value, must, str(field.since), agree, field.description))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    assert f"\n{table}\n" in PAGE.read_text(encoding="utf-8"), f"docs/format.md must have this table:\n{table}"


def test_every_field_stands_on_the_page(sections: dict[str, str]) -> None:
    """Whatever a file may hold is named in its section."""
    for name in RESERVED - {"format", "version", "fedica"}:
        assert f"`{name}`" in sections["Contribution"], name
    for name in (*TENSORS, *(f"trust_{name}" for name in TRUST_TENSORS), "median_gap"):
        assert f"`{name}`" in sections["Details"], name
    for name in (*_FIELDS, *_FEATURE_FIELDS):
        assert f"`{name}`" in sections["Study"], name


def test_every_column_stands_on_the_page(
    sections: dict[str, str], aggregate: Aggregate, provenance: list[Provenance], tmp_path: Path
) -> None:
    """Whatever the tables and the summary hold is named on the page."""
    write_folder(aggregate, tmp_path / "out", provenance=provenance, min_support=1)
    section = sections["The result folder"]
    for name in FILES:
        assert f"`{name}`" in section, name
        if name.endswith(".csv"):
            for column in (tmp_path / "out" / name).read_text(encoding="utf-8").split("\n")[0].split(","):
                assert f"`{column}`" in section, (name, column)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    for field in (*summary, *summary["contributions"][0]):
        assert f"`{field}`" in section, field
