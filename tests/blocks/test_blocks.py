"""Data of any size, wherever it lies: files, sources of blocks, and what it costs in memory and passes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.blocks import rows_of
from fedica.blocks.arrays import mapped_file
from fedica.errors import DataError, OptionError
from fedica.ica import Whitened, whiten
from fedica.local import LocalICA

SOLVERS_BY_BLOCKS = ["auto", "l4", "kurtosis", "deflation"]


class Reread:
    """A source of blocks as a user would write one: iter() starts anew. It counts how often it was read."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.times = 0

    def __iter__(self):
        self.times += 1
        yield from self.blocks


class Shaped(Reread):
    """The same, with a shape that saves the pass that counts."""

    @property
    def shape(self):
        """Rows and features."""
        return sum(len(block) for block in self.blocks), self.blocks[0].shape[1]


@pytest.mark.parametrize("solver", SOLVERS_BY_BLOCKS)
@pytest.mark.parametrize(("kind", "r"), [(list, 5), (tuple, 5), (Reread, 5), (Shaped, 5), (Reread, 22)])
def test_blocks_of_any_length_give_what_the_array_gives(solver, kind, r, make_mixture):
    """Lists, and objects that can be iterated again, agree with the array in memory to 1e-8."""
    X, _, _ = make_mixture("bernoulli-gaussian", 9000, r)
    blocks = np.split(X, [1, 800, 800, 4321])
    whole = LocalICA(solver=solver, random_state=0).fit(X)
    by_blocks = LocalICA(solver=solver, random_state=0).fit(kind(blocks))
    np.testing.assert_allclose(by_blocks.mixing_, whole.mixing_, atol=1e-8)
    assert (by_blocks.n_samples_, by_blocks.n_features_in_) == (9000, r)


@given(cuts=st.lists(st.integers(0, 60), max_size=6), rows=st.sets(st.integers(0, 59), min_size=1))
@settings(max_examples=40, deadline=None)
def test_rows_are_taken_by_their_number_wherever_the_cuts_are(cuts, rows):
    """The same rows come from a source, however it is cut, as from the array."""
    X, wanted = np.arange(120.0).reshape(60, 2), np.array(sorted(rows))
    source = rows_of(np.split(X, sorted(cuts)))
    assert (source.take(wanted, np.negative) == -X[wanted]).all()
    assert (rows_of(X, 7).take(wanted, np.negative) == -X[wanted]).all()


@pytest.mark.parametrize("solver", SOLVERS_BY_BLOCKS)
def test_the_number_of_passes_is_what_is_stated(solver, make_mixture):
    """Counted at the source itself: scatter, subsamples and Newton steps, or moments; one more without a shape."""
    X, _, _ = make_mixture("bernoulli-gaussian", 30_000, 5)
    counts = []
    for kind in (Shaped, Reread):
        source = kind(np.array_split(X, 7))
        local = LocalICA(solver=solver, random_state=0).fit(source)
        assert local.n_passes_ == source.times - 1  # the first block alone is looked at once more
        counts.append(local.n_passes_)
    assert counts[1] == counts[0] + 1
    assert counts[0] in ((3, 4) if solver == "auto" else (2,))
    assert LocalICA(solver=solver, random_state=0).fit(X).n_passes_ == counts[0]


def test_spatial_maps_need_one_pass(make_mixture):
    """With independence over features the scatter is all that is needed."""
    X, _, _ = make_mixture("laplace", 900, 30, 4)
    local = LocalICA(4, independence="features", random_state=0).fit(np.array_split(X, 5))
    assert local.n_passes_ == 1
    whole = LocalICA(4, independence="features", random_state=0).fit(X)
    np.testing.assert_allclose(local.atoms_, whole.atoms_, atol=1e-8)


def test_wide_data_in_blocks(make_mixture):
    """Fewer samples than features: loaded whole, and the same."""
    X = np.random.default_rng(0).laplace(size=(12, 40))
    whole, by_blocks = (
        LocalICA(3, solver="l4", independence="features", random_state=0).fit(data) for data in (X, np.split(X, 3))
    )
    np.testing.assert_allclose(by_blocks.atoms_, whole.atoms_, atol=1e-8)


def test_sources_of_a_source_are_a_source(make_mixture):
    """Block for block the sources of the array, computed when asked for, again and again."""
    X, _, _ = make_mixture("laplace", 3000, 4)
    local = LocalICA(random_state=0).fit(X)
    expected = local.transform(X)
    sources = local.transform(Reread(np.array_split(X.astype(np.float32), 4)))
    for _ in range(2):
        blocks = list(sources)
        assert [len(block) for block in blocks] == [750] * 4
        assert blocks[0].dtype == np.float32
        np.testing.assert_allclose(np.concatenate(blocks), expected, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(list(local.transform(iter([X[:9], X[9:]])))), expected)
    with pytest.raises(DataError, match="the 4 features that were fitted; got 3"):
        list(local.transform([X[:, :3]]))


