"""The helpers of tests/readers can be imported by their names, which are unique."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "readers"))  # eeg_simulated.py, images_simulated.py
