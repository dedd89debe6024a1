"""A client whose data lies on a cluster: the same atoms, whatever the chunks, and whoever dies."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import uniform_filter1d

from fedica.errors import DataError
from fedica.local import LocalICA

da = pytest.importorskip("dask.array", reason="needs fedica[dask]")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed", reason="needs fedica[dask]")

ROWS = 20_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two worker processes on this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a busy machine is slow to start them, which Dask remarks upon
        running = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            local_directory=str(tmp_path_factory.mktemp("workers")),
        )
    with running, distributed.Client(running) as client:
        yield client


@pytest.fixture
def X(make_mixture):
    return make_mixture("bernoulli-gaussian", ROWS, 5)[0]


@pytest.mark.parametrize("solver", ["auto", "l4", "kurtosis", "deflation"])
@pytest.mark.parametrize("chunks", [(3000, 5), (7001, 2), ((1, 0, 19_999), 5)])
def test_a_dask_array_gives_what_the_array_gives(solver, chunks, X):
    """Any chunks of rows, chunks of columns too: to 1e-8, in as many passes."""
    whole = LocalICA(solver=solver, random_state=0).fit(X)
    with dask.config.set(scheduler="synchronous"):
        on_dask = LocalICA(solver=solver, random_state=0).fit(da.from_array(X, chunks=chunks))
    np.testing.assert_allclose(on_dask.mixing_, whole.mixing_, atol=1e-8)
    assert (on_dask.n_samples_, on_dask.n_features_in_, on_dask.n_passes_) == (ROWS, 5, whole.n_passes_)


def _recording():
    """Sources that are alike in time and partly Gaussian: FastICA's steps do not settle on them."""
    rng = np.random.default_rng(0)
    sources = np.column_stack([rng.standard_normal((30_000, 4)), rng.laplace(size=(30_000, 3))])
    return uniform_filter1d(sources, 5, axis=0) @ rng.standard_normal((7, 7))


@pytest.mark.parametrize("hard", [False, True], ids=["independent samples", "recording"])
def test_all_paths_agree(hard, X, tmp_path):
    """In memory, in blocks, memory-mapped and on Dask: the default solver gives one result, to 1e-8."""
    X = _recording() if hard else X
    np.save(tmp_path / "x.npy", X)
    paths = {
        "blocks": np.split(X, [17, 9000]),
        "mapped": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "dask": da.from_array(X, chunks=(4096, 5)),
    }
    in_memory = LocalICA(random_state=0).fit(X)
    assert bool(in_memory.doubts_) == hard
    with dask.config.set(scheduler="threads"):
        for name, data in paths.items():
            found = LocalICA(random_state=0).fit(data)
            np.testing.assert_allclose(found.mixing_, in_memory.mixing_, atol=1e-8, err_msg=name)
            np.testing.assert_allclose(found.components_, in_memory.components_, atol=1e-8, err_msg=name)


def test_chunks_of_unknown_length_are_counted(X):
    """What a filter leaves is not known beforehand: one pass more, and the same atoms."""
    kept = X[X[:, 0] > -0.5]
    array = da.from_array(X, chunks=(3000, 5))
    array = array[array[:, 0] > -0.5]
    assert np.isnan(array.shape[0])
    with dask.config.set(scheduler="synchronous"):
        on_dask = LocalICA(random_state=0).fit(array)
    whole = LocalICA(random_state=0).fit(kept)
    np.testing.assert_allclose(on_dask.mixing_, whole.mixing_, atol=1e-8)
    assert on_dask.n_passes_ == whole.n_passes_ + 1


def test_sources_of_a_dask_array_are_one(X):
    """Sources come lazily: a Dask array of the sources, chunked as the data, float32 for float32."""
    local = LocalICA(3, random_state=0).fit(X)
    sources = local.transform(da.from_array(X, chunks=(6000, 2)))
    assert isinstance(sources, da.Array)
    assert sources.chunks == ((6000, 6000, 6000, 2000), (3,))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_allclose(sources.compute(), local.transform(X), atol=1e-12)
        single = local.transform(da.from_array(X.astype(np.float32), chunks=(6000, 5)))
        assert single.dtype == single.compute().dtype == np.float32


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: da.ones(10), r"two-dimensional.*shape \(10,\)"),
        (lambda: da.ones((10, 2), dtype=complex), "complex128"),
        (lambda: da.ones((1, 2)), r"at least 2 samples .*got \(1, 2\)"),
        (lambda: dask.delayed(1), "takes arrays; got Delayed"),
        (lambda: da.from_array(np.array([[1.0, 2.0], [3.0, np.inf], [0.0, 1.0]]), chunks=1), "1 infinite .* row 1"),
    ],
)
def test_bad_dask_data_is_refused_in_one_sentence(make, sentence):
    """Each defect is a DataError that names it."""
    with dask.config.set(scheduler="synchronous"), pytest.raises(DataError, match=sentence):
        LocalICA().fit(make())


def _reader_that_dies(folder, reading):
    """Return a function that stands for reading a chunk from disk; the third chunk kills its worker at one reading."""

    def read(block, block_id=None):
        if block_id[0] == 2:
            so_far = len(list(Path(folder).glob("read-*")))
            Path(folder, f"read-{so_far}-by-{os.getpid()}").touch()
            if so_far == reading:
                os.kill(os.getpid(), signal.SIGKILL)
        return block

    return read  # a closure travels to the workers by value


def test_the_death_of_a_worker_changes_nothing(cluster, X, tmp_path):
    """A worker process is killed in the second of the passes: its tasks run again; the same to the last bit."""
    reading = 1
    array = da.from_array(X, chunks=(2500, 5))
    undisturbed = LocalICA(random_state=0).fit(array)
    workers = set(cluster.run(os.getpid).values())
    mortal = array.map_blocks(_reader_that_dies(tmp_path, reading), dtype=array.dtype, meta=np.empty((0, 0)))
    disturbed = LocalICA(random_state=0).fit(mortal)
    (victim,) = (int(path.name.rpartition("-")[2]) for path in tmp_path.glob(f"read-{reading}-*"))
    assert victim in workers
    assert victim not in cluster.run(os.getpid).values()
    assert (disturbed.mixing_ == undisturbed.mixing_).all()
    assert disturbed.n_passes_ == undisturbed.n_passes_ >= 3
    np.testing.assert_allclose(disturbed.mixing_, LocalICA(random_state=0).fit(X).mixing_, atol=1e-8)
