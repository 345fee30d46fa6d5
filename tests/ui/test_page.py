"""The page in real Chromium, against a server whose answers are told beforehand.

Long, since no package of Python's brings a Chromium along.
"""

import re
import time

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.scripted_server import Script, scripted
from tests.ui.visits import Open, ask, compare, darkest, overflow

pytestmark = pytest.mark.long

HOSTILE = "<img src=x onerror=alert(1)><script>document.title = 'taken'</script>&amp;"


def test_both_answers_come_with_their_times(opened: Open) -> None:
    script = Script(pieces=("one", " two"), first=0.6, between=0.3)
    with scripted(script) as url:
        page = opened(url)
        started = time.monotonic()
        compare(page, "First. Second.", "What?")
        passed = time.monotonic() - started
        for section in ("#plain", "#qgpm"):
            expect(page.locator(f"{section} .text")).to_have_text("one two")
            times = page.locator(f"{section} .times").inner_text()
            first, total = map(float, re.findall(r"([\d.]+) s", times)[:2])
            # A busy machine makes all of it longer, and nothing shorter.
            assert 0.55 < first < total - 0.5 < passed - 0.5
        expect(page.locator("#qgpm .times")).to_contain_text("score pass 0.25 s")
    plain, qgpm = script.bodies
    assert (plain["qgpm"], qgpm["qgpm"]) == (False, {"question": "Question: What?"})
    assert (
        plain["messages"]
        == qgpm["messages"]
        == [{"role": "user", "content": "First. Second.\n\nQuestion: What?"}]
    )
    # Both are asked from a cold cache.
    assert len({plain["cache_salt"], qgpm["cache_salt"]}) == 2


def test_a_text_streams_while_it_comes(opened: Open) -> None:
    with scripted(Script(pieces=("one", " two"), between=1.5)) as url:
        page = opened(url)
        ask(page, "First. Second.", "What?")
        expect(page.locator("#plain .text")).to_have_text("one")
        expect(page.locator("#plain .text")).to_have_attribute("aria-busy", "true")
        expect(page.locator("#plain .text")).to_have_text("one two")
        expect(page.locator("#plain .text")).to_have_attribute("aria-busy", "false")


def test_both_can_be_asked_at_once(opened: Open) -> None:
    script = Script(first=1.0)
    with scripted(script) as url:
        page = opened(url)
        compare(page, "First. Second.", "What?")
        assert script.most == 1
        page.get_by_label("at the same time").check()
        compare(page, "First. Second.", "What?")
        assert script.most == 2


def test_texts_stay_texts(opened: Open) -> None:
    script = Script(pieces=(HOSTILE,), sentences=(HOSTILE, "Second."), failure=HOSTILE)
    with scripted(script) as url:
        page = opened(url)
        ask(page, HOSTILE, HOSTILE)
        expect(page.locator("#plain .error")).to_contain_text(HOSTILE)
        expect(page.locator("#plain .text")).to_have_text(HOSTILE)
        script.failure = None
        compare(page, HOSTILE, HOSTILE)
        expect(page.locator("#shaded")).to_contain_text(HOSTILE)
        expect(page.locator("#top")).to_contain_text(HOSTILE)
        assert page.locator("main img, main script").count() == 0
        assert page.title() == "Ropeway"


def test_the_policy_stops_markup_that_is_made_from_text(browser: Browser) -> None:
    with scripted(Script()) as url, browser.new_page() as page:  # whose console is to complain
        page.goto(url)
        said = page.evaluate(
            "try { document.body.innerHTML = '<b>x</b>'; 'made' } catch (error) { error.name }"
        )
        assert said == "TypeError"


def test_relevance_is_shown_as_it_was_told(opened: Open) -> None:
    sentences = ("First sentence. ", "Second sentence. ", "Third.")
    with scripted(Script(sentences=sentences)) as url:
        page = opened(url)
        compare(page, "".join(sentences), "What?")
        assert page.locator("#shaded .sentence").all_text_contents() == list(sentences)
        assert darkest(page) == sentences[0]
        expect(page.locator("#shaded .prefix .sentence")).to_have_text(sentences[0])
        expect(page.locator("#shaded .boundary")).to_contain_text("10 tokens")
        page.get_by_role("button", name="Second sentence.").click()
        expect(page.locator(".chosen")).to_have_text(sentences[1])
        expect(page.locator("#sentence")).to_contain_text("rank 1, z +0.00, tokens 10 to 19")
        expect(page.get_by_role("img", name="Fast plane")).to_have_attribute(
            "aria-label",
            "Fast plane (number 0): token 30 stands at 8 in the broad map and at 5 in the sharp one.",
        )
        assert page.locator("#plots path.sharp").count() == 3


