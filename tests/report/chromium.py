"""A real Chromium without a window, for tests and for the screenshot of the front page."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import tempfile
import time
from pathlib import Path

BROWSERS, DRIVERS = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]
MAX_SECONDS = 240
"""After this time a page that does not get ready is a fault, however busy the machine is."""
READY = "return document.documentElement.dataset.ready || ''"
_EVERY_PLOT = "return Array.from(document.querySelectorAll('.js-plotly-plot')).every((plot) => %s)"
PLOTS_FIT = _EVERY_PLOT % "Math.abs(plot._fullLayout.width - plot.clientWidth) <= 1"
PLOTS_HAVE_THE_COLOUR_OF_THE_TEXT = (
    _EVERY_PLOT
    % "plot.layout.font.color === getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
)


def missing():
    """What the browser tests lack, in one sentence; empty if nothing."""
    for names, package in ((BROWSERS, "chromium"), (DRIVERS, "chromium-driver")):
        if not any(map(shutil.which, names)):
            return f"{names[0]} is not installed (Debian: apt-get install {package})"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (pip install selenium)"
    return ""


@contextlib.contextmanager
def browser():
    """Start a Chromium with a profile of its own, and stop it at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(prefix="fedica-chromium-", ignore_cleanup_errors=True) as profile:
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield Browser(driver)
        finally:
            driver.quit()


class Browser:
    """What the tests ask of a browser."""

    def __init__(self, driver):
        self.driver = driver
        driver.set_script_timeout(2 * MAX_SECONDS)
        connection = driver.command_executor  # selenium gives up after 120 s, whatever the script may take
        connection.client_config.timeout = 3 * MAX_SECONDS
        connection._conn = connection._get_connection_manager()
        self.cdp("Emulation.setTouchEmulationEnabled", enabled=False)

    def cdp(self, command, **arguments):
        """Send a command of the developer tools."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def run(self, script, *arguments):
        """Run JavaScript in the page; its value."""
        return self.driver.execute_script(script, *arguments)

    def resize(self, width, height=900):
        """Give the page another width, as a window or a phone would."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.wait(PLOTS_FIT)  # plotly waits a moment before it redraws

    def theme(self, name, medium=""):
        """Prefer the light or the dark theme, on a screen or in print."""
        self.cdp("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": name}])
        self.wait(PLOTS_HAVE_THE_COLOUR_OF_THE_TEXT)

    def open(self, path, width=1400):
        """Open a file and wait until it says that it is ready; milliseconds since navigation began."""
        self.resize(width)
        self.theme("light")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(Path(path).resolve().as_uri())
        return int(self.wait(READY))

    def wait(self, script, *arguments, accept=bool):
        """Run a script until its value is accepted; that value."""
        until = time.monotonic() + MAX_SECONDS
        while not accept(value := self.run(script, *arguments)):
            assert time.monotonic() < until, f"after {MAX_SECONDS} s: {script} is {value!r}; {self.complaints()}"
            time.sleep(0.02)
        return value

    def complaints(self):
        """What the console said since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses that the page asked for since it was opened."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [x["params"]["request"]["url"] for x in messages if x["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, *, whole=True, height=None):
        """Save what is seen, or the whole page, as PNG."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        more = {}
        if whole or height:
            width, full = self.run("return [innerWidth, document.documentElement.scrollHeight]")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height or full, 12000), "scale": 1}
            more = {"captureBeyondViewport": True, "clip": clip}
        taken = self.cdp("Page.captureScreenshot", format="png", **more)
        Path(path).write_bytes(base64.b64decode(taken["data"]))
