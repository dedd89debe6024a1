"""The header of a safetensors file, and flat lists of texts: JSON of one fixed shape, read without trusting it.

A general JSON parser builds whatever it meets before anybody can object: a few megabytes of ``[],`` become hundreds of
megabytes of lists. Here each token is checked against the fixed shape before it becomes an object, and nothing nests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from fedica.errors import FormatError
from fedica.records import MAX_NAME, check_name

MAX_TENSORS = 32
MAX_DIMENSIONS = 2
MAX_METADATA = 128
MAX_KEY = 128
"""The longest name of a tensor or of a metadata field, in characters."""

# Possessive quantifiers (*+, ++) keep no way back, so a text of millions of escapes costs no memory to scan.
_STRING_RULE = r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+"'
_STRING = re.compile(_STRING_RULE)
_SPACE = re.compile(r"[ \t\n\r]*+")
_PLAIN = re.compile(r"[!-~]*+")
_NATURAL = re.compile(r"(?:0|[1-9][0-9]{0,14})(?![0-9.eE])")
_STRING_LIST = re.compile(
    rf"[ \t\n\r]*+\[[ \t\n\r]*+(?:{_STRING_RULE}[ \t\n\r]*+(?:,[ \t\n\r]*+{_STRING_RULE}[ \t\n\r]*+)*+)?+\][ \t\n\r]*+"
)


@dataclass(frozen=True)
class TensorSpec:
    """What the header says of one tensor: its dtype and shape, and where its bytes start and stop in the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def parse_header(text: str, source: str) -> tuple[dict[str, str], dict[str, TensorSpec]]:
    """Return the metadata and the tensors' specifications that the text of a header declares."""
    cursor = _Cursor(text, source)
    metadata: dict[str, str] = {}
    tensors: dict[str, TensorSpec] = {}
    if not text.startswith("{"):
        cursor.fail("it must start with '{'")
    for key in cursor.members("tensor"):
        if key == "__metadata__":
            for name in cursor.members("metadata"):
                if len(metadata) == MAX_METADATA:
                    cursor.fail(f"more than {MAX_METADATA} metadata fields")
                metadata[name] = cursor.string()
        elif len(tensors) == MAX_TENSORS:
            cursor.fail(f"more than {MAX_TENSORS} tensors")
        else:
            tensors[key] = cursor.spec(key)
    cursor.end()
    return metadata, tensors


def parse_texts(text: str, what: str) -> list[str]:
    """Return the texts of a JSON list of texts; refuse any other JSON before it is built."""
    try:
        return list(_texts(text))
    except ValueError as error:
        raise FormatError(f"{what} must be {error}") from error


@lru_cache(maxsize=1)  # clients name the same features: these texts take memory once
def _texts(text: str) -> tuple[str, ...]:
    if not _STRING_LIST.fullmatch(text):
        raise ValueError(f"a JSON list of texts; got {text[:60]!r}.")
    try:
        values: list[str] = json.loads(text)
    except ValueError as error:
        raise ValueError(f"a JSON list of texts ({error}).") from error
    if "\\u" in text and not encodable("".join(values)):
        raise ValueError("Unicode texts; got half a surrogate pair.")
    return tuple(values)


def check_names(names: Sequence[str], what: str) -> None:
    """Check many names as `check_name` checks one; a hundred thousand good ones take one scan."""
    if not (_PLAIN.fullmatch("".join(names)) and all(names) and max(map(len, names), default=0) <= MAX_NAME):
        for name in names:
            check_name(name, what)


def encodable(text: str) -> bool:
    """Tell whether the text can be written as UTF-8: half a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class _Cursor:
    """A position in the text; each method reads one thing of the grammar and moves on, or raises `FormatError`."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.position = 0

    def fail(self, problem: str) -> NoReturn:
        near = self.text[self.position : self.position + 24]
        raise FormatError(
            f"{self.source}: its header is not that of a safetensors file as fedica writes it: {problem} "
            f"(character {self.position}, at {near!r})."
        )

    def accept(self, sign: str) -> bool:
        """Skip white space, and the sign if it comes next."""
        self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
        if not self.text.startswith(sign, self.position):
            return False
        self.position = _SPACE.match(self.text, self.position + len(sign)).end()  # type: ignore[union-attr]
        return True

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            self.fail(f"{sign!r} is missing")

    def string(self, max_length: int | None = None) -> str:
        found = _STRING.match(self.text, self.position)
        if found is None:
            self.fail("a text in quotes is missing")
        if max_length is not None and found.end() - found.start() - 2 > max_length:
            self.fail(f"a name of more than {max_length} characters")
        try:
            value: str = json.loads(found.group())
        except ValueError:
            self.fail("a text has a broken escape")
        if "\\u" in found.group() and not encodable(value):
            self.fail("a text holds half a surrogate pair")
        self.position = found.end()
        return value

    def naturals(self, max_length: int) -> tuple[int, ...]:
        """Read a list of at most ``max_length`` natural numbers below 10^15."""
        self.expect("[")
        numbers: list[int] = []
        while not self.accept("]"):
            if len(numbers) == max_length:
                self.fail(f"a list of more than {max_length} numbers")
            if numbers:
                self.expect(",")
            found = _NATURAL.match(self.text, self.position)
            if found is None:
                self.fail("a whole number from 0 to below 10^15 is missing")
            numbers.append(int(found.group()))
            self.position = found.end()
        return tuple(numbers)

    def members(self, what: str) -> Iterator[str]:
        """Read an object: yield each name; whoever asks for the next one has read the value behind its colon."""
        self.expect("{")
        names: set[str] = set()
        while not self.accept("}"):
            if names:
                self.expect(",")
            name = self.string(MAX_KEY)
            self.expect(":")
            if name in names:
                self.fail(f"{what} {name!r} appears twice")
            names.add(name)
            yield name

    def spec(self, name: str) -> TensorSpec:
        """Read what is said of one tensor."""
        dtype = ""
        numbers: dict[str, tuple[int, ...]] = {}
        for key in self.members(f"tensor {name!r}: field"):
            if key == "dtype":
                dtype = self.string(16)
            elif key in ("shape", "data_offsets"):
                numbers[key] = self.naturals(MAX_DIMENSIONS)
            else:
                self.fail(f"tensor {name!r} has the unknown field {key!r}")
        offsets = numbers.get("data_offsets", ())
        if not dtype or "shape" not in numbers or len(offsets) != 2:
            self.fail(f"tensor {name!r} lacks its dtype, its shape or its two data_offsets")
        return TensorSpec(dtype, numbers["shape"], *offsets)

    def end(self) -> None:
        """Check that nothing but padding follows."""
        if self.text[self.position :].strip(" \t\n\r"):
            self.fail("something follows the header's last brace")
