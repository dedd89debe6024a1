"""How text from elsewhere is shown: one printable line, not too long. A leaf: of ours it imports nothing.

Names of clients, features and files, and whatever else comes from a file, are other people's text. It may hold an
escape sequence of a terminal, a line break that forges a line of ours, marks that turn the order of letters round, or
megabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_SHOWN = 300
"""A longer text from elsewhere is cut."""
MAX_SENTENCE = 2000
"""A longer sentence or line of output is cut."""
MAX_PATH = 4096
"""A longer path is cut: no common system has one."""
MAX_NAME_LENGTH = 60
"""Of a name in a list of names, at most so many characters are shown."""
MAX_LISTED = 20
"""Of a list that a sentence tells, at most so many entries are kept."""
STOPPED = "stopped by Ctrl-C before it was done."
# Letters and marks that Python calls printable though nothing is drawn: fillers, joiners, selectors of variants.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def show_text(text: object, most: int = MAX_SHOWN) -> str:
    r"""Return text from elsewhere as one printable line of bounded length.

    Whatever is not drawn as a letter or sign of its own is escaped as in Python's literals: control characters (ESC,
    C1, line breaks), marks that reorder or hide text, blanks other than the space, halves of surrogate pairs.

    Parameters
    ----------
    text : object
        The text; anything else is shown as ``str`` gives it.
    most : int
        How many characters to show, at least 40. A longer text is cut, and ends in the number of its characters.

    Examples
    --------
    >>> show_text("north\x1b[2J\n\u202etxt.exe")
    'north\\x1b[2J\\n\\u202etxt.exe'
    >>> show_text("x" * 5000, most=40)
    'xxxxxxxxxxxxxxxxxx ... (5000 characters)'
    """
    whole = str(text)
    shown = whole if is_visible(whole[:most]) else "".join(map(_escape, whole[:most]))
    if len(whole) <= most and len(shown) <= most:
        return shown
    ending = f" ... ({len(whole)} characters)"
    return shown[: most - len(ending)] + ending


def show_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sentence says, by name, with every text as `show_text` gives it and every list cut."""
    return {name: _show_value(value) for name, value in values.items()}


def show_json(text: str) -> str:
    r"""Return JSON that says the same with nothing unprintable in it but line breaks.

    Examples
    --------
    >>> show_json('{"a": "\u202eé"}')
    '{"a": "\\u202eé"}'
    """
    return "\n".join(
        line if is_visible(line) else "".join(x if is_visible(x) else json.dumps(x)[1:-1] for x in line)
        for line in text.split("\n")
    )


def is_visible(text: str) -> bool:
    """Tell whether every character of a text is drawn as a letter, a sign or a space."""
    return text.isprintable() and (text.isascii() or not _BLANK.search(text))


def list_names(names: Sequence[str], most: int = 5) -> str:
    """Return ``'a', 'b' and 3 more``: the first names, quoted and cut, and how many there are besides.

    Examples
    --------
    >>> list_names(["Fp1", "Fp2", "Cz"], most=2)
    "'Fp1', 'Fp2' and 1 more"
    """
    listed = ", ".join(repr(name[:MAX_NAME_LENGTH]) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(number: int, thing: str, verb: str = "") -> str:
    """Return a number with what it counts, as one says it; with a verb, ``"are"`` or ``"were"``, in its number too.

    Examples
    --------
    >>> counted(1, "client"), counted(3, "client"), counted(1, "row", "were")
    ('1 client', '3 clients', '1 row was')
    """
    if number == 1:
        return " ".join(filter(None, ("1", thing, {"are": "is", "were": "was"}.get(verb, verb))))
    first, _, rest = thing.partition(" ")
    return " ".join(filter(None, (str(number), f"{first}s", rest, verb)))


def words_of_commands(text: str) -> str:
    """Return a sentence of the library as commands say it: with their options, without what no command takes.

    Examples
    --------
    >>> words_of_commands("Ask for n_components=4 or fewer.")
    'Ask for --components 4 or fewer.'
    >>> words_of_commands("FastICA did not settle; raise max_iter or tol.")
    'FastICA did not settle; bring more samples, or ask for fewer components.'
    """
    text = text.replace("raise max_iter or tol, ", "")
    text = text.replace("raise max_iter or tol.", "bring more samples, or ask for fewer components.")
    return re.sub(r"\bn_components\b", "--components", re.sub(r"\bn_components=(?=\d)", "--components ", text))


def _escape(letter: str) -> str:
    return letter if is_visible(letter) else letter.encode("unicode_escape").decode("ascii")


def _show_value(value: Any) -> Any:
    if isinstance(value, str):
        return show_text(value)
    return tuple(map(_show_value, value[:MAX_LISTED])) if isinstance(value, tuple | list) else value
