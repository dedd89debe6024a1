"""What the page computes by itself: angles of atoms, cones, agreement, pictures of components."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from fedica import Contribution, aggregate
from fedica.errors import OptionError
from fedica.report import client_maps
from fedica.report.agreement import chance_of, confidence_cones, likeness_of, over_chance, trust_of, worst_first
from fedica.report.atom_angles import angles_of_atoms
from fedica.report.components import component_cards
from fedica.report.figures.atoms import describe_atoms
from fedica.report.figures.likeness import describe_likeness
from fedica.report.forms import form_of, image_shape
from fedica.report.png import picture, thumbnail
from fedica.report.scalp import BIOSEMI_128, POSITIONS, montage_of, scalp_maps
from fedica.simulate.atoms import atoms_federation
from fedica.simulate.attacks import find_attack


@pytest.fixture(scope="module")
def result():
    """Twelve clients, four of them send random atoms."""
    attacked = find_attack("random-bases")(atoms_federation(12, 5, n_features=7), 0.34, random_state=1)
    return aggregate(attacked.contributions, 5)


def cards_of(result):
    """The components of a result, as the page shows them."""
    return component_cards(result, form_of(result))


def test_atoms_stand_in_the_column_of_their_component_as_high_as_their_angle(result):
    """Whatever their sign; a client has the same place in every column; atoms of none have a column of their own."""
    labels = np.where(np.arange(result.labels.size) == 0, -1, result.labels)
    drawn = angles_of_atoms(replace(result, labels=labels, atoms=-result.atoms))
    known = labels >= 0
    cosine = np.abs(np.einsum("dR,dR->R", result.atoms, result.mixing[:, labels]))
    np.testing.assert_allclose(np.cos(np.radians(drawn.angles[known])), cosine[known], atol=1e-12)
    assert np.array_equal(np.round(drawn.x[known]), labels[known])
    assert round(drawn.x[0]) == result.n_components
    assert drawn.nearest[0] == np.abs(result.mixing.T @ result.atoms[:, 0]).argmax()
    place = drawn.x - np.round(drawn.x)
    for k in range(len(result.clients)):
        assert np.ptp(place[result.client_of_atom == k]) < 1e-12


def test_the_figure_of_atoms_has_a_trace_for_each_verdict_and_both_axes_labelled():
    """Forty clients: every atom is there once, with its client; ticks name the components."""
    forged = find_attack("random-bases")(atoms_federation(40, 6, n_features=9), 0.2, random_state=1)
    found = aggregate(forged.contributions, 6)
    drawn = describe_atoms(found, angles_of_atoms(found))
    medians, *traces = drawn["data"]
    assert {trace["name"] for trace in traces} == set(found.trust.verdict)
    assert len({trace["marker"]["symbol"] for trace in traces}) == len(traces)
    owners = [about[0] for trace in traces for about in trace["customdata"]]
    assert sorted(owners) == sorted(found.client_of_atom.tolist())
    np.testing.assert_allclose(medians["y"], found.spread, atol=1e-3)
    for axis in ("xaxis", "yaxis"):
        assert drawn["layout"][axis]["title"]["text"]
    assert drawn["layout"]["xaxis"]["ticktext"][:6] == list("012345")


def test_a_large_federation_is_thinned_by_whole_clients(result):
    """Every atom of a client or none; in turns those to worry about and any others."""
    drawn = angles_of_atoms(result, most=25)
    kept = set(result.client_of_atom[drawn.shown].tolist())
    assert drawn.shown.size == sum((result.client_of_atom == k).sum() for k in kept) == 25
    assert set(worst_first(trust_of(result))[:2]) <= kept
    assert {"outlying", "trusted"} <= {result.trust.verdict[k] for k in kept}


@pytest.mark.parametrize("method", ["consensus", "srf-ica", "sf-ica"])
def test_cones_hold_the_truth_about_as_often_as_they_say(method):
    """95% of the time; over 40 federations of 12 clients and 5 components between 90 and 100%."""
    inside = []
    for seed in range(40):
        federation = atoms_federation(12, 5, n_features=8, error=0.05, condition=2, random_state=seed)
        found = aggregate(federation.contributions, 5, method=method)
        cones = confidence_cones(found)
        cosine = np.abs(federation.mixing.T @ found.mixing).max(axis=0)
        inside.append(np.degrees(np.arccos(np.minimum(cosine, 1))) <= cones)
    assert 0.9 <= np.mean(inside) <= 1.0


def test_cones_are_not_inflated_by_few_atoms_of_many_features():
    """Ten atoms in 200 dimensions: the error of their mean has nearly one length, spread / sqrt(10)."""
    federation = atoms_federation(10, 4, n_features=200, error=0.0, random_state=0)
    rng = np.random.default_rng(0)
    noisy = [
        Contribution(c.client, c.atoms + 0.007 * rng.standard_normal(c.atoms.shape), 5000, mixing="general")
        for c in federation.contributions
    ]
    found = aggregate(noisy, 4)
    cones = confidence_cones(found)
    np.testing.assert_allclose(cones, found.spread / np.sqrt(10), rtol=0.25)


def test_no_cone_where_it_would_mean_nothing():
    """Few atoms, atoms that cancel, a method that does not centre groups."""
    contributions = atoms_federation(8, 3).contributions
    assert np.isnan(confidence_cones(aggregate(contributions[:4], 3))).all()
    assert np.isnan(confidence_cones(aggregate(contributions, 3, method="naive-mean"))).all()
    found = aggregate(contributions, 3)
    cones = confidence_cones(replace(found, centres=found.centres * [0, 1, 1]))
    assert np.isnan(cones).tolist() == [True, False, False]


def test_exact_atoms_have_a_cone_of_zero():
    """Clients that agree to rounding leave no doubt."""
    found = aggregate(atoms_federation(8, 3, error=0.0).contributions, 3)
    np.testing.assert_allclose(confidence_cones(found), 0, atol=1e-6)


def test_agreement_without_verdicts_comes_from_the_labels(result):
    """The angles are those of the trust, where both know one; nobody is judged."""
    bare = trust_of(replace(result, trust=None))
    both = bare.has & result.trust.has
    assert both.any()
    np.testing.assert_allclose(bare.angles[both], result.trust.angles[both], atol=1e-6)
    assert set(bare.verdict) == {"not judged"}
    assert np.isnan(bare.influence).all()


def test_those_to_worry_about_come_first(result):
    """Outlying, then weak, then trusted; each by angle."""
    order = worst_first(trust_of(result))
    verdicts = [result.trust.verdict[k] for k in order]
    assert verdicts == sorted(verdicts, key=["outlying", "weak", "partial", "trusted"].index)
    outlying = [result.trust.angle[k] for k in order if result.trust.verdict[k] == "outlying"]
    assert outlying == sorted(outlying, reverse=True)


def test_likeness_over_chance_is_zero_at_chance_and_one_at_equality(result):
    """Colours start where chance ends; without verdicts, likeness itself is shown."""
    trust = trust_of(result)
    chance, likeness = chance_of(trust), likeness_of(trust)
    assert (chance > 0).all()
    np.testing.assert_allclose(over_chance(trust), np.clip((likeness - chance[0]) / (1 - chance[0]), 0, 1), atol=1e-12)
    assert over_chance(trust)[likeness <= chance[0]].max(initial=0.0) == 0
    bare = trust_of(replace(result, trust=None))
    np.testing.assert_allclose(over_chance(bare), likeness_of(bare), atol=1e-12)


def test_the_histogram_counts_every_assigned_atom_and_marks_chance(result):
    """One bar for each fiftieth of the cosine; the mark is absent where chance is not known."""
    drawn, bare = describe_likeness(result.trust), describe_likeness(trust_of(replace(result, trust=None)))
    assert sum(drawn["data"][0]["y"]) == (result.trust.angles < 90).sum()
    assert drawn["layout"]["shapes"][0]["x0"] == pytest.approx(chance_of(result.trust)[0])
    assert "shapes" not in bare["layout"]


# --- pictures ---------------------------------------------------------------------------------------------------------


def of_shape(d, features=None, smooth=False):
    """An aggregate of d features, over which the components are smooth or not."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((d, 2))
    if smooth:
        side = int(np.sqrt(d))
        y, x = np.mgrid[:side, :side] / side
        atoms = np.column_stack([np.sin(3 * x).ravel(), np.cos(4 * y).ravel()])
    sent = [
        Contribution(f"c{k}", atoms + 0.01 * rng.standard_normal(atoms.shape), 100, features=features) for k in range(3)
    ]
    return aggregate(sent, 2)


