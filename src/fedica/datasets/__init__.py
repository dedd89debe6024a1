"""Real data to try things on, fetched on demand.

Python packages carry these data; each is downloaded once, with pip and its configured index, checked by its SHA-256,
and kept in a cache folder (`data_folder`). From then on no network is needed.
``python -m fedica.datasets`` fetches all of them, for machines that go offline afterwards.

=================== ========================================== =====================================================
function            what                                       returns
=================== ========================================== =====================================================
`fetch_ecoli`       gene expression, and what was published    `Ecoli`: (278 arrays, 3923 genes), 92 components
`fetch_eeg_five`    EEG of five people, 8 channels             a `Recording` of each person: (252000, 8), 240 Hz
`fetch_eeg_64`      EEG of one person, 64 channels             `Recording`: (9632, 64), 160 Hz
`fetch_eeg_128`     EEG of two people, and their fitted ICA    `Files`: EDF, 128 channels, 256 Hz, and FIF of each
`fetch_fmri_rois`   resting fMRI, regions of interest          `Recording`: (250, 31), one scan in 1.89 s
`fetch_fmri_images` two small fMRI images                      `Files`: two NIfTI files of 10 x 10 x 18 x 40
`fetch_fmri_slice`  one slice of a brain, twelve runs          `Files`: twelve NIfTI files of 40 x 20 x 1 x 121
`fetch_meg`         MEG and EEG, as MNE reads it               `Files`: one FIF file, 366 channels x 14400, 600.6 Hz
=================== ========================================== =====================================================
"""

from __future__ import annotations

from fedica.datasets.archive import data_folder
from fedica.datasets.brains import (
    fetch_eeg_64,
    fetch_eeg_128,
    fetch_eeg_five,
    fetch_fmri_images,
    fetch_fmri_rois,
    fetch_fmri_slice,
    fetch_meg,
)
from fedica.datasets.expression import Ecoli, fetch_ecoli
from fedica.datasets.results import Files, Origin, Recording

__all__ = [
    "Ecoli",
    "Files",
    "Origin",
    "Recording",
    "data_folder",
    "fetch_ecoli",
    "fetch_eeg_64",
    "fetch_eeg_128",
    "fetch_eeg_five",
    "fetch_fmri_images",
    "fetch_fmri_rois",
    "fetch_fmri_slice",
    "fetch_meg",
]
