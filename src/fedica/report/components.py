"""Each component as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.exchange.tables import feature_names
from fedica.records import Aggregate
from fedica.report.agreement import confidence_cones
from fedica.report.client_maps import ClientMap, client_maps, strokes
from fedica.report.forms import Form, Tick
from fedica.report.headline import short
from fedica.report.png import outlined_picture, picture
from fedica.report.slices import outline, peak_of, where

LARGEST_SHOWN = 8
PROFILE_WIDTH, PROFILE_HEIGHT = 600, 120


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
    explained: float  # share of the variance that it explains; NaN: not told
    degenerate: bool  # whether its atoms cancel, so that its direction is meaningless
    kind: str  # how its values are shown: "bars", "profile", "image", "scalp", "slices"
    picture: str  # data URL of the image or map; SVG path of the profile
    ratio: float  # height of the picture over its width
    description: str  # text alternative of the picture
    where: str  # which voxel the slices go through; empty for other pictures
    ticks: tuple[Tick, ...]  # below slices
    bars: tuple[Bar, ...]  # all features, or the largest
    largest: float  # largest absolute value: the end of the colour scale
    clients: tuple[ClientMap, ...]  # the atoms that clients sent of it, or some of them
    n_clients: int  # how many clients sent one


def component_cards(aggregate: Aggregate, form: Form) -> tuple[ComponentCard, ...]:
    """Prepare every component for the page."""
    names, cones, explained = feature_names(aggregate), confidence_cones(aggregate), aggregate.explained_in_all
    sent = client_maps(aggregate, form)
    cards = []
    for a, values in enumerate(aggregate.mixing.T):
        order = np.argsort(-np.abs(values), kind="stable")[:LARGEST_SHOWN]
        shown, ratio = _picture(form, values)
        card = ComponentCard(
            number=a,
            support=int(aggregate.support[a]),
            spread=float(aggregate.spread[a]),
            cone=float(cones[a]),
            explained=np.nan if explained is None else float(explained[a]),
            degenerate=a in aggregate.degenerate,
            kind=form.kind,
            picture=shown,
            ratio=ratio,
            description=_description(form, a, [names[i] for i in order[:4]], values[order[:4]]),
            where=where(form.voxels, peak_of(values)) if form.voxels else "",
            ticks=tuple(form.ticks(peak_of(values))),
            bars=_bars(names, values, np.arange(values.size) if form.kind == "bars" else order),
            largest=float(np.abs(values).max()),
            clients=sent[a].shown,
            n_clients=sent[a].n_clients,
        )
        cards.append(card)
    return tuple(cards)


def _picture(form: Form, values: Array) -> tuple[str, float]:
    """Return the data URL of a component's picture, or the path of its profile, and height over width."""
    if form.kind == "bars":
        return "", 1.0
    if form.kind == "profile":
        return strokes(
            values, PROFILE_WIDTH, PROFILE_HEIGHT, float(np.abs(values).max())
        ), PROFILE_HEIGHT / PROFILE_WIDTH
    drawn = form.picture(values)
    largest = float(np.abs(values).max())
    address = outlined_picture(drawn, outline(drawn), largest) if form.kind == "slices" else picture(drawn, largest)
    return address, drawn.shape[0] / drawn.shape[1]


def _bars(names: Sequence[str], values: Array, which: IntArray) -> tuple[Bar, ...]:
    lengths = 50 * np.abs(values) / max(float(np.abs(values).max()), 1e-300)
    lefts = np.where(values < 0, 50 - lengths, 50.0)
    return tuple(Bar(names[i], float(values[i]), float(lefts[i]), float(lengths[i])) for i in which.tolist())


def _description(form: Form, number: int, names: list[str], values: Array) -> str:
    forms = {"image": "as an image", "scalp": "as a map of the scalp", "slices": "as three slices through its peak"}
    size = f" of {form.shape[0]} by {form.shape[1]} pixels" if form.shape else ""
    opening = f"Component {number} {forms.get(form.kind, 'over the features')}{size}."
    if form.kind == "image":
        return opening
    largest = ", ".join(f"{short(name, 30)} {value:+.2g}" for name, value in zip(names, values, strict=True))
    return f"{opening} Largest: {largest}."
