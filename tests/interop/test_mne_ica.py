"""Decompositions of MNE as contributions, and an aggregate as one of MNE: the same maps, the same sources."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedica import Study, aggregate, read_aggregate, write_aggregate
from fedica.errors import DataError, InputError
from fedica.evaluate import recovery_error
from fedica.interop import from_mne, matched, to_mne
from fedica.interop.mne_ica import sensor_maps
from fedica.local import recover
from fedica.readers import ReadOptions, as_table
from fedica.server.missing_features import fill_features
from fedica.workflow import apply_global, export

mne = pytest.importorskip("mne")
from eeg_simulated import NAMES, dipole_maps, simulated_raw  # noqa: E402 - needs mne

R = 4
MAPS = dipole_maps(R, seed=2)
LACKING = {"p1": (), "p2": ("Fp1",), "p3": ("O2", "P8"), "p4": ("Cz",), "p5": ("T7", "F7")}


def _recording(seed, maps, lacking=()):
    raw = simulated_raw(maps, seed, n_samples=6000, extra=False)
    raw.set_montage("biosemi64")
    with mne.use_log_level("ERROR"):
        return raw.drop_channels(list(lacking)).filter(1.0, None).set_eeg_reference("average")


@pytest.fixture(scope="module")
def people():
    """Five people with slightly different heads, and the same cap: client -> recording and its ICA."""
    found = {}
    for seed, client in enumerate(LACKING):
        raw = _recording(seed, MAPS + 0.03 * np.random.default_rng(seed).standard_normal(MAPS.shape))
        found[client] = raw, _ica(raw)
    return found


@pytest.fixture(scope="module")
def other_caps():
    """The same people, each with channels of its own."""
    found = {}
    for seed, (client, lacking) in enumerate(LACKING.items()):
        raw = _recording(seed, MAPS + 0.03 * np.random.default_rng(seed).standard_normal(MAPS.shape), lacking)
        found[client] = raw, _ica(raw)
    return found


def _ica(raw, **settings):
    with mne.use_log_level("ERROR"):
        return mne.preprocessing.ICA(R, random_state=0, max_iter=1000, **settings).fit(raw)


def _together(people):
    contributions = [from_mne(ica, client) for client, (_, ica) in people.items()]
    return aggregate(fill_features(contributions).contributions, R)


def _centred(maps):
    return maps - maps.mean(axis=0)


def test_five_people_there_and_back(people, tmp_path):
    """ICA of five people -> aggregate -> ICA -> saved, loaded, applied: the sources equal ours."""
    result = _together(people)
    ordered = [list(result.terms.features).index(name) for name in NAMES]
    alone = [recovery_error(from_mne(ica, "a").atoms, _centred(MAPS)).relative for _, ica in people.values()]
    assert recovery_error(result.mixing[ordered], _centred(MAPS)).relative < 0.6 * min(alone)  # about 1 / sqrt(5)
    for client, (raw, _) in people.items():
        ours = recover(as_table(raw, columns=result.terms.features).values, result.mixing)
        ica = to_mne(result, raw.info, mean=ours.mean)
        ica.save(tmp_path / f"{client}-ica.fif", verbose="ERROR")
        loaded = mne.preprocessing.read_ica(tmp_path / f"{client}-ica.fif", verbose="ERROR")
        theirs = loaded.get_sources(raw).get_data().T
        assert np.abs(theirs - ours.sources).max() < 1e-6 * np.abs(ours.sources).max()
        np.testing.assert_allclose(loaded.get_components(), result.mixing[ordered], atol=1e-12)

        cleaned = loaded.apply(raw.copy(), exclude=[1], verbose="ERROR").get_data().T * 1e6
        by_hand = raw.get_data().T * 1e6 - np.outer(ours.sources[:, 1], result.mixing[ordered, 1])
        np.testing.assert_allclose(cleaned, by_hand, atol=1e-8)
        whole = loaded.apply(raw.copy(), verbose="ERROR").get_data()
        np.testing.assert_allclose(whole, raw.get_data(), atol=1e-15)  # nothing is lost that no component explains


def test_people_with_different_caps(other_caps, tmp_path):
    """Where corrmap refuses: all channels come back, everybody's components are matched, and can be applied."""
    with pytest.raises(ValueError, match="same channel names"):
        mne.preprocessing.corrmap([ica for _, ica in other_caps.values()], (0, 0), plot=False, verbose="ERROR")
    result = _together(other_caps)
    assert set(result.terms.features) == set(NAMES)
    ordered = [list(result.terms.features).index(name) for name in NAMES]
    alone = recovery_error(from_mne(other_caps["p1"][1], "a").atoms, _centred(MAPS)).relative
    assert recovery_error(result.mixing[ordered], _centred(MAPS)).relative < 0.6 * alone
    write_aggregate(result, tmp_path / "aggregate.safetensors")
    for client, (raw, _) in other_caps.items():
        raw.save(tmp_path / f"{client}_raw.fif", fmt="double", verbose="ERROR")
        ours = apply_global(tmp_path / "aggregate.safetensors", tmp_path / f"{client}_raw.fif").recovered
        place = dict(zip([n for n in result.terms.features if n in raw.ch_names], ours.mean, strict=True))
        mean = [place.get(name, 0.0) for name in result.terms.features]
        to_mne(result, raw.info, mean=mean).save(tmp_path / f"{client}-ica.fif", verbose="ERROR")
        ica = mne.preprocessing.read_ica(tmp_path / f"{client}-ica.fif", verbose="ERROR")
        assert ica.ch_names == raw.ch_names
        theirs = ica.get_sources(raw).get_data().T
        assert np.abs(theirs - ours.sources).max() < 1e-6 * np.abs(ours.sources).max()
        anyhow = ica.get_sources(raw.copy().set_eeg_reference(["Pz"], verbose="ERROR")).get_data().T
        np.testing.assert_allclose(anyhow, theirs, atol=1e-6 * np.abs(ours.sources).max())  # blind to the reference


