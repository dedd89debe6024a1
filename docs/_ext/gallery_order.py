"""The order in which a stranger best reads the gallery."""

from __future__ import annotations

from pathlib import Path

READING_ORDER = (
    "plot_photographs.py",
    "plot_eeg_five_people.py",
    "plot_ecoli.py",
    "plot_digits.py",
    "plot_matching_subjects.py",
    "plot_attack.py",
    "plot_dask.py",
    "plot_own_solver.py",
)


def in_order_of_reading(path: str) -> tuple[int, str]:
    """Sort key of an example: its place in the list, or at the end."""
    name = Path(path).name
    return (READING_ORDER.index(name) if name in READING_ORDER else len(READING_ORDER), name)
