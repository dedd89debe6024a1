"""How records check themselves, and how a field of a contribution is declared: once, for all that uses it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from fedica.arrays import readonly

Check = Callable[[Any, str], Any]
"""Takes a value and its name in messages; returns the clean value, or raises `InputError` with one sentence."""


class Form(Enum):
    """How a file holds a value: as metadata, which is text, or as a tensor; worded as in docs/format.md."""

    TEXT = "text"
    WHOLE_NUMBER = "whole number"
    NUMBER = "decimal number"
    TEXTS = "JSON list of texts"
    WHOLE_NUMBERS = "JSON list of whole numbers"
    OBJECT = "JSON object from text to text"
    TENSOR = "tensor, F64"
    TENSOR_OR_F32 = "tensor, F64 or F32"


@dataclasses.dataclass(frozen=True)
class ContributionField:
    """One field of a contribution, as a file holds it and the server compares it."""

    form: Form  # how a file holds it
    check: Check  # returns the clean value
    description: str  # what it is and what it must be: the row of docs/format.md
    must_agree: bool  # whether the server refuses clients that declare another value than most
    since: int  # the version of the format that introduced it
    required: bool  # whether every contribution has it

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, and not metadata."""
        return self.form in (Form.TENSOR, Form.TENSOR_OR_F32)


def declare(
    form: Form, check: Check, description: str, *, must_agree: bool = False, since: int = 1, required: bool = False
) -> dict[str, Any]:
    """Return the metadata of a dataclass field of `Contribution`: its check, and its `ContributionField`."""
    return {"check": check, "declared": ContributionField(form, check, description, must_agree, since, required)}


def optional(form: Form, check: Check, description: str, **options: Any) -> Any:
    """Return a dataclass field of `Contribution` that is ``None`` unless the client declares it; see `declare`."""
    return dataclasses.field(default=None, metadata=declare(form, check, description, **options))


def declared_fields(record: type) -> dict[str, ContributionField]:
    """Return the fields of a record class that were declared with `declare`, by name, in order."""
    return {x.name: x.metadata["declared"] for x in dataclasses.fields(record) if "declared" in x.metadata}


def checked(check: Check) -> dict[str, Any]:
    """Return the metadata of a dataclass field that has a check and is not part of a contribution."""
    return {"check": check}


def _readonly(value: Any, what: str) -> Any:
    return readonly(value) if isinstance(value, np.ndarray) else value


READONLY = checked(_readonly)
"""Metadata of a field whose numpy array becomes a view that cannot be written to; other arrays stay as they are."""


def check_fields(record: Any, who: str = "") -> None:
    """Replace each value that has a check by the clean one; called by the ``__post_init__`` of a frozen dataclass.

    A value of ``None`` is not checked. ``who`` stands before a field's name in messages: ``"client 'a': "``.
    """
    for field in dataclasses.fields(record):
        check, value = field.metadata.get("check"), getattr(record, field.name)
        if check is not None and value is not None:
            set_fields(record, **{field.name: check(value, f"{who}{field.name}")})


def set_fields(record: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being made. No other function may."""
    for name, value in values.items():
        object.__setattr__(record, name, value)
