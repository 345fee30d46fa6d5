"""`ropeway ask`: a client that asks one question about one document and shows what the answer cost."""

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import openai
from openai.types.chat import ChatCompletionUserMessageParam
from rich.console import Console
from rich.table import Table
from rich.text import Text

Mode = Literal["plain", "qgpm"]
SHOWN_SENTENCES = 3
# A long prompt on a small machine may take minutes until its first token.
TIMEOUT = 1800.0


class AskError(Exception):
    """The question cannot be asked or was not answered; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one document, and the longest answer in tokens."""

    document: str
    question: str
    max_tokens: int

    @property
    def messages(self) -> list[ChatCompletionUserMessageParam]:
        """The chat: one user message, the document first."""
        return [{"role": "user", "content": f"{self.document}\n\n{self.query}"}]

    @property
    def query(self) -> str:
        """The last line of the message, as QGPM is told to find it."""
        return f"Question: {self.question.strip()}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was received; seconds count from the moment the request was sent."""

    id: str
    text: str
    first_token: float | None
    total: float

    @property
    def timing(self) -> str:
        """Both times in words; an empty answer has no first token."""
        first = "no token" if self.first_token is None else f"first token {self.first_token:.2f} s"
        return f"{first}, total {self.total:.2f} s"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that speaks the OpenAI API, and the model to ask there."""

    client: openai.OpenAI
    url: str
    model: str

    @classmethod
    def connect(cls, url: str, model: str | None = None, api_key: str | None = None) -> Self:
        """Finds the server; `url` is its root, with or without /v1. Raises `AskError`."""
        root = url.rstrip("/").removesuffix("/v1")
        key = api_key or os.environ.get("VLLM_API_KEY") or "none"
        client = openai.OpenAI(base_url=f"{root}/v1", api_key=key, max_retries=0, timeout=TIMEOUT)
        with _named_errors(root):
            if model is None:
                served = client.models.list().data
                if not served:
                    raise AskError(f"The server at {root} lists no model.")
                model = served[0].id
        return cls(client, root, model)

    def ask(
        self, question: Question, mode: Mode | None, on_text: Callable[[str], None], cold: bool = False
    ) -> Answer:
        """Streams one answer, handing each piece to `on_text`. Raises `AskError`.

        `mode` None leaves QGPM to the server's default. `cold` hides the request from the prefix cache, by a
        salt of its own.
        """
        body: dict[str, Any] = {}
        if mode is not None:
            body["qgpm"] = {"question": question.query} if mode == "qgpm" else False
        if cold:
            body["cache_salt"] = uuid.uuid4().hex
        pieces: list[str] = []
        first: float | None = None
        request_id = ""
        with _named_errors(self.url):
            start = time.perf_counter()
            stream = self.client.chat.completions.create(
                model=self.model,
                messages=question.messages,
                max_tokens=question.max_tokens,
                temperature=0.0,
                stream=True,
                extra_body=body,
            )
            for chunk in stream:
                request_id = chunk.id or request_id
                piece = chunk.choices[0].delta.content if chunk.choices else None
                if piece:  # the first chunk carries only the role
                    first = time.perf_counter() - start if first is None else first
                    pieces.append(piece)
                    on_text(piece)
            total = time.perf_counter() - start
        return Answer(request_id, "".join(pieces), first, total)

    def record(self, request_id: str) -> dict[str, Any]:
        """What the server did for a request; empty where it keeps no such records, as stock vLLM does."""
        try:
            found: Any = self.client.get(f"/requests/{request_id}", cast_to=object)
        except openai.OpenAIError:
            return {}
        return found if isinstance(found, dict) else {}

    def texts(self, question: Question, spans: list[tuple[int, int]]) -> list[str]:
        """The texts of token spans of the question's prompt; the bare numbers where the server cannot say."""
        try:
            tokens = self._tokens(question)
            return [self._text(tokens[start:end]) for start, end in spans]
        except (openai.OpenAIError, KeyError, TypeError):
            return [f"tokens {start} to {end}" for start, end in spans]

    def _tokens(self, question: Question) -> list[int]:
        body = {"model": self.model, "messages": question.messages}
        reply: Any = self.client.post(f"{self.url}/tokenize", body=body, cast_to=object)
        return list(reply["tokens"])

    def _text(self, tokens: list[int]) -> str:
        body = {"model": self.model, "tokens": tokens}
        reply: Any = self.client.post(f"{self.url}/detokenize", body=body, cast_to=object)
        return " ".join(str(reply["prompt"]).split())


