"""The picture of the front page: runs the demo and takes a screenshot of its report in Chromium.

Usage: python tests/report/screenshot.py docs/images/report.png
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from chromium import browser, missing
from PIL import Image


def main(target):
    """Write the picture."""
    if lacking := missing():
        sys.exit(f"Error: {lacking}.")
    with tempfile.TemporaryDirectory(prefix="fedica-screenshot-") as folder:
        program = [sys.executable, "-c", "from fedica.cli import main; main()", "demo", "-o", "fedica-demo"]
        subprocess.run(program, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        shot = Path(folder) / "shot.png"
        with browser() as chrome:
            chrome.open(Path(folder) / "fedica-demo" / "result" / "report.html", width=1240)
            chrome.run("document.querySelector('.lead .pick').click()")
            end = chrome.run("return document.querySelector('.scale').getBoundingClientRect().bottom + scrollY")
            chrome.screenshot(shot, height=end + 24)  # the headline and the heat map, whole
        small = io.BytesIO()
        Image.open(shot).convert("RGB").quantize(256).save(small, format="png", optimize=True)
        Path(target).write_bytes(small.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
