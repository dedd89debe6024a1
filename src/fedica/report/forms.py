"""What the features form: bars, a profile, an image, a scalp map, or slices of a volume."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, PathLike
from fedica.errors import OptionError
from fedica.readers.electrodes import electrode_directions
from fedica.records import Aggregate
from fedica.report.scalp import GRID, Montage, flat_position, montage_of, scalp_maps
from fedica.report.slices import Voxels, peak_of, plane_edges, plane_labels, slices_through, voxels_of

ImageShape = tuple[int, int]
MAX_BARS = 24
"""With more features, a profile shows all of them and bars only the largest."""
MIN_IMAGE_SIDE = 8
MIN_SMOOTHNESS = 0.3
"""Least correlation of neighbours for a square number of unnamed features to be taken for pixels."""
_PIXEL = re.compile(r"(?:pixel|pix|px)[\s_-]*(\d+)(?:[\s_,x-]+(\d+))?", flags=re.IGNORECASE)


@dataclass(frozen=True)
class Tick:
    """A word below a picture, at a share of its width."""

    at: float
    text: str
    anchor: str  # of SVG: "start", "middle" or "end"


@dataclass(frozen=True, eq=False)
class Form:
    """How values over the features are shown: as ``kind``, with the places of the features in the picture."""

    kind: str  # "bars", "profile", "image", "scalp" or "slices"
    shape: ImageShape | None = None  # of an image
    montage: Montage | None = None  # of a scalp map
    voxels: Voxels | None = None  # of slices

    def picture(self, values: Array, peak: int | None = None, n_pixels: int = GRID) -> Array:
        """Return values (d,) as a picture (height, width); NaN marks pixels outside.

        peak : the voxel that slices go through, by default where the values are largest. n_pixels : of a scalp map.
        """
        if self.montage is not None:
            return np.asarray(scalp_maps(self.montage, values[:, None], n_pixels)[0])
        if self.voxels is not None:
            return slices_through(self.voxels, values, peak_of(values) if peak is None else peak)
        assert self.shape is not None  # bars and profiles are no pictures
        return values.reshape(self.shape)

    @property
    def axis_titles(self) -> tuple[str, str]:
        """What the horizontal and the vertical axis of the picture show."""
        titles = {"image": ("column", "row"), "scalp": ("left to right", "back to front"), "slices": ("", "")}
        return titles.get(self.kind, ("feature", "value"))

    def ticks(self, peak: int) -> list[Tick]:
        """Return the words below the slices through a voxel, at shares of the picture's width."""
        if self.voxels is None:
            return []
        ticks = []
        labels = plane_labels(self.voxels, peak)
        for (start, end), (left, at, right) in zip(plane_edges(self.voxels), labels, strict=True):
            ticks += [Tick(start, left, "start"), Tick((start + end) / 2, at, "middle"), Tick(end, right, "end")]
        return [tick for tick in ticks if tick.text]


def form_of(aggregate: Aggregate, image: ImageShape | str = "auto", like: PathLike | None = None) -> Form:
    """Return how the components are shown.

    image : height and width of an image, "auto" or "no". like : a recording that has the positions of the electrodes.
    """
    features = aggregate.terms.features
    if like is not None:
        return _form_like(features, like)
    if (shape := image_shape(aggregate, image)) is not None:
        return Form("image", shape=shape)
    if (montage := montage_of(features)) is not None:
        return Form("scalp", montage=montage)
    if (voxels := voxels_of(features, aggregate.terms.grid)) is not None:
        return Form("slices", voxels=voxels)
    return Form("bars" if aggregate.mixing.shape[0] <= MAX_BARS else "profile")


def _form_like(features: Sequence[str] | None, like: PathLike) -> Form:
    """Return a scalp map with the positions that a recording has."""
    positions = {name.strip().lower(): flat_position(*at) for name, at in electrode_directions(like).items()}
    montage = montage_of(features, positions)
    if montage is None:
        n_known = sum(name.strip().lower() in positions for name in features or ())
        raise OptionError(
            f"--like {like}: it must have the positions of at least three quarters of the channels, eight or more, "
            f"each at a place of its own; got those of {n_known} of {len(features or ())}."
        )
    return Form("scalp", montage=montage)


def component_maps(
    aggregate: Aggregate, image: ImageShape | str = "auto", like: PathLike | None = None
) -> tuple[Form, Array] | None:
    """Return how the components are shown and their pictures, (r, height, width); None if they form none."""
    form = form_of(aggregate, image, like)
    if form.kind in ("bars", "profile"):
        return None
    return form, np.array([form.picture(column) for column in aggregate.mixing.T])


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
