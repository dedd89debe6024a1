"""Figures as PNG and as pages."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from fedica.errors import MissingExtraError, OptionError
from fedica.simulate.plots import Line, Panel, draw_both, draw_html, draw_png, summarise


def rows_of(values, name="sf-ica", x=1):
    return [{"method": name, "x": x, "error": value} for value in values]


@pytest.fixture
def panels():
    x = np.array([10.0, 100.0])
    centre = np.array([0.1, 0.2])
    lines = (Line("srf-ica", x, centre, centre / 2, centre * 2), Line("another", x, centre, centre, centre))
    return [Panel("first", "x", lines, log_x=True), Panel("second", "x", lines[:1])]


def test_lines_are_medians_with_quartiles_or_means():
    """Rows without a number, and of other methods, are left out; x comes in order."""
    rows = [*rows_of([4, 1, 2, 3, 5], x=2), *rows_of([7, float("nan")], x=1), *rows_of([100], "other")]
    median = summarise(rows, "sf-ica", centre="median")
    np.testing.assert_array_equal(median.x, [1, 2])
    np.testing.assert_array_equal(median.centre, [7, 3])
    np.testing.assert_array_equal(median.low, [7, 2])
    np.testing.assert_array_equal(median.high, [7, 4])
    mean = summarise(rows_of([1, 2, 6]), "sf-ica", centre="mean")
    np.testing.assert_array_equal([mean.centre, mean.low, mean.high], [[3], [3], [3]])
    assert median.at(2) == 3
    assert np.isnan(median.at(5))
    with pytest.raises(OptionError, match="got 'mode'"):
        summarise(rows, "sf-ica", centre="mode")


def test_png_is_a_picture(panels, tmp_path):
    """A PNG of a decent size, and the same bytes for the same figure."""
    draw_png(panels, tmp_path / "a.png", title="t", y_label="y")
    draw_png(panels, tmp_path / "b.png", title="t", y_label="y")
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") > 800
    assert data == (tmp_path / "b.png").read_bytes()


def test_page_needs_nothing_else(panels, tmp_path):
    """No script or style comes from elsewhere; titles and lines are in it."""
    draw_html(panels, tmp_path / "a.html", title="All of it", y_label="y")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page)
    for text in ("All of it", "first", "second", "SRF-ICA", "another"):
        assert text in page


def test_without_matplotlib_the_page_is_still_drawn(panels, tmp_path, monkeypatch):
    """The sentence says how to install it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedica\[figures\]'"):
        draw_png(panels, tmp_path / "a.png", title="t", y_label="y")
    files, missing = draw_both(panels, tmp_path / "b.c", title="t", y_label="y")
    assert [f.name for f in files] == ["b.c.html"]
    assert files[0].exists()
    assert "fedica[figures]" in missing
