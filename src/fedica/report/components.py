"""Each component over the features: as bars, a profile, an image, a scalp map, or slices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.errors import OptionError
from fedica.exchange.tables import feature_names
from fedica.records import Aggregate
from fedica.report.agreement import confidence_cones
from fedica.report.headline import short
from fedica.report.png import outlined_picture, picture
from fedica.report.scalp import montage_of, scalp_maps
from fedica.report.slices import outline, peak_of, slices_through_peak, voxels_of

ImageShape = tuple[int, int]
MAX_BARS = 24
"""With more features, a profile shows all of them and bars only the largest."""
LARGEST_SHOWN = 8
PROFILE_WIDTH, PROFILE_HEIGHT = 600, 120
MIN_IMAGE_SIDE = 8
MIN_SMOOTHNESS = 0.3
"""Least correlation of neighbours for a square number of unnamed features to be taken for pixels."""
_PIXEL = re.compile(r"(?:pixel|pix|px)[\s_-]*(\d+)(?:[\s_,x-]+(\d+))?", flags=re.IGNORECASE)


@dataclass(frozen=True)
class Bar:
    """One feature's value, and left edge and width of its bar, in per cent of the full width."""

    feature: str
    value: float
    left: float
    width: float


@dataclass(frozen=True)
class ComponentCard:
    """One component as the page shows it."""

    number: int
    support: int  # how many clients have it
    spread: float  # median angle of their atoms
    cone: float  # half-angle of its confidence cone; NaN: none
    degenerate: bool  # whether its atoms cancel, so that its direction is meaningless
    kind: str  # how its values are shown: "bars", "profile", "image", "scalp", "slices"
    picture: str  # data URL of the image or map; SVG path of the profile
    description: str  # text alternative of the picture
    where: str  # which voxel the slices go through; empty for other pictures
    bars: tuple[Bar, ...]  # all features, or the largest
    largest: float  # largest absolute value: the end of the colour scale


def component_cards(aggregate: Aggregate, *, image: ImageShape | str = "auto") -> tuple[ComponentCard, ...]:
    """Prepare every component for the page; ``image`` is a shape, "auto" or "no"."""
    names, cones = feature_names(aggregate), confidence_cones(aggregate)
    shape, voxels = image_shape(aggregate, image), voxels_of(aggregate.terms.features)
    kind, pictures = _pictures(aggregate, image)
    cards = []
    for a, values in enumerate(aggregate.mixing.T):
        order = np.argsort(-np.abs(values), kind="stable")[:LARGEST_SHOWN]
        card = ComponentCard(
            number=a,
            support=int(aggregate.support[a]),
            spread=float(aggregate.spread[a]),
            cone=float(cones[a]),
            degenerate=a in aggregate.degenerate,
            kind=kind,
            picture=pictures[a],
            description=_description(kind, a, [names[i] for i in order[:4]], values[order[:4]], shape),
            where="" if voxels is None else "i, j, k = {}, {}, {}".format(*peak_of(voxels, values)),
            bars=_bars(names, values, np.arange(values.size) if kind == "bars" else order),
            largest=float(np.abs(values).max()),
        )
        cards.append(card)
    return tuple(cards)


def image_shape(aggregate: Aggregate, image: ImageShape | str = "auto") -> ImageShape | None:
    """Return height and width if the features are the pixels of an image, otherwise None.

    "auto": they are if their names say so (``pixel_3_7``), or if they have no names, their number is a square and
    neighbours are correlated. "no": they are not.
    """
    d = aggregate.mixing.shape[0]
    if isinstance(image, tuple):
        if image[0] * image[1] != d or min(image) < 1:
            got = " x ".join(map(str, image))
            raise OptionError(f"image must have one pixel per feature: there are {d} features; got {got}.")
        return image
    if image == "no":
        return None
    if image != "auto":
        raise OptionError(f"image must be 'auto', 'no' or (height, width); got {image!r}.")
    side = int(np.sqrt(d))
    square = (side, side) if side**2 == d and side >= MIN_IMAGE_SIDE else None
    if aggregate.terms.features is not None:
        return _named_pixels(aggregate.terms.features, square)
    return square if square is not None and _smoothness(aggregate.mixing, square) >= MIN_SMOOTHNESS else None


