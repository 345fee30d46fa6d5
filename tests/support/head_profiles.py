"""A head profile for a checkpoint of random weights, whose heads nobody can choose for a reason."""

from collections.abc import Sequence
from pathlib import Path

from cache.head_profile import FILE_NAME, Calibration, Head, HeadProfile, fingerprint
from positional.qgpm import PACKAGE_DEFAULTS

HEADS = ((1, 0), (2, 3))


def save_arbitrary(folder: Path, model: str, heads: Sequence[tuple[int, int]] = HEADS) -> None:
    """Write a profile that reads the named (layer, head) pairs where a server of the folder looks for it."""
    profile = HeadProfile(
        format=4,
        model=model,
        fingerprint=fingerprint(folder),
        heads=tuple(Head(layer, head, 0.5) for layer, head in heads),
        query_tail=4,
        defaults=PACKAGE_DEFAULTS,
        calibration=Calibration(1, 0, (100,), "none", "float32", 0.5),
        tuning=None,
        relevance=None,
        guard=None,
    )
    profile.save(folder / FILE_NAME)
