"""Second messages as files: the same container, signatures and checks as contributions have."""

from __future__ import annotations

import numpy as np
import pytest

from fedica import Contribution, aggregate, refine, score
from fedica.errors import ContributionError, FormatError
from fedica.exchange import (
    TrustedKeys,
    details_from_bytes,
    details_to_bytes,
    keygen,
    read_aggregate,
    read_folder,
    read_scores,
    read_second_messages,
    read_signing_key,
    scores_from_bytes,
    scores_to_bytes,
    write_aggregate,
    write_folder,
    write_scores,
)
from fedica.exchange.format import Container, parse, serialise
from fedica.exchange.scores import SCORES
from fedica.records import Rejection, Scores

NAMES = ("client", "refines", "n_samples", "components", "study")
ARRAYS = ("scale", "covariance", "products", "slopes")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((4, 3))
    return [rng.laplace(size=(300, 3)) @ mixing.T for _ in range(6)], mixing


@pytest.fixture(scope="module")
def first(data):
    rng = np.random.default_rng(1)
    noisy = [data[1] + 0.05 * rng.standard_normal((4, 3)) for _ in range(6)]
    return aggregate([Contribution(f"c{k}", atoms, 300, study="s") for k, atoms in enumerate(noisy)], 3)


@pytest.fixture(scope="module")
def scores(data, first):
    return [score(X, first, client=f"c{k}") for k, X in enumerate(data[0])]


def changed(data, metadata=None, tensors=None):
    container = parse(data, SCORES, "x")
    return b"".join(serialise({**container.metadata, **(metadata or {})}, {**container.tensors, **(tensors or {})}))


def test_what_is_written_is_read(scores, tmp_path):
    """Every field; the same content gives the same bytes."""
    write_scores(scores[0], tmp_path / "c0.safetensors")
    found = read_scores(tmp_path / "c0.safetensors")
    assert [getattr(found, name) for name in NAMES] == [getattr(scores[0], name) for name in NAMES]
    assert all(np.array_equal(getattr(found, name), getattr(scores[0], name)) for name in ARRAYS)
    assert scores_to_bytes(found) == (tmp_path / "c0.safetensors").read_bytes()


def test_a_message_of_64_components_is_small():
    """Below 80 kilobytes."""
    eye = np.eye(64)
    message = Scores("a", "0" * 64, 100, range(64), np.ones(64), eye, 0.5 * eye, np.full(64, 0.5))
    assert len(scores_to_bytes(message)) < 80_000


@pytest.mark.parametrize(
    ("metadata", "tensors", "sentence"),
    [
        ({"refines": "xyz"}, {}, "64 hexadecimal digits"),
        ({"n_samples": "0"}, {}, "at least 1"),
        ({"n_samples": "-1"}, {}, "whole number"),
        ({"components": "[0,1,1]"}, {}, "distinct"),
        ({"components": "[0,1]"}, {}, "must have shapes"),
        ({"nonlinearity": "cube"}, {}, "nonlinearity 'logcosh'; got 'cube'"),
        ({"format": "fedica.contribution"}, {}, "expected a fedica.scores file"),
        ({}, {"slopes": np.full(3, np.nan)}, "must be finite"),
        ({}, {"slopes": np.ones((3, 3))}, "1 dimensions"),
        ({}, {"covariance": np.full((3, 3), -1.0)}, "positive semidefinite"),
        ({}, {"products": np.full((3, 3), 1e300)}, "standard deviation"),
        ({}, {"atoms": np.ones((3, 3))}, "no tensor 'atoms'"),
    ],
)
def test_damaged_messages_are_refused(scores, metadata, tensors, sentence):
    """In one sentence that begins with the file."""
    with pytest.raises((FormatError, ContributionError), match=sentence) as refused:
        scores_from_bytes(changed(scores_to_bytes(scores[0]), metadata, tensors), source="inbox/c0")
    assert str(refused.value).startswith("inbox/c0")


