"""Any number of contributions in bounded memory: beyond a limit their atoms lie in one temporary file, written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from tempfile import TemporaryFile, gettempdir
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray, are_unit, column_norms
from fedica.blocks.arrays import ArrayBlocks, mapped_file, release_pages
from fedica.blocks.columns import Columns
from fedica.errors import InputError
from fedica.records import Contribution, Piece, StoredAtoms

SPOOL_BYTES = 2**28
"""Bytes of atoms that are kept in memory; further ones go to a file."""
DIGITS_OF_ORDER = 6
"""Digits of the atoms that decide on the order of the clients, on which the starts of k-means depend."""


class Spool:
    """Takes contributions one by one: up to `SPOOL_BYTES` as they are, the atoms of further ones to a file.

    The file has no name, and vanishes with the last array that reads it. Atoms lie in it one after the other, in single
    precision if that loses nothing: what was sent so takes no more room than it did on its way.
    """

    def __init__(self) -> None:
        self._in_memory = 0
        self._file: _File | None = None

    def keep(self, contribution: Contribution, narrow: NDArray[np.float32] | None = None) -> Contribution:
        """Return the same contribution, with its atoms in the file if memory has its share.

        narrow : the atoms as they were sent, if that was in single precision; by default they are rounded to it.
        """
        atoms = contribution.atoms
        if self._in_memory <= SPOOL_BYTES:
            self._in_memory += atoms.nbytes
            return contribution
        self._file = self._file or _File()
        narrow = np.asarray(atoms, dtype=np.float32) if narrow is None else narrow
        exact, norms = _recovered(atoms, narrow)
        rows = np.ascontiguousarray((narrow if exact else atoms).T)
        read = partial(self._file.rows, self._file.append(rows), rows.shape[1], rows.dtype)
        stored: Any = StoredAtoms(len(atoms), [Piece(read, 0, len(rows), norms)], content_digests(atoms))
        return replace(contribution, atoms=stored)


def _recovered(atoms: Array, narrow: NDArray[np.float32]) -> tuple[bool, Array | None]:
    """Whether numbers in single precision give the atoms, to the last bit, and the norms to divide them by, if any."""
    wide = narrow.astype(np.float64)
    norms = column_norms(wide)
    if are_unit(norms):
        return np.array_equal(wide, atoms), None
    np.divide(wide, norms, out=wide)
    return (True, norms) if np.array_equal(wide, atoms) else (False, None)


class _File:
    """A temporary file without a name: arrays are appended to it, and read by any thread."""

    def __init__(self) -> None:
        self._file, self._lock, self._n_bytes = TemporaryFile(), Lock(), 0  # noqa: SIM115 - read as long as it is used
        finalize(self, self._file.close)

    def append(self, rows: NDArray[Any]) -> int:
        """Write the rows at the end; return where they begin."""
        start = self._n_bytes
        try:
            with self._lock:
                self._file.seek(start)
                self._file.write(rows.data)
                self._file.flush()
        except OSError as error:
            raise InputError(
                f"the atoms are too many for the memory, and {gettempdir()} does not take them ({error.strerror}): "
                f"{start / 1e9:.1f} GB are there. Set TMPDIR to a folder with more room."
            ) from error
        self._n_bytes += rows.nbytes
        return start

    def rows(self, begin: int, n_columns: int, dtype: np.dtype[Any], start: int, stop: int) -> NDArray[Any]:
        """Return the rows from start to stop of those that begin at this byte."""
        rows = np.empty((stop - start, n_columns), dtype)
        with self._lock:
            self._file.seek(begin + start * n_columns * dtype.itemsize)
            n_read = self._file.readinto(rows.data.cast("B"))
        if n_read != rows.nbytes:
            raise OSError(f"a temporary file lacks {rows.nbytes - n_read} bytes.")
        return rows


def content_digests(atoms: Any) -> tuple[bytes, bytes]:
    """Return two fingerprints of a client's atoms: of their first six digits, and of all digits."""
    if isinstance(atoms, StoredAtoms) and atoms.digests is not None:
        return atoms.digests
    exact = np.ascontiguousarray(atoms) + 0.0  # no minus zero
    release_pages(atoms)
    return digest(np.round(exact, DIGITS_OF_ORDER) + 0.0), digest(exact)


def digest(array: Array) -> bytes:
    """Return a fingerprint of an array, whose rows lie one after the other."""
    return blake2b(array.data, digest_size=16).digest()


def side_by_side(blocks: Sequence[Any]) -> Any:
    """Return all columns, (d, R): in memory, or as `StoredAtoms` if some of the blocks lie in files."""
    if all(isinstance(block, np.ndarray) and mapped_file(block) is None for block in blocks):
        return np.concatenate(blocks, axis=1)
    pieces = [piece for block in blocks for piece in _pieces(block)]
    return StoredAtoms(blocks[0].shape[0], pieces)


def _pieces(block: Any) -> tuple[Piece, ...]:
    if isinstance(block, StoredAtoms):
        return block.pieces

    def read(start: int, stop: int) -> NDArray[Any]:
        rows: NDArray[Any] = block.T[start:stop]
        if mapped_file(block) is not None:
            rows = np.array(rows)
            release_pages(block)
        return rows

    return (Piece(read, 0, block.shape[1]),)


def reordered(columns: Columns, order: IntArray) -> Any:
    """Return the columns, (d, R), in another order: in memory, or as `StoredAtoms` if that is what they are."""
    blocks = columns.blocks
    if isinstance(blocks, ArrayBlocks) and isinstance(blocks.array, StoredAtoms):
        return blocks.array.in_order(order)
    return np.take(columns.whole(), order, axis=1)
