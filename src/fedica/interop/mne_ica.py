"""To and from `mne.preprocessing.ICA`: fitted decompositions become contributions, an aggregate becomes one again.

MNE scales every type of channels to variance one (or whitens by a covariance of the noise) before it fits, so that the
maps that it holds are not in the units of the sensors. Here they are: microvolts, fT and fT/cm, as readers give them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import svd

from fedica.arrays import Array, check_choice, unit_of_any_scale
from fedica.errors import DataError, InputError
from fedica.exchange import PublicAggregate
from fedica.formats import REFERENCES
from fedica.local.recover import check_mean
from fedica.readers.channels import unit_of
from fedica.readers.mne_quiet import import_mne
from fedica.readers.reference import restrict_to_channels
from fedica.readers.units import scale_of
from fedica.records import Aggregate, Contribution, Study

RANK_TOLERANCE = 1e-11
"""A principal direction with less than this share of the variance of the first is rounding, of single precision too."""


def from_mne(
    ica: Any,
    client: str,
    *,
    info: Any = None,
    reference: str = "average",
    study: Study | None = None,
    strengths: bool = False,
) -> Contribution:
    """Take a fitted ICA of MNE as the contribution of one client: its scalp maps are the atoms, in its order.

    Existing fits can so be aggregated without refitting, also of different caps: `fedica.fill_features` fills what some
    lack. `matched` then tabulates which subject's component corresponds to which.

    Parameters
    ----------
    ica : mne.preprocessing.ICA
        Fitted to continuous data or epochs, with any method, on one or several types of channels.
    client : str
        Name of the client: a person, a hospital.
    info : mne.Info, optional
        Types of the channels, for a decomposition that was saved without them.
    reference : {"average", "keep"}
        EEG maps are brought to the average over their channels, so that those of recordings with different references
        can be compared, or kept as they are. MNE's corrmap, which correlates maps, ignores the reference too.
    study : Study, optional
        What the clients agreed on: its features that this client has, in its units and scales.
    strengths : bool
        Whether ``gram`` goes along, as in `LocalICA.contribution`. MNE keeps the variances of the principal components
        that it fitted; there is no noise floor, for MNE scales the channels before it computes them.

    Returns
    -------
    Contribution
        With the names of the channels as features; atom k is component k of ``ica``.
    """
    mne = import_mne("a decomposition of MNE")
    check_choice(reference, "reference", REFERENCES)
    if not isinstance(ica, mne.preprocessing.ICA):
        raise InputError(f"client {client!r}: an mne.preprocessing.ICA was expected, got {type(ica).__name__}.")
    if ica.current_fit == "unfitted":
        raise InputError(f"client {client!r}: its ICA is not fitted. Fit it first: ica.fit(raw).")
    _check_rank(ica, client)
    names = tuple(str(name) for name in ica.ch_names)
    types = _types_of(mne, ica.info if info is None else _info(info), names, client)
    maps = sensor_maps(ica)
    if study is not None:
        rows = [names.index(name) for name in study.features if name in set(names)]
        if not rows:
            raise InputError(f"client {client!r}: its ICA has none of the channels of study {study.id!r}.")
        maps, names, types = maps[rows], tuple(names[k] for k in rows), [types[k] for k in rows]
    eeg = np.array([kind == "eeg" for kind in types])
    if reference == "average" and eeg.sum() > 1:
        maps[eeg] -= maps[eeg].mean(axis=0)
    factors = _factors(names, types, study)
    maps = maps * factors[:, None]
    levelled = reference == "average" and bool(eeg.all()) and float(np.ptp(factors)) == 0.0
    return Contribution(
        client,
        unit_of_any_scale(maps),
        getattr(ica, "n_samples_", None),
        gram=_gram(ica, np.linalg.norm(maps, axis=0)) if strengths else None,
        features=names,
        solver=f"mne {ica.method}",
        independence="samples",
        mixing="general",
        study=None if study is None else study.id,
        reference="average" if levelled else None,
    )


def _check_rank(ica: Any, client: str) -> None:
    """Refuse a fit of more components than the recording has directions: all of its maps are then rounding errors."""
    variances = np.asarray(ica.pca_explained_variance_)[: ica.n_components_]
    rank = int(np.count_nonzero(variances > RANK_TOLERANCE * variances.max()))
    if rank < ica.n_components_:
        raise InputError(
            f"client {client!r}: its ICA has {ica.n_components_} components, but the recording that it was fitted to "
            f"has {rank} independent directions (an average reference or an interpolated channel takes one each). Fit "
            f"it again with n_components={rank}."
        )


def _gram(ica: Any, norms: Array) -> Array:
    """Return G such that atoms G atoms' is the covariance of the recording at as many dimensions as were fitted.

    norms : (r,), of the maps in the units of the atoms. A map is a sum of principal directions, whose variances MNE
    keeps: in the coordinates of the maps, the covariance is M^-1 diag(variances) M^-T.
    """
    variances = np.asarray(ica.pca_explained_variance_[: norms.size]) * (1 - 1 / ica.n_samples_)  # MNE: of n - 1
    half = norms[:, None] * np.linalg.solve(ica.mixing_matrix_, np.diag(np.sqrt(variances)))
    return np.asarray(half @ half.T)


def sensor_maps(ica: Any) -> Array:
    """Return what each component of a fitted ICA adds to each channel, (n_channels, n_components), in SI units."""
    maps = np.asarray(ica.get_components(), dtype=np.float64)
    whitener = np.asarray(ica.pre_whitener_, dtype=np.float64)
    if ica.noise_cov is None:
        return np.asarray(maps * whitener.reshape(len(maps), -1)[:, :1])  # one factor per channel
    return np.asarray(np.linalg.pinv(whitener, rcond=1e-14) @ maps)  # as MNE itself undoes it


def to_mne(
    aggregate: Aggregate | PublicAggregate,
    info: Any,
    *,
    components: Sequence[int] | None = None,
    mean: ArrayLike | None = None,
    study: Study | None = None,
) -> Any:
    """Give an aggregate back as a fitted ICA of MNE: to plot, to save as ``-ica.fif``, to apply to a recording.

    ``ica.get_sources(raw)`` are the sources that `fedica.local.recover` finds on the same data, with the same scale and
    sign; ``ica.apply(raw, exclude=[k])`` removes component k, and keeps what no component explains. Apply it to
    data prepared as for the contributions: high-passed, and with the average reference unless that was kept.

    Parameters
    ----------
    aggregate : Aggregate or PublicAggregate
        With the names of the channels as features.
    info : mne.Info, mne.io.Raw or mne.Epochs
        Channels of the recordings that the ICA is for, and their places; nothing else of it is kept. Where it lacks
        some features, the ICA is of the others; it must have at least as many as there are components.
    components : sequence of int, optional
        Which components; by default all, so that component k of the ICA is component k of the aggregate.
    mean : array-like of shape (n_features,), optional
        Mean of the features in the units of the aggregate, ``recover(...).mean`` for one; by default zero, which
        high-passed data has.
    study : Study, optional
        The study, if the aggregate is of one: its units and scales.

    Returns
    -------
    mne.preprocessing.ICA
        Fitted, with ``method`` "fedica".
    """
    mne = import_mne("a decomposition of MNE")
    features = aggregate.terms.features or (study.features if study else None)
    if features is None:
        raise InputError("the aggregate does not name its features, so they cannot be found among the channels.")
    whole = _info(info)
    place = {name: k for k, name in enumerate(features)}
    names = tuple(name for name in whole.ch_names if name in place)  # MNE needs them in the order of the recording
    rows = [place[name] for name in names]
    mixing = np.array(aggregate.mixing, dtype=np.float64)
    # In an Aggregate these are numbers of components, in a PublicAggregate one truth value per component.
    mixing[:, np.asarray(aggregate.degenerate)] = 0.0
    chosen = _check_components(range(mixing.shape[1]) if components is None else components, mixing.shape[1])
    if len(names) < len(chosen):
        raise DataError(
            f"{len(chosen)} components are wanted of at least as many channels; the recording has {len(names)} of "
            f"the aggregate's {len(features)} features. Rename its channels, or give fewer components."
        )
    picked = _channels_alone(mne, whole, names)
    types = _types_of(mne, picked, names, "the aggregate")
    mixing = restrict_to_channels(mixing, rows, average=set(types) == {"eeg"})[:, chosen]
    centre = np.zeros(len(features)) if mean is None else check_mean(mean, len(features))
    factors = _factors(names, types, study)
    return _fitted(mne, mixing, centre[rows], picked, 1.0 / factors, str(aggregate.method))


def _fitted(mne: Any, mixing: Array, mean: Array, info: Any, pre_whitener: Array, method: str) -> Any:
    """Return an ICA as ``fit`` leaves it. mixing : (n_channels, r); pre_whitener : what MNE divides its data by.

    MNE holds a mixing matrix in two steps, M = P.T B, P orthonormal rows and B square: with the singular value
    decomposition M = U S V', P = U' and B = S V'. The rest of U spans what no component explains.
    """
    r = mixing.shape[1]
    left, deviations, right = svd(mixing, full_matrices=True)
    usable = deviations > deviations[0] * max(mixing.shape) * np.finfo(np.float64).eps  # as scipy's pinv cuts
    ica = mne.preprocessing.ICA(verbose="ERROR")
    ica.n_components = r if r > 1 else None  # MNE refuses to read a file that says 1
    ica.n_components_ = r
    ica.info, ica.ch_names = info, list(info.ch_names)
    ica.pre_whitener_ = pre_whitener[:, None].copy()
    ica.pca_mean_ = mean
    ica.pca_components_ = left.T.copy()
    ica.pca_explained_variance_ = np.concatenate([deviations**2, np.zeros(mixing.shape[0] - r)])
    ica.unmixing_matrix_ = right.T * np.where(usable, 1.0 / np.where(usable, deviations, 1.0), 0.0)
    ica.mixing_matrix_ = deviations[:, None] * right
    ica.current_fit, ica.method, ica.fit_params = "raw", "fedica", {"aggregate": method}
    ica.n_samples_ = ica.n_iter_ = ica.reject_ = None
    ica.exclude, ica.labels_ = [], {}
    ica._update_ica_names()
    return ica


def _channels_alone(mne: Any, info: Any, names: Sequence[str]) -> Any:
    """Return an Info made anew: names, kinds and places of these channels, and their rate.

    That of a recording also holds a person's name and birthday, dates, who recorded it, descriptions and projections
    computed from the data: none of it belongs to an aggregate.
    """
    channels = [info["chs"][info.ch_names.index(name)] for name in names]
    fresh = mne.create_info(list(names), float(info["sfreq"]), [_type_of(mne, info, name) for name in names])
    with fresh._unlock():
        for new, old in zip(fresh["chs"], channels, strict=True):
            new.update(
                {key: deepcopy(old[key]) for key in ("kind", "coil_type", "coord_frame", "loc", "unit", "unit_mul")}
            )
    return fresh


def _factors(names: Sequence[str], types: Sequence[str], study: Study | None) -> Array:
    """Return the factor of each channel from SI units to our unit or the study's, times the study's scale."""
    units = {} if study is None else dict(zip(study.features, study.units or (), strict=study.units is not None))
    scales = {} if study is None else dict(zip(study.features, study.scales or (), strict=study.scales is not None))
    return np.array(
        [
            (_per_si(units[name]) if name in units else unit_of(kind)[1]) * scales.get(name, 1.0)
            for name, kind in zip(names, types, strict=True)
        ]
    )


def _per_si(text: str) -> float:
    """Return how many of a unit make one SI unit."""
    scale = scale_of(text)
    if scale is None:
        raise InputError(f"the unit {text!r} of the study is none of an EEG or MEG channel: 'uV', 'fT', 'fT/cm' ...")
    return float(f"{1.0 / scale[1]:.12g}")


def _types_of(mne: Any, info: Any, names: Sequence[str], who: str) -> list[str]:
    if info is None:
        raise InputError(f"{who!r}: its ICA does not tell the types of its channels. Give them with info=raw.info.")
    lacking = [name for name in names if name not in set(info.ch_names)]
    if lacking:
        raise InputError(f"{who!r}: info has no channel {lacking[0]!r}. Give that of the recording it was fitted to.")
    return [_type_of(mne, info, name) for name in names]


def _type_of(mne: Any, info: Any, name: str) -> str:
    return str(mne.channel_type(info, info.ch_names.index(name)))


def _info(value: Any) -> Any:
    info = getattr(value, "info", value)
    if not hasattr(info, "ch_names"):
        raise InputError(f"an mne.Info was expected, or an object that has one; got {type(value).__name__}.")
    return info


def _check_components(components: Sequence[int], r: int) -> list[int]:
    chosen = [int(k) for k in components]
    if not chosen or min(chosen) < 0 or max(chosen) >= r or len(set(chosen)) < len(chosen):
        raise InputError(f"components must be distinct numbers from 0 to {r - 1}; got {chosen}.")
    return chosen
