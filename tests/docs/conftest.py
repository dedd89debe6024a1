"""The helper of these tests lies beside them, and what runs pages beside the pages."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs")]  # repository_pages.py, run_pages.py
