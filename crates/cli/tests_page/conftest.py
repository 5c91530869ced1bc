"""Pages of stores, and a browser that opens them from their files.

The browser has no network: whatever a page asked for beside itself would fail, and is recorded.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from selenium import webdriver

TRACE = Path(__file__).parents[3] / "tests/data/grpo_tiny.jsonl.gz"


def rollstore(*arguments, code=0):
    """Runs the program and gives what it printed."""
    done = subprocess.run([os.environ["ROLLSTORE_PROGRAM"], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


class Store:
    """A store, its page, and what the program says of it."""

    def __init__(self, path, page, code=0):
        self.path, self.page = path, page
        self.figures = json.loads(rollstore("report", path, "--json", "-o", page, code=code))

    def stat(self):
        return json.loads(rollstore("stat", self.path, "--json"))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The recorded run, replayed."""
    folder = tmp_path_factory.mktemp("recorded")
    rollstore("replay", TRACE, "--store", folder / "store")
    return Store(folder / "store", folder / "run.html")


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A store whose path is hostile, and whose newest segment lost its end: it does not open."""
    folder = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(1)>\"'&"
    folder.mkdir()
    rollstore("replay", TRACE, "--store", folder / "store")
    shutil.rmtree(folder / "store.checkpoint")
    segment = sorted((folder / "store").glob("seg-*"))[-2]
    os.truncate(segment, segment.stat().st_size - 4096)
    return Store(folder / "store", folder / "run.html", code=1)


@pytest.fixture(scope="session")
def chromium():
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--force-prefers-reduced-motion"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.binary_location = shutil.which("chromium")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium):
    """The browser as a test finds it: a wide window, light, nothing recorded yet."""
    chromium.set_window_size(1200, 900)
    scheme(chromium, "light")
    chromium.get("about:blank")
    chromium.get_log("browser")
    chromium.get_log("performance")
    return chromium


def scheme(driver, name):
    """The colour scheme that the system is said to prefer."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})
