"""`ropeway calibrate`: chooses the attention heads that rank evidence best (QGPM paper, appendix A).

Every head ranks the sentences of samples whose evidence is known. Heads are selected; no weight changes, and
QGPM's defaults are the package's.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from cache.head_profile import (
    QUERY_TAIL,
    Calibration,
    Head,
    HeadProfile,
    HeadProfileError,
    fingerprint,
)
from cache.whole_file import check_writable
from positional import relevance
from positional.qgpm import PACKAGE_DEFAULTS
from server import haystack
from server import samples as samples_module
from server.haystack import SamplesError
from server.head_reader import HeadKey, HeadReaderError, Observation, Reader
from server.model_folder import ModelFolderError, model_folder
from server.samples import CALIBRATION_KINDS, LENGTHS

MAX_HEADS = 16
MIN_SAMPLES = 4
ROOM = 512  # tokens of template, question and instruction beside the context


class CalibrationError(Exception):
    """The model cannot be calibrated; the message says why."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The best heads in order, the held-out MRR of every size from 1 on, and how many are chosen."""

    ranked: tuple[Head, ...]
    held_out: tuple[float, ...]
    size: int

    @property
    def heads(self) -> tuple[Head, ...]:
        """The chosen heads, best first."""
        return self.ranked[: self.size]

    @property
    def held_out_mrr(self) -> float:
        """The held-out MRR at the chosen size."""
        return self.held_out[self.size - 1]


def run(model: str, out: Path, samples: int, seed: int) -> int:
    """Calibrates the model and writes its head profile to `out`; prints a table; returns the exit status."""
    try:
        check_writable(out)
        profile, selection = calibrate(model_folder(model), samples, seed)
        profile.save(out)
    except (
        CalibrationError,
        ModelFolderError,
        HeadReaderError,
        SamplesError,
        HeadProfileError,
        OSError,
    ) as error:
        print(f"ropeway: {error}", file=sys.stderr)
        return 1
    _print(profile, selection)
    print(f"Written to {out}.")
    return 0


def calibrate(
    folder: Path, count: int, seed: int, lengths: Sequence[int] = LENGTHS
) -> tuple[HeadProfile, Selection]:
    """The head profile of the model in a folder, read from `count` samples, and how its heads compared.

    Raises CalibrationError, HeadReaderError, SamplesError (the text is not installed) and HeadProfileError
    (the folder has no fingerprint).
    """
    identity = fingerprint(folder)
    if count < MIN_SAMPLES:
        raise CalibrationError(f"At least {MIN_SAMPLES} samples are needed, not {count}.")
    reader = Reader.load(folder)
    lengths = tuple(length for length in lengths if length + ROOM <= reader.window)
    if not lengths:
        raise CalibrationError(f"{folder} has a window of {reader.window} tokens, too short for any sample.")
    drawn = samples_module.generate("calibration", count, seed, reader.count_tokens, lengths)
    observations = [
        reader.observe(sample) for sample in tqdm(drawn, desc="calibrating", total=count, unit="sample")
    ]
    selection = select(observations, reader.candidates, held_out_half(count, len(lengths)))
    profile = HeadProfile(
        format=4,
        model=folder.resolve().name,
        fingerprint=identity,
        heads=selection.heads,
        query_tail=QUERY_TAIL,
        defaults=PACKAGE_DEFAULTS,
        calibration=Calibration(
            samples=count,
            seed=seed,
            lengths=lengths,
            text=haystack.text_source(),
            dtype=reader.dtype,
            held_out_mrr=selection.held_out_mrr,
        ),
        tuning=None,
        relevance=None,
        guard=None,
    )
    return profile, selection


def select(
    observations: Sequence[Observation], candidates: Sequence[HeadKey], held_out: Sequence[bool]
) -> Selection:
    """The best heads by MRR over all observations; how many of them, the held-out half decides.

    For the size, heads are ordered on the other half and fused by eq. 5. The smallest size counts that lies
    within one standard error of the best, since every head costs memory for its keys.
    """
    single = torch.stack([reciprocal_rank(seen.signals, seen.evidence) for seen in observations])
    held = torch.tensor(held_out)
    order = single[~held].mean(0).argsort(descending=True, stable=True)[:MAX_HEADS]
    judges = [seen for seen, is_held in zip(observations, held_out, strict=True) if is_held]
    fused = torch.stack([_fused_ranks(judges, order[:size]) for size in range(1, len(order) + 1)])
    means = fused.mean(1)
    best = means.argmax()
    error = fused[best].std(correction=0) / len(judges) ** 0.5
    quality = single.mean(0)
    ranked = tuple(
        Head(layer, head, mrr=_rounded(quality[index]))
        for index in quality.argsort(descending=True, stable=True)[:MAX_HEADS].tolist()
        for layer, head in [candidates[index]]
    )
    size = int((means >= means[best] - error).nonzero()[0, 0]) + 1
    return Selection(ranked, tuple(_rounded(mean) for mean in means), size)


def reciprocal_rank(signals: torch.Tensor, evidence: Sequence[int]) -> torch.Tensor:
    """float64[heads]: 1 / the rank, from 1, of the best evidence sentence in signals [sentences, heads].

    Ties with other sentences count at the expected rank: of t others and k evidence sentences in random
    order, t / (k + 1) others come before the first evidence sentence.
    """
    is_evidence = torch.zeros(len(signals), dtype=torch.bool)
    is_evidence[list(evidence)] = True
    best = signals[is_evidence].amax(0)
    above = (signals[~is_evidence] > best).sum(0)
    tied = (signals[~is_evidence] == best).sum(0)
    equal = (signals[is_evidence] == best).sum(0)
    return 1 / (1 + above + tied / (equal + 1)).double()


def held_out_half(count: int, lengths: int) -> list[bool]:
    """Which samples are held out: of each kind and length every other one, and every other length first."""
    turn = len(CALIBRATION_KINDS) * lengths
    return [(index % turn // len(CALIBRATION_KINDS) + index // turn) % 2 == 1 for index in range(count)]


def _fused_ranks(observations: Sequence[Observation], heads: torch.Tensor) -> torch.Tensor:
    """float64[observations]: reciprocal ranks by the mean of some heads' standardised signals (eq. 5)."""
    return torch.cat(
        [
            reciprocal_rank(relevance.standardise(seen.signals[:, heads])[:, None], seen.evidence)
            for seen in observations
        ]
    )


def _rounded(value: torch.Tensor) -> float:
    """To three digits: more would be noise of the samples."""
    return round(value.item(), 3)


def _print(profile: HeadProfile, selection: Selection) -> None:
    table = Table(
        "rank", "layer", "head", "MRR", "held-out MRR of so many heads", "chosen", title=profile.model
    )
    rows = enumerate(zip(selection.ranked, selection.held_out, strict=True), start=1)
    for rank, (head, held_out) in rows:
        chosen = "yes" if rank <= selection.size else ""
        cells = (rank, head.layer, head.head, f"{head.mrr:.3f}", f"{held_out:.3f}", chosen)
        table.add_row(*(str(cell) for cell in cells))
    Console().print(table)
