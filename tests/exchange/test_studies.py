"""The study file: written for people, read without mercy for a misspelt field."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedica.errors import FormatError, InputError
from fedica.exchange import read_study, write_study
from fedica.exchange.format import serialise
from fedica.records import Study

FIELDS = (
    *("id", "features", "units", "scales", "independence", "mixing", "n_components", "min_samples", "declare_samples"),
    "strengths",
)
names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20).filter(str.strip)


@given(
    names,
    st.lists(st.tuples(names, names, st.floats(1e-300, 1e300)), min_size=1, max_size=5, unique_by=lambda row: row[0]),
    st.booleans(),
)
def test_a_round_trip_loses_nothing(tmp_path_factory: Any, name: str, rows: list[Any], described: bool) -> None:
    """Every field arrives, with units and scales or without."""
    features, units, scales = zip(*rows, strict=True)
    sent = Study(
        name,
        features,
        units=units if described else None,
        scales=scales if described else None,
        strengths="yes" if described else None,
    )
    path = tmp_path_factory.mktemp("study") / "study.json"
    write_study(sent, path)
    read = read_study(path)
    for field in FIELDS:
        assert getattr(read, field) == getattr(sent, field), field


def test_one_feature_stands_on_one_line(study: Study, tmp_path: Path) -> None:
    """People edit this file: a feature with its unit and scale is one line."""
    write_study(study, tmp_path / "study.json")
    lines = (tmp_path / "study.json").read_text(encoding="utf-8").splitlines()
    assert sum('"name"' in line and '"unit"' in line and '"scale"' in line for line in lines) == 3


def test_a_file_saved_by_a_windows_editor_is_read(study: Study, tmp_path: Path) -> None:
    """A byte-order mark and other line ends do no harm."""
    write_study(study, tmp_path / "study.json")
    text = (tmp_path / "study.json").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "study.json").write_bytes(b"\xef\xbb\xbf" + text)
    assert read_study(tmp_path / "study.json").features == study.features


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "other"}, "expected a fedica.study file; got JSON with the format 'other'"),
        ({"version": "2"}, "got version '2'. Update fedica"),
        ({"version": 1}, "got version '1'. Update fedica"),
        ({"id": None}, "must have the field 'id'"),
        ({"id": 5}, "'id' must be str; got '5'"),
        ({"id": ""}, "a study's id must be a text that is not empty"),
        ({"features": None}, "must have the field 'features'"),
        ({"features": []}, "at least one feature"),
        ({"features": {}}, "'features' must be list"),
        ({"features": ["a"]}, "feature 0 must be an object with a name; got 'a'"),
        ({"features": [{"unit": "V"}]}, "feature 0 must have the field 'name'; it has 'unit'"),
        (
            {"features": [{"name": "a", "units": "V"}]},
            "feature 0 has the unknown field 'units'; the known ones are name",
        ),
        ({"features": [{"name": "a", "scale": "1"}]}, "'scale' must be int or float; got '1'"),
        ({"features": [{"name": "a", "scale": True}]}, "'scale' must be int or float; got 'True'"),
        ({"features": [{"name": "a", "scale": 0}]}, "a feature's scale must be a number above 0"),
        ({"features": [{"name": "a", "scale": 1e999}]}, "Infinity is not a JSON number"),
        ({"features": [{"name": "a", "scale": 10**400}]}, "too large"),
        ({"features": [{"name": "a", "unit": "V"}, {"name": "b"}]}, "every feature has a unit or none has; 1 of 2"),
        ({"features": [{"name": "a"}, {"name": "a"}]}, "must be distinct; got 'a' more than once"),
        ({"features": [{"name": "a\n"}]}, "the name of feature 0 may not contain control characters"),
        ({"min_sample": 5}, "a study has the unknown field 'min_sample'; the known ones are id"),
        ({"min_samples": 1}, "min_samples must be a whole number of at least 2; got 1"),
        ({"min_samples": 2.5}, "'min_samples' must be int; got '2.5'"),
        ({"n_components": 9}, "n_components must be a whole number of at least 1 and at most 2; got 9"),
        ({"mixing": "odd"}, "mixing must be one of"),
        ({"declare_samples": "maybe"}, "declare_samples must be one of"),
        ({"strengths": True}, "'strengths' must be str; got 'True'"),
        ({"strengths": "maybe"}, "strengths must be one of"),
    ],
)
def test_each_defect_has_its_sentence(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    """A study that is wrong in one way is refused for that reason, naming the file."""
    good = {"format": "fedica.study", "version": "1", "id": "s", "features": [{"name": "a"}, {"name": "b"}]}
    content = {name: value for name, value in {**good, **change}.items() if value is not None}
    path = tmp_path / "study.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FormatError, match=r"study\.json: ") as caught:
        read_study(path)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is not JSON"),
        (b"[]", "got JSON with the format 'None'"),
        (b"[" * 100_000, "nests too deep"),
        (b'{"format":"fedica.study","format":"fedica.study"}', "a name appears twice"),
        (b"\xff\xfe", "must be UTF-8 text; byte 0 is not"),
        (b"1" * 5000, "it is not JSON"),
    ],
)
def test_what_is_not_such_json_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    """Broken text, deep nesting, names that appear twice."""
    (tmp_path / "study.json").write_bytes(data)
    with pytest.raises(FormatError) as caught:
        read_study(tmp_path / "study.json")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("fedica.contribution", "a contribution, which a client sends"),
        ("fedica.aggregate", "an aggregate, the result that goes to the clients"),
        ("fedica.details", "the details of a result"),
        ("somebody.else", "a safetensors file."),
    ],
)
def test_another_file_in_place_of_a_study_is_called_by_its_name(tmp_path: Path, kind: str, what: str) -> None:
    """However large it is, only its header is read; the sentence says what is wanted. A broken header is told, too."""
    path = tmp_path / "x.safetensors"
    head, data = serialise({"format": kind, "features": "x" * 3000}, {"atoms": np.ones((2, 2))})
    path.write_bytes(bytes(head) + bytes(data))
    for n_bytes in (path.stat().st_size, 2**27):
        os.truncate(path, n_bytes)  # the rest is a hole
        with pytest.raises(FormatError, match=r"expected a fedica\.study file") as caught:
            read_study(path)
        assert what in str(caught.value)
        assert str(caught.value).endswith("Give the .json file that fedica study new wrote.")
    path.write_bytes((8).to_bytes(8, "little") + b"{\xff\xff   }")
    with pytest.raises(FormatError, match="this is a safetensors file"):
        read_study(path)


def test_a_study_that_utf8_cannot_say_is_not_written(tmp_path: Path) -> None:
    """Half a surrogate pair in a unit is refused, and no file appears."""
    with pytest.raises(InputError, match="half a surrogate pair"):
        write_study(Study("s", ["a"], units=["\ud800"]), tmp_path / "study.json")
    assert list(tmp_path.iterdir()) == []