def _named_pixels(features: Sequence[str], square: ImageShape | None) -> ImageShape | None:
    found = [_PIXEL.fullmatch(name.strip()) for name in features]
    if not all(found):
        return None
    places = [(int(x[1]), int(x[2])) for x in found if x is not None and x[2] is not None]
    if not places:
        return square
    first, last = places[0], places[-1]
    shape = (last[0] - first[0] + 1, last[1] - first[1] + 1)
    wanted = [(first[0] + i, first[1] + j) for i in range(shape[0]) for j in range(shape[1])]
    return shape if places == wanted and min(shape) > 1 else None


def _smoothness(mixing: Array, shape: ImageShape) -> float:
    """Correlation of neighbouring features over all components: the smaller of the two directions."""
    images = mixing.T.reshape(-1, *shape)
    images = images - images.mean(axis=(1, 2), keepdims=True)
    power = max(float((images**2).mean()), 1e-300)
    down, right = (images[:, 1:] * images[:, :-1]).mean(), (images[:, :, 1:] * images[:, :, :-1]).mean()
    return float(min(down, right)) / power


def component_maps(aggregate: Aggregate, image: ImageShape | str = "auto") -> tuple[str, Array] | None:
    """Return the kind of picture that the features form and the pictures, (r, height, width); None if they form none.

    The kinds are "image" (pixels), "scalp" (electrodes) and "slices" (voxels); NaN marks pixels outside.
    """
    features, columns = aggregate.terms.features, aggregate.mixing.T
    if (shape := image_shape(aggregate, image)) is not None:
        return "image", columns.reshape(-1, *shape)
    if (montage := montage_of(features)) is not None:
        return "scalp", scalp_maps(montage, aggregate.mixing)
    if (voxels := voxels_of(features)) is not None:
        return "slices", np.array([slices_through_peak(voxels, column) for column in columns])
    return None


def _pictures(aggregate: Aggregate, image: ImageShape | str) -> tuple[str, list[str]]:
    """Return how components are shown, and for each the data URL of its picture or the path of its profile."""
    found = component_maps(aggregate, image)
    if found is not None and found[0] == "slices":
        return "slices", [outlined_picture(one, outline(one)) for one in found[1]]
    if found is not None:
        return found[0], [picture(one) for one in found[1]]
    if aggregate.mixing.shape[0] <= MAX_BARS:
        return "bars", [""] * aggregate.n_components
    return "profile", [_profile(column) for column in aggregate.mixing.T]


def _profile(values: Array) -> str:
    """SVG path of vertical strokes from zero; with many features, a stroke spans the extremes of a few."""
    n_strokes = min(values.size, PROFILE_WIDTH)
    edges = np.linspace(0, values.size, n_strokes + 1).astype(int)[:-1]
    scale = (PROFILE_HEIGHT / 2 - 2) / max(float(np.abs(values).max()), 1e-300)
    middle = PROFILE_HEIGHT / 2
    top = middle - scale * np.maximum(np.maximum.reduceat(values, edges), 0)
    bottom = middle - scale * np.minimum(np.minimum.reduceat(values, edges), 0)
    x = (np.arange(n_strokes) + 0.5) * PROFILE_WIDTH / n_strokes
    return "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x, top, bottom, strict=True))


def _bars(names: Sequence[str], values: Array, which: IntArray) -> tuple[Bar, ...]:
    lengths = 50 * np.abs(values) / max(float(np.abs(values).max()), 1e-300)
    lefts = np.where(values < 0, 50 - lengths, 50.0)
    return tuple(Bar(names[i], float(values[i]), float(lefts[i]), float(lengths[i])) for i in which.tolist())


def _description(kind: str, number: int, names: list[str], values: Array, shape: ImageShape | None) -> str:
    forms = {"image": "as an image", "scalp": "as a map of the scalp", "slices": "as three slices through its peak"}
    size = f" of {shape[0]} by {shape[1]} pixels" if shape else ""
    opening = f"Component {number} {forms.get(kind, 'over the features')}{size}."
    if kind == "image":
        return opening
    largest = ", ".join(f"{short(name, 30)} {value:+.2g}" for name, value in zip(names, values, strict=True))
    return f"{opening} Largest: {largest}."
