"""Any size, wherever the atoms lie: in memory, in mapped files, from an iterable, on a cluster that loses a worker."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedica import Aggregate, AtomArray, Contribution, aggregate
from fedica.arrays import unit
from fedica.blocks import columns as columns_module
from fedica.blocks import columns_of, draw_clients, leading_directions, leading_eigenpairs
from fedica.blocks import cuts as cuts_module
from fedica.blocks import spool as spool_module
from fedica.blocks.arrays import ArrayBlocks
from fedica.blocks.cuts import block_bounds
from fedica.errors import ContributionError, InputError
from fedica.server.consensus import starts
from fedica.server.embedding import embed_absolute, embed_squared

AGREE = 1e-8


def many_clients(r=6, K=400, d=None, noise=0.05, seed=0):
    """Atoms (d, R), owner and true labels of K clients, each in its own order and with its own signs."""
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((d or r, r)))[0]
    truth = np.argsort(rng.random((K, r)), axis=1).ravel()
    atoms = A[:, truth] * rng.choice([-1.0, 1.0], truth.size) + noise * rng.standard_normal((d or r, truth.size))
    return unit(atoms), np.repeat(np.arange(K), r), truth


def as_contributions(atoms, owner):
    return [Contribution(f"client-{k:04d}", atoms[:, owner == k], 100) for k in range(int(owner[-1]) + 1)]


def assert_same(one: Aggregate, other: Aggregate) -> None:
    assert np.abs(one.mixing - other.mixing).max() <= AGREE
    assert np.abs(one.centres - other.centres).max() <= AGREE
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.signs, other.signs)
    assert one.clients == other.clients
    assert one.trust.verdict == other.trust.verdict
    assert np.abs(one.trust.influence - other.trust.influence).max() <= 1e-6
    assert np.allclose(one.spectrum, other.spectrum, rtol=1e-8)


@pytest.fixture
def small_blocks(monkeypatch):
    """Many blocks, many chunks, a panel and a sample, on data that a test can afford."""
    monkeypatch.setattr(cuts_module, "MAX_COLUMNS", 100)
    monkeypatch.setattr(cuts_module, "MAX_BLOCKS", 3)
    monkeypatch.setattr(columns_module, "KEEP_BYTES", 1000)
    monkeypatch.setattr(starts, "MAX_PANEL", 120)
    monkeypatch.setattr("fedica.blocks.sampling.MAX_SAMPLE", 900)


METHODS = pytest.mark.parametrize("method", ["consensus", "srf-ica"])


class TestWhereverAtomsLie:
    """The same result to 1e-8, the same labels."""

    @METHODS
    def test_an_array_equals_contributions(self, small_blocks, method):
        """AtomArray against a list of contributions."""
        atoms, owner, _ = many_clients()
        reference = aggregate(as_contributions(atoms, owner), 6, method=method, affinity="squared")
        bulk = AtomArray(atoms, owner, clients=reference.clients, n_samples=np.full(400, 100))
        assert_same(aggregate(bulk, 6, method=method, affinity="squared"), reference)

    @METHODS
    def test_blocks_equal_one_block(self, small_blocks, monkeypatch, method):
        """Many small blocks against one that holds everything; nothing kept against everything kept."""
        atoms, owner, _ = many_clients()
        in_blocks = aggregate(AtomArray(atoms, owner), 6, method=method, affinity="squared")
        monkeypatch.setattr(cuts_module, "MAX_COLUMNS", 10_000)
        monkeypatch.setattr(columns_module, "KEEP_BYTES", 2**28)
        assert_same(aggregate(AtomArray(atoms, owner), 6, method=method, affinity="squared"), in_blocks)

    @METHODS
    @pytest.mark.parametrize("order", ["atoms are rows", "atoms are columns"])
    def test_a_mapped_file_equals_memory(self, small_blocks, tmp_path, method, order):
        """A memory-mapped .npy in either order; the result refers to the file and copies nothing."""
        atoms, owner, _ = many_clients()
        path = tmp_path / "atoms.npy"
        np.save(path, atoms.T if order == "atoms are rows" else atoms)
        mapped = np.load(path, mmap_mode="r")
        mapped = mapped.T if order == "atoms are rows" else mapped
        result = aggregate(AtomArray(mapped, owner), 6, method=method, affinity="squared")
        assert_same(result, aggregate(AtomArray(atoms, owner), 6, method=method, affinity="squared"))
        assert np.shares_memory(result.atoms, mapped)

    @METHODS
    def test_an_iterable_that_spills_equals_a_list(self, small_blocks, monkeypatch, method):
        """A generator whose atoms go to temporary files gives what a list gives."""
        atoms, owner, _ = many_clients()
        contributions = as_contributions(atoms, owner)
        reference = aggregate(contributions, 6, method=method, affinity="squared")
        monkeypatch.setattr(spool_module, "SPOOL_BYTES", 5_000)
        result = aggregate((c for c in contributions), 6, method=method, affinity="squared")
        assert_same(result, reference)
        assert np.array_equal(result.atoms, reference.atoms)

    @METHODS
    def test_names_do_not_decide_on_a_bit_of_what_spills(self, small_blocks, monkeypatch, method):
        """Atoms in files are ordered by content as well."""
        contributions = as_contributions(*many_clients(K=60)[:2])
        monkeypatch.setattr(spool_module, "SPOOL_BYTES", 5_000)
        names = np.random.default_rng(1).permutation([c.client for c in contributions])
        renamed = [replace(c, client=str(name)) for c, name in zip(contributions, names, strict=True)]
        one, other = (aggregate(iter(x), 6, method=method) for x in (contributions, renamed))
        assert np.array_equal(one.mixing, other.mixing)

    def test_a_folder_of_files_equals_a_list(self, small_blocks, monkeypatch, tmp_path):
        """Files read one by one, their atoms spilled as they come."""
        from fedica import write_contribution
        from fedica.exchange import Received, read_contributions

        atoms, owner, _ = many_clients(K=60)
        contributions = as_contributions(atoms, owner)
        for contribution in contributions:
            write_contribution(contribution, tmp_path / f"{contribution.client}.safetensors")
        monkeypatch.setattr(spool_module, "SPOOL_BYTES", 5_000)
        files = (item.contribution for item in read_contributions(tmp_path) if isinstance(item, Received))
        assert_same(aggregate(files, 6), aggregate(contributions, 6))

    def test_a_spilled_bad_contribution_is_still_rejected(self, monkeypatch):
        """What does not fit is named, wherever its atoms lie."""
        monkeypatch.setattr(spool_module, "SPOOL_BYTES", 100)
        atoms, owner, _ = many_clients(K=20)
        odd = Contribution("odd", np.eye(4), 10)
        result = aggregate(iter([*as_contributions(atoms, owner), odd]), 6, on_bad="reject")
        assert [x.client for x in result.rejected] == ["odd"]
        assert len(result.clients) == 20

    def test_the_order_of_an_array_does_not_matter(self, small_blocks):
        """Clients in another order draw the same panel and sample: the same result."""
        atoms, owner, _ = many_clients()
        shuffled = np.random.default_rng(1).permutation(400)
        columns = (shuffled[:, None] * 6 + np.arange(6)).ravel()
        one, other = aggregate(AtomArray(atoms, owner), 6), aggregate(AtomArray(atoms[:, columns], owner), 6)
        assert np.abs(one.mixing - other.mixing).max() <= AGREE
        assert np.array_equal(one.labels[columns], other.labels)

    def test_atoms_in_small_units_are_directions_and_masks_are_refused(self, small_blocks):
        """Tesla are very small numbers; what lies under a mask is not to be used."""
        atoms, owner, _ = many_clients()
        one, other = aggregate(AtomArray(2.0**-50 * atoms, owner), 6), aggregate(AtomArray(atoms, owner), 6)
        assert np.abs(one.mixing - other.mixing).max() <= AGREE
        with pytest.raises(InputError, match="AtomArray's atoms must have no masked values; got 1"):
            AtomArray(np.ma.array(atoms, mask=np.arange(atoms.size).reshape(atoms.shape) == 7), owner)

    def test_atoms_of_other_lengths_and_precisions_are_scaled(self, small_blocks):
        """Float32 columns of any norm are directions all the same; their last bits draw other clients for a start."""
        atoms, owner, _ = many_clients()
        scaled = (atoms * np.random.default_rng(2).uniform(0.5, 2, owner.size)).astype(np.float32)
        one, other = aggregate(AtomArray(scaled, owner), 6), aggregate(AtomArray(atoms, owner), 6)
        assert np.abs(one.mixing - other.mixing).max() <= 1e-5
        assert np.array_equal(one.labels, other.labels)

    def test_threads_change_nothing(self, small_blocks):
        """One BLAS thread or two: bit by bit the same."""
        from threadpoolctl import threadpool_limits

        atoms, owner, _ = many_clients(K=3000)
        results = []
        for n_threads in (1, 2):
            with threadpool_limits(n_threads):
                results.append(aggregate(AtomArray(atoms, owner), 6))
        assert np.array_equal(results[0].mixing, results[1].mixing)


class TestDask:
    """The same sums on a cluster."""

    @METHODS
    def test_chunks_that_split_clients_equal_memory(self, small_blocks, method):
        """Chunk bounds within a client are moved; the threaded scheduler stands for any other."""
        da = pytest.importorskip("dask.array")
        atoms, owner, _ = many_clients()
        array = da.from_array(atoms, chunks=(2, 517))
        result = aggregate(AtomArray(array, owner), 6, method=method, affinity="squared")
        assert_same(result, aggregate(AtomArray(atoms, owner), 6, method=method, affinity="squared"))
        assert result.atoms is array

    @pytest.mark.slow
    def test_a_killed_worker_changes_nothing(self, tmp_path):
        """A real cluster of three processes, one of which is killed during the run: bit by bit the same result."""
        pytest.importorskip("distributed")
        script = tmp_path / "kill.py"
        script.write_text(textwrap.dedent(KILL), encoding="utf-8")
        run = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)},
        )
        assert run.returncode == 0, run.stderr[-3000:]
        largest_difference, same_labels = run.stdout.split()
        assert float(largest_difference) <= AGREE
        assert same_labels == "True"


KILL = """
    import os, signal, threading, time
    from pathlib import Path
    import numpy as np

    def hold(block, doomed, holds_a_task):
        if os.getpid() == doomed:  # a task that this worker never finishes
            Path(holds_a_task).touch()
            signal.pause()
        return block

    def main():
        import dask, dask.array as da
        from distributed import Client, LocalCluster
        from fedica import AtomArray, aggregate
        from fedica.arrays import unit
        import sys
        dask.config.set({"distributed.scheduler.allowed-failures": 10})
        rng = np.random.default_rng(0)
        A = np.linalg.qr(rng.standard_normal((5, 5)))[0]
        truth = np.argsort(rng.random((900, 5)), axis=1).ravel()
        atoms = unit(A[:, truth] * rng.choice([-1.0, 1.0], truth.size) + 0.05 * rng.standard_normal((5, truth.size)))
        owner = np.repeat(np.arange(900), 5)
        reference = aggregate(AtomArray(atoms, owner), 5)
        cluster = LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        with cluster, Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
            holds_a_task, over = Path(__file__).with_name("holds-a-task"), threading.Event()
            array = da.from_array(atoms, chunks=(5, 450)).map_blocks(
                hold, doomed=pids[0], holds_a_task=str(holds_a_task), dtype=float
            )

            def kill():
                while not holds_a_task.exists() and not over.wait(0.02):
                    pass
                if holds_a_task.exists():
                    os.kill(pids[0], signal.SIGKILL)

            thread = threading.Thread(target=kill)
            thread.start()
            result = aggregate(AtomArray(array, owner), 5)
            over.set()
            thread.join()
            assert holds_a_task.exists(), "the run ended before the worker was killed"
            alive = list(client.run(os.getpid).values())
            assert pids[0] not in alive
        same = np.array_equal(result.labels, reference.labels) and np.array_equal(result.signs, reference.signs)
        print(np.abs(result.mixing - reference.mixing).max(), same)

    if __name__ == "__main__":
        main()
