"""Writes the pictures of `docs/ui.md`: `python -m tests.ui.screenshots URL` of the default model."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.ui.chromium import launch
from tests.ui.planted import QUESTION, planted
from tests.ui.visits import PATIENCE_MS, compare

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "ui"


def take(url: str) -> None:
    """Compare once, and picture the page in parts, narrow and dark."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        page.goto(f"{url}/ui")
        compare(page, planted(), QUESTION, PATIENCE_MS)
        page.locator("#top button").first.click()
        page.screenshot(path=FOLDER / "comparison.png", full_page=True)
        page.locator("#positions").screenshot(path=FOLDER / "positions.png")
        page.emulate_media(color_scheme="dark")
        page.locator("#relevance").screenshot(path=FOLDER / "dark.png")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 740})
        page.locator(".answers").evaluate("answers => answers.scrollIntoView()")
        page.screenshot(path=FOLDER / "narrow.png")
        browser.close()


if __name__ == "__main__":
    take(sys.argv[1].rstrip("/"))
