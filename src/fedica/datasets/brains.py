"""Recordings of brains: EEG, MEG, fMRI."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from fedica.arrays import Array
from fedica.datasets.archive import Archive, fetch
from fedica.datasets.results import Files, Origin, Recording
from fedica.npy import read_npz_array

_PYNTBCI = Archive(
    "pyntbci",
    "1.8.3",
    "0ced4da61bb46e5aec8b18623d40c0244eebd791554afb21fa5187d7bc3a7889",
    45,
    {
        "pyntbci/data/thielen2021_sub-01.npz": "68e8c07894884bb5848b7512d0e645d28d39e591782c290ce641407753e37f86",
        "pyntbci/data/thielen2021_sub-02.npz": "f9cff9a55f81da869e31690d6dcc97164bc6b4910aa65dfb2fc5b7eee0fe041f",
        "pyntbci/data/thielen2021_sub-03.npz": "0139381e89ddecf157768e32aebd610ec19edbbf66b7a5a8cd9c2cd754e34821",
        "pyntbci/data/thielen2021_sub-04.npz": "b66f7009d025cc7b5f96f6269cf51df3ee831652fc33e859cea980986e385031",
        "pyntbci/data/thielen2021_sub-05.npz": "67748f4eb40cba1f433370002ce5b1856ec905dfd3654349c2947e06fbf3fe55",
    },
)
_PYPREP = Archive(
    "pyprep",
    "0.4.3",
    "4e7713f214bdcbb23f1c1f1eb20602e13731961bd33d1b5fc78a1c38d02fbac0",
    20,
    {"examples/matlab_results/EEG_raw.mat": "53c7262c5c22b371aa51463e520e4d4fa27fee84bee1197bb782b5b6fa915375"},
    source=True,
)
_EEGLABIO = Archive(
    "eeglabio",
    "0.1.4",
    "8e772570bb2a8fb13286fa2dd321e831686c097b34409c97679fb8c84b46e7a2",
    7,
    {"eeglabio/tests/data/test_raw.fif": "b1dbe0150bd036cc2446f352265cdaf7deb7fa8eafb16eec6c64e403f4176e52"},
    source=True,
)
_NITIME = Archive(
    "nitime",
    "0.12.1",
    "19442111829b94fa9aa9849bdfb6aa92bc5467ba74194b18450728e432086882",
    4,
    {
        "nitime/data/fmri_timeseries.csv": "b272a7a8e1981d1b4542e739e5244be41c1bfee8a8d3cd224b87605ec72c2ffd",
        "nitime/data/fmri1.nii.gz": "473b394d20815b9982341877f1ee3e6a29e3b722f01ff045bf5a3fca2f9d66fe",
        "nitime/data/fmri2.nii.gz": "d89a16f4e17d55b1d08faa6f4a024aab067d8ab4571fe9fb2eaa1634b45cc618",
    },
    platform=(
        *("--platform", "manylinux_2_28_x86_64", "--python-version", "3.11"),
        *("--implementation", "cp", "--abi", "abi3"),
    ),
)
_PYMVPA = Archive(
    "pymvpa2",
    "2.6.5",
    "f98b18e15d012aaa68c0ef6ccf420662df05657673843ab368e7f0adfdda0758",
    8,
    {
        f"mvpa2/data/haxby2001/sub001/BOLD/task001_run{run:03d}/bold_1slice.nii.gz": sha256
        for run, sha256 in enumerate(
            (
                "d15c9164814eaa25b7fb3b62f976524e55051e1973ff2b90b4e966b6c3259248",
                "bf879fb923c81fdff11b1170b1724fa68beb0e9fa042bc053260d9d0e4d68c42",
                "ae04aadb1ed6dc365dc117f522a3584aba0a8ac99fae008078147c94289ced49",
                "60ed27e90dff5417cfe7118f87b59a1cae73367ab6578bdd873b57db22a00cdb",
                "af9dd7c655aa1cb09f8d7444f124ff14b40cab14c92b4c4fe9c0efde97d8da38",
                "c753fdc068123ff6b407572bd39af6e1fecd1aace8a64dbace25b19d875128ee",
                "26bd002f5e33470179d39c4870d24d42a5cfa4e150782b8bf84885368a6016a3",
                "eb13ff766f629410b4bccfa3f39f1a7439133648d0637ffac6cc22f4397b8881",
                "0356e45b5922586f40cc84890ebaecac2d85510004978d2fa214d652bfb4b35e",
                "a4a2a0e12d2a53df4efab50b9abf250f351def069fa0a3153a1b6e46809e490c",
                "4c2bcf74db2cb0d77ecb6d60c0df8eec69715f579f6b628823319e67c80511cb",
                "8713435c5894ef06bd2a72e786ebf93b74ec3d7e46d7411f229fd6ffa5d62e9a",
            ),
            start=1,
        )
    },
    source=True,
)
_PYLOSSLESS = Archive(
    "pylossless",
    "0.2.0",
    "2452630d114d0f3ecd4b8a3c7b7ed7180fee93f6712e3fcb6b34ae14a5b3d8ac",
    50,
    {
        f"pylossless/assets/test_data/{name[:7]}/eeg/{name}": sha256
        for name, sha256 in {
            "sub-s01_task-faceO_eeg.edf": "99b6f5da72463bbab5e17d828fefbbd8af77f7f50c16eff33095877501426517",
            "sub-s01_task-faceO_ica2_ica.fif": "94a105adf6aaafbca99e493cf8ea4e54dee3d354aa4f6ef8b7a91e5eef249d43",
            "sub-s02_task-faceO_eeg.edf": "8384fa47a33cc7d7d7ec393ae251cd29f2fdc76be96742760a042df9b4f0022d",
            "sub-s02_task-faceO_ica2_ica.fif": "4dd264d5968e6d89af8bd8326e1c4cd2c54d8534c879a7d723638ec7be225566",
        }.items()
    },
)

EIGHT_CHANNELS = ("Fpz", "T7", "O1", "POz", "Oz", "Iz", "O2", "T8")
"""Of `fetch_eeg_five`, in the order of the package's own file of electrodes."""
# fmt: off
SIXTY_FOUR_CHANNELS = (
    "FC5", "FC3", "FC1", "FCz", "FC2", "FC4", "FC6",
    "C5", "C3", "C1", "Cz", "C2", "C4", "C6",
    "CP5", "CP3", "CP1", "CPz", "CP2", "CP4", "CP6",
    "Fp1", "Fpz", "Fp2", "AF7", "AF3", "AFz", "AF4", "AF8",
    "F7", "F5", "F3", "F1", "Fz", "F2", "F4", "F6", "F8",
    "FT7", "FT8", "T7", "T8", "T9", "T10", "TP7", "TP8",
    "P7", "P5", "P3", "P1", "Pz", "P2", "P4", "P6", "P8",
    "PO7", "PO3", "POz", "PO4", "PO8", "O1", "Oz", "O2", "Iz",
)
# fmt: on
"""Of `fetch_eeg_64`: the order of the EDF files of that study, which is not in the .mat file."""


