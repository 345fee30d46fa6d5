"""Embeddings that say nothing."""

import httpx
import numpy as np
import pytest

from loadtests.quality import chance
from loadtests.quality.measurement import QualityError, check_embeddings
from server.embedder import EmbeddingEndpoint


async def test_the_same_text_has_the_same_vector_and_no_text_resembles_another() -> None:
    with chance.endpoint() as url:
        embedder = EmbeddingEndpoint(url, chance.NAME, None)
        texts = [f"sentence {number}" for number in range(200)]
        first, again = await embedder.embed(texts), await embedder.embed(texts[::-1])

    assert np.array_equal(first, again[::-1])
    unit = first / np.linalg.norm(first, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[~np.eye(len(texts), dtype=bool)]
    # Of independent vectors of 64 numbers the cosine's deviation is 1/8.
    assert abs(cosines.mean()) < 0.01
    assert abs(cosines.std() - 1 / 8) < 0.01


def test_it_ends_with_its_block() -> None:
    with chance.endpoint() as url:
        httpx.post(f"{url}/embeddings", json={"input": ["a"]}).raise_for_status()
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"{url}/embeddings", json={"input": ["a"]})


def test_one_run_does_not_ask_both_kinds_of_embeddings() -> None:
    check_embeddings(["chance_guarded", "heads_chance_guarded", "qgpm_guarded"])
    check_embeddings(["fused", "lexical_guarded"])
    with pytest.raises(QualityError, match="fused_guarded"):
        check_embeddings(["chance_guarded", "fused_guarded"])