def test_the_tiles_tell_the_server_s_figures_and_refresh(opened: Open) -> None:
    with scripted(Script()) as url:
        page = opened(url)
        tiles = page.locator("#tiles")
        expect(tiles).to_contain_text("3.0 MiB of 16.0 MiB")
        expect(tiles).to_contain_text("7 requests")
        expect(tiles).to_contain_text("plain (3)0.50 sqgpm (4)2.00 s")
        expect(tiles).to_contain_text("running3waiting4")
        with page.expect_response("**/v1/cache", timeout=10_000):
            pass


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((400, {"error": {"message": "too long by 7"}}, {}), "refused the request (400): too long by 7"),
        ((413, {"error": {"message": "1 MiB at most"}}, {}), "more than the server takes: 1 MiB at most"),
        ((429, {"error": {"message": "wait"}}, {"Retry-After": "9"}), "busy; try again in 9 s: wait"),
        ((500, {"error": {"message": "engine dead"}}, {}), "failed (500): engine dead"),
    ],
)
def test_a_refusal_is_said_in_words(opened: Open, refusal: tuple[int, dict, dict], words: str) -> None:
    script = Script(refusal=refusal)
    with scripted(script) as url:
        page = opened(url)
        ask(page, "First. Second.", "What?")
        for section in ("#plain", "#qgpm"):
            expect(page.locator(f"{section} .error")).to_contain_text(words)
            expect(page.locator(f"{section} .error")).to_have_attribute("role", "alert")
        expect(page.locator("#status")).to_have_text("Not all was answered.")
        # Afterwards it works again.
        script.refusal = None
        compare(page, "First. Second.", "What?")
        expect(page.locator("#plain .error")).to_be_hidden()


def test_a_server_that_went_away_is_said_in_words(opened: Open) -> None:
    with scripted(Script()) as url:
        page = opened(url)
        expect(page.locator("#model")).to_have_text("scripted")
    ask(page, "First. Second.", "What?")
    expect(page.locator("#error")).to_have_text("The server cannot be reached. Does it still run?")


def test_a_key_is_asked_for_and_kept_nowhere(opened: Open) -> None:
    with scripted(Script(key="a secret")) as url:
        page = opened(url)
        expect(page.locator("#error")).to_contain_text("asks for an API key")
        page.get_by_label("API key").fill("a secret")
        page.get_by_label("API key").blur()
        expect(page.locator("#model")).to_have_text("scripted")
        expect(page.locator("#error")).to_be_hidden()
        compare(page, "First. Second.", "What?")
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        page.reload()
        assert page.get_by_label("API key").input_value() == ""
        assert "secret" not in page.url


def test_an_answer_can_be_stopped(opened: Open) -> None:
    with scripted(Script(pieces=("word ",) * 100, between=0.1)) as url:
        page = opened(url)
        ask(page, "First. Second.", "What?")
        expect(page.locator("#plain .text")).to_contain_text("word")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#status")).to_have_text("Stopped.")
        expect(page.get_by_role("button", name="Compare")).to_be_enabled()


def test_what_is_missing_is_said(opened: Open) -> None:
    with scripted(Script()) as url:
        page = opened(url)
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("#error")).to_have_text("Paste or upload a document first.")
        expect(page.get_by_label("Document", exact=True)).to_be_focused()
        page.keyboard.insert_text("First. Second.")
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("#error")).to_have_text("Type a question first.")
        expect(page.get_by_label("Question")).to_be_focused()


def test_a_file_is_read_and_another_kind_refused(opened: Open) -> None:
    with scripted(Script()) as url:
        page = opened(url)
        upload = page.get_by_label("upload a text file")
        text = "Größe zählt. Zweiter Satz."
        upload.set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": text.encode()})
        expect(page.get_by_label("Document", exact=True)).to_have_value(text)
        expect(page.locator("#document-size")).to_have_text("4 words, 26 characters")
        upload.set_input_files({"name": "b.bin", "mimeType": "text/plain", "buffer": b"\xff\xfe\x00"})
        expect(page.locator("#error")).to_have_text("b.bin is not text in UTF-8.")
        expect(page.get_by_label("Document", exact=True)).to_have_value(text)


def test_the_keyboard_is_enough(opened: Open) -> None:
    with scripted(Script()) as url:
        page = opened(url)
        expect(page.locator("#model")).to_have_text("scripted")
        _tab_to(page, "document")
        page.keyboard.insert_text("First sentence. Second sentence.")
        _tab_to(page, "question")
        page.keyboard.insert_text("What?")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_have_text("Done.")
        _tab_to(page, "shaded")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".chosen")).to_have_text("Second sentence.")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".chosen")).to_have_text("First sentence. ")


def _tab_to(page: Page, name: str) -> None:
    """Press Tab until an element has the focus; each on the way shows that it has it."""
    for _ in range(40):
        page.keyboard.press("Tab")
        at, outline = page.evaluate(
            "[document.activeElement.id, parseFloat(getComputedStyle(document.activeElement).outlineWidth)]"
        )
        assert outline >= 2, at
        if at == name:
            return
    raise AssertionError(f"Tab never reaches {name}")


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_stands_out_of_a_narrow_window(opened: Open, width: int) -> None:
    words = "Donaudampfschifffahrtsgesellschaftskapitän" * 4
    script = Script(pieces=(words,), sentences=(words, "Second."), key="k")
    with scripted(script) as url:
        page = opened(url, width=width, height=740)
        expect(page.locator("#error")).to_be_visible()
        assert overflow(page) == {"scrolls": 0, "wide": []}
        page.get_by_label("API key").fill("k")
        compare(page, words, "What?")
        assert overflow(page) == {"scrolls": 0, "wide": []}


def test_a_dark_system_gets_a_dark_page(opened: Open) -> None:
    with scripted(Script()) as url:
        grounds = []
        for dark in (False, True):
            page = opened(url, dark=dark)
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            grounds.append(sum(map(int, re.findall(r"\d+", colour))))
        assert grounds[0] > 700 > 100 > grounds[1]