def fetch_eeg_five() -> dict[str, Recording]:
    """EEG of five people who looked at flickering symbols: a real federation of five clients.

    Each of 100 trials lasts 10.5 s; they lie one after the other, 2520 samples each. The data was cleaned and filtered
    by those who published it, and is in volts.

    Returns
    -------
    dict of str to Recording
        ``"sub-01"`` to ``"sub-05"``; each has 252000 samples of 8 channels at 240 Hz, float32.
    """
    origin = Origin(
        "pyntbci 1.8.3",
        "BSD-3-Clause",
        "Thielen, Marsman, Farquhar, Desain (2021), J. Neural Eng. 18(5) 056007, doi:10.1088/1741-2552/abecef",
    )
    people = {}
    for name, path in fetch(_PYNTBCI).items():
        with zipfile.ZipFile(path) as archive:
            trials, sfreq = read_npz_array(archive, "X"), float(read_npz_array(archive, "fs"))
        data = trials.transpose(0, 2, 1).reshape(-1, trials.shape[1])  # from (trials, channels, samples)
        people[name.removeprefix("thielen2021_").removesuffix(".npz")] = Recording(
            data, EIGHT_CHANNELS, sfreq, "V", origin
        )
    return people


def fetch_eeg_64() -> Recording:
    """EEG of one person at rest with open eyes, 64 channels of the 10-10 system, as recorded.

    Subject 4, run 1 of the EEG Motor Movement/Imagery study. The last 128 samples of the file are padding of zeros, and
    are left out.

    Returns
    -------
    Recording
        9632 samples of 64 channels at 160 Hz, in volts.
    """
    origin = Origin(
        "pyprep 0.4.3",
        "MIT",
        "Schalk, McFarland, Hinterberger, Birbaumer, Wolpaw (2004), IEEE Trans. Biomed. Eng. 51(6); "
        "PhysioNet eegmmidb, doi:10.13026/C28G6P",
    )
    microvolts = loadmat(fetch(_PYPREP)["EEG_raw.mat"])["save_data"].T
    n_recorded = 1 + int(np.flatnonzero(microvolts.any(axis=1))[-1])
    return Recording(microvolts[:n_recorded] * 1e-6, SIXTY_FOUR_CHANNELS, 160.0, "V", origin)


