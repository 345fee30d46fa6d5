"""The page at /ui: what it is served with, and what its files must not hold."""

import re
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI

from server.flags import parser
from server.ui_route import FOLDER, add_page

FILES = sorted(FOLDER.iterdir())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
# What turns text into markup or code. The page makes elements, and gives them text.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|DOMParser"
    r"|createContextualFragment|localStorage|sessionStorage|indexedDB|document\.cookie|setAttribute\(\"style"
)
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    add_page(app)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as opened:
        yield opened


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
async def test_every_file_is_served_with_the_headers(client: httpx.AsyncClient, path: Path) -> None:
    response = await client.get(f"/ui/{path.name}")
    assert response.status_code == 200
    assert response.content == path.read_bytes()
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-cache"
    kind = {".html": "text/html", ".css": "text/css", ".js": "javascript", ".svg": "image/svg+xml"}
    assert kind[path.suffix] in response.headers["Content-Type"]


async def test_the_policy_allows_this_server_alone_and_nothing_inline(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/ui/")).headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("require-trusted-types-for") == "'script'"
    assert rules["default-src"] == rules["frame-ancestors"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"
    assert set(rules.values()) == {"'self'", "'none'"}
    assert "unsafe" not in policy


async def test_the_folder_is_reached_relatively(client: httpx.AsyncClient) -> None:
    response = await client.get("/ui")
    assert (response.status_code, response.headers["Location"]) == (307, "ui/")
    assert "Content-Security-Policy" in response.headers


async def test_a_file_that_the_browser_has_is_not_sent_again(client: httpx.AsyncClient) -> None:
    tag = (await client.get("/ui/main.js")).headers["ETag"]
    response = await client.get("/ui/main.js", headers={"If-None-Match": tag})
    assert (response.status_code, response.content) == (304, b"")


@pytest.mark.parametrize("path", ["/ui/../routes.py", "/ui/%2e%2e/routes.py", "/ui/missing.js"])
async def test_nothing_else_is_served(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_names_no_other_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(NAMESPACE, "")
    assert not re.findall(r"https?:|//\w+\.\w|@import|url\(", text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_writes_no_markup_and_stores_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not FORBIDDEN.findall(text)
    for name in re.findall(r"from \"([^\"]+)\"", text):
        assert name.startswith("./")
        assert FOLDER / name in FILES


def test_the_page_holds_nothing_inline_and_names_each_field() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|<base|<iframe", page)
    for name in re.findall(r"(?:src|href)=\"([^\"#][^\"]*)\"", page):
        assert FOLDER / name in FILES
    for name in re.findall(r"<(?:input|textarea)[^>]* id=\"([\w-]+)\"", page):
        assert f'for="{name}"' in page or re.search(rf"<label[^>]*>\s*<input id=\"{name}\"", page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_stand_out_from_their_ground(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", (FOLDER / "page.css").read_text(encoding="utf-8"), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks)
    assert light.keys() == dark.keys()
    colour = {"light": light, "dark": dark}[scheme]
    for ground in ("ground", "panel"):
        for text in ("ink", "faint", "accent", "error"):  # WCAG 2.2: 4.5 for text, 3 for what is drawn
            assert _contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
        for line in ("line", "broad", "sharp", "protected"):
            assert _contrast(colour[line], colour[ground]) >= 3, (line, ground)
    assert _contrast(colour["ink"], colour["mark"]) >= 4.5
    assert _contrast(colour["on-accent"], colour["accent"]) >= 4.5


def _contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours, 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_scripts_find_what_they_look_for() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\bat\(\"([\w-]+)\"\)", (FOLDER / "main.js").read_text(encoding="utf-8")))
    assert wanted
    assert wanted <= set(re.findall(r" id=\"([\w-]+)\"", page))


def test_the_page_is_part_of_the_package() -> None:
    assert files("server").joinpath("ui", "index.html").is_file()
    configuration = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert '"ui/*"' in configuration.read_text(encoding="utf-8")


def test_a_flag_switches_it_off() -> None:
    assert parser().parse_args(["model"]).no_ui is False
    assert parser().parse_args(["model", "--no-ui"]).no_ui is True