"""


class TestExactness:
    """Neither affinity gives up anything for its speed."""

    @pytest.mark.parametrize(("affinity", "power"), [("absolute", 1), ("squared", 2)])
    def test_labels_are_those_of_the_dense_computation(self, affinity, power):
        """R = 1,800: the grouping of the full eigendecomposition of the same affinity, atom by atom."""
        atoms, owner, _ = many_clients(r=9, K=200, noise=0.1)
        M = np.sqrt(9 / owner.size) * np.abs(atoms.T @ atoms) ** power
        values, vectors = np.linalg.eigh(M)
        Q = (vectors[:, ::-1][:, :9] * values[::-1][:9]).astype(np.float64)
        dense = KMeans(9, n_init=10, random_state=0).fit(Q).labels_
        found = aggregate(AtomArray(atoms, owner), 9, method="srf-ica", affinity=affinity).labels
        pairs = np.unique(np.stack([dense, found]), axis=1)
        assert pairs.shape[1] == 9

    def test_absolute_converges_to_the_residual_it_reports(self):
        """Above the dense size: ||M q - d q|| is as small as said, in float64."""
        atoms, owner, _ = many_clients(r=6, K=150, noise=0.1)
        found = embed_absolute(columns_of(atoms, owner), 6)
        M = np.sqrt(6 / owner.size) * np.abs(atoms.T @ atoms)
        Q = found.points.whole().T
        vectors = Q / found.spectrum[:6]
        residual = np.linalg.norm(M @ vectors - vectors * found.spectrum[:6], axis=0).max() / found.spectrum[0]
        assert residual <= 2e-10
        assert found.residual <= 1e-10
        assert np.allclose(vectors.T @ vectors, np.eye(6), atol=1e-9)

    def test_many_components_are_embedded_within_the_residual_reported(self, monkeypatch):
        """More quadratic features than are reduced at once: eigenvalues within the residual of the exact ones."""
        monkeypatch.setattr("fedica.server.embedding.MAX_GRAM_FEATURES", 50)
        atoms, owner, truth = many_clients(r=15, K=60, noise=0.05)
        found = embed_squared(columns_of(atoms, owner), 15)
        exact = np.linalg.eigvalsh(np.sqrt(15 / owner.size) * (atoms.T @ atoms) ** 2)[::-1][:15]
        assert 0 < found.residual <= 1e-4
        assert np.abs(found.spectrum[:15] - exact).max() <= found.residual * exact[0] + 1e-12
        result = aggregate(AtomArray(atoms, owner), 15, affinity="squared")
        assert result.options["affinity_residual"] > 0
        assert np.unique(np.stack([truth, result.labels]), axis=1).shape[1] == 15

    def test_auto_picks_by_size_and_says_what_it_took(self, monkeypatch):
        """Squared for the consensus; for the paper's algorithm absolute, until that would take too long."""
        atoms, owner, _ = many_clients(K=20)
        taken = {
            m: aggregate(AtomArray(atoms, owner), 6, method=m).options["affinity"] for m in ("consensus", "srf-ica")
        }
        assert taken == {"consensus": "squared", "srf-ica": "absolute"}
        monkeypatch.setattr("fedica.server.methods.MAX_ABSOLUTE", 100)
        assert aggregate(AtomArray(atoms, owner), 6, method="srf-ica").options["affinity"] == "squared"
        told = aggregate(AtomArray(atoms, owner), 6, method="srf-ica", affinity="absolute")
        assert told.options["affinity"] == "absolute"

    @pytest.mark.parametrize(("d", "R"), [(40, 300), (300, 40), (60, 60)])
    def test_leading_directions_by_products_equal_those_of_the_scatter(self, monkeypatch, d, R):
        """All three ways give the same subspace where there is a gap."""
        rng = np.random.default_rng(0)
        atoms = unit(rng.standard_normal((d, 5)) @ rng.standard_normal((5, R)) + 0.01 * rng.standard_normal((d, R)))
        direct = leading_directions(columns_of(atoms), 5)
        monkeypatch.setattr("fedica.blocks.directions.MAX_DENSE_SCATTER", min(d, R) if d > R else 1)
        other = leading_directions(columns_of(atoms), 5)
        assert np.allclose(direct.axes.T @ direct.axes, other.axes.T @ other.axes, atol=1e-6)
        assert np.allclose(direct.values, other.values, rtol=1e-8)

    def test_eigenpairs_of_a_small_operator_are_exact(self):
        """Degenerate oracle: when the subspace is everything, it ends with the dense answer."""
        rng = np.random.default_rng(1)
        M = rng.standard_normal((12, 12))
        M = M @ M.T
        found = leading_eigenpairs(lambda v: M @ v, rng.standard_normal((12, 5)), 3)
        assert np.allclose(found.values[:3], np.linalg.eigvalsh(M)[::-1][:3])
        assert found.residual <= 1e-10


