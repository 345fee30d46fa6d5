"""Finds a Chromium on this machine."""

import shutil
from pathlib import Path

from playwright.sync_api import Browser, Error, Playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")


class NoChromiumError(RuntimeError):
    """There is no Chromium; the message says how to get one."""


def launch(playwright: Playwright) -> Browser:
    """Playwright's own Chromium, or else the system's; raises NoChromiumError."""
    if Path(playwright.chromium.executable_path).exists():
        return playwright.chromium.launch()
    system = next(filter(None, map(shutil.which, _NAMES)), None)
    if system is None:
        raise NoChromiumError("no Chromium: `playwright install chromium`, or a system package `chromium`")
    try:
        return playwright.chromium.launch(executable_path=system)
    except Error:  # for root there is no sandbox
        return playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
