"""The coordinator's first file: features, and scales that make them comparable."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import InputError, OptionError
from fedica.exchange import read_study
from fedica.workflow import contribute, new_study

NAMES = ("Kalium", "Thrombozyten", "Alter")


@pytest.fixture
def clinic(tmp_path):
    """Laboratory values in their own units: platelets have nearly all of the variance."""
    rng = np.random.default_rng(0)
    values = rng.laplace(size=(4000, 3)) @ rng.standard_normal((3, 3)) * [0.5, 60_000, 12] + [4, 250_000, 60]
    path = tmp_path / "clinic.csv"
    np.savetxt(path, values, delimiter=",", header=",".join(NAMES), comments="", fmt="%.6g")
    return path, values


def test_robust_scales_make_features_comparable(tmp_path, clinic):
    """One over the spread, to two digits; the coordinator is told that all clients see them."""
    path, values = clinic
    study, notes = new_study(tmp_path / "study.json", "lab", data=path, scales="robust")
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(study.scales, 1.349 / (high - low), rtol=0.06)
    assert read_study(tmp_path / "study.json").scales == study.scales
    assert any("tell every client how far each feature is spread" in note for note in notes)


def test_one_feature_with_nearly_all_the_variance_is_noted_with_the_remedy(tmp_path, clinic):
    """Without a study, the sentence names the feature and the command; with its scales nothing is left to note."""
    path, _ = clinic
    alone = contribute(path, client="a")
    assert any("'Thrombozyten' has 100% of the variance" in note and "--scales robust" in note for note in alone.notes)
    study, _ = new_study(tmp_path / "study.json", "lab", data=path, scales="robust")
    assert not any("of the variance" in note for note in contribute(path, client="a", study=study).notes)


def test_scales_from_a_table(tmp_path, clinic):
    """A name and a factor in each row, in any order, below a header or not."""
    table = "Alter;0,1\nThrombozyten;0,00001\nKalium;2\n"
    for k, text in enumerate([table, f"feature;scale\n{table}"]):
        (tmp_path / "scales.csv").write_text(text)
        study, _ = new_study(tmp_path / f"{k}.json", "lab", data=clinic[0], scales=str(tmp_path / "scales.csv"))
        assert study.scales == (2.0, 1e-5, 0.1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Alter,0.1\nKalium,2\n", r"a row for every feature; got 2 columns, and no row for 'Thrombozyten'"),
        ("feature,scale\nAlter,0.1\nThrombozyten,x\nKalium,2\n", "the first is 'x' in row 3"),
        ("Alter,0\nThrombozyten,1\nKalium,2\n", "the scale of 'Alter' must be a number above 0"),
        ("Alter,1,1\nThrombozyten,1,1\nKalium,2,1\n", "got 3 columns"),
    ],
)
def test_tables_of_scales_that_cannot_be_used(tmp_path, clinic, text, complaint):
    """One sentence, and no study."""
    (tmp_path / "scales.csv").write_text(text)
    with pytest.raises(InputError, match=complaint):
        new_study(tmp_path / "s.json", "lab", data=clinic[0], scales=str(tmp_path / "scales.csv"))
    assert not (tmp_path / "s.json").exists()


def test_scales_that_cannot_be(tmp_path, clinic):
    """Robust ones need data; one factor for all and one for each exclude each other."""
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    with pytest.raises(OptionError, match="--from DATA"):
        new_study(tmp_path / "s.json", "lab", names=tmp_path / "names.txt", scales="robust")
    with pytest.raises(OptionError, match="give one of them"):
        new_study(tmp_path / "s.json", "lab", data=clinic[0], scales="robust", scale=2.0)