def fetch_fmri_rois() -> Recording:
    """Resting fMRI of one person, averaged over regions of interest.

    The first three columns are white matter, ventricles and the whole brain; 28 regions follow.

    Returns
    -------
    Recording
        250 scans of 31 regions, one per 1.89 s, in the scanner's own unit.
    """
    path = fetch(_NITIME)["fmri_timeseries.csv"]
    names, values = _numbers(path)
    return Recording(values, names, 1 / 1.89, "arbitrary", _NITIME_ORIGIN)


def fetch_fmri_images() -> Files:
    """Two fMRI images of a small block of one brain: 10 x 10 x 18 voxels, 40 scans each, one per 1.35 s.

    Returns
    -------
    Files
        ``fmri1.nii.gz`` and ``fmri2.nii.gz``.
    """
    files = fetch(_NITIME)
    return Files((files["fmri1.nii.gz"], files["fmri2.nii.gz"]), _NITIME_ORIGIN)


def fetch_fmri_slice() -> Files:
    """One axial slice of the brain of one person who looked at pictures, in twelve runs: each run a client.

    Subject 1 of the study. An image has 40 x 20 x 1 voxels and 121 scans, one per 2.5 s.

    Returns
    -------
    Files
        ``task001_run001_bold_1slice.nii.gz`` to ``task001_run012_bold_1slice.nii.gz``.
    """
    origin = Origin(
        "pymvpa2 2.6.5",
        "MIT",
        "Haxby, Gobbini, Furey, Ishai, Schouten, Pietrini (2001), Science 293(5539), doi:10.1126/science.1063736",
    )
    return Files(tuple(fetch(_PYMVPA).values()), origin)


def fetch_eeg_128() -> Files:
    """EEG of two people who looked at faces, 128 channels at 256 Hz, and ICA objects of MNE that were fitted to it.

    About twenty minutes each; 150 MB in the cache folder.

    Returns
    -------
    Files
        Of each person, ``sub-s01`` and ``sub-s02``: ``*_eeg.edf`` and ``*_ica2_ica.fif``.
    """
    origin = Origin("pylossless 0.2.0", "MIT", "Distributed with pylossless, https://github.com/lina-usc/pylossless")
    return Files(tuple(fetch(_PYLOSSLESS).values()), origin)


def fetch_meg() -> Files:
    """MEG and EEG of one person during auditory and visual stimulation, as MNE-Python reads it.

    Returns
    -------
    Files
        ``test_raw.fif``: 366 channels, 14400 samples at 600.6 Hz.
    """
    origin = Origin("eeglabio 0.1.4", "BSD-3-Clause", "A short piece of the sample data set of MNE-Python")
    return Files((fetch(_EEGLABIO)["test_raw.fif"],), origin)


_NITIME_ORIGIN = Origin("nitime 0.12.1", "BSD-3-Clause", "Distributed with nitime, https://nipy.org/nitime")


def _numbers(path: Path) -> tuple[tuple[str, ...], Array]:
    """Return the names of the columns of a text table, and its numbers."""
    with open(path, encoding="utf-8", newline="") as stream:
        names, *rows = csv.reader(stream)
    return tuple(names), np.array(rows, dtype=np.float64)
