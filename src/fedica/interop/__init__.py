"""Objects of other tools <-> contributions and results: scikit-learn, picard, MNE, nilearn, pandas, BIDS."""

from fedica.interop.bids import write_bids
from fedica.interop.fitted_objects import from_fastica, from_picard
from fedica.interop.frames import to_frame
from fedica.interop.matched import Matched, matched
from fedica.interop.mne_ica import from_mne, to_mne
from fedica.interop.nilearn_maps import from_canica, from_nifti, to_nifti

__all__ = [
    "Matched",
    "from_canica",
    "from_fastica",
    "from_mne",
    "from_nifti",
    "from_picard",
    "matched",
    "to_frame",
    "to_mne",
    "to_nifti",
    "write_bids",
]
