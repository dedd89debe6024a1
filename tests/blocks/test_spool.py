"""Atoms that lie in a temporary file: the same numbers, in the precision in which they were sent, written once."""

from __future__ import annotations

import copy
import errno
import gc
import os
import weakref
from dataclasses import replace

import numpy as np
import pytest

from fedica.arrays import unit
from fedica.blocks import Spool, columns_of, reordered, side_by_side, spool
from fedica.errors import InputError
from fedica.exchange.contributions import contribution_to_bytes, receive_bytes
from fedica.records import Contribution, StoredAtoms


@pytest.fixture
def files(monkeypatch):
    """The temporary files that are made; everything goes to one."""
    monkeypatch.setattr(spool, "SPOOL_BYTES", -1)
    made, plain = [], spool.TemporaryFile
    monkeypatch.setattr(spool, "TemporaryFile", lambda: made.append(plain()) or made[-1])
    return made


def contributions(n_clients=4, d=9, seed=0):
    """Clients of 2, 3, 4 and so on atoms."""
    rng = np.random.default_rng(seed)
    return [Contribution(f"client-{k}", rng.standard_normal((d, k + 2)), 10) for k in range(n_clients)]


def n_bytes(file):
    return os.fstat(file.fileno()).st_size


@pytest.fixture
def stored(files):
    """All atoms side by side in a file, and in memory."""
    given, own = contributions(), Spool()
    return side_by_side([own.keep(c).atoms for c in given]), np.concatenate([c.atoms for c in given], axis=1)


@pytest.mark.parametrize("scale", [1.0, 1 + 9e-7], ids=["unit to rounding", "as far from unit as a file may be"])
def test_what_was_sent_in_single_precision_takes_no_more_room(files, scale):
    """Four bytes a number, and to the last bit what would be in memory."""
    own = Spool()
    for contribution in contributions(d=3000):
        data = contribution_to_bytes(contribution, float32=True)
        if scale != 1.0:
            numbers = 4 * contribution.atoms.size
            atoms = (np.frombuffer(data[-numbers:], np.float32) * np.float32(scale)).astype(np.float32)
            data = data[:-numbers] + atoms.tobytes()
        received = receive_bytes(data, source="a file")
        kept = own.keep(received.contribution, received.narrow)
        assert np.array_equal(kept.atoms, received.contribution.atoms)
        assert np.abs(np.linalg.norm(kept.atoms, axis=0) - 1).max() < (1e-12 if scale != 1.0 else 1e-9)
    (file,) = files
    assert n_bytes(file) == 4 * 3000 * sum(range(2, 6))


def test_nothing_of_a_message_stays_in_memory_besides(files):
    """Strengths are no view of it."""
    sent = replace(contributions(1)[0], gram=np.eye(2))
    received = receive_bytes(contribution_to_bytes(sent, float32=True), source="a file")
    kept = Spool().keep(received.contribution, received.narrow)
    assert kept.gram.base is None or kept.gram.base.base is None
    assert not np.shares_memory(kept.gram, received.narrow.base)


def test_double_precision_is_kept(files):
    """Numbers that single precision does not hold take eight bytes, and lose nothing."""
    given, own = contributions(), Spool()
    kept = [own.keep(c) for c in given]
    assert all(np.array_equal(a.atoms, b.atoms) for a, b in zip(kept, given, strict=True))
    assert n_bytes(files[0]) == 8 * sum(c.atoms.size for c in given)


def test_numbers_of_single_precision_are_recognised(files):
    """Whoever reads files, and passes contributions on, need not tell how they were sent."""
    own = Spool()
    for contribution in contributions():
        own.keep(replace(contribution, atoms=unit(contribution.atoms).astype(np.float32)))
    assert n_bytes(files[0]) == 4 * 9 * sum(range(2, 6))


def test_any_columns_are_those_of_the_array(stored):
    """Ranges across clients, single columns, masks, any order and repeats, rows."""
    atoms, array = stored
    assert atoms.shape == array.shape
    assert (atoms.size, atoms.nbytes, len(atoms)) == (array.size, array.nbytes, len(array))
    assert np.array_equal(atoms, array)
    for key in (
        slice(1, 12),
        slice(2, 5),
        slice(None),
        slice(3, 3),
        slice(0, 9, 2),
        [13, 0, 7, 7],
        array[0] > 0,
        4,
        -1,
    ):
        assert np.array_equal(atoms[:, key], array[:, key])
    assert isinstance(atoms[:, 1:12][:, 2:9], StoredAtoms)
    assert np.array_equal(atoms[:, 1:12][:, 2:9], array[:, 3:10])
    assert np.array_equal(atoms[2:4], array[2:4])
    np.testing.assert_allclose(array.T @ atoms, array.T @ array, rtol=0, atol=1e-14)


def test_another_order_copies_nothing(stored, files):
    """Columns are read where they lie, also by a sweep."""
    atoms, array = stored
    before, order = n_bytes(files[0]), np.random.default_rng(1).permutation(array.shape[1])
    turned = reordered(columns_of(atoms), order)
    assert isinstance(turned, StoredAtoms)
    assert np.array_equal(turned, array[:, order])
    (total,) = columns_of(turned).total(lambda block: (block @ block.T,))
    np.testing.assert_allclose(total, array @ array.T, rtol=0, atol=1e-14)
    assert len(files) == 1
    assert n_bytes(files[0]) == before


def test_a_contribution_can_be_changed_without_reading_it(files, monkeypatch):
    """Another study, the same atoms; they are fingerprinted as they are written."""
    kept = Spool().keep(contributions(1)[0])
    monkeypatch.setattr(spool._File, "rows", None)
    assert replace(kept, study="other").atoms is kept.atoms
    assert spool.content_digests(kept.atoms) == spool.content_digests(contributions(1)[0].atoms)


def test_a_copy_elsewhere_is_an_array(stored):
    """Pickled or copied, it has no file."""
    atoms, array = stored
    assert np.array_equal(copy.deepcopy(atoms), array)


def test_the_file_vanishes_with_its_last_reader(monkeypatch):
    """Closed, and so deleted, when nothing refers to it any more."""
    monkeypatch.setattr(spool, "SPOOL_BYTES", -1)
    kept = Spool().keep(contributions(1)[0])
    file = weakref.ref(kept.atoms.pieces[0].read.func.__self__._file)
    assert not file().closed
    del kept
    gc.collect()
    assert file() is None


def test_a_full_disk_is_a_sentence(files, monkeypatch):
    """It says where, how much is there, and what to do."""

    class Full:
        def seek(self, place): ...

        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self): ...

    monkeypatch.setattr(spool, "TemporaryFile", Full)
    with pytest.raises(InputError, match=r"does not take them \(No space left.*TMPDIR"):
        Spool().keep(contributions(1)[0])


def test_arrays_in_files_of_their_own_are_read_where_they_lie(tmp_path, files):
    """A list of contributions with mapped atoms: nothing is copied."""
    given = contributions()
    mapped = []
    for contribution in given:
        np.save(tmp_path / "atoms.npy", unit(contribution.atoms))
        mapped.append(np.load(tmp_path / "atoms.npy", mmap_mode="r"))
        (tmp_path / "atoms.npy").rename(tmp_path / f"{contribution.client}.npy")
    atoms = side_by_side(mapped)
    assert isinstance(atoms, StoredAtoms)
    np.testing.assert_allclose(atoms, np.concatenate([c.atoms for c in given], axis=1), rtol=0, atol=1e-15)
    assert files == []
