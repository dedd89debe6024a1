"""Attacks on second messages do what they say, to the attackers alone; and the study that measures them."""

from __future__ import annotations

import numpy as np
import pytest

from fedica import LocalICA, aggregate, score
from fedica.errors import OptionError
from fedica.evaluate import recovery_error
from fedica.simulate import SECOND_ATTACKS, federation, find_second_attack
from fedica.simulate.robustness import Setting
from fedica.simulate.second_study import run_second, second_jobs, second_trial

SMALL = Setting(n_clients=10, n_components=4, condition=3.0, n_samples=400, law="laplace")


def fit(X, name):
    return LocalICA(4, random_state=0).fit(X).contribution(name)


@pytest.fixture(scope="module")
def drawn():
    return federation(10, 4, n_samples=400, law="laplace", condition=3.0, random_state=1)


@pytest.fixture(scope="module")
def first(drawn):
    return aggregate([fit(c.X, c.name) for c in drawn.clients], 4)


@pytest.mark.parametrize("name", SECOND_ATTACKS)
def test_attackers_alone_send_something_else(drawn, first, name):
    """The honest send what they would; first messages differ if the attack is in both, second ones always."""
    attacked = find_second_attack(name)(drawn, 0.3, random_state=2)
    assert np.sum(~attacked.honest) == 3
    for k, client in enumerate(drawn.clients):
        honest, sent = score(client.X, first, client=client.name), attacked.scores(k, first)
        assert np.array_equal(sent.products, honest.products) == attacked.honest[k]
        if k < 4:
            same = np.allclose(attacked.contribution(k, fit).atoms, fit(client.X, client.name).atoms)
            assert same == (attacked.honest[k] or not attacked.attack.both)


@pytest.mark.parametrize("name", SECOND_ATTACKS)
def test_attacks_are_functions_of_the_seed(drawn, first, name):
    """The same attackers send the same."""
    one, again = (find_second_attack(name)(drawn, 0.3, random_state=2) for _ in range(2))
    k = int(np.flatnonzero(~one.honest)[0])
    assert np.array_equal(one.honest, again.honest)
    assert np.array_equal(one.scores(k, first).products, again.scores(k, first).products)


@pytest.mark.parametrize("degrees", [5.0, 20.0])
def test_a_common_turn_has_its_angle(drawn, degrees):
    """The data of attackers has a mixing matrix whose columns are turned by about so many degrees, in the sources."""
    attacked = find_second_attack(f"turned-data:{degrees:g}")(drawn, 0.3, random_state=2)
    k = int(np.flatnonzero(~attacked.honest)[0])
    turn = np.linalg.lstsq(drawn.clients[k].sources, attacked.data[k], rcond=None)[0].T
    in_sources = np.linalg.pinv(drawn.mixing) @ turn
    np.testing.assert_allclose(in_sources.T @ in_sources, np.eye(4), atol=1e-9)
    angles = np.degrees(np.arccos(np.diagonal(in_sources)))
    assert 0.4 * degrees < np.sqrt(np.mean(angles**2)) < 1.6 * degrees


def test_in_order_the_second_message_fits_the_first_but_for_the_turn(drawn, first):
    """Next to no turn: an attacker at the answer has sources that say the same as its own do, only if in order."""
    fitting, other = (
        find_second_attack(f"{name}-answer:0.01")(drawn, 0.3, random_state=2) for name in ("fitting", "turned")
    )
    k = int(np.flatnonzero(~fitting.honest)[0])
    honest = score(drawn.clients[k].X, first, client="k")
    assert np.allclose(fitting.scores(k, first).slopes, honest.slopes, atol=0.01)
    assert not np.allclose(other.scores(k, first).slopes, honest.slopes, atol=0.01)


def test_one_plane_turns_two_components(drawn):
    """By the angle; all others stay."""
    attacked = find_second_attack("turned-plane:30")(drawn, 0.3, random_state=2)
    k = int(np.flatnonzero(~attacked.honest)[0])
    turn = np.linalg.lstsq(drawn.clients[k].sources, attacked.data[k], rcond=None)[0].T
    angles = np.degrees(np.arccos(np.clip(np.diagonal(np.linalg.pinv(drawn.mixing) @ turn), -1, 1)))
    np.testing.assert_allclose(np.sort(angles), [0, 0, 30, 30], atol=1e-5)


def test_loud_and_extreme_attackers_declare_what_they_like(drawn, first):
    """A million times the samples; numbers of the size of the strength."""
    loud, extreme = (
        find_second_attack(name)(drawn, 0.3, random_state=2) for name in ("inflated-turn", "extreme-scores")
    )
    k = int(np.flatnonzero(~loud.honest)[0])
    assert loud.scores(k, first).n_samples == loud.contribution(k, fit).n_samples == 400 * 10**6
    assert extreme.scores(k, first).covariance.max() == 1e12
    assert extreme.contribution(k, fit).n_samples == 400


def test_a_study_measures_every_message():
    """The answer of one message is that of the attacked first messages; honest is honest clients alone."""
    job = second_jobs([SMALL], attacks=["turned-data:40"], shares=[0.3], seeds=[3], rounds=3)[0]
    rows = {row["method"]: row for row in second_trial(job)}
    assert list(rows) == ["one message", "2 messages", "3 messages", "honest"]
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert rows["2 messages"]["recall"] == 1.0
    assert rows["2 messages"]["error"] <= 1.02 * rows["one message"]["error"]
    drawn = federation(10, 4, n_samples=400, law="laplace", condition=3.0, random_state=3)
    attacked = find_second_attack("turned-data:40")(drawn, 0.3, random_state=3)

    def fit_general(X, name):
        return LocalICA(4, mixing="general", random_state=3).fit(X).contribution(name)

    first = aggregate([attacked.contribution(k, fit_general) for k in range(10)], 4)
    assert rows["one message"]["error"] == pytest.approx(recovery_error(first.mixing, drawn.mixing).relative)


def test_a_study_goes_on_where_it_stopped(tmp_path):
    """Rows of finished jobs are read from the file."""
    study = {"path": tmp_path / "rows.csv", "shares": [0.2], "seeds": [0], "n_jobs": 1}
    rows = run_second([SMALL], attacks=["turned-scores"], **study)
    more = run_second([SMALL], attacks=["turned-scores", "extreme-scores"], **study)
    assert [row["seconds"] for row in more[:3]] == [row["seconds"] for row in rows]
    assert len(more) == 6


@pytest.mark.parametrize(
    ("setting", "options", "sentence"),
    [
        (Setting(), {}, "n_samples"),
        (SMALL, {"shares": [0.99]}, "leave an honest client"),
        (SMALL, {"attacks": ["hacking"]}, "'turned-data'.*got 'hacking'"),
        (SMALL, {"rounds": 1}, "rounds"),
    ],
)
def test_impossible_studies_are_refused(setting, options, sentence):
    """Each with what is wrong."""
    with pytest.raises(OptionError, match=sentence):
        second_jobs([setting], **options)
