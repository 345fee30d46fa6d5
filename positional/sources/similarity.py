"""Relevance by embeddings: the cosine between each sentence's vector and the question's."""

import torch

from positional.relevance import standardise


def similarity(sentences: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
    """z float64 [sentences] from vectors [sentences, width] and [width]; a vector of 0 resembles nothing."""
    norms = sentences.double().norm(dim=1) * question.double().norm()
    products = sentences.double() @ question.double()
    return standardise(torch.where(norms > 0, products / norms, 0.0)[:, None])