class TestColumns:
    """A matrix that is read by blocks."""

    def test_blocks_split_no_client(self):
        """Whatever the sizes: every bound is the beginning of a client, and they cover everything once."""
        rng = np.random.default_rng(0)
        owner = np.repeat(np.arange(500), rng.integers(1, 90, 500))
        bounds = block_bounds((7, owner.size), owner)
        assert bounds[0] == 0
        assert bounds[-1] == owner.size
        inner = bounds[1:-1]
        assert np.all(owner[inner] != owner[inner - 1])
        assert np.all(np.diff(bounds) > 0)

    def test_a_view_is_computed_when_it_is_read(self):
        """seen, take, whole and kept agree with the function applied to the whole matrix."""
        rng = np.random.default_rng(1)
        X, W = rng.standard_normal((4, 5000)), rng.standard_normal((3, 4))
        seen = columns_of(X).seen(lambda block: W @ block, 3).seen(np.abs, 3)
        expected = np.abs(W @ X)
        picked = np.array([4999, 0, 17, 17])
        assert seen.shape == (3, 5000)
        assert np.allclose(seen.whole(), expected)
        assert np.allclose(seen.take(picked), expected[:, picked])
        assert np.allclose(seen.kept().whole(), expected)
        assert isinstance(seen.kept().blocks, ArrayBlocks)
        assert seen.kept().view is columns_module.as_float64

    def test_sums_are_those_of_numpy(self):
        """Totals are sums over blocks, each joins, along is cut like the columns."""
        rng = np.random.default_rng(2)
        X, w = rng.standard_normal((4, 9000)), rng.uniform(size=9000)
        (doubled,), (scatter, count) = columns_of(X).sweep(
            lambda block, own: ((2 * own,), ((block * own) @ block.T, np.array(own.size))), w
        )
        assert np.array_equal(doubled, 2 * w)
        assert np.allclose(scatter, (X * w) @ X.T)
        assert count == 9000

    def test_drawing_depends_on_atoms_alone(self):
        """The same clients come first whatever their order; another seed draws others; all are drawn once."""
        atoms, owner, _ = many_clients(K=300)
        first = draw_clients(columns_of(atoms, owner), owner, np.random.default_rng(0)).order
        again = draw_clients(columns_of(atoms[:, ::-1].copy(), owner), owner, np.random.default_rng(0)).order
        other = draw_clients(columns_of(atoms, owner), owner, np.random.default_rng(1)).order
        assert np.array_equal(299 - again, first)
        assert not np.array_equal(first, other)
        assert sorted(first) == list(range(300))


