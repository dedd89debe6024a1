"""``python -m fedica.datasets``: fetch every data set, so that later runs need no network."""

from __future__ import annotations

import sys

from fedica import datasets
from fedica.errors import FedicaError

FETCHERS = (
    datasets.fetch_ecoli,
    datasets.fetch_eeg_five,
    datasets.fetch_eeg_64,
    datasets.fetch_eeg_128,
    datasets.fetch_fmri_rois,
    datasets.fetch_fmri_images,
    datasets.fetch_fmri_slice,
    datasets.fetch_meg,
)


def main() -> int:
    """Fetch all; go on after one that fails, and return 1 if any did."""
    failed = 0
    for fetch in FETCHERS:
        try:
            fetch()
        except FedicaError as error:
            sys.stderr.write(f"{error}\n")
            failed = 1
    sys.stdout.write(f"The data sets are in {datasets.data_folder()}\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
