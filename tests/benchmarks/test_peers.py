"""The page beside other tools: what it measures is what it says, and the code that it shows is the code that ran."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import nibabel
import numpy as np
import peer_tasks
import peer_ways
import peers
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "peers.md"


def cells_of(heading):
    """The table below a heading of the page: for each way, its cells by column."""
    section = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", section, flags=re.MULTILINE)
    head, _, *rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def test_likeness_ignores_order_sign_and_scale_and_sees_what_is_lost():
    maps = np.random.default_rng(0).standard_normal((4, 300))
    shuffled = maps[[2, 0, 3, 1]] * np.array([[-1.0], [5.0], [1e-3], [-2.0]])
    assert peer_tasks.likeness(shuffled, maps) == pytest.approx(1.0)
    assert peer_tasks.likeness(maps[:2], maps) == pytest.approx(0.5, abs=0.1)  # two of four are missing
    assert peer_tasks.likeness(np.zeros((4, 300)), maps) == 0.0


def test_networks_stand_apart():
    maps, mask = peer_tasks.networks(np.random.default_rng(0))
    assert maps.shape == (peer_tasks.N_NETWORKS, mask.sum())
    assert np.abs(np.corrcoef(maps) - np.eye(len(maps))).max() < 0.3


def test_only_the_bad_people_are_flipped():
    maps, mask = peer_tasks.networks(np.random.default_rng(0))
    good, flipped = (
        peer_tasks.brains(maps, mask, condition, np.random.default_rng(1)) for condition in peer_tasks.CONDITIONS[:2]
    )
    for k, (one, other) in enumerate(zip(good, flipped, strict=True)):
        expected = one.get_fdata()[::-1] if k < peer_tasks.N_BAD else one.get_fdata()
        np.testing.assert_array_equal(other.get_fdata(), expected)


def test_artefacts_are_loud_and_only_of_the_bad_people():
    maps, mask = peer_tasks.networks(np.random.default_rng(0))
    images = peer_tasks.brains(maps, mask, peer_tasks.CONDITIONS[2], np.random.default_rng(1))
    loudness = [image.get_fdata().std() for image in images]
    assert min(loudness[: peer_tasks.N_BAD]) > 2 * max(loudness[peer_tasks.N_BAD :])


def test_fedica_survives_flipped_people_and_a_naive_mean_recovers_little():
    maps, mask = peer_tasks.networks(np.random.default_rng(0))
    images = peer_tasks.brains(maps, mask, peer_tasks.CONDITIONS[1], np.random.default_rng(1))
    image_of_mask = nibabel.Nifti1Image(mask.astype(np.uint8), np.eye(4))
    found = peer_ways.brains_fedica(images, image_of_mask, peer_tasks.N_NETWORKS)
    naive = peer_ways.brains_naive(images[:12], image_of_mask, peer_tasks.N_NETWORKS)
    assert peer_tasks.likeness(found, maps) > 0.9
    assert peer_tasks.likeness(naive, maps) < 0.6


def test_lines_of_code_are_counted_without_docstring_comments_and_blanks():
    def way(first, second):
        """Say what it does."""
        import os  # noqa: F401

        # why
        total = (
            first
            + second
        )  # fmt: skip
        return f"""{total}
        and more"""

    assert peers.count_lines(way) == 7


@pytest.mark.parametrize("way", [*peers.BRAINS.values(), *peers.EEG.values()], ids=lambda way: way.__name__)
def test_the_page_shows_the_code_that_runs(way):
    assert f"```python\n{inspect.getsource(way)}```" in PAGE.read_text(encoding="utf-8"), "run make peers again"


def test_the_page_says_of_each_tool_what_its_numbers_say():
    """The words below the tables were written by hand; these are the numbers that they rest on."""
    brains, eeg = cells_of("## Networks"), cells_of("## Components")

    def number(row, column):
        return float(row[column].strip("*"))

    noise = {name: number(row, "twice the noise") for name, row in brains.items()}
    order = ["CanICA", "fedica", "fedica, maps turned together", "fedica, group", "Icasso"]
    assert sorted(order, key=lambda name: noise[name]) == order
    assert brains["fedica, group"]["9 flipped"].startswith("**")
    assert brains["fedica"]["survives"] == brains["fedica, group"]["survives"] == "yes"
    assert abs(number(brains["Icasso"], "all good") - number(brains["fedica, group"], "all good")) < 0.01
    assert number(brains["Icasso"], "9 with artefacts") < 0.1
    assert number(brains["Icasso"], "seconds") <= number(brains["CanICA"], "seconds")
    assert number(brains["CanICA"], "seconds") < number(brains["fedica, group"], "seconds")
    assert number(eeg["fedica"], "electrodes missing") > 0.97 * number(eeg["fedica"], "unseen trials")
    assert eeg["Icasso"]["split halves"].startswith("**")
    assert eeg["fedica"]["unseen trials"].startswith("**")
    assert [name for name, row in eeg.items() if row["electrodes missing"] == "refused"] == [
        "corrmap",
        "Icasso",
        "naive mean",
    ]


def test_a_table_marks_the_best_and_who_survives():
    rows = {
        "fedica": {"all good": 0.9, "9 flipped": 0.88, "9 with artefacts": 0.9, "twice the noise": 0.3, "seconds": 1.0},
        "CanICA": {
            "all good": 0.95,
            "9 flipped": 0.5,
            "9 with artefacts": 0.95,
            "twice the noise": 0.6,
            "seconds": 1.0,
        },
    }
    first, second = peers._table(rows, list(rows["fedica"])[:-1], peers.BRAINS).splitlines()[2:]
    assert first.split("|")[3:7] == [" 0.900 ", " **0.880** ", " 0.900 ", " 0.300 "]
    assert first.endswith("| no | yes |")
    assert second.endswith("| needed | not 9 flipped |")
