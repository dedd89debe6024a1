"""Where the electrodes of a recording are."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedica.arrays import Array, PathLike
from fedica.errors import DataError, FormatError
from fedica.readers.mne_quiet import first_sentence, import_mne, quiet


def electrode_directions(recording: PathLike) -> dict[str, tuple[float, float]]:
    """Return the direction of each electrode of a recording from the centre of the head, in degrees.

    Parameters
    ----------
    recording : path-like
        A recording in any format that MNE reads, with the positions of its electrodes.

    Returns
    -------
    dict of str to (float, float)
        Inclination from the top of the head, and azimuth from the right ear forwards, by channel name.
    """
    mne = import_mne(f"{recording}: reading the positions of electrodes")
    try:
        with quiet([]):
            raw = mne.io.read_raw(recording, preload=False)
    except Exception as error:  # a damaged file can raise anything
        raise FormatError(f"{recording}: MNE cannot read it ({first_sentence(str(error))}).") from error
    places = _places(raw)
    if len(places) < 4:
        raise DataError(
            f"{recording}: it has positions of {len(places)} electrodes; a map needs those of all. Give a recording "
            "that stores them: .fif, EEGLAB's .set, BrainVision with coordinates."
        )
    directions = np.array(list(places.values())) - _centre(np.array(list(places.values())))
    inclination = np.degrees(np.arccos(directions[:, 2] / np.linalg.norm(directions, axis=1)))
    azimuth = np.degrees(np.arctan2(directions[:, 1], directions[:, 0]))
    return dict(zip(places, zip(inclination.tolist(), azimuth.tolist(), strict=True), strict=True))


def _places(raw: Any) -> dict[str, Array]:
    """Return the positions (3,) of the channels that have one."""
    montage = raw.get_montage()
    found = {} if montage is None else montage.get_positions()["ch_pos"]
    return {name: place for name, place in found.items() if np.isfinite(place).all() and np.any(place)}


def _centre(points: Array) -> Array:
    """Return the centre of the sphere nearest to points (n, 3), by linear least squares."""
    system = np.column_stack([2 * points, np.ones(len(points))])
    return np.asarray(np.linalg.lstsq(system, (points**2).sum(axis=1), rcond=None)[0][:3])
