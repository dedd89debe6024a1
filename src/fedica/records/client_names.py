"""Names of clients: two that a reader cannot tell apart are one client."""

from __future__ import annotations

import re
import unicodedata

from fedica.errors import InputError
from fedica.records.checks import check_name
from fedica.text import is_visible

_WORD = re.compile(r"[^\W\d_]+")
_LOOKALIKE_SCRIPTS = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})
"""Scripts with letters that are drawn like those of another one of these."""
_LOOKALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТУХԚԜасеһіјорԛѕԝхуΑΒΕΖΗΙΚΜΝΟΡΤΥΧο",
    "ABESIJKMHOPCTYXQWacehijopqswxyABEZHIKMNOPTYXo",
)


def check_client(name: object, what: str) -> str:
    """Return a client's name in normal form C of Unicode; refuse one that is not what it looks like.

    Refused are characters that nobody sees (of width zero, control characters, marks that turn the order of letters
    round, blanks other than the space) and words that mix scripts whose letters look alike, as Latin and Cyrillic.
    """
    text = check_name(name, what)
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFC", text)
    hidden = [letter for letter in text if not is_visible(letter)]
    if hidden:
        code = f"U+{ord(hidden[0]):04X}"
        raise InputError(
            f"{what} may hold letters, digits, signs and spaces alone; got {code} in {text!r}. Leave it out."
        )
    for word in _WORD.findall(text):
        scripts = sorted({unicodedata.name(letter, "").split(" ")[0] for letter in word} & _LOOKALIKE_SCRIPTS)
        if len(scripts) > 1:
            mixed = " and ".join(map(str.title, scripts))
            raise InputError(
                f"{what} may not mix scripts whose letters look alike in one word; got {mixed} in {word!a}. "
                "Write it in one of them."
            )
    return text


def client_key(name: str) -> str:
    """Return what tells clients apart: equal for names that look the same.

    Compatibility forms (full-width letters), letters of Greek and Cyrillic that are drawn like Latin ones, and the
    number of spaces make no difference.

    Examples
    --------
    >>> client_key("Ｎorth  1") == client_key("North 1")
    True
    """
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(_LOOKALIKES)
    return " ".join(name.split())
