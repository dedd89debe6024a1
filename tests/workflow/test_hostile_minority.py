"""With a study and keys, fewer than half of the clients refuse nobody, stop nothing and set no term: through files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fedica import Contribution, Study
from fedica.arrays import unit
from fedica.exchange import keygen, read_folder, read_signing_key, write_contribution
from fedica.workflow import combine

D, R, N_CLIENTS = 8, 3, 9
NAMES = tuple(f"f{i}" for i in range(D))
TRUE = np.linalg.qr(np.random.default_rng(0).laplace(size=(D, R)))[0]
STUDIES = [
    Study("s", NAMES, n_components=R, preprocessing={"reference": "average"}, other_preprocessing="refuse"),
    Study("s", NAMES, n_components=R, preprocessing={"reference": "average"}, grid="2 mm"),
    Study("s", NAMES, independence="features", strengths="yes"),
]
STRENGTHS = {"gram": np.diag([3.0, 2.0, 1.0]), "noise_floor": 0.01}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Private keys by client, and the folder of the public ones."""
    place = tmp_path_factory.mktemp("keys")
    (place / "public").mkdir()
    private = {}
    for k in range(N_CLIENTS):
        secret, public = keygen(f"client-{k}", place / "private")
        (place / "public" / public.name).write_bytes(public.read_bytes())
        private[f"client-{k}"] = read_signing_key(secret)
    return private, place / "public"


def honest_client(k, study, seed):
    """The truth with small errors, as the study asks for it."""
    rng = np.random.default_rng([seed, k])
    order = rng.permutation(D) if k % 2 else np.arange(D)
    atoms = unit(TRUE + 0.05 * rng.standard_normal((D, R)))[order]
    own = STRENGTHS if study.strengths == "yes" else {}
    names = [NAMES[i] for i in order]
    return Contribution(
        f"client-{k}", atoms, 500, study="s", features=names, preprocessing=study.preprocessing, grid=study.grid, **own
    )


@st.composite
def hostile_clients(draw, k):
    """Any directions of any length, any features, anything in any field."""
    d, m = draw(st.sampled_from([D, D, D, 4, 3, 12])), draw(st.integers(1, D))
    m, rng = min(m, d), np.random.default_rng(draw(st.integers(0, 100)))
    plain = rng.standard_normal((d, m))
    atoms = draw(st.sampled_from([plain, np.eye(d)[:, :m], np.repeat(plain[:, :1], m, axis=1), np.sign(plain)]))
    names = [*NAMES, *(f"x{i}" for i in range(8))]
    scale = draw(st.sampled_from([0.0, 1e-300, 1.0, 1e300]))
    fields = {
        "features": st.permutations(names[: draw(st.sampled_from([max(d, D), 16]))]).map(lambda some: some[:d]),
        "gram": st.just(scale * np.eye(m)),
        "mixing": st.sampled_from(["general", "orthogonal"]),
        "independence": st.sampled_from(["samples", "features"]),
        "grid": st.sampled_from(["3 mm", "x" * 1000]),
        "reference": st.just("average"),
        "preprocessing": st.sampled_from([{"reference": "average"}, {"a\u202e": "b" * 9000}]),
        "uncertain": st.just(tuple(range(m))),
        "persons": st.sampled_from([1, 10**17]),
        "serial": st.sampled_from([0, 10**17]),
        "extra": st.just({"note": "x" * 60_000}),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(fields))))
    own = {name: draw(fields[name]) for name in chosen}
    if "gram" in own:
        own["noise_floor"] = draw(st.sampled_from([0.0, 1e-320, 1e308]))
    n_samples, study = draw(st.sampled_from([None, 1, 10**17])), draw(st.sampled_from(["s", "s", "s", "t", None]))
    return Contribution(f"client-{k}", atoms, n_samples, study=study, **own)


def sent_to(inbox, contributions, private):
    inbox.mkdir()
    for n, one in enumerate(contributions):
        write_contribution(one, inbox / f"{n}.safetensors", key=private[one.client])
    return inbox


@given(data=st.data(), study=st.sampled_from(STUDIES), n_hostile=st.integers(1, (N_CLIENTS - 1) // 2))
@settings(max_examples=25, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
def test_a_minority_with_keys_refuses_nobody_and_stops_nothing(tmp_path_factory, keys, data, study, n_hostile):
    """Whatever they send, as many messages as they like: the others count, on the study's terms."""
    private, public = keys
    place = tmp_path_factory.mktemp("run")
    honest = [honest_client(k, study, 1) for k in range(n_hostile, N_CLIENTS)]
    hostile = [one for k in range(n_hostile) for one in data.draw(st.lists(hostile_clients(k), min_size=1, max_size=2))]
    inbox = sent_to(place / "inbox", data.draw(st.permutations([*honest, *hostile])), private)
    combine(inbox, place / "result", study=study, trust_keys=public)
    result = read_folder(place / "result").aggregate
    assert {one.client for one in honest} <= set(result.clients)
    assert all(x.source.startswith(str(inbox)) for x in result.rejected)
    terms = result.terms
    assert (terms.study, terms.independence, terms.mixing) == ("s", study.independence, study.mixing)
    assert (terms.features, terms.grid) == (NAMES, study.grid)
    assert result.method == ("group" if study.strengths == "yes" else "consensus")
    assert np.isfinite(result.mixing).all()
    assert study.n_components in (None, result.n_components)


def test_one_client_with_few_features_and_a_grid_of_its_own_does_not_stop_the_run(tmp_path, keys):
    """Its grid is no term, and it has too few features: it is refused, with its file, and nobody else is."""
    private, public = keys
    study = STUDIES[0]
    honest = [honest_client(k, study, 2) for k in range(1, 5)]
    few = Contribution(
        "client-0", np.eye(2), 500, study="s", features=NAMES[:2], grid="9 mm", preprocessing=study.preprocessing
    )
    result = combine(sent_to(tmp_path / "in", [few, *honest], private), study=study, trust_keys=public).aggregate
    assert result.clients == tuple(one.client for one in honest)
    assert [(x.client, x.kind, x.source) for x in result.rejected] == [
        ("client-0", "too-few-features", str(tmp_path / "in" / "0.safetensors"))
    ]


def test_strengths_that_are_lost_with_features_do_not_undo_the_number_of_components(tmp_path, keys):
    """The method is chosen by the strengths that are left, and the study's number holds for the one that is run."""
    private, public = keys
    study = replace(STUDIES[2], n_components=R)
    whole = [honest_client(k, study, 3) for k in range(5)]
    lacking = [replace(one, atoms=one.atoms[1:], features=one.features[1:]) for one in whole[:2]]
    silent = [replace(honest_client(k, study, 3), gram=None, noise_floor=None) for k in range(5, 7)]
    result = combine(
        sent_to(tmp_path / "in", [*lacking, *whole[2:], *silent], private), study=study, trust_keys=public
    ).aggregate
    assert (result.method, result.options["n_components_from"], result.n_components) == ("consensus", "given", R)
