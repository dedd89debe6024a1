"""The photographs' federation: what every client holds, what its fault does, and the truth behind it."""

from __future__ import annotations

import socket
import sys

import numpy as np
import pytest

from fedica.errors import InputError, MissingExtraError
from fedica.simulate.photographs import (
    FAULT_OF_CLIENT,
    FAULTS,
    SMALL_SIDE,
    differences,
    load_photographs,
    photograph_federation,
    unmix,
)


@pytest.fixture(scope="module")
def photographs():
    return load_photographs()


@pytest.fixture(scope="module")
def federation(photographs):
    return photograph_federation(photographs, random_state=0)


def clients_with(federation, fault):
    return [client for client in federation.clients if client.fault == fault]


def mixture_of(federation, client):
    top, left, height, width = client.box
    return federation.mixtures[:, top : top + height, left : left + width]


def test_photographs_come_without_a_network(monkeypatch):
    """All six are inside the installed scikit-image."""

    def refuse(*_args, **_kwargs):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refuse)
    assert load_photographs().shape == (6, 512, 512)


def test_the_mixing_matrix_is_general_with_the_condition_asked_for(photographs):
    """Unit columns, not orthogonal, condition number as given."""
    mixing = photograph_federation(photographs, condition=3, random_state=1).mixing
    np.testing.assert_allclose(np.linalg.norm(mixing, axis=0), 1)
    assert np.linalg.cond(mixing) == pytest.approx(3, rel=1e-6)
    assert np.abs(mixing.T @ mixing - np.eye(6)).max() > 0.1


def test_the_true_matrix_unmixes_the_mixtures_exactly(federation):
    """Mixtures are the mixing matrix times the standardised photographs, pixel by pixel."""
    np.testing.assert_allclose(unmix(federation.mixing, federation.mixtures), federation.sources, atol=1e-10)
    np.testing.assert_allclose(federation.sources.mean(axis=(1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(federation.sources.std(axis=(1, 2)), 1)


def test_every_client_holds_another_part_of_the_plane(federation):
    """No pixel belongs to two clients; with whole tiles for those with few pixels, the plane would be covered."""
    held = np.zeros(federation.sources.shape[1:], dtype=int)
    for client in federation.clients:
        top, left, height, width = client.box
        held[top : top + height, left : left + width] += 1
    assert held.max() == 1
    tiles = sum(client.box[2] * client.box[3] for client in federation.clients if client.fault != "few pixels")
    assert held.size * 10 / 12 * 0.98 < tiles < held.size * 10 / 12 * 1.02


def test_seven_clients_are_good_and_every_fault_occurs(federation):
    """The faults of the clients are those of the table, and names are unique and in order."""
    assert tuple(client.fault for client in federation.clients) == FAULT_OF_CLIENT
    assert set(FAULT_OF_CLIENT) == set(FAULTS)
    assert FAULT_OF_CLIENT.count("none") == 7
    assert [client.name for client in federation.clients] == [f"client-{k:02d}" for k in range(1, 13)]


def test_honest_clients_hold_the_mixtures_as_they_are(federation):
    """Good clients, and those with few pixels, see exactly the mixtures in their box."""
    honest = [client for client in federation.clients if client.honest]
    assert len(honest) == 9
    for client in honest:
        np.testing.assert_array_equal(client.pixels, mixture_of(federation, client))
    assert all(client.pixels.shape == (6, SMALL_SIDE, SMALL_SIDE) for client in clients_with(federation, "few pixels"))


def test_wrong_gains_scale_each_channel_by_its_own_factor(federation):
    """One positive factor a channel, not all equal."""
    (client,) = clients_with(federation, "wrong gains")
    ratio = client.pixels / mixture_of(federation, client)
    gains = np.median(ratio, axis=(1, 2))
    np.testing.assert_allclose(client.pixels, gains[:, None, None] * mixture_of(federation, client), rtol=1e-9)
    assert gains.min() > 0
    assert gains.max() / gains.min() > 1.5


def test_swapped_channels_leave_no_channel_in_its_place(federation):
    """The channels are all there, each somewhere else."""
    (client,) = clients_with(federation, "swapped channels")
    true = mixture_of(federation, client)
    place = [next(j for j in range(6) if np.array_equal(client.pixels[i], true[j])) for i in range(6)]
    assert sorted(place) == list(range(6))
    assert all(i != j for i, j in enumerate(place))


def test_noise_is_as_strong_as_stated(federation):
    """Independent noise of standard deviation one half on every pixel."""
    (client,) = clients_with(federation, "noise")
    noise = client.pixels - mixture_of(federation, client)
    assert noise.std() == pytest.approx(0.5, rel=0.01)
    assert np.abs(np.corrcoef(noise.reshape(6, -1)) - np.eye(6)).max() < 0.03


def test_one_random_state_gives_one_federation(photographs, federation):
    """The same seed draws the same matrix and faults; another seed, others."""
    again, other = (photograph_federation(photographs, random_state=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.mixing, federation.mixing)
    for one, two in zip(again.clients, federation.clients, strict=True):
        np.testing.assert_array_equal(one.pixels, two.pixels)
    assert not np.allclose(other.mixing, federation.mixing)


def test_the_record_cannot_be_written_to(federation):
    """A frozen record is frozen all the way down."""
    for array in (federation.mixing, federation.mixtures, federation.sources, federation.clients[4].pixels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_differences_across_and_down_by_hand():
    """Two channels of two by three pixels: four differences across, three down, channels as columns."""
    pixels = np.array([[[1.0, 2, 4], [8, 16, 32]], [[0, 0, 0], [1, 1, 1]]])
    expected = np.array([[1, 2, 8, 16, 7, 14, 28], [0, 0, 0, 0, 1, 1, 1]]).T
    np.testing.assert_array_equal(differences(pixels), expected)


def test_differences_keep_the_mixing_matrix(federation):
    """A linear filter commutes with mixing: differences of mixtures are mixed differences."""
    np.testing.assert_allclose(
        differences(federation.mixtures), differences(federation.sources) @ federation.mixing.T, atol=1e-12
    )


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda p: p[:3], r"shape \(6, height, width\); got \(3, 512, 512\)"),
        (lambda p: p[:, :60, :60], "at least 24 pixels high and wide; pictures of 60 x 60 give tiles of 15"),
        (lambda p: p * np.arange(6)[:, None, None], "none of them constant"),
        (lambda p: np.where(p == p.max(), np.nan, p), "must be finite"),
    ],
)
def test_pictures_that_cannot_be_used_are_refused_in_a_sentence(photographs, spoil, sentence):
    """Too few, too small, constant, or not finite."""
    with pytest.raises(InputError, match=sentence):
        photograph_federation(spoil(photographs), random_state=0)


def test_without_scikit_image_the_sentence_says_how_to_install_it(monkeypatch):
    """The optional part says its name and the command."""
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingExtraError, match=r"scikit-image.*pip install 'fedica\[demo\]'"):
        load_photographs()