def test_matched_components(other_caps):
    """Every component of everybody, with the component of the aggregate that it is, its sign and its cosine."""
    result = _together(other_caps)
    rows = matched(result)
    assert sorted((row.client, row.atom) for row in rows) == [(client, k) for client in LACKING for k in range(R)]
    found = [row for row in rows if row.component >= 0]
    assert len(found) >= 18
    assert rows[: len(found)] == found  # those that belong to none are last
    assert [row.component for row in found] == sorted(row.component for row in found)
    for row in found:
        raw, ica = other_caps[row.client]
        own = _centred(sensor_maps(ica))[:, row.atom] * row.sign
        places = [list(result.terms.features).index(name) for name in raw.ch_names]
        cosine = np.corrcoef(own, result.mixing[places, row.component])[0, 1]
        assert cosine > 0.9
        assert row.cosine == pytest.approx(cosine, abs=0.05)
        assert row.nearest == row.component


def test_an_atom_that_belongs_to_none_is_told_with_what_it_is_nearest_to(people):
    """Somebody with a component of its own: listed last, with its cosine to the nearest."""
    contributions = [from_mne(ica, client) for client, (_, ica) in people.items()]
    odd = np.array(contributions[0].atoms)
    towards = int(np.argmax(np.abs(odd[:, 1:].T @ odd[:, 0]))) + 1
    odd[:, 0] = np.random.default_rng(0).standard_normal(len(odd)) + 3.0 * odd[:, towards]
    result = aggregate([replace(contributions[0], atoms=odd), *contributions[1:]], R)
    rows = matched(result)
    assert (rows[-1].client, rows[-1].atom, rows[-1].component) == ("p1", 0, -1)
    assert [row.component for row in rows].count(-1) == 1
    own = next(row for row in rows if row.client == "p1" and row.atom == towards)
    assert rows[-1].nearest == own.component
    direction = odd[:, 0] / np.linalg.norm(odd[:, 0])
    assert rows[-1].cosine == pytest.approx(rows[-1].sign * direction @ result.mixing[:, rows[-1].nearest])
    assert 0 < rows[-1].cosine < own.cosine


