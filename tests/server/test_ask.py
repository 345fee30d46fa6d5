"""`ropeway ask` against a small HTTP server that records what it is asked and plays back fixed streams."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from loadtests.local_http import serving_by
from server.command import main

RECORD = {
    "id": "chatcmpl-1",
    "mode": "qgpm",
    "sentences": 3,
    "top": [
        {"start": 2, "end": 4, "rank": 1, "z": -0.5, "broad": 1.0, "sharp": 0.3},
        {"start": 0, "end": 2, "rank": 0, "z": 1.5, "broad": 1.0, "sharp": 1.0},
    ],
}


@dataclass
class Playback:
    """What the server says, and the requests it has seen."""

    url: str = ""
    pieces: list[str] = field(default_factory=lambda: ["", "It is ", "blue."])
    record: dict[str, Any] = field(default_factory=lambda: dict(RECORD))
    refusal: tuple[int, dict[str, Any]] | None = None
    breaks_off: bool = False
    has_tokenizer: bool = True
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    @property
    def chats(self) -> list[dict[str, Any]]:
        return [body for path, body in self.seen if path == "/v1/chat/completions"]


class Handler(BaseHTTPRequestHandler):
    playback: Playback

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})
        elif self.path == "/v1/requests/chatcmpl-1":
            self.reply(200, self.playback.record)
        else:
            self.reply(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.playback.seen.append((self.path, body))
        self.playback.keys.append(self.headers["Authorization"])
        if self.path == "/v1/chat/completions":
            self.chat()
        elif self.path == "/tokenize" and self.playback.has_tokenizer:
            self.reply(200, {"tokens": [10, 11, 12, 13, 14]})
        elif self.path == "/detokenize":
            self.reply(200, {"prompt": f" sentence {body['tokens']}\n"})
        else:
            self.reply(404, {"error": {"message": "no such path"}})

    def chat(self) -> None:
        if self.playback.refusal is not None:
            self.reply(*self.playback.refusal)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for piece in self.playback.pieces:
            chunk = {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "tiny",
                "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}],
            }
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        if self.playback.breaks_off:
            self.wfile.write(b'data: {"error": {"message": "the engine stopped"}}\n\n')
        self.wfile.write(b"data: [DONE]\n\n")

    def reply(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the test's output is the client's."""


@pytest.fixture
def playback() -> Iterator[Playback]:
    playback = Playback()
    handler = type("PlaybackHandler", (Handler,), {"playback": playback})
    with serving_by(handler) as playback.url:
        yield playback


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "sky.txt"
    path.write_text("The sky is blue. Grass is green.\n", encoding="utf-8")
    return str(path)


def ask(*arguments: str) -> int:
    return main(["ask", *arguments])


def test_the_answer_goes_to_standard_output_and_its_cost_to_standard_error(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(document, "What colour is the sky?", "--url", playback.url) == 0
    output = capsys.readouterr()
    assert output.out == "It is blue.\n"
    assert "first token 0." in output.err
    assert "total 0." in output.err


def test_the_document_stands_before_the_question_in_one_user_message(
    playback: Playback, document: str
) -> None:
    assert ask(document, "What colour? ", "--url", playback.url + "/v1/", "--max-tokens", "7") == 0
    (body,) = playback.chats
    content = "The sky is blue. Grass is green.\n\nQuestion: What colour?"
    assert body["messages"] == [{"role": "user", "content": content}]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("tiny", 7, 0.0)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], None), (["--plain"], False), (["--qgpm"], {"question": "Question: What colour?"})],
)
def test_the_mode_is_what_the_flag_says_and_the_servers_own_without_one(
    playback: Playback, document: str, flags: list[str], expected: object
) -> None:
    assert ask(document, "What colour?", "--url", playback.url, *flags) == 0
    assert playback.chats[0].get("qgpm") == expected


def test_the_sentences_that_qgpm_chose_are_printed_most_relevant_first(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(document, "What colour?", "--url", playback.url, "--qgpm") == 0
    notes = capsys.readouterr().err
    assert "most relevant of 3 sentences" in notes
    assert notes.index("z +1.50  sentence [10, 11]") < notes.index("z -0.50  sentence [12, 13]")


def test_token_numbers_stand_for_texts_where_the_server_cannot_say_them(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    playback.has_tokenizer = False
    assert ask(document, "What colour?", "--url", playback.url, "--qgpm") == 0
    assert "tokens 0 to 2" in capsys.readouterr().err


def test_a_plain_answer_to_a_request_with_qgpm_says_why(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    playback.record = {"mode": "plain", "reason": "too_few_sentences"}
    assert ask(document, "What colour?", "--url", playback.url, "--qgpm") == 0
    assert "answered plainly: too_few_sentences" in capsys.readouterr().err


def test_compare_asks_both_ways_from_a_cold_cache_and_shows_both(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(document, "What colour?", "--url", playback.url, "--compare") == 0
    plain, modulated = playback.chats
    assert plain["qgpm"] is False
    assert modulated["qgpm"] == {"question": "Question: What colour?"}
    assert plain["cache_salt"] != modulated["cache_salt"]
    output = capsys.readouterr().out
    assert output.count("It is blue.") == 2
    assert "first token" in output
    assert "sentence [10, 11]" in output


def test_an_empty_answer_has_no_first_token(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    playback.pieces = [""]
    assert ask(document, "What colour?", "--url", playback.url) == 0
    assert "no token" in capsys.readouterr().err


def test_standard_input_is_a_document(playback: Playback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("From a pipe."))
    assert ask("-", "Where from?", "--url", playback.url) == 0
    assert playback.chats[0]["messages"][0]["content"].startswith("From a pipe.\n\n")


def test_the_key_is_sent(playback: Playback, document: str) -> None:
    assert ask(document, "What colour?", "--url", playback.url, "--api-key", "secret") == 0
    assert playback.keys[0] == "Bearer secret"


def test_a_refusal_is_reported_in_the_servers_words(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    playback.refusal = (400, {"error": {"message": "qgpm: no head profile", "code": 400}})
    assert ask(document, "What colour?", "--url", playback.url, "--qgpm") == 1
    assert "(400): qgpm: no head profile" in capsys.readouterr().err


def test_a_failure_in_the_middle_of_an_answer_is_reported(
    playback: Playback, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    playback.breaks_off = True
    assert ask(document, "What colour?", "--url", playback.url) == 1
    assert "the engine stopped" in capsys.readouterr().err


def test_no_server_says_how_to_start_one(
    free_port: int, document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(document, "What colour?", "--url", f"http://127.0.0.1:{free_port}") == 1
    assert "make serve" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe\x00"])
def test_a_document_without_text_is_refused_before_anything_is_sent(
    playback: Playback, tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "document.txt"
    if content is not None:
        path.write_bytes(content)
    assert ask(str(path), "What colour?", "--url", playback.url) == 1
    assert "document" in capsys.readouterr().err
    assert playback.seen == []
