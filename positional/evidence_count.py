"""How many sentences are evidence, by the relevance alone: what K has to hold."""

from dataclasses import replace

import torch

from positional.qgpm import QGPMConfig

REACH = 4
"""Times K_s: as many sentences may turn out to be evidence."""
_FAR = 0.5
"""Of the furthest fall."""


def evidence_count(relevance: torch.Tensor, most: int) -> int:
    """The number from 1 to `most` behind which the relevance z [sentences] falls furthest.

    Of equal falls the first. Where all of them are 0, whatever is as relevant as the first counts, unless
    that is every sentence. So equal sentences are parted only where nothing else is left.
    """
    if len(relevance) == 1:
        return 1
    ordered = torch.sort(relevance, descending=True).values
    falls = (ordered[:-1] - ordered[1:])[:most]  # falls[k - 1]: behind the first k
    if bool((falls > 0).any()):
        return 1 + int(falls.argmax())
    tied = int((relevance >= ordered[0]).sum())
    return tied if tied < len(relevance) else 1


def widened(config: QGPMConfig, relevance: torch.Tensor) -> QGPMConfig:
    """The settings with K_s raised to the number of sentences that are evidence, and K_b above it.

    At most to four times K_s, and no further than to the first fall that is half as far as the furthest: what
    stands between the two resembles the evidence, and kept beside it takes most of the gain away. A K_s below
    the number of evidence sentences compresses some of them, which costs more.
    """
    most = evidence_count(relevance, REACH * config.k_sharp)
    ordered = torch.sort(relevance, descending=True).values[: most + 1]
    falls = ordered[:-1] - ordered[1:]
    count = 1 + int((falls >= _FAR * falls.max()).int().argmax()) if len(falls) == most else most
    k_sharp = max(config.k_sharp, count)
    return replace(config, k_sharp=k_sharp, k_broad=max(config.k_broad, k_sharp + 1))
