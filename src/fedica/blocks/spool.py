"""Any number of contributions in bounded memory: beyond a limit their atoms are kept in temporary files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks.arrays import mapped_file, release_pages
from fedica.records import Contribution

SPOOL_BYTES = 2**28
"""Bytes of atoms that are kept in memory; further ones go to files."""
FILE_BYTES = 2**26
"""Bytes of atoms in one temporary file."""


def spooled(contributions: Iterable[Contribution]) -> Iterator[Contribution]:
    """Yield the contributions; beyond `SPOOL_BYTES` their atoms lie in files.

    The files have no name, and vanish with the last array that reads them.
    """
    in_memory, waiting, n_waiting = 0, [], 0
    for item in contributions:
        if in_memory <= SPOOL_BYTES:
            in_memory += item.atoms.nbytes
            yield item
            continue
        waiting.append(item)
        n_waiting += item.atoms.nbytes
        if n_waiting > FILE_BYTES:
            yield from _in_file(waiting)
            waiting, n_waiting = [], 0
    if waiting:
        yield from _in_file(waiting)


def _in_file(contributions: list[Contribution]) -> Iterator[Contribution]:
    """Yield the contributions with their atoms in one file."""
    numbers = _mapped((sum(c.atoms.size for c in contributions),))
    start = 0
    for contribution in contributions:
        own = numbers[start : start + contribution.atoms.size].reshape(contribution.atoms.shape)
        own[...] = contribution.atoms
        start += own.size
        yield replace(contribution, atoms=own)
    release_pages(numbers)


def side_by_side(blocks: Sequence[Array]) -> Array:
    """Return all columns, (d, R): in memory, or in a file if some of the blocks lie in files."""
    if all(mapped_file(block) is None for block in blocks):
        return np.concatenate(blocks, axis=1)
    rows = _mapped((sum(block.shape[1] for block in blocks), blocks[0].shape[0]))
    row = unreleased = 0
    for block in blocks:
        rows[row : row + block.shape[1]] = block.T
        row, unreleased = row + block.shape[1], unreleased + block.nbytes
        if unreleased > FILE_BYTES:
            release_pages(rows)
            unreleased = 0
        release_pages(block)
    release_pages(rows)
    return rows.T


def reordered(array: Array, order: IntArray) -> Array:
    """Return the columns of an array, (d, R), in another order, in a file if the array lies in one."""
    if mapped_file(array) is None:
        return np.take(array, order, axis=1)
    rows, at_once = _mapped((order.size, array.shape[0])), max(FILE_BYTES // (8 * array.shape[0]), 1)
    for start in range(0, order.size, at_once):
        rows[start : start + at_once] = array.T[order[start : start + at_once]]
        release_pages(rows)
        release_pages(array)
    return rows.T


def _mapped(shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.float64]]:
    with TemporaryFile() as file:  # the mapping keeps it open
        return np.memmap(file, dtype=np.float64, mode="w+", shape=shape)
