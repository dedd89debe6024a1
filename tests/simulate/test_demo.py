"""The demo from start to end, on the real photographs and on small ones."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedica.errors import InputError, MissingExtraError
from fedica.exchange import read_contribution
from fedica.server import METHODS, aggregate
from fedica.simulate.demo import run_demo
from fedica.simulate.photographs import load_photographs


@pytest.fixture(scope="module")
def small():
    """Every second pixel: a quarter of the work."""
    return load_photographs()[:, ::2, ::2]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The demo as everybody runs it."""
    return run_demo(tmp_path_factory.mktemp("demo"))


def test_the_federation_beats_what_it_is_made_of(real):
    """With 5 of 12 clients bad: below every client alone, below the mean, far below pooling the wrong pixels too."""
    error = real.error_of(real.default)
    assert error < 0.03
    assert error < min(client.error for client in real.clients)
    assert error < 0.5 * real.error_of("sf-ica")
    assert error < 0.2 * real.pooled
    assert error < 2 * real.pooled_honest


def test_naive_methods_fail_and_bad_clients_are_bad(real):
    """Columns combined by index mean nothing; a client with a fault is far off, one without is near."""
    assert min(real.error_of("naive-mean"), real.error_of("naive-median")) > 0.5
    assert all(client.error > 0.2 for client in real.clients if client.fault != "none")
    assert all(client.error < 0.15 for client in real.clients if client.fault == "none")


def test_the_server_trusts_the_good_clients_and_no_other(real):
    """It knows the contributions alone, yet tells those without a fault from all others."""
    assert [client.verdict == "trusted" for client in real.clients] == [c.fault == "none" for c in real.clients]


def test_every_method_of_the_server_that_matches_atoms_has_a_row(real):
    """A method that the server learns appears by itself."""
    assert tuple(row.method for row in real.methods) == tuple(name for name, x in METHODS.items() if x.matches_atoms)
    assert real.default in METHODS


def test_the_files_are_the_contributions_that_were_aggregated(real):
    """Twelve small files, one a client; aggregating what they hold gives the error that was reported."""
    paths = sorted(real.contributions.iterdir())
    assert [path.stem for path in paths] == [client.client for client in real.clients]
    assert all(path.stat().st_size == client.sent < 2000 for path, client in zip(paths, real.clients, strict=True))
    received = [read_contribution(path) for path in paths]
    assert aggregate(received, 6).method == real.default
    assert all(contribution.atoms.shape == (6, 6) for contribution in received)


def test_readme_shows_this_result(real):
    """The transcript on the front page has a line for every client and method: errors to their last digit, verdicts.

    An error of 0.5 or more, where nothing is found, depends on the processor's rounding: to 5%.
    """
    readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    for name, error in [*((c.client, c.error) for c in real.clients), *((m.method, m.error) for m in real.methods)]:
        line = re.search(rf"^ {name} .*?(\d\.\d{{4}})", readme, flags=re.MULTILINE)
        assert line is not None, name
        assert float(line[1]) == pytest.approx(error, rel=0.05 if error > 0.5 else 0, abs=1e-4), name
    for client in real.clients:
        assert re.search(rf"^ {client.client} .* {client.verdict}$", readme, flags=re.MULTILINE), client


def test_the_picture_is_legible_and_small(real):
    """A PNG of a sensible size, with more to see than a blank sheet."""
    assert real.picture.stat().st_size < 1_500_000
    with Image.open(real.picture) as picture:
        assert picture.format == "PNG"
        assert 1000 < picture.width < 2000
        grey = np.asarray(picture.convert("L"))
    rows_of_photographs = np.flatnonzero(grey[:, 250:].std(axis=1) > 30)
    assert rows_of_photographs.size > 0.6 * grey.shape[0]


def test_one_random_state_gives_one_result_to_the_byte(small, tmp_path):
    """Contributions, errors and the picture are the same again; only the seconds may differ."""
    one, two = (run_demo(tmp_path / name, photographs=small, random_state=5) for name in "ab")
    assert [replace(row, seconds=0) for row in one.methods] == [replace(row, seconds=0) for row in two.methods]
    assert (one.clients, one.pooled, one.pooled_honest) == (two.clients, two.pooled, two.pooled_honest)
    for path in one.contributions.iterdir():
        assert path.read_bytes() == (two.contributions / path.name).read_bytes()
    assert one.picture.read_bytes() == two.picture.read_bytes()


def test_progress_hears_of_every_client_and_a_second_run_replaces_the_first(small, tmp_path):
    """One text a step; running again into the same folder leaves twelve contributions, not more."""
    heard = []
    first = run_demo(tmp_path, photographs=small, random_state=1)
    second = run_demo(tmp_path, photographs=small, random_state=2, progress=heard.append)
    assert all(any(client.client in text for text in heard) for client in second.clients)
    assert first.contributions == second.contributions
    assert len(list(second.contributions.iterdir())) == 12


def test_an_orthogonal_mixture_is_easier(small, tmp_path):
    """The condition number reaches the mixing matrix: at 1, Algorithm 1 groups what it cannot group at 30."""
    easy, hard = (run_demo(tmp_path, photographs=small, condition=condition) for condition in (1, 30))
    assert easy.error_of("srf-ica") < 0.05 < hard.error_of("srf-ica")


def test_without_matplotlib_it_stops_before_any_work(tmp_path, monkeypatch):
    """The sentence says how to install it; no folder was made."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib.*pip install 'fedica\[demo\]'"):
        run_demo(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused_in_a_sentence(small, tmp_path):
    """A file where the folder should be."""
    (tmp_path / "taken").write_text("something")
    with pytest.raises(InputError, match=r"taken.*cannot be written"):
        run_demo(tmp_path / "taken", photographs=small)
