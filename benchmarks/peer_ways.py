"""The code of docs/peers.md: the same task in each tool, as somebody who knows that tool would write it.

Each function stands by itself, imports and all, because the page shows it, counts its lines and runs it. Brains start
from images and a mask and end with maps, (r, n_voxels). EEG starts from recordings and ends with maps, (r, n_channels),
and the names of the channels.
"""
# ruff: noqa: NPY002, PLC0415 - a way shows what it imports; stabilized-ica draws from numpy's global generator

from __future__ import annotations


def brains_fedica(images, mask, r):
    """Fit at each person; put the maps together at the server."""
    from nilearn.masking import apply_mask

    from fedica import LocalICA, aggregate

    local = LocalICA(r, independence="features", random_state=0)
    fits = [local.fit(apply_mask(image, mask)).contribution(f"{k:02}") for k, image in enumerate(images)]
    return aggregate(fits, r).mixing.T


def brains_group(images, mask, r):
    """Send half as many maps as scans, with strengths; the server pools their spans. Rotations drop out: stop early."""
    from nilearn.masking import apply_mask

    from fedica import LocalICA, aggregate

    local = LocalICA(images[0].shape[-1] // 2, independence="features", max_iter=30, random_state=0)
    fits = [local.fit(apply_mask(x, mask)).contribution(f"{k:02}", strengths=True) for k, x in enumerate(images)]
    return aggregate(fits, r).mixing.T


def brains_turned(images, mask, r):
    """Fit twice as many maps at each person; one more ICA at the server, of what was sent."""
    import numpy as np
    from nilearn.masking import apply_mask

    from fedica import LocalICA

    local = LocalICA(2 * r, independence="features", random_state=0)
    sent = np.hstack([local.fit(apply_mask(image, mask)).atoms_ for image in images])
    return LocalICA(r, independence="features", random_state=0).fit(sent.T).atoms_.T


def brains_canica(images, mask, r):
    """Reduce each person, then all persons together, then one ICA of the rest."""
    from nilearn.decomposition import CanICA

    canica = CanICA(n_components=r, mask=mask, smoothing_fwhm=None, threshold=None, random_state=0)
    return canica.fit(images).components_


def brains_icasso(images, mask, r):
    """Run ICA on everybody's data many times over; keep the centre of each cluster."""
    import numpy as np
    from nilearn.masking import apply_mask
    from sica.base import StabilizedICA

    people = [apply_mask(image, mask) for image in images]
    scaled = np.concatenate([rows / rows.std() for rows in people])
    np.random.seed(0)  # it takes no random_state
    return StabilizedICA(n_components=r, n_runs=20).fit(scaled).S_


def brains_naive(images, mask, r):
    """Average the first map of everybody, the second, and so on."""
    import numpy as np
    from nilearn.masking import apply_mask
    from sklearn.decomposition import FastICA

    maps = [FastICA(r, random_state=0).fit_transform(apply_mask(image, mask).T) for image in images]
    return np.mean(maps, axis=0).T


def eeg_fedica(raws, r):
    """Take everybody's decomposition as it is; match all components at once. An average reference costs a direction."""
    from mne.preprocessing import ICA

    from fedica import aggregate, fill_features
    from fedica.interop import from_mne

    icas = [ICA(min(r, len(raw.ch_names) - 1), random_state=0).fit(raw) for raw in raws]
    contributions = [from_mne(ica, f"person-{k}") for k, ica in enumerate(icas)]
    result = aggregate(fill_features(contributions, n_components=r).contributions, r)
    return result.mixing.T, result.terms.features


def eeg_corrmap(raws, r):
    """Look for each component of the first person in everybody, and average what is found."""
    import numpy as np
    from mne.preprocessing import ICA, corrmap

    icas = [ICA(r, random_state=0).fit(raw) for raw in raws]
    maps = []
    for k in range(r):
        corrmap(icas, template=(0, k), threshold=0.8, label=f"{k}", plot=False)
        template = icas[0].get_components()[:, k]
        found = [ica.get_components()[:, i] for ica in icas for i in ica.labels_.get(f"{k}", [])]
        found = [m / np.linalg.norm(m) * np.sign(m @ template) for m in found]
        maps.append(np.mean(found, axis=0))
    return np.array(maps), raws[0].ch_names


def eeg_icasso(raws, r):
    """Run ICA on everybody's data many times over; regress the channels on the stable sources."""
    import numpy as np
    from sica.base import StabilizedICA

    people = [raw.get_data() for raw in raws]
    samples = np.concatenate([person / person.std() for person in people], axis=1)
    np.random.seed(0)  # it takes no random_state
    sources = StabilizedICA(n_components=r, n_runs=10).fit(samples).S_
    return np.linalg.lstsq(sources.T, samples.T, rcond=None)[0], raws[0].ch_names


def eeg_naive(raws, r):
    """Average the first map of everybody, the second, and so on."""
    import numpy as np
    from mne.preprocessing import ICA

    icas = [ICA(r, random_state=0).fit(raw) for raw in raws]
    maps = [ica.get_components() / np.linalg.norm(ica.get_components(), axis=0) for ica in icas]
    return np.mean(maps, axis=0).T, raws[0].ch_names