@pytest.mark.parametrize("make", [iter, lambda blocks: (block for block in blocks), lambda blocks: map(abs, blocks)])
def test_what_can_be_read_once_is_refused_with_the_remedy(make, make_mixture):
    """A generator is refused before anything is read from it, and partial_fit is named."""
    stream = make([make_mixture("laplace", 100, 3)[0]])
    with pytest.raises(DataError, match=r"several times; a .* can be read once.*partial_fit"):
        LocalICA().fit(stream)
    assert len(list(stream)) == 1


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ([np.ones((3, 2)), np.ones((3, 4))], "block 1 has 4, block 0 has 2"),
        (Reread([]), "at least one; got none"),
        (Reread([[1.0, 2.0]]), r"two-dimensional array of real numbers.*shape \(2,\)"),
        (Reread([np.ones((3, 2)) * 1j]), "complex128"),
        ([np.ones((1, 3))], r"at least 2 samples .*got \(1, 3\)"),
        ([np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[np.nan, 1.0]])], "1 NaN .* at row 2, column 0"),
        (range(5), "two-dimensional"),
    ],
)
def test_bad_sources_are_refused_in_one_sentence(source, sentence):
    """Each defect of a source is a DataError that names it."""
    with pytest.raises(DataError, match=sentence):
        LocalICA().fit(source)


def test_a_source_that_changes_is_found_out(make_mixture):
    """Rows that are not there the second time would make wrong sums: refused."""
    X, _, _ = make_mixture("laplace", 400, 3)

    class Shrinking(Reread):
        def __iter__(self):
            self.times += 1
            yield from self.blocks[: 5 - self.times]

    with pytest.raises(DataError, match=r"same rows every time; expected 300 rows, got 200"):
        LocalICA().fit(Shrinking(np.split(X, 4)))


def _resident(path):
    """Return how many bytes of a mapped file are in this process's memory."""
    size = 0
    for entry in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        if str(path) in entry.splitlines()[0]:
            size += 1024 * int(re.search(r"Rss:\s+(\d+)", entry)[1])
    return size


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="tells resident memory from /proc/self/smaps")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_pages_of_a_mapped_file_are_given_back(order, n_threads, tmp_path, monkeypatch):
    """A file of 16 MB never has more than a few MB in memory while it is fitted, and none afterwards."""
    monkeypatch.setattr("fedica.blocks.arrays.RELEASE_BYTES", 2**20)
    monkeypatch.setattr("fedica.threads._BlasThreads.enter", lambda _: n_threads)
    monkeypatch.setattr("fedica.threads._BlasThreads.leave", lambda _: None)
    path = tmp_path / "recording.npy"
    np.save(path, np.asarray(np.random.default_rng(0).laplace(size=(250_000, 8)), order=order))
    mapped, most = np.load(path, mmap_mode="r"), []
    for block in rows_of(mapped):
        float(block[0, 0])
        most.append(_resident(path))
    assert 0 < max(most) < 2**20 * (3 if order == "C" else 10)  # the system maps pages around those that are touched
    LocalICA(random_state=0).fit(mapped)
    assert _resident(path) == 0


def test_a_copy_on_write_map_is_left_alone(tmp_path):
    """What was written to it is nowhere else: it keeps its pages, and the fit sees what was written."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).laplace(size=(3000, 3)))
    shared, private = (np.load(tmp_path / "x.npy", mmap_mode=mode) for mode in ("r+", "c"))
    private[:] = private[::-1] * [1, 2, 3] + private**2
    kept = np.array(private)
    assert mapped_file(private) is None
    assert mapped_file(np.asarray(shared[10:].T)) is not None
    fitted = LocalICA(random_state=0).fit(private)
    assert (private == kept).all()
    assert (fitted.atoms_ == LocalICA(random_state=0).fit(kept).atoms_).all()


def test_a_solver_that_holds_all_refuses_what_is_large_and_not_in_memory(monkeypatch, make_mixture):
    """Solvers of other libraries load the whitened data: data on disk is refused above a limit, with the remedy."""
    X, _, _ = make_mixture("laplace", 500, 4)
    assert LocalICA(solver="fastica", random_state=0).fit([X]).n_passes_ == 2
    monkeypatch.setattr("fedica.ica.solvers.MAX_WHOLE_BYTES", 1000)
    LocalICA(solver="fastica", random_state=0).fit(X)
    with pytest.raises(OptionError, match=r"hold all whitened data in memory.*Use solver='auto'"):
        LocalICA(solver="fastica", random_state=0).fit([X])


def test_subsamples_are_white_and_drawn_by_number(make_mixture):
    """Each is exactly white; the rows drawn depend on the number of samples alone, not on how they are cut."""
    X, _, _ = make_mixture("laplace", 8000, 3)
    whitening, _ = whiten(rows_of(X))
    draws = []
    for blocks in (rows_of(X), rows_of(np.split(X, [5, 3000]))):
        parts = Whitened(blocks, whitening).subsamples([500, 3000], np.random.default_rng(0))
        draws.append([part.array() for part in parts])
    for one, other in zip(*draws, strict=True):
        np.testing.assert_allclose(one.T @ one / len(one), np.eye(3), atol=1e-5)
        np.testing.assert_allclose(other, one, atol=1e-5)


def test_a_smaller_subsample_is_part_of_the_larger():
    """One draw, one pass: the rows of the small one are among those of the large one, and all are distinct."""
    blocks = rows_of(np.arange(10_000.0)[:, None])
    parts = Whitened(blocks).subsamples([50, 900], np.random.default_rng(0))
    small, large = (part._blocks.array[:, 0] for part in parts)  # as they were drawn, before they are made white
    assert np.unique(large).size == 900
    assert np.isin(small, large).all()
    assert blocks.n_passes == 1
