"""Warnings that a loop over clients does not repeat."""

from __future__ import annotations

import inspect
import warnings

MAX_REMEMBERED = 1000
_shown: set[tuple[str, str, int]] = set()


def warn_once(issue: Warning, stacklevel: int) -> None:
    """Warn, once of the same sentence at the same line, as Python does unless filters say otherwise.

    Python forgets what it has shown when a library touches the filters, as scikit-learn does in every fit.

    Parameters
    ----------
    issue : Warning
        The warning.
    stacklevel : int
        As in `warnings.warn`, seen from the caller.
    """
    frame = inspect.currentframe()
    for _ in range(stacklevel):
        frame = frame.f_back if frame is not None else None
    if frame is not None and _is_shown_once(type(issue)):
        place = (str(issue), frame.f_code.co_filename, frame.f_lineno)
        if place in _shown:
            return
        if len(_shown) >= MAX_REMEMBERED:
            _shown.clear()
        _shown.add(place)
    warnings.warn(issue, stacklevel=stacklevel + 1)


def _is_shown_once(kind: type[Warning]) -> bool:
    """Whether filters leave a class of warnings as they are by default: once for each place."""
    for action, message, category, module, _ in warnings.filters:
        if message is None and module is None and issubclass(kind, category):
            return action == "default"
    return True
