"""Inspecting a file never fails on what is valid, and never takes memory for what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from fedica.errors import FormatError
from fedica.exchange import contribution_to_bytes, write_contribution, write_details, write_study
from fedica.records import Contribution, Study
from fedica.server import aggregate
from fedica.workflow import inspect_file


def shown(path):
    return {field.name: field.value for field in inspect_file(path).fields}


@pytest.mark.parametrize(
    "text", ["[1, 2", "[", "[" * 30_000, '["a", 1]', '[{"name": 1}]', "{}", '["a", "b"]', "[null]", "\x1b[2J\n"]
)
@pytest.mark.parametrize("name", ["clients", "options", "anything"])
def test_any_text_may_stand_in_extra(tmp_path, name, text):
    """It is shown as text, on one line, however much it looks like JSON."""
    write_contribution(Contribution("c", np.eye(3), 10, extra={name: text}), tmp_path / "c.safetensors")
    value = shown(tmp_path / "c.safetensors")[name]
    assert value.isprintable()
    assert len(value) <= 110


def test_lists_of_names_are_counted(tmp_path):
    """Of a contribution and of a study, however many there are."""
    names = [f"feature {k}" for k in range(500)]
    write_study(Study("s", names), tmp_path / "s.json")
    atoms = np.eye(500)[:, :2]
    write_contribution(Contribution("c", atoms, 10, features=names), tmp_path / "c.safetensors")
    for file in ("s.json", "c.safetensors"):
        assert shown(tmp_path / file)["features"].startswith("500: feature 0, feature 1, ")


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "fedica.study", "version": "1", "id": "\\ud800", "features": [{"name": "a"}]}',
        '{"format": "fedica.study", "version": "1", "id": "s", "features": [{"name": "\\udfff"}]}',
        '{"format": "fedica.study", "version": "1", "id": "s", "features": [{"name": "a", "unit": "\\ud800"}]}',
        '{"format": "fedica.summary", "version": "1", "x": "\\uDC00"}',
        '{"format": "fedica.study", "version": "1", "id": ' + "[" * 100_000,
        '{"format": "fedica.other", "version": "1"}',
        "{" * 10**6,
    ],
)
def test_what_is_no_file_of_ours_is_one_sentence(tmp_path, text):
    """Half a surrogate pair, deep nesting, a format that is not known."""
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FormatError):
        inspect_file(tmp_path / "x.json")


@pytest.mark.parametrize("name", ["mixing", "centres", "atoms"])
def test_numbers_that_no_unit_vector_has_are_refused_in_a_hand_made_file(tmp_path, name):
    """1e200 in the details: its square is infinite, in whatever reads it next."""
    rng = np.random.default_rng(0)
    sent = [Contribution(f"c{k}", np.eye(4)[:, :3] + 0.01 * rng.standard_normal((4, 3)), 100) for k in range(4)]
    write_details(aggregate(sent, 3), tmp_path / "d.safetensors")
    data = bytearray((tmp_path / "d.safetensors").read_bytes())
    n_header = int.from_bytes(data[:8], "little")
    start = 8 + n_header + json.loads(data[8 : 8 + n_header])[name]["data_offsets"][0]
    data[start : start + 8] = np.float64(1e200).tobytes()
    (tmp_path / "d.safetensors").write_bytes(data)
    with pytest.raises(FormatError, match=f"'{name}' must be finite, its entries at most"):
        inspect_file(tmp_path / "d.safetensors")


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_its_memory_is_bounded_whatever_the_file_holds(tmp_path):
    """210 MB of empty lists, and as much as a summary may have: refused by their size, or before they are built."""
    starts = b'{"a": [', b'{"format": "fedica.summary", "version": "1", "a": [', b'{"format": "fedica.study", "a": ['
    for kind, start in enumerate(starts):
        for size in (8 * 2**20 - 100, 100 * 2**20, 210 * 2**20):
            (tmp_path / f"{kind}-{size}.json").write_bytes(start + b"[]," * (size // 3) + b"1]}")
    code = (
        "import resource, pathlib; from fedica.errors import FormatError; from fedica.workflow import inspect_file\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "before = used()\n"
        f"for path in sorted(pathlib.Path({str(tmp_path)!r}).iterdir()):\n"
        "    try: inspect_file(path)\n"
        "    except FormatError: pass\n"
        "    print(path.name, used() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    used = [line.split() for line in done.stdout.splitlines()]
    assert len(used) == 9
    assert all(int(megabytes) < 600 for _, megabytes in used), used


def test_the_header_alone_decides_how_much_is_read(tmp_path):
    """A terabyte that claims to be a contribution is refused by its size, not read."""
    data = contribution_to_bytes(Contribution("c", np.eye(3), 10))
    (tmp_path / "c.safetensors").write_bytes(data)
    os.truncate(tmp_path / "c.safetensors", 10**9)
    with pytest.raises(FormatError, match="has at most 92194312 bytes"):
        inspect_file(tmp_path / "c.safetensors")


def test_numbers_that_are_not_finite_do_not_hide_the_others(tmp_path):
    """The range is that of the finite ones."""
    from fedica.workflow.inspect import _describe_array

    assert _describe_array(np.array([np.nan, 1.0, -np.inf, 3.0])) == "4 numbers, from 1 to 3"
    assert _describe_array(np.array([np.nan])) == "1 numbers, none of them finite"
