"""Slices: right planes, right way up, an outline, small, and only for features that are voxels."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest

from fedica import Contribution, aggregate
from fedica.readers.voxels import voxel_indices, voxel_names
from fedica.report import plot_components, render_report, write_figures
from fedica.report.components import component_cards
from fedica.report.forms import component_maps, form_of
from fedica.report.slices import GAP, MAX_WIDTH, outline, peak_of, silhouette, slices_through, voxels_of

SHAPE = (5, 6, 7)


@pytest.fixture
def box():
    """All voxels of a box that does not start at the corner of its grid, and values that tell each voxel apart."""
    mask = np.zeros((9, 9, 9), dtype=bool)
    mask[2:7, 1:7, 2:9] = True
    names = voxel_names(mask)
    values = np.arange(1.0, len(names) + 1)
    values[names.index("4,3,7")] = 1000.0
    return voxels_of(names), names, values


def of_voxels(names, n_components=2, seed=0):
    """The aggregate of three clients that agree on random maps."""
    atoms = np.random.default_rng(seed).laplace(size=(len(names), n_components))
    return aggregate([Contribution(f"c{k}", atoms, 100, features=names) for k in range(3)], n_components)


def cards_of(result):
    """The components of a result, as the page shows them."""
    return component_cards(result, form_of(result))


def picture_of(card):
    """Colours of a card's picture: (height, width, 4)."""
    image = pytest.importorskip("PIL.Image")
    data = base64.b64decode(card.picture.removeprefix("data:image/png;base64,"))
    return np.asarray(image.open(io.BytesIO(data)).convert("RGBA"))


def test_names_and_indices_are_inverse():
    """In the order in which a volume gives its voxels; other names are no voxels."""
    mask = np.random.default_rng(0).random(SHAPE) > 0.5
    index = voxel_indices(voxel_names(mask))
    np.testing.assert_array_equal(index, np.argwhere(mask))
    volume = np.random.default_rng(1).random(SHAPE)
    np.testing.assert_array_equal(volume[tuple(index.T)], volume[mask])
    for name in ("1,2", "1,2,3,4", "1, 2, 3", "-1,2,3", "01,2,3", "1.0,2,3", "a,b,c", "1,2,100000", ""):
        assert voxel_indices(["0,0,0", name]) is None
    assert voxel_indices(None) is None


def test_the_slices_are_the_planes_through_the_peak(box):
    """Across i, j and k; the last axis of each points up; one empty voxel around each."""
    voxels, names, values = box
    assert names[peak_of(values)] == "4,3,7"
    volume = np.full((9, 9, 10), np.nan)
    volume[tuple(voxel_indices(names).T)] = values
    drawn = slices_through(voxels, values, peak_of(values))
    nx, ny, nz = (extent + 2 for extent in SHAPE)
    assert drawn.shape == (nz, ny + nx + nx + 2 * GAP)
    np.testing.assert_array_equal(drawn[1:-1, 1 : ny - 1], volume[4, 1:7, 2:9].T[::-1])
    left = ny + GAP
    np.testing.assert_array_equal(drawn[1:-1, left + 1 : left + nx - 1], volume[2:7, 3, 2:9].T[::-1])
    left += nx + GAP
    np.testing.assert_array_equal(drawn[1 : ny - 1, left + 1 : left + nx - 1], volume[2:7, 1:7, 7].T[::-1])
    assert np.isfinite(drawn).sum() == 6 * 7 + 5 * 7 + 5 * 6


def test_the_outline_surrounds_the_mask_and_not_its_holes():
    """Every pixel of it touches the mask from outside."""
    slices = np.full((9, 9), np.nan)
    slices[2:7, 2:7] = 1.0
    slices[4, 4] = np.nan
    line = outline(slices)
    assert silhouette(slices).sum() == 25
    assert line.sum() == 4 * 5
    assert not line[4, 4]
    assert not (line & np.isfinite(slices)).any()


def test_a_picture_has_colours_a_grey_outline_and_nothing_around():
    """The peak is the darkest red; what is outside is transparent."""
    mask = np.ones(SHAPE, dtype=bool)
    truth = np.zeros((mask.sum(), 1))
    truth[voxel_names(mask).index("2,3,4")] = 1.0
    result = aggregate([Contribution(f"c{k}", truth, 9, features=voxel_names(mask)) for k in range(3)], 1)
    (card,) = cards_of(result)
    pixels = picture_of(card)
    assert (card.kind, card.where) == ("slices", "i, j, k = 2, 3, 4")
    assert "three slices" in card.description
    assert "2,3,4 +1" in card.description
    assert pixels[4 - 1 + 1 - 1, 3 + 1].tolist() == [0x67, 0x00, 0x1F, 255]  # height 9: k = 4 is the fourth line
    assert (pixels == [0x67, 0x00, 0x1F, 255]).all(axis=2).sum() == 3
    assert (pixels == [139, 148, 158, 255]).all(axis=2).sum() == 2 * (6 + 7) + 2 * (5 + 7) + 2 * (5 + 6)
    assert pixels[0, 0, 3] == 0


def test_what_is_no_volume_is_shown_otherwise():
    """Few voxels; a name that is none; a grid that no scanner has, whose picture would fill the memory."""
    names = list(voxel_names(np.ones(SHAPE, dtype=bool)))
    assert voxels_of(names) is not None
    assert voxels_of(names[:20]) is None
    assert voxels_of([*names[:-1], "age"]) is None
    assert voxels_of([*names[:-1], "99999,99999,99999"]) is None
    assert cards_of(of_voxels([*names[:-1], "age"]))[0].kind == "profile"


