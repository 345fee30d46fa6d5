"""How many sentences are evidence, by the relevance alone: what K has to hold."""

from dataclasses import replace

import torch

from positional.qgpm import QGPMConfig

REACH = 4
"""Times K_s: as many sentences may turn out to be evidence."""


def evidence_count(relevance: torch.Tensor, least: int, most: int) -> int:
    """The number from `least` to `most` behind which the relevance z [sentences] falls furthest.

    Of equal falls the first. Where all of them are 0, whatever is as relevant as the last of the `least`
    counts too, unless that is every sentence. So equal sentences are parted only where nothing else is left.
    """
    count = len(relevance)
    least = min(max(1, least), count)
    if least == count:
        return count
    ordered = torch.sort(relevance, descending=True).values
    falls = ordered[:-1] - ordered[1:]  # falls[k - 1]: behind the first k
    within = falls[least - 1 : max(least, most)]
    if bool((within > 0).any()):
        return least + int(within.argmax())
    tied = int((relevance >= ordered[least - 1]).sum())
    return tied if tied < count else least


def widened(config: QGPMConfig, relevance: torch.Tensor) -> QGPMConfig:
    """The settings with K_s raised to the number of sentences that are evidence, and K_b above it.

    At most to four times K_s. A K_s below the number of evidence sentences compresses some of them, which
    costs more than one above it.
    """
    k_sharp = evidence_count(relevance, config.k_sharp, REACH * config.k_sharp)
    k_sharp = max(config.k_sharp, k_sharp)
    return replace(config, k_sharp=k_sharp, k_broad=max(config.k_broad, k_sharp + 1))
