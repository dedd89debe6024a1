"""Federations of people: calibrated to what was measured on real ones."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import OptionError
from fedica.matching import match
from fedica.simulate import PEOPLE, find_attack, people
from fedica.simulate.sheet import Sheet

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
FMRI = {10: (0.16, 0.35, 0.47, 0.62, 0.88), 20: (0.11, 0.36, 0.53, 0.65, 0.79)}
"""Cosines of the maps of forty people at rest to their components, with 10 and with 20 components each."""
TOLERANCE = {10: 0.07, 20: 0.04}
"""One law serves both numbers of components."""


def cosines_to_truth(federation):
    """Cosine of every person's maps to the true components, each to its own: (K, r)."""
    return np.stack([match(c.atoms, federation.mixing).cosines for c in federation.contributions])


def degrees(cosines):
    return np.rad2deg(np.arccos(cosines))


@pytest.fixture(scope="module", params=[10, 20])
def brains(request):
    return [people(40, request.param, random_state=seed) for seed in range(3)]


def test_maps_are_as_like_their_components_as_those_of_real_people(brains):
    """Quantiles of the cosines over all maps, against the truth, near to what was measured."""
    r = brains[0].mixing.shape[1]
    found = np.mean([np.quantile(cosines_to_truth(f), SHARES) for f in brains], axis=0)
    np.testing.assert_allclose(found, FMRI[r], atol=TOLERANCE[r])


def test_people_differ_little_and_maps_much(brains):
    """Median angles of people: 49 to 68 degrees were measured, half of them 56 to 61."""
    medians = np.concatenate([np.median(degrees(cosines_to_truth(f)), axis=1) for f in brains])
    low, middle, high = np.quantile(medians, [0.02, 0.5, 0.98])
    assert low == pytest.approx(49, abs=4)
    assert middle == pytest.approx(59, abs=3)
    assert high == pytest.approx(68, abs=4)


def test_some_components_are_seen_well_and_some_poorly(brains):
    """The spread of a component, the median angle of the maps of it: 39 to 70 degrees were measured."""
    for federation in brains:
        r = federation.mixing.shape[1]
        spreads = [np.median(degrees(np.abs(federation.mixing[:, a] @ federation.honest_atoms(a)))) for a in range(r)]
        assert min(spreads) == pytest.approx(39, abs=8)
        assert max(spreads) == pytest.approx(70, abs=8)


def test_people_have_maps_of_their_own(brains):
    """Of twenty maps 0 to 5 match nothing; a component is missing in half of the people at most."""
    for federation in brains:
        labels = np.stack(federation.labels)
        own = (labels < 0).mean(axis=1)
        assert own.min() == 0
        assert 0.2 <= own.max() <= 0.4
        assert 0.08 < own.mean() < 0.18
        presence = np.mean([(labels == a).any(axis=1) for a in range(labels.shape[1])], axis=1)
        assert 0.3 < presence.min() < 0.75
        assert presence.max() > 0.95


@pytest.mark.parametrize("r", [6, 12, 20])
def test_scalp_maps_are_mostly_20_to_60_degrees_off(r):
    """64 sensors; the deciles of the angles over maps that have a component are 20 and 60 degrees, within 8."""
    angles = []
    for seed in range(4):
        federation = people(30, r, kind="eeg", random_state=seed)
        assert federation.mixing.shape == (64, r)
        angles += [degrees(np.abs(federation.mixing[:, a] @ federation.honest_atoms(a))) for a in range(r)]
    np.testing.assert_allclose(np.quantile(np.concatenate(angles), [0.1, 0.9]), [20, 60], atol=8)


def test_more_samples_give_better_maps():
    """Over people, declared samples and the likeness to the truth rise together; they differ several times."""
    federation = people(60, 20, random_state=1)
    samples = np.array([c.n_samples for c in federation.contributions])
    likeness = np.median(cosines_to_truth(federation), axis=1)
    assert samples.max() > 4 * samples.min()
    assert np.corrcoef(np.log(samples), likeness)[0, 1] > 0.5


def test_maps_are_smooth_and_so_are_their_errors():
    """Neighbouring voxels are alike, in maps and in what remains of them without the component."""
    federation = people(5, 10, random_state=2)
    side = federation.sheet.side
    for k in range(5):
        own = federation.aligned(k)[:, federation.labels[k] >= 0]
        truth = federation.mixing[:, federation.components(k)]
        for maps in (own, own - truth * np.sum(own * truth, axis=0)):
            images = maps.reshape(side, side, -1)
            assert np.corrcoef(images[:, 1:].ravel(), images[:, :-1].ravel())[0, 1] > 0.5


def test_labels_and_signs_are_the_truth(brains):
    """A map is more like its component than a map of one's own is like any; aligned signs are those of the truth."""
    federation = brains[0]
    cosines, others = [], []
    for k in range(40):
        gram = federation.mixing.T @ federation.aligned(k)
        known = federation.labels[k] >= 0
        cosines.append(gram[federation.labels[k][known], np.flatnonzero(known)])
        others.append(np.abs(gram[:, ~known]).max(axis=0))
    assert np.mean(np.concatenate(cosines) > 0) > 0.99
    assert np.median(np.concatenate(cosines)) > 1.5 * np.median(np.concatenate(others))


def test_a_person_is_a_function_of_the_seed_and_its_number():
    """More people do not change the first ones; another seed does."""
    few, many, other = people(3, 6), people(5, 6), people(3, 6, random_state=1)
    for k in range(3):
        np.testing.assert_array_equal(few.contributions[k].atoms, many.contributions[k].atoms)
        assert not np.allclose(few.contributions[k].atoms, other.contributions[k].atoms)


@pytest.mark.parametrize("name", ["flipped-maps", "permuted-channels", "shifted-features", "noise-alone"])
@pytest.mark.parametrize("kind", PEOPLE)
def test_wrecked_people_stand_apart(name, kind):
    """Every one of them is less like the truth than every other person, and most are far less."""
    wrecked = find_attack(name)(people(20, 10, kind=kind, random_state=3), 0.25, random_state=1)
    cosines = np.median(cosines_to_truth(wrecked), axis=1)
    assert cosines[~wrecked.honest].max() < cosines[wrecked.honest].min()
    assert np.median(cosines[~wrecked.honest]) < 0.75 * np.median(cosines[wrecked.honest])


def test_flipping_mirrors_the_sheet():
    """A picture by hand; twice is nothing."""
    sheet = Sheet(3, 1.0)
    maps = np.arange(18.0).reshape(9, 2)
    np.testing.assert_array_equal(sheet.flip(maps)[:3], maps[[2, 1, 0]])
    np.testing.assert_array_equal(sheet.flip(sheet.flip(maps)), maps)


def test_unknown_kinds_are_refused():
    """With those that there are."""
    with pytest.raises(OptionError, match="'fmri', 'eeg'; got 'meg'"):
        people(kind="meg")
