"""The page in real Chromium, against the default model.

Long, since no package of Python's brings a Chromium along.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from server.child import Server, running_server
from tests.support.prose import document
from tests.ui.planted import FACT, QUESTION, planted
from tests.ui.visits import PATIENCE_MS, Open, ask, compare, darkest, overflow

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    with running_server(["--enforce-eager"]) as server:
        yield server


def test_the_sentence_that_is_shaded_most_holds_the_planted_fact(opened: Open, served: Server) -> None:
    page = opened(f"{served.url}/ui")
    expect(page.locator("#model")).to_have_text("SmolLM2-135M-Instruct")
    # What the shipped head profile says.
    assert served.get("/v1/positional").json()["defaults"]["relevance"] == {"lexical": 1.0}
    compare(page, planted(), QUESTION, PATIENCE_MS)
    note = page.locator("#relevance-note").inner_text()
    tokens = int(note.split("prompt of ")[1].split(" tokens")[0].replace(",", ""))
    assert 2800 < tokens < 3300
    assert FACT in darkest(page)
    expect(page.locator("#top button").first).to_have_text(FACT)
    for section in ("#plain", "#qgpm"):
        expect(page.locator(f"{section} .times")).to_contain_text("first token")
        assert page.locator(f"{section} .text").inner_text()
    expect(page.locator("#qgpm .times")).to_contain_text("answer pass")
    assert page.locator("#plots svg").count() == 3
    expect(page.locator("#tiles")).to_contain_text("qgpm")
    expect(page.locator("#shaded .boundary")).to_contain_text("protected prefix")
    page.set_viewport_size({"width": 360, "height": 740})
    assert overflow(page) == {"scrolls": 0, "wide": []}


def test_a_document_beyond_the_window_is_refused_in_the_server_s_words(opened: Open, served: Server) -> None:
    page = opened(f"{served.url}/ui")
    ask(page, document(900, seed=5), QUESTION)
    for section in ("#plain", "#qgpm"):
        expect(page.locator(f"{section} .error")).to_contain_text(
            "refused the request (400)", timeout=PATIENCE_MS
        )
        expect(page.locator(f"{section} .error")).to_contain_text("8192")


def test_one_sentence_is_answered_plainly_and_the_page_says_why(opened: Open, served: Server) -> None:
    page = opened(f"{served.url}/ui")
    compare(page, FACT, QUESTION, PATIENCE_MS)
    expect(page.locator("#relevance-note")).to_contain_text("fewer than two sentences")
    expect(page.locator("#positions")).to_be_hidden()