def read_document(name: str) -> str:
    """The text of a file in UTF-8, or of standard input for "-". Raises `AskError`."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise AskError(f"The document cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise AskError(f"The document {name} is not UTF-8 text: {error.reason}.") from error
    if not text.strip():
        raise AskError(f"The document {name} is empty.")
    return text.strip()


def run(server: Server, question: Question, mode: Literal["plain", "qgpm", "compare"] | None) -> None:
    """Asks, and prints: the answer to standard output, what it cost to standard error. Raises `AskError`."""
    if mode == "compare":
        compare(server, question, Console())
        return
    answer = server.ask(question, mode, lambda piece: print(piece, end="", flush=True))
    print(flush=True)
    notes = Console(stderr=True)
    notes.print(answer.timing, highlight=False)
    _print_record(server, question, server.record(answer.id), notes)


def compare(server: Server, question: Question, console: Console) -> None:
    """Asks plainly, then with QGPM, and prints both side by side. Raises `AskError`."""
    answers = {}
    for mode, label in (("plain", "plainly"), ("qgpm", "with QGPM")):
        with console.status(f"asking {label} …"):
            # Both cold: otherwise the second would find the first one's blocks and look faster than it is.
            answers[mode] = server.ask(question, "qgpm" if mode == "qgpm" else "plain", _ignore, cold=True)
    table = Table(show_lines=True)
    table.add_column("")
    table.add_column("plain", ratio=1)
    table.add_column("QGPM", ratio=1)
    plain, modulated = answers["plain"], answers["qgpm"]
    table.add_row("answer", Text(plain.text), Text(modulated.text))
    table.add_row("first token", _seconds(plain.first_token), _seconds(modulated.first_token))
    table.add_row("total", _seconds(plain.total), _seconds(modulated.total))
    console.print(table)
    _print_record(server, question, server.record(modulated.id), console)


def _print_record(server: Server, question: Question, record: dict[str, Any], console: Console) -> None:
    """The sentences that QGPM chose, or why it did not."""
    if record.get("mode") == "plain":
        if reason := record.get("reason"):
            console.print(Text(f"answered plainly: {reason}"))
        return
    top = sorted(record.get("top") or [], key=lambda sentence: sentence["rank"])[:SHOWN_SENTENCES]
    if not top:
        return
    console.print(Text(f"most relevant of {record.get('sentences')} sentences:"))
    texts = server.texts(question, [(sentence["start"], sentence["end"]) for sentence in top])
    for sentence, text in zip(top, texts, strict=True):
        console.print(Text(f"  z {_score(sentence.get('z'))}  {text}"))


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f} s"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"  # evidence has no z


def _ignore(_piece: str) -> None:
    """Takes a piece of an answer that is shown only when it is whole."""


@contextmanager
def _named_errors(url: str) -> Iterator[None]:
    """Turns the client's errors into `AskError`."""
    try:
        yield
    except openai.APITimeoutError as error:
        raise AskError(f"The server at {url} did not answer within {TIMEOUT:.0f} s.") from error
    except openai.APIConnectionError as error:
        raise AskError(
            f"No server answers at {url}, or it went away. Start one with `ropeway serve` (`make serve`), or "
            "name it with --url."
        ) from error
    except openai.APIStatusError as error:
        raise AskError(
            f"The server at {url} refused the request ({error.status_code}): {_reason(error)}"
        ) from error
    except openai.APIError as error:
        raise AskError(f"The server at {url} failed while it answered: {error.message}") from error


def _reason(error: openai.APIStatusError) -> str:
    """The server's own words, out of OpenAI's envelope where there is one."""
    body = error.body
    if isinstance(body, dict):
        body = body.get("error", body)
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return error.message
