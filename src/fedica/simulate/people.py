"""Federations of people: nobody has quite the same components, and nobody has all of them.

The maps of a person are ``component + deviation``, scaled to unit norm. A deviation is personal (smooth, and the same
however much is measured), noise (less with more samples) and leakage from the other components. Some components are
seen well by everybody, others poorly; some are present in everybody, others in half of the people. Where a person
lacks a component, it has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.stats import norm

from fedica.arrays import Array, BoolArray, RandomState, check_int, pick, unit
from fedica.records import Contribution
from fedica.simulate.atoms import AtomFederation, all_honest, signed_permutation
from fedica.simulate.settings import client_name
from fedica.simulate.sheet import Sheet
from fedica.simulate.streams import seed_of, stream


@dataclass(frozen=True)
class PeopleLaw:
    """How people differ, calibrated to a kind of recording.

    Parameters
    ----------
    sheet : Sheet
        The features.
    blob_width : float
        Standard deviation of the blobs of a component, in features.
    deviation : float
        Median length of a deviation; the component has length one.
    over_components, over_atoms : float
        Standard deviation of the logarithm of that length, over components and over the atoms of one component.
    rarest : float
        Share of people that have the rarest component; the commonest is present in everybody.
    n_samples : tuple of int
        Fewest and most samples of a person.
    noise_share, leak_share : float
        Shares of the squared deviation that are noise, at the geometric mean of the numbers of samples, and leakage
        from the other components; the rest is personal.
    independence : str
        What the maps' contributions declare.
    """

    sheet: Sheet
    blob_width: float
    deviation: float
    over_components: float
    over_atoms: float
    rarest: float
    n_samples: tuple[int, int]
    noise_share: float
    leak_share: float
    independence: str


PERSONAL_WIDER = 2.0
"""Personal deviations are smoother than noise, by this factor."""
PRESENCE_POWER = 3.0
"""Most components are common: the share of people that lack component i rises with this power of its rank."""

PEOPLE: Mapping[str, PeopleLaw] = MappingProxyType(
    {
        "fmri": PeopleLaw(Sheet(45, 0.9), 2.6, 1.55, 0.4, 0.3, 0.5, (70, 420), 0.4, 0.1, "features"),
        "eeg": PeopleLaw(Sheet(8, 0.5), 1.2, 0.75, 0.3, 0.35, 0.6, (2_000, 40_000), 0.3, 0.2, "samples"),
    }
)
"""The calibrated laws."""


def people(
    n_clients: int = 40, n_components: int = 20, *, kind: str | PeopleLaw = "fmri", random_state: RandomState = 0
) -> AtomFederation:
    """Draw a federation of people, whose maps agree as those of real people do.

    "fmri": 2,025 voxels; the cosines of a person's maps to the true components have the quantiles that were measured on
    forty people at rest (5%, 25%, 50%, 75%, 95%: 0.11, 0.36, 0.53, 0.65, 0.79 with 20 components). "eeg": 64 sensors,
    most maps 20 to 60 degrees from their component.

    Parameters
    ----------
    n_clients : int
        K.
    n_components : int
        r; every person sends as many maps.
    kind : {"fmri", "eeg"} or PeopleLaw
        How people differ.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    AtomFederation
        The contributions and the truth; a map of one's own has the label -1. What goes wrong with people is an attack
        on it, such as ``find_attack("flipped-maps")``.
    """
    k_clients, r = check_int(n_clients, "n_clients", minimum=1), check_int(n_components, "n_components", minimum=1)
    law, seed = kind if isinstance(kind, PeopleLaw) else pick(kind, "kind", PEOPLE), seed_of(random_state)
    components = law.sheet.components(r, law.blob_width, stream(seed, "components"))
    lengths, presence = _visibility(law, r, stream(seed, "visibility"))
    contributions, labels, signs = [], [], []
    for k in range(k_clients):
        rng = stream(seed, "person", k)
        n_samples = int(np.exp(rng.uniform(*np.log(law.n_samples))))
        has = rng.random(r) < presence
        maps = _maps(law, components, has, lengths, n_samples, rng)
        order, sign = signed_permutation(r, rng)
        atoms = (maps * sign)[:, order]
        name = client_name(k, k_clients)
        contributions.append(Contribution(name, atoms, n_samples, independence=law.independence))
        labels.append(np.where(has, np.arange(r), -1)[order])
        signs.append(sign[order])
    return all_honest(contributions, components, labels, signs, law.sheet)


def _visibility(law: PeopleLaw, n_components: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the median length of each component's deviations, and the share of people that have it: (r,) each.

    The quantiles of both laws, in random order: two draws of a federation do not differ in how hard it is.
    """
    ranks = (np.arange(n_components) + 0.5) / n_components
    lengths = law.deviation * np.exp(law.over_components * norm.ppf(ranks))
    presence = 1 - (1 - law.rarest) * ranks**PRESENCE_POWER
    return rng.permutation(lengths), rng.permutation(presence)


def _maps(
    law: PeopleLaw, components: Array, has: BoolArray, lengths: Array, n_samples: int, rng: np.random.Generator
) -> Array:
    """Draw the maps of one person: (d, r), unit columns."""
    r = components.shape[1]
    own = np.concatenate([law.sheet.blobs(law.blob_width, rng) for _ in range(r)], axis=1)
    leak = unit(components @ (rng.standard_normal((r, r)) * (1 - np.eye(r)))) if r > 1 else np.zeros_like(components)
    typical = np.sqrt(np.prod(np.array(law.n_samples, dtype=np.float64)))
    personal_share = 1 - law.noise_share - law.leak_share
    deviation = (
        np.sqrt(law.noise_share * typical / n_samples) * law.sheet.noise(r, rng)
        + np.sqrt(personal_share) * law.sheet.noise(r, rng, wider=PERSONAL_WIDER)
        + np.sqrt(law.leak_share) * leak
    )
    lengths = lengths * np.exp(law.over_atoms * rng.standard_normal(r))
    return unit(np.where(has, components, own) + lengths * deviation)
