"""Relevance by embeddings."""

import pytest
import torch

from positional.sources.similarity import similarity


def test_z_is_the_standardised_cosine() -> None:
    vectors = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    z = similarity(vectors, torch.tensor([5.0, 0.0]))
    cosines = torch.tensor([1, 0, 0.5**0.5], dtype=torch.float64)
    expected = (cosines - cosines.mean()) / cosines.std(correction=0)
    assert z.tolist() == pytest.approx(expected.tolist())


def test_lengths_of_vectors_do_not_matter() -> None:
    vectors = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    question = torch.randn(8, generator=torch.Generator().manual_seed(2))
    scaled = vectors * torch.arange(1, 7)[:, None]
    assert similarity(scaled, 9 * question).tolist() == pytest.approx(similarity(vectors, question).tolist())


def test_a_vector_of_zero_resembles_nothing() -> None:
    z = similarity(torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), torch.tensor([1.0, 0.0]))
    assert z.tolist() == pytest.approx([0, 1.5**0.5, -(1.5**0.5)])
    assert similarity(torch.ones(3, 2), torch.zeros(2)).tolist() == [0, 0, 0]
