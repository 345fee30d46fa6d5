"""Relevance by embeddings: from an endpoint and from the package, with documents remembered."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise

import numpy as np
import pytest

from loadtests.local_http import serving_by
from positional.relevance import rank
from positional.sources.contract import Asked, SourceError
from server.document_vectors import DocumentVectors, document_key
from server.embedder import EmbeddingEndpoint, PackagedEmbedder
from server.embedding_source import EmbeddingSource

SENTENCES = ("The ferry leaves at seven.", "Nadia keeps keys.", "The harbour freezes.")
WORDS = ("ferry", "key", "harbour")


class Endpoint:
    """What an endpoint was asked, and how it answers: a vector counts the words."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.headers: list[str | None] = []
        self.status = 200
        self.width = len(WORDS)
        self.dropped = 0
        self.value: float | None = None
        self.shape: object = self

    @contextmanager
    def serving(self) -> Iterator[str]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append(body["input"])
                endpoint.headers.append(self.headers["authorization"])
                assert (self.path, body["model"]) == ("/v1/embeddings", "small")
                told = endpoint.answer(body["input"]) if endpoint.shape is endpoint else endpoint.shape
                answer = json.dumps(told).encode()
                self.send_response(endpoint.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        with serving_by(Handler) as url:
            yield f"{url}/v1"

    def answer(self, texts: list[str]) -> dict[str, object]:
        if self.status != 200:
            return {"error": {"message": f"no good: {texts}"}}
        vectors = [[float(word in text) for word in WORDS][: self.width] for text in texts]
        if self.value is not None:
            vectors = [[self.value] * self.width for _ in vectors]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        return {"object": "list", "model": "small", "data": data[self.dropped :][::-1], "usage": None}


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


async def test_the_sentence_whose_vector_is_the_questions_comes_first(endpoint: Endpoint) -> None:
    with endpoint.serving() as url:
        source = EmbeddingSource(EmbeddingEndpoint(url, "small", "secret"), DocumentVectors(), None)
        found = await source.read(Asked(SENTENCES, "Who has a key?"))
    assert rank(found.z).tolist() == [1, 0, 2]
    assert found.cost == {"embedded": 4, "cached": False}
    assert endpoint.headers == ["Bearer secret"]


async def test_many_texts_go_in_batches_and_come_back_in_order(endpoint: Endpoint) -> None:
    texts = [f"{'ferry' if number % 3 else 'key'} {number}" for number in range(600)]
    with endpoint.serving() as url:
        vectors = await EmbeddingEndpoint(url, "small", None).embed(texts)
    assert sorted(map(len, endpoint.asked)) == [88, 256, 256]
    assert vectors[:, 0].tolist() == [float(number % 3 > 0) for number in range(600)]


async def test_blank_and_endless_texts_are_sent_as_endpoints_take_them(endpoint: Endpoint) -> None:
    with endpoint.serving() as url:
        await EmbeddingEndpoint(url, "small", None).embed([" \n", "x" * 100_000])
    assert [len(text) for text in endpoint.asked[0]] == [1, 2000]


async def test_a_document_is_embedded_once_for_a_tenant(endpoint: Endpoint) -> None:
    known = DocumentVectors()
    with endpoint.serving() as url:
        embedder = EmbeddingEndpoint(url, "small", None)
        first = await EmbeddingSource(embedder, known, "a").read(Asked(SENTENCES, "A key?"))
        again = await EmbeddingSource(embedder, known, "a").read(Asked(SENTENCES, "A key?"))
        other = await EmbeddingSource(embedder, known, "b").read(Asked(SENTENCES, "A ferry?"))
    assert [len(texts) for texts in endpoint.asked] == [4, 1, 4]
    assert again.cost == {"embedded": 1, "cached": True}
    assert again.z.tolist() == first.z.tolist()
    assert (other.cost["cached"], rank(other.z).tolist()[0]) == (False, 0)


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("status", 400, "BadRequestError"),
        ("status", 401, "AuthenticationError"),
        ("dropped", 1, "3 vectors for 4 texts"),
        ("value", float("nan"), "vectors that are not finite"),
        ("shape", None, "no answer of vectors of one width"),
        ("shape", [], "no answer of vectors of one width"),
        ("shape", {"data": [{"index": 0, "embedding": ["x"]}] * 4}, "no answer of vectors of one width"),
    ],
)
async def test_a_failure_is_told_without_a_word_of_the_texts(
    endpoint: Endpoint, setting: str, value: object, why: str
) -> None:
    setattr(endpoint, setting, value)
    with endpoint.serving() as url:
        source = EmbeddingSource(EmbeddingEndpoint(url, "small", None), DocumentVectors(), None)
        with pytest.raises(SourceError) as found:
            await source.read(Asked(SENTENCES, "Who?"))
    assert (found.value.source, found.value.why) == ("embedding", why)
    assert "ferry" not in str(found.value)