def test_features_are_an_image_when_they_look_like_one():
    """A square of unnamed features that are alike to their neighbours; or names of pixels; or if told."""
    assert image_shape(of_shape(100, smooth=True)) == (10, 10)
    assert image_shape(of_shape(100)) is None  # a hundred unnamed channels
    assert image_shape(of_shape(99)) is None
    assert image_shape(of_shape(100, features=[f"pixel_{i}" for i in range(100)])) == (10, 10)
    assert image_shape(of_shape(12, features=[f"px {i} {j}" for i in range(3) for j in range(4)])) == (3, 4)
    assert image_shape(of_shape(100, features=[f"gene {i}" for i in range(100)], smooth=True)) is None
    assert image_shape(of_shape(99), (9, 11)) == (9, 11)
    assert image_shape(of_shape(100, smooth=True), "no") is None


@pytest.mark.parametrize("image", [(3, 5), (0, 0), "yes"])
def test_an_image_that_does_not_fit_is_refused(image):
    """With the number of features."""
    with pytest.raises(OptionError, match=r"features|'auto'"):
        image_shape(of_shape(16), image)


def test_the_kind_of_picture_follows_the_features():
    """Bars for few, a profile for many, an image, a scalp map."""
    assert cards_of(of_shape(12))[0].kind == "bars"
    assert len(cards_of(of_shape(12))[0].bars) == 12
    profile = cards_of(of_shape(2000))[0]
    assert (profile.kind, len(profile.bars), profile.picture.count("M")) == ("profile", 8, 600)
    values = [abs(bar.value) for bar in profile.bars]
    assert values == sorted(values, reverse=True)
    assert cards_of(of_shape(100, smooth=True))[0].kind == "image"
    channels = ["Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2"]
    assert cards_of(of_shape(10, features=channels))[0].kind == "scalp"


