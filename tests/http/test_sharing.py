"""What a body says of positions and tenants reaches the engine core, seen in the blocks that are shared."""

from itertools import count
from typing import Any

import pytest

from server.child import Server
from tests.http.servers import BLOCK, QUESTION, complete, record, relevance
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

# Some 3,000 tokens, of which a step of the server takes 128.
LONG = f"{document(150, seed=41)}\n\n{QUESTION}"
_salts = count()


@pytest.fixture
def salt() -> str:
    """A salt under which nothing was cached."""
    return f"sharing {next(_salts)}"


@pytest.fixture(scope="module")
def evidence(server: Server) -> dict[str, Any]:
    """QGPM's fields under which the first sentence alone keeps its place."""
    first = relevance(server, prompt=LONG)["sentences"][0]["text"].strip()
    return {"evidence": [first], "k_broad": 2, "t_broad": 0, "k_sharp": 1, "t_sharp": 0}


def cached(response: dict[str, Any]) -> int:
    found: int = response["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


def whole(response: dict[str, Any]) -> int:
    """All blocks of a prompt but that of its last token."""
    length: int = response["usage"]["prompt_tokens"]
    return (length - 1) // BLOCK * BLOCK


def test_the_same_prompt_twice_is_cached(server: Server, salt: str) -> None:
    """vllm#17954: a prefix cache that did nothing on the CPU."""
    first, again = (complete(server, cache_salt=salt) for _ in range(2))
    assert (cached(first), cached(again)) == (0, whole(again))


def test_qgpm_reaches_the_keys_of_blocks(server: Server, salt: str, evidence: dict[str, Any]) -> None:
    """sglang#23300: a key that HTTP took and the scheduler never saw."""
    bodies: list[dict[str, Any]] = [{}, {"qgpm": evidence}, {}, {"qgpm": evidence}, {"qgpm": False}]
    plain, moved, *again = (complete(server, LONG, cache_salt=salt, **body) for body in bodies)
    assert cached(plain) == 0
    assert cached(moved) <= BLOCK
    assert [cached(response) for response in again] == [whole(plain)] * 3


def test_a_salt_holds_for_all_chunks_of_both_passes(server: Server, salt: str) -> None:
    """vllm#47696: the salt was lost where a long input was chunked."""
    salts = (salt, f"{salt} of another", salt)
    first, other, again = (complete(server, LONG, cache_salt=salt, qgpm=True) for salt in salts)
    assert cached(first) == cached(other) == 0
    found = [record(server, response) for response in (first, other, again)]
    for cold in found[:2]:
        assert cold["mode"] == "qgpm"
        assert cold["tokens"]["score_cached"] == 0
        assert cold["tokens"]["answer_cached"] < whole(first)
    assert found[2]["tokens"]["answer_cached"] == whole(first)


def test_a_salt_holds_for_all_chunks_of_moved_blocks(
    server: Server, salt: str, evidence: dict[str, Any]
) -> None:
    salts = (salt, f"{salt} of another", salt)
    first, other, again = (complete(server, LONG, cache_salt=salt, qgpm=evidence) for salt in salts)
    assert cached(first) == cached(other) == 0
    assert cached(again) == whole(again)
