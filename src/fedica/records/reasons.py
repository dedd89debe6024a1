"""Why a client was judged or left out, as data: a kind and its numbers. `sentence_of` alone puts them into words.

The words are those of `fedica.records.wordings`. Nothing else depends on them, and nothing reads the sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fedica.errors import DataWarning, FedicaError
from fedica.records.wordings import KINDS, Numbers

Told = TypeVar("Told", bound=FedicaError | DataWarning)


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind, its numbers, and the sentence that they make.

    Parameters
    ----------
    kind : str
        One of `KINDS`, or a kind that another version of fedica wrote; "" if only the sentence is known.
    numbers : mapping of str to int, float, str or tuple
        What the sentence says, by name: ``{"likeness": 0.52, "missing": (2, 5)}``.
    text : str
        The sentence as a file holds it, of a kind that may be unknown here. Empty: the sentence is made when asked for.

    Examples
    --------
    >>> why = Reason("noisy", {"likeness": 0.52, "chance": 0.05, "missing": (2,)})
    >>> why.sentence
    'noisier than most (median cosine 0.52; chance 0.05); lacks component 2'
    >>> why.short
    'noisier than most; lacks component 2'
    """

    kind: str
    numbers: Numbers = field(default_factory=dict, hash=False)
    text: str = field(default="", compare=False)

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return self.text or sentence_of(self.kind, self.numbers)

    @property
    def short(self) -> str:
        """The same without its measurement, where the kind is known: for a line that names many clients."""
        return sentence_of(self.kind, self.numbers, short=True) if self.kind in KINDS else self.sentence

    def changed(self, **numbers: Any) -> Reason:
        """Return the reason with other numbers. The sentence of an unknown kind stays as it is."""
        return replace(self, numbers={**self.numbers, **numbers}, text="" if self.kind in KINDS else self.text)

    def error(self, of: type[Told]) -> Told:
        """Return an error or a warning of this class that says the sentence and carries the kind and the numbers."""
        return of(self.sentence, kind=self.kind, numbers=self.numbers)


def sentence_of(kind: str, numbers: Numbers, *, short: bool = False) -> str:
    """Put a kind and its numbers into words.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    numbers : mapping
        Its numbers; those that its sentence does not need are ignored.
    short : bool
        Whether to leave out the measurement in brackets.

    Raises
    ------
    KeyError
        If the kind is unknown, or a number is missing.
    """
    wording = KINDS[kind]
    parts = (wording.text,) if short else (wording.text, wording.measured)
    return "".join(
        part.format_map(numbers) if isinstance(part, str) else part(numbers) for part in (*parts, *wording.clauses)
    )