def test_bars_start_in_the_middle_and_stay_inside():
    """Negative to the left, positive to the right, the largest fills its half."""
    bars = cards_of(of_shape(12))[0].bars
    assert max(bar.width for bar in bars) == pytest.approx(50)
    for bar in bars:
        assert bar.left + bar.width <= 100.001
        assert bar.left == pytest.approx(50) if bar.value >= 0 else bar.left + bar.width == pytest.approx(50)


def decode(address):
    """Pixels of a PNG with a palette: (height, width, 4)."""
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    index = lines[:, 1:]
    colours = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    return np.dstack([colours[index], np.where(index == 0, 0, 255)])


def test_pictures_are_blue_white_and_red():
    """The smallest value is blue, zero white, the largest red, what is not known transparent."""
    pixels = decode(picture(np.array([[-2.0, 0.0], [2.0, np.nan]])))
    assert pixels[0, 0].tolist() == [0x05, 0x30, 0x61, 255]
    assert pixels[0, 1].tolist() == [0xF7, 0xF7, 0xF7, 255]
    assert pixels[1, 0].tolist() == [0x67, 0x00, 0x1F, 255]
    assert pixels[1, 1, 3] == 0


def test_large_pictures_are_thinned():
    """A side of 256 pixels at most."""
    assert decode(picture(np.random.default_rng(0).standard_normal((600, 300)))).shape[:2] == (200, 100)


def test_all_zero_is_white():
    """A degenerate component has no colour."""
    assert (decode(picture(np.zeros((2, 2))))[..., :3] == 0xF7).all()


def test_electrodes_sit_where_they_should():
    """Left is left, the front is up, the right half mirrors the left, old names are the new places."""
    assert POSITIONS["cz"] == (0, 0)
    assert POSITIONS["fz"][1] > 0 > POSITIONS["oz"][1]
    assert POSITIONS["c3"][0] < 0 < POSITIONS["c4"][0]
    assert POSITIONS["t3"] == POSITIONS["t7"]
    assert POSITIONS["t6"] == POSITIONS["p8"]
    for left, right in (("fp1", "fp2"), ("f7", "f8"), ("po9", "po10"), ("af3", "af4"), ("p9", "p10")):
        np.testing.assert_allclose(POSITIONS[left], np.array(POSITIONS[right]) * [-1, 1])
    assert len(POSITIONS) >= 74


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2"], 10),
        (["Fc5.", "Fc3.", "Fc1.", "Fcz.", "C3..", "Cz..", "Pz..", "Oz..", "Iz.."], 9),
        (["EEG " + name + "-REF" for name in ["Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4"]], 8),
        (["Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2", "EOG", "ECG"], 10),
        (["Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3"], None),  # too few for a map
        ([f"gene{k}" for k in range(50)], None),
        ([f"{band}{k}" for band in "ABCD" for k in range(1, 33)], 128),  # BioSemi
        ([f"EEG {band}{k}" for band in "ABCD" for k in range(1, 33)] + ["EXG1", "Status"], 128),
        (["T3", "T7", "Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2"], None),  # one place twice
    ],
)
def test_which_features_are_electrodes(names, known):
    """As recorders write them; mostly electrodes, at least eight of them."""
    montage = montage_of(names)
    assert (None if montage is None else montage.index.size) == known