async def test_an_endpoint_that_is_not_there_is_a_failure(free_port: int) -> None:
    embedder = EmbeddingEndpoint(f"http://127.0.0.1:{free_port}/v1", "small", None, timeout=1)
    with pytest.raises(SourceError, match="APIConnectionError"):
        await embedder.embed(["text"])


async def test_another_models_vectors_are_not_compared(endpoint: Endpoint) -> None:
    known = DocumentVectors()
    with endpoint.serving() as url:
        source = EmbeddingSource(EmbeddingEndpoint(url, "small", None), known, None)
        await source.read(Asked(SENTENCES, "A key?"))
        endpoint.width = 2
        with pytest.raises(SourceError, match="another width"):
            await source.read(Asked(SENTENCES, "A key?"))


async def test_the_packaged_model_knows_what_words_have_in_common() -> None:
    source = EmbeddingSource(PackagedEmbedder(), DocumentVectors(), None)
    sentences = ("The choir rehearses on Mondays.", "Yuki lives in Helsinki.", "Bread is baked at dawn.", "")
    found = await source.read(Asked(sentences, "Who has been to Finland?"))
    assert rank(found.z).tolist()[1] == 0
    assert found.cost["embedded"] == 5


async def test_halves_of_surrogate_pairs_are_embedded_as_something_else() -> None:
    source = EmbeddingSource(PackagedEmbedder(), DocumentVectors(), None)
    found = await source.read(Asked(("\ud800 key", "harbour"), "key \udfff"))
    assert rank(found.z).tolist() == [0, 1]


def _vectors(rows: int) -> np.ndarray:
    return np.ones((rows, 25), dtype=np.float32)  # 100 bytes a row


def test_documents_are_bounded_and_the_least_used_goes_first() -> None:
    known = DocumentVectors(limit=1600)  # three documents of a row, each with what an entry takes
    for key in (b"a", b"b", b"c"):
        known.put(key, _vectors(1))
    assert known.get(b"a") is not None
    known.put(b"d", _vectors(1))
    assert [known.get(key) is None for key in (b"a", b"b", b"c", b"d")] == [False, True, False, False]
    assert known.bytes == 1500
    known.put(b"e", _vectors(100))
    assert known.get(b"e") is None
    known.put(b"a", _vectors(2))
    assert known.bytes == 1600


def test_a_limit_of_0_keeps_nothing() -> None:
    known = DocumentVectors(limit=0)
    known.put(b"a", _vectors(1))
    assert (known.get(b"a"), known.bytes) == (None, 0)


def test_documents_are_told_apart_by_sentences_and_tenant() -> None:
    keys = [
        document_key(sentences, salt)
        for sentences, salt in (
            (("ab",), None),
            (("a", "b"), None),
            (("b", "a"), None),
            (("ab",), ""),
            (("b",), "a"),
            (("ab",), "a"),
            (("\ud800",), None),
        )
    ]
    assert all(one != two for one, two in pairwise(sorted(keys)))
    assert document_key(("ab",), "a") == document_key(["ab"], "a")