def test_real_people(require):
    """Five people with eight electrodes: their decompositions, together, applied to each of them."""
    from fedica.datasets import fetch_eeg_five
    from fedica.datasets.archive import data_folder

    require("the real data sets", (data_folder() / "pyntbci-1.8.3" / "thielen2021_sub-05.npz").is_file())
    raws = {}
    for client, recording in fetch_eeg_five().items():
        info = mne.create_info(list(recording.channels), recording.sfreq, "eeg")
        with mne.use_log_level("ERROR"):
            raw = mne.io.RawArray(np.asarray(recording.data[:24000].T, dtype=float), info).filter(1.0, None)
            raws[client] = raw.set_eeg_reference("average")
    people = {client: (raw, _ica(raw)) for client, raw in raws.items()}
    result = _together(people)
    assert result.support[0] == 5  # real heads differ, but something is everybody's
    for raw in raws.values():
        ours = recover(as_table(raw, columns=result.terms.features).values, result.mixing)
        theirs = to_mne(result, raw.info, mean=ours.mean).get_sources(raw).get_data().T
        assert np.abs(theirs - ours.sources).max() < 1e-6 * np.abs(ours.sources).max()


def test_a_client_with_fewer_components(people):
    """The columns that its own atoms match, as the recovery of a client takes them."""
    result = _together(people)
    raw, _ = people["p1"]
    X = as_table(raw, columns=result.terms.features).values
    ours = recover(X, result.mixing, atoms=result.mixing[:, [2, 0]])
    assert ours.labels.tolist() == [0, 2]
    ica = to_mne(result, raw, components=ours.labels, mean=ours.mean)
    theirs = ica.get_sources(raw).get_data().T
    np.testing.assert_allclose(theirs, ours.sources, atol=1e-6 * np.abs(ours.sources).max())


def test_from_the_public_file_and_one_component(people, tmp_path):
    """What a client gets back is enough; also one component alone can be saved and loaded."""
    result = _together(people)
    write_aggregate(result, tmp_path / "aggregate.safetensors")
    raw, _ = people["p2"]
    ica = to_mne(read_aggregate(tmp_path / "aggregate.safetensors"), raw.info, components=[1])
    ica.save(tmp_path / "one-ica.fif", verbose="ERROR")
    loaded = mne.preprocessing.read_ica(tmp_path / "one-ica.fif", verbose="ERROR")
    own = recover(as_table(raw, columns=result.terms.features).values, result.mixing[:, [1]])
    theirs = loaded.get_sources(raw).get_data().T
    np.testing.assert_allclose(theirs - theirs.mean(), own.sources, atol=1e-6 * np.abs(own.sources).max())
    assert loaded.method == "fedica"