def test_scalp_maps_are_exact_at_the_electrodes():
    """And reproduce what is linear over the head everywhere."""
    names = [
        "Fp1",
        "Fp2",
        "F7",
        "F3",
        "Fz",
        "F4",
        "F8",
        "T7",
        "C3",
        "Cz",
        "C4",
        "T8",
        "P7",
        "P3",
        "Pz",
        "P4",
        "P8",
        "O1",
        "O2",
    ]
    montage = montage_of(names)
    linear = montage.places @ np.array([[1.0], [2.0]])
    (drawn,) = scalp_maps(montage, linear)
    side = np.linspace(-1, 1, drawn.shape[0])
    x, y = np.meshgrid(side, -side)
    known = np.isfinite(drawn)
    np.testing.assert_allclose(drawn[known], (x + 2 * y)[known], atol=1e-6)
    assert np.isnan(drawn[0, 0])


def test_biosemi_caps_have_their_own_places():
    """A1 on top, the front in C, the back in A, left in D; C3 of such a cap is not C3 of the 10-10 system."""
    assert BIOSEMI_128["a1"] == (0, 0)
    assert BIOSEMI_128["c17"][1] > 0.9
    assert BIOSEMI_128["a23"][1] < -0.9
    assert BIOSEMI_128["d23"][0] < -0.9 < 0.9 < BIOSEMI_128["b26"][0]
    cap = montage_of([f"{band}{k}" for band in "ABCD" for k in range(1, 33)])
    np.testing.assert_allclose(cap.places[64 + 2], BIOSEMI_128["c3"])
    assert 1.15 < cap.extent < 1.2  # electrodes below the widest line of the head are inside the map
    maps = scalp_maps(cap, cap.places[:, :1])
    row = maps[0, 32][np.isfinite(maps[0, 32])]
    np.testing.assert_allclose([row[0], row[-1]], [-cap.extent, cap.extent], atol=0.05)


def test_small_pictures_are_the_atoms_that_clients_sent(result):
    """Of each component: each client once, its nearest atom, with the component's sign; most alike first."""
    for a, card in enumerate(cards_of(result)):
        mine = np.flatnonzero(result.labels == a)
        likeness = np.abs(result.mixing[:, a] @ result.atoms[:, mine])
        owners = result.client_of_atom[mine]
        best = {k: likeness[owners == k].max() for k in set(owners.tolist())}
        assert card.n_clients == len(card.clients) == len(best)
        assert [one.likeness for one in card.clients] == sorted(best.values(), reverse=True)
        assert {one.client: one.likeness for one in card.clients} == pytest.approx(best)
    flipped = replace(result, atoms=-result.atoms, signs=-result.signs)
    assert cards_of(flipped)[0].clients == cards_of(result)[0].clients


def test_small_pictures_have_the_colours_of_the_component():
    """The same value has the same colour; what is larger is cut."""
    pixels = decode(thumbnail(np.array([[0.1, 0.2, 5.0, np.nan]]), 0.2, 160))
    assert pixels[0, 1].tolist() == pixels[0, 2].tolist() == [0x67, 0x00, 0x1F, 255]
    assert pixels[0, 0].tolist() != pixels[0, 1].tolist()
    assert pixels[0, 3, 3] == 0


def test_of_many_clients_a_regular_selection_has_small_pictures(monkeypatch):
    """The most and the least alike among them; the page stays small."""
    found = aggregate(atoms_federation(40, 4, n_features=64).contributions, 4)
    monkeypatch.setattr(client_maps, "MAX_BYTES", 40_000)
    cards = cards_of(found)
    for card in cards:
        assert 3 <= len(card.clients) < card.n_clients == 40
        angles = found.trust.angles[:, card.number]
        assert card.clients[0].client == angles.argmin()
        assert card.clients[-1].client == angles.argmax()
    assert sum(len(one.picture) for card in cards for one in card.clients) < 40_000