class TestAtomArrayRefuses:
    """Each with its own sentence."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((np.eye(3)[0], [0, 1, 2]), r"shape \(n_features, n_atoms\)"),
            ((np.eye(3, dtype=int), [0, 1, 2]), "floating point numbers"),
            ((np.eye(3), [0, 1]), "3 whole numbers, one for each atom"),
            ((np.eye(3), [0, 2, 2]), "without gaps.* at atom 1"),
            ((np.eye(3), [0, 1, 0]), "not so at atom 2"),
            ((np.eye(3), [1, 1, 2]), "not so at atom 0"),
        ],
    )
    def test_what_does_not_fit_together(self, arguments, sentence):
        """Shapes, kinds and numbering."""
        with pytest.raises(InputError, match=sentence):
            AtomArray(*arguments)

    def test_names_that_are_not_distinct(self):
        """One name for each client."""
        with pytest.raises(InputError, match="must have 2 distinct names"):
            AtomArray(np.eye(2), [0, 1], clients=["a", "a"])

    @pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
    def test_an_atom_that_is_no_direction(self, bad):
        """Found when it is read, named with its client."""
        atoms, owner, _ = many_clients(K=50)
        atoms[:, 100] = bad
        with pytest.raises(ContributionError, match=r"'client-16'.*atom 100 of the array is zero or") as info:
            aggregate(AtomArray(atoms, owner), 6)
        assert info.value.client == "client-16"


def test_memory_is_bounded_by_blocks(tmp_path):
    """A mapped file of 256 MB of long atoms takes far less than its size, on top of what importing takes."""
    code = f"""
        import resource, numpy as np
        from fedica import AtomArray, aggregate
        rng = np.random.default_rng(0)
        K, r, d = 2500, 4, 3200
        file = np.lib.format.open_memmap({str(tmp_path / "atoms.npy")!r}, mode="w+", dtype=np.float64, shape=(K * r, d))
        A = np.linalg.qr(rng.standard_normal((d, r)))[0].T
        for k in range(K):
            file[r * k : r * k + r] = A + 0.002 * rng.standard_normal((r, d))
            if k % 100 == 0:
                file.base.madvise(4)  # MADV_DONTNEED
        file.base.madvise(4)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mapped = np.load({str(tmp_path / "atoms.npy")!r}, mmap_mode="r").T
        result = aggregate(AtomArray(mapped, np.repeat(np.arange(K), r)), r)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, np.abs(A @ result.mixing).max(axis=0).min())
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    grown, found = run.stdout.split()
    assert int(grown) / 1024 < 128
    assert float(found) > 0.99