@pytest.mark.parametrize("name", ["client", "refines", "n_samples", "components", "nonlinearity"])
def test_every_field_is_needed(scores, name):
    """The sentence names the one that is missing."""
    container = parse(scores_to_bytes(scores[0]), SCORES, "x")
    less = {key: value for key, value in container.metadata.items() if key != name}
    with pytest.raises((FormatError, ContributionError), match=f"'{name}'"):
        scores_from_bytes(b"".join(serialise(less, container.tensors)))


def test_signatures_hold_as_for_contributions(scores, tmp_path):
    """Signed and untouched it is read; unsigned, changed, or signed by another it is refused."""
    private, _ = keygen("c0", tmp_path)
    key = read_signing_key(private)
    signed = scores_to_bytes(scores[0], key=key)
    trusted = TrustedKeys({"c0": key.public})
    assert scores_from_bytes(signed, trusted=trusted).client == "c0"
    with pytest.raises(ContributionError, match="signed"):
        scores_from_bytes(scores_to_bytes(scores[0]), trusted=trusted)
    with pytest.raises(ContributionError, match="signature"):
        scores_from_bytes(changed(signed, {"n_samples": "301"}), trusted=trusted)
    with pytest.raises(ContributionError, match="key"):
        scores_from_bytes(signed, trusted=TrustedKeys({"c1": key.public}))


def test_one_bad_file_does_not_stop_the_others(scores, tmp_path):
    """Each is a message or a rejection with its place."""
    for one in scores:
        write_scores(one, tmp_path / f"{one.client}.safetensors")
    (tmp_path / "c3.safetensors").write_bytes(b"junk")
    found = list(read_second_messages(tmp_path))
    assert [x[1].client for x in found if not isinstance(x, Rejection)] == ["c0", "c1", "c2", "c4", "c5"]
    (rejection,) = (x for x in found if isinstance(x, Rejection))
    assert rejection.source.endswith("c3.safetensors")


def test_a_refined_result_is_kept_whole(first, scores, data, tmp_path):
    """In details and in the public file, from which clients score the next round."""
    result = refine(first, scores, min_gain=0.0)
    back = details_from_bytes(details_to_bytes(result)).refinement
    told = vars(result.refinement)
    assert {k: v for k, v in vars(back).items() if k not in ("turned", "scale")} == {
        k: v for k, v in told.items() if k not in ("turned", "scale")
    }
    assert np.array_equal(back.turned, told["turned"])
    assert np.array_equal(back.scale, told["scale"])
    write_aggregate(result, tmp_path / "aggregate.safetensors")
    public = read_aggregate(tmp_path / "aggregate.safetensors")
    assert public.round == 2
    assert np.array_equal(public.scale, result.scale)
    third = [score(X, public, client=f"c{k}") for k, X in enumerate(data[0])]
    assert refine(result, third).refinement.round == 3


def test_a_refined_folder_is_read_back(first, scores, tmp_path):
    """With what the second message changed."""
    result = refine(first, scores, min_gain=0.0)
    write_folder(result, tmp_path / "result")
    assert np.array_equal(read_folder(tmp_path / "result").aggregate.refinement.turned, result.refinement.turned)


def test_a_scale_that_is_none_is_refused(first, scores, tmp_path):
    """Negative deviations, or another number of them."""
    result = refine(first, scores, min_gain=0.0)
    write_aggregate(result, tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes()
    from fedica.exchange import aggregate_from_bytes
    from fedica.exchange.aggregates import AGGREGATE

    container = parse(data, AGGREGATE, "x")
    assert isinstance(container, Container)
    for scale in (-np.ones(3), np.ones(2)):
        bad = b"".join(serialise(container.metadata, {**container.tensors, "scale": scale}))
        with pytest.raises(FormatError, match="3 positive numbers"):
            aggregate_from_bytes(bad)