def test_a_fine_grid_is_thinned():
    """A grid of half a millimetre gives a picture of ordinary size."""
    names = [f"{i},{j},{k}" for i in range(0, 380, 40) for j in range(0, 440, 40) for k in range(0, 380, 40)]
    voxels = voxels_of(names)
    drawn = slices_through(voxels, np.arange(1.0, len(names) + 1), len(names) - 1)
    assert drawn.shape[1] <= MAX_WIDTH + 3 * GAP
    assert drawn.shape[0] >= 100


def test_twenty_components_of_a_whole_brain_stay_small():
    """The pictures of 20 noisy maps, the hardest to pack, of 4 mm voxels add less than 0.3 MB to the page."""
    grid = np.indices((45, 54, 45)) / np.array([22, 26.5, 22]).reshape(3, 1, 1, 1) - 1
    names = voxel_names((grid**2).sum(axis=0) < 0.8)
    assert len(names) > 30_000
    result = of_voxels(names, 20)
    cards = cards_of(result)
    assert sum(len(card.picture) for card in cards) < 0.3e6
    assert {card.kind for card in cards} == {"slices"}


def test_page_figures_and_notebook_show_the_slices(tmp_path):
    """All three from the same maps; the page tells how to read them."""
    mask = np.ones(SHAPE, dtype=bool)
    result = of_voxels(voxel_names(mask))
    form, maps = component_maps(result)
    assert form.kind == "slices"
    page = render_report(result)
    assert page.count('<image class="pixels"') == 2
    assert page.count('<img src="data:') == 2 * 3  # the atoms of three clients
    assert "edge of the mask" in page
    heat = plot_components(result).data
    assert [len(trace.z) for trace in heat] == [maps.shape[1]] * 2
    pytest.importorskip("matplotlib")
    files = write_figures(result, tmp_path)
    assert all(file.stat().st_size > 1000 for file in files if file.stem == "components")


# --- left and right ---------------------------------------------------------------------------------------------------

FORWARDS = "5 x 6 x 7 voxels; 3 0 0 -6; 0 3 0 -9; 0 0 3 -3"
MIRRORED = "5 x 6 x 7 voxels; -3 0 0 6; 0 3 0 -9; 0 0 3 -3"
TURNED = "6 x 7 x 5 voxels; 0 0 3 -6; 3 0 0 -9; 0 3 0 -3"


def of_grid(grid, peak, order=(0, 1, 2), flip=False):
    """Slices of one component with a peak at a place of the head, as a grid stores it."""
    mask = np.ones(SHAPE, dtype=bool)
    index = np.argwhere(mask)
    values = 0.1 + 0.01 * index[:, 0] + 0.9 * (index == peak).all(axis=1)
    stored = index * [-1, 1, 1] + [SHAPE[0] - 1, 0, 0] if flip else index[:, order]
    names = [",".join(map(str, at)) for at in stored.tolist()]
    sent = [Contribution(f"c{k}", values[:, None], 9, features=names, grid=grid) for k in range(3)]
    return aggregate(sent, 1)


@pytest.mark.parametrize(
    ("grid", "order", "flip", "voxel"),
    [
        (FORWARDS, (0, 1, 2), False, "4, 3, 5"),
        (MIRRORED, (0, 1, 2), True, "0, 3, 5"),
        (TURNED, (1, 2, 0), False, "3, 5, 4"),
    ],
)
def test_the_same_head_gives_the_same_slices_however_it_is_stored(grid, order, flip, voxel):
    """What is on the right of the head is on the right of the picture, with its place in mm."""
    reference = component_maps(of_grid(FORWARDS, (4, 3, 5)))[1]
    result = of_grid(grid, (4, 3, 5), order, flip)
    np.testing.assert_allclose(component_maps(result)[1], reference, atol=1e-12)
    (card,) = cards_of(result)
    assert card.where == f"x, y, z = 6, 0, 12 mm; voxel {voxel}"
    assert [tick.text for tick in card.ticks] == ["P", "x = 6", "A", "L", "y = 0", "R", "L", "z = 12", "R"]
    page = render_report(result)
    assert "L is the left of the head" in page
    assert "not known" not in page.split('id="components-title"')[1].split("</section>")[0]


def test_without_an_affine_the_page_says_that_sides_are_not_known():
    """Contributions of fedica 0.1.0 may have none; a text that is no grid, or a flat one, is none either."""
    for grid in (None, "whatever", "5 x 6 x 7 voxels; 0 0 0 1; 0 0 0 1; 0 0 0 1"):
        result = of_grid(grid, (4, 3, 5))
        (card,) = cards_of(result)
        assert card.where == "i, j, k = 4, 3, 5"
        assert [tick.text for tick in card.ticks] == ["i = 4", "j = 3", "k = 5"]
        assert "side is left is not known" in render_report(result)


def test_thick_slices_are_drawn_as_thick_as_they_are():
    """Voxels of 3 x 3 x 6 mm: two lines of pixels for each along the third axis."""
    thick = voxels_of(voxel_names(np.ones(SHAPE, dtype=bool)), FORWARDS.replace("0 0 3 -3", "0 0 6 -3"))
    drawn = slices_through(thick, np.ones(5 * 6 * 7), 0)
    assert drawn.shape[0] == 2 * (7 + 2)
    assert np.isfinite(drawn[:, : 6 + 2]).sum() == 6 * 14
