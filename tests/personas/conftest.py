"""Simulated recordings and images are made by the modules of tests/readers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "readers"))