def test_it_can_be_plotted(people):
    """As any other ICA of MNE."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = to_mne(_together(people), people["p1"][0].info).plot_components(show=False, verbose="ERROR")
    assert len(figure.axes) >= R
    plt.close("all")


def _of_several_types():
    """EEG and both types of MEG in SI units, mixed by known maps in microvolts, fT and fT/cm."""
    rng = np.random.default_rng(5)
    types = ["eeg"] * 8 + ["mag"] * 6 + ["grad"] * 6
    per_si = np.array([{"eeg": 1e6, "mag": 1e15, "grad": 1e13}[kind] for kind in types])
    maps = (
        rng.standard_normal((20, R)) * np.array([{"eeg": 20, "mag": 400, "grad": 40}[kind] for kind in types])[:, None]
    )
    data = maps @ rng.laplace(size=(R, 6000)) / per_si[:, None]
    info = mne.create_info([f"{kind} {k}" for k, kind in enumerate(types)], 200.0, types)
    with info._unlock():
        info["highpass"] = 1.0
    return mne.io.RawArray(data, info, verbose="ERROR"), maps


@pytest.mark.parametrize("with_noise_cov", [False, True])
def test_maps_are_in_sensor_units(with_noise_cov, tmp_path):
    """MNE scales each type, or whitens by a covariance; the atoms are as if the data in our units had been fitted."""
    raw, maps = _of_several_types()
    noise_cov = mne.make_ad_hoc_cov(raw.info, verbose="ERROR") if with_noise_cov else None
    ica = _ica(raw, noise_cov=noise_cov)
    contribution = from_mne(ica, "a", reference="keep")
    assert recovery_error(contribution.atoms, maps).relative < 0.06
    ica.save(tmp_path / "a-ica.fif", verbose="ERROR")
    loaded = mne.preprocessing.read_ica(tmp_path / "a-ica.fif", verbose="ERROR")
    np.testing.assert_allclose(from_mne(loaded, "a", reference="keep").atoms, contribution.atoms, atol=1e-10)

    result = aggregate([contribution], R)
    values = as_table(raw, options=ReadOptions(channel_types="eeg,meg", reference="keep")).values
    ours = recover(values, result.mixing)
    theirs = to_mne(result, raw.info, mean=ours.mean).get_sources(raw).get_data().T
    np.testing.assert_allclose(theirs, ours.sources, atol=1e-6 * np.abs(ours.sources).max())


def test_what_a_contribution_says(people):
    """Channels, samples, method; component k is atom k, up to its length."""
    raw, ica = people["p3"]
    contribution = from_mne(ica, "p3")
    assert (contribution.features, contribution.n_samples) == (tuple(raw.ch_names), raw.n_times)
    assert (contribution.solver, contribution.independence, contribution.mixing) == (
        "mne fastica",
        "samples",
        "general",
    )
    maps = _centred(ica.get_components())  # one type of channels: MNE's scale does not matter
    np.testing.assert_allclose(contribution.atoms, maps / np.linalg.norm(maps, axis=0), atol=1e-12)


def test_the_reference_of_the_recording_does_not_matter(people):
    """The same person referenced to Cz: the same atoms, unless the reference is kept."""
    raw, ica = people["p4"]
    to_cz = raw.copy().set_eeg_reference(["Cz"], verbose="ERROR")
    other = _ica(to_cz.pick([name for name in NAMES if name != "Cz"]))
    same = [name for name in NAMES if name != "Cz"]
    first = from_mne(_ica(raw.copy().pick(same)), "a")
    assert recovery_error(from_mne(other, "b").atoms, first.atoms).relative < 0.02
    assert recovery_error(from_mne(other, "b", reference="keep").atoms, first.atoms).relative > 0.2
    assert np.abs(from_mne(ica, "p4").atoms.sum(axis=0)).max() < 1e-9


def test_units_and_scales_of_a_study(people):
    """A contribution in the study's terms, and back: the sources are those of the study's data."""
    raw, ica = people["p5"]
    scales = np.linspace(0.5, 2.0, len(NAMES))
    study = Study("s", NAMES, units=["mV"] * len(NAMES), scales=scales.tolist())
    contribution = from_mne(ica, "p5", study=study)
    assert (contribution.study, contribution.features) == ("s", tuple(NAMES))
    plain = from_mne(ica, "p5").atoms * scales[:, None]
    np.testing.assert_allclose(contribution.atoms, plain / np.linalg.norm(plain, axis=0), atol=1e-12)
    result = aggregate([contribution], R)
    X = as_table(raw, columns=NAMES, units=dict.fromkeys(NAMES, "mV")).values * scales
    ours = recover(X, result.mixing)
    theirs = to_mne(result, raw.info, mean=ours.mean, study=study).get_sources(raw).get_data().T
    np.testing.assert_allclose(theirs, ours.sources, atol=1e-6 * np.abs(ours.sources).max())


def test_refusals(people):
    """Not fitted, no ICA, no channels in common, fewer channels than components."""
    raw, ica = people["p1"]
    with pytest.raises(InputError, match="client 'a': its ICA is not fitted"):
        from_mne(mne.preprocessing.ICA(R), "a")
    with pytest.raises(InputError, match=r"an mne\.preprocessing\.ICA was expected, got RawArray"):
        from_mne(raw, "a")
    with pytest.raises(InputError, match="none of the channels of study 's'"):
        from_mne(ica, "a", study=Study("s", ["E1", "E2"]))
    bare = ica.copy()
    bare.info = None
    with pytest.raises(InputError, match=r"Give them with info=raw\.info"):
        from_mne(bare, "a")
    np.testing.assert_array_equal(from_mne(bare, "a", info=raw.info).atoms, from_mne(ica, "a").atoms)
    result = _together(people)
    with pytest.raises(DataError, match="the recording has 2 of the aggregate's 19 features"):
        to_mne(result, raw.copy().pick(["Cz", "Pz"]).info)
    with pytest.raises(InputError, match="distinct numbers from 0 to 3"):
        to_mne(result, raw.info, components=[4])
    with pytest.raises(DataError, match="mean must be 19 finite numbers"):
        to_mne(result, raw.info, mean=[0.0])
    with pytest.raises(InputError, match="does not name its features"):
        to_mne(aggregate([from_mne(ica, "a").__class__("a", np.eye(4), 5)], R), raw.info)


def test_more_components_than_the_recording_has_directions(people, tmp_path):
    """Seven channels on their average have six: MNE fits seven components all the same, whose maps are rounding."""
    raw = people["p1"][0].copy().pick(people["p1"][0].ch_names[:7])
    with mne.use_log_level("ERROR"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ica = mne.preprocessing.ICA(7, random_state=0, max_iter=100).fit(raw.set_eeg_reference("average"))
        enough = mne.preprocessing.ICA(6, random_state=0, max_iter=100).fit(raw)
        ica.save(tmp_path / "seven-ica.fif")
        again = mne.preprocessing.read_ica(tmp_path / "seven-ica.fif")
    for fitted in (ica, again):
        with pytest.raises(InputError, match=r"has 7 components, but .* has 6 independent .* with n_components=6"):
            from_mne(fitted, "a")
    assert from_mne(enough, "a").n_atoms == 6


def test_nothing_of_a_person_is_in_the_exported_file(tmp_path, people):
    """--like gives channels, places and the rate: no name, birthday, date, description, device or projection."""
    raw = people["p1"][0].copy()
    raw.info["description"], raw.info["experimenter"] = "PLANTED-description", "PLANTED-experimenter"
    raw.info["subject_info"] = {
        "his_id": "PLANTED-his-id",
        "last_name": "PLANTED-last",
        "first_name": "PLANTED-first",
        "birthday": datetime.date(1913, 12, 19),
        "sex": 1,
    }
    raw.info["device_info"] = {"type": "PLANTED-type", "model": "PLANTED-model", "serial": "PLANTED-serial"}
    raw.info["helium_info"] = None
    with raw.info._unlock():
        raw.info["proj_name"], raw.info["utc_offset"] = "PLANTED-project", "+11:47"
        raw.info["line_freq"] = 50.0
    raw.set_meas_date(datetime.datetime(2013, 7, 6, 5, 4, 3, tzinfo=datetime.UTC))
    raw.set_annotations(mne.Annotations([1.0], [1.0], ["PLANTED-annotation"]))
    raw.set_eeg_reference(projection=True, verbose="ERROR")
    raw.save(tmp_path / "person_raw.fif", verbose="ERROR")
    write_aggregate(_together(people), tmp_path / "aggregate.safetensors")
    export(tmp_path / "aggregate.safetensors", tmp_path / "group-ica.fif", like=tmp_path / "person_raw.fif")
    assert b"PLANTED" not in (tmp_path / "group-ica.fif").read_bytes()
    info = mne.preprocessing.read_ica(tmp_path / "group-ica.fif", verbose="ERROR").info
    assert info["meas_date"] is None
    assert not info["projs"]
    for field in ("subject_info", "experimenter", "description", "device_info", "proj_name", "dig", "utc_offset"):
        assert not info[field], field
    for name in info.ch_names:
        np.testing.assert_allclose(
            info["chs"][info.ch_names.index(name)]["loc"], raw.info["chs"][raw.ch_names.index(name)]["loc"], atol=1e-6
        )
    assert info["sfreq"] == raw.info["sfreq"]


def test_strengths_of_an_ica_of_mne_give_the_covariance_of_the_recording(people):
    """At the rank that was fitted, in microvolts, to 1e-6; they leave only if asked for."""
    raw, ica = people["p1"]
    sent = from_mne(ica, "p1", strengths=True)
    X = 1e6 * raw.get_data().T
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    wanted = vectors[:, -R:] * values[-R:] @ vectors[:, -R:].T
    rows = [list(sent.features).index(name) for name in raw.ch_names]
    found = (sent.atoms @ sent.gram @ sent.atoms.T)[np.ix_(rows, rows)]
    assert np.linalg.norm(found - wanted) < 1e-6 * np.linalg.norm(wanted)
    assert from_mne(ica, "p1").gram is None
