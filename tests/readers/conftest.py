"""Helpers beside the tests can be imported by their names, which are unique."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # eeg_simulated.py, images_simulated.py
