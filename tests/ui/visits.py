"""What tests do on the page, and what they read off it."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

Open = Callable[..., Page]
"""Opens a page at an address; `width`, `height` of the window and `dark` may follow."""

# A prefill of 3,000 tokens for each answer on one slow core.
PATIENCE_MS = 240_000


def ask(page: Page, document: str, question: str) -> None:
    """Fill the form and send it."""
    page.get_by_label("Document", exact=True).fill(document)
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Compare").click()


def compare(page: Page, document: str, question: str, patience_ms: int = 20_000) -> None:
    """Ask, and wait for all that there is to show."""
    ask(page, document, question)
    expect(page.locator("#status")).to_have_text("Done.", timeout=patience_ms)


def darkest(page: Page) -> str:
    """The text of the sentence that is shaded most, by the colours that Chromium computed."""
    shades: list[tuple[float, str]] = page.eval_on_selector_all(
        ".sentence",
        """spans => spans.map(span => {
            const colour = getComputedStyle(span).backgroundColor;
            return [Number(/\\/ ([\\d.]+)\\)$/.exec(colour)?.[1] ?? 1), span.textContent];
        })""",
    )
    assert len({shade for shade, _ in shades}) > 1
    return max(shades)[1]


def overflow(page: Page) -> dict[str, Any]:
    """What stands out of the window on its right side, by id or class, apart from what scrolls by itself."""
    found: dict[str, Any] = page.evaluate(
        """() => {
            const wide = [...document.querySelectorAll("body *")].filter(
                e => e.getBoundingClientRect().right > innerWidth + 0.5);
            return {
                scrolls: document.documentElement.scrollWidth - innerWidth,
                wide: wide.map(e => e.id || e.className || e.tagName),
            };
        }"""
    )
    return found
