"""A real Chromium, and pages in it that may not complain in their console."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.ui.chromium import NoChromiumError, launch
from tests.ui.visits import Open

# What Chromium itself notes for every answer of 400 and above, however well the page takes it.
_REFUSED = "Failed to load resource"


# Not of the session: while it lives, an event loop runs, and no asynchronous test of another folder can.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Playwright's own Chromium, or else the system's."""
    with sync_playwright() as playwright:
        try:
            launched = launch(playwright)
        except NoChromiumError as error:
            pytest.skip(str(error))
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens pages at an address; at the end none may have reported an error, refused requests aside."""
    pages: list[Page] = []
    complaints: list[str] = []

    def open_page(url: str, width: int = 1200, height: int = 900, dark: bool = False) -> Page:
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        pages.append(page)
        page.goto(url)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert [said for said in complaints if _REFUSED not in said] == []
