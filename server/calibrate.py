"""`ropeway calibrate`: chooses the attention heads that rank evidence best (QGPM paper, appendix A).

Every head ranks the sentences of samples whose evidence is known. Heads are selected; no weight changes, and
QGPM's defaults are the package's.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from cache.head_profile import QUERY_TAIL, Calibration, Head, HeadProfile, HeadProfileError, fingerprint
from positional import relevance
from positional.qgpm import PACKAGE_DEFAULTS
from server import samples as samples_module
from server.head_reader import HeadKey, HeadReaderError, Observation, Reader
from server.samples import KINDS, LENGTHS, SamplesError

MAX_HEADS = 16
MIN_SAMPLES = 4
ROOM = 512  # tokens of template, question and instruction beside the context


class CalibrationError(Exception):
    """The model cannot be calibrated; the message says why."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen heads, best first, and the held-out MRR of every size tried (size 1 first)."""

    heads: tuple[Head, ...]
    held_out: tuple[float, ...]

    @property
    def held_out_mrr(self) -> float:
        """The held-out MRR at the chosen size."""
        return self.held_out[len(self.heads) - 1]


def run(model: str, out: Path, samples: int, seed: int) -> int:
    """Calibrates the model and writes its head profile to `out`; prints a table; returns the exit status."""
    try:
        _check_writable(out)
        profile, selection = calibrate(_folder(model), samples, seed)
        profile.save(out)
    except (CalibrationError, HeadReaderError, SamplesError, HeadProfileError, OSError) as error:
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
        format=1,
        model=folder.resolve().name,
        fingerprint=identity,
        heads=selection.heads,
        query_tail=QUERY_TAIL,
        defaults=PACKAGE_DEFAULTS,
        calibration=Calibration(
            samples=count,
            seed=seed,
            lengths=lengths,
            text=samples_module.text_source(),
            dtype=reader.dtype,
            held_out_mrr=round(selection.held_out_mrr, 4),
        ),
    )
    return profile, selection


def select(
    observations: Sequence[Observation], candidates: Sequence[HeadKey], held_out: Sequence[bool]
) -> Selection:
    """The best heads by MRR over all observations; how many of them, the held-out half decides.

    For the size, heads are ordered on the other half and fused by eq. 5; the smallest of equal sizes wins.
    """
    single = torch.stack([reciprocal_rank(seen.signals, seen.evidence) for seen in observations])
    held = torch.tensor(held_out)
    order = single[~held].mean(0).argsort(descending=True, stable=True)
    fused = [
        _fused_mrr(
            [seen for seen, is_held in zip(observations, held_out, strict=True) if is_held], order[:size]
        )
        for size in range(1, min(MAX_HEADS, len(candidates)) + 1)
    ]
    size = fused.index(max(fused)) + 1
    quality = single.mean(0)
    best = quality.argsort(descending=True, stable=True)[:size].tolist()
    heads = tuple(
        Head(layer, head, mrr=round(quality[index].item(), 4))
        for index in best
        for layer, head in [candidates[index]]
    )
    return Selection(heads, tuple(fused))


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
    turn = len(KINDS) * lengths
    return [(index % turn // len(KINDS) + index // turn) % 2 == 1 for index in range(count)]


def _fused_mrr(observations: Sequence[Observation], heads: torch.Tensor) -> float:
    """The MRR of some heads together, by the mean of their standardised signals (eq. 5)."""
    ranks = [
        reciprocal_rank(relevance.standardise(seen.signals[:, heads])[:, None], seen.evidence)
        for seen in observations
    ]
    return torch.cat(ranks).mean().item()


def _folder(model: str) -> Path:
    """The model's folder; a name is looked up where transformers would find or fetch it."""
    if Path(model).is_dir():
        return Path(model)
    try:
        return Path(
            snapshot_download(model, allow_patterns=["*.json", "*.jinja", "*.model", "*.safetensors"])
        )
    except (HFValidationError, OSError) as error:
        raise CalibrationError(
            f"{model} is neither a folder nor a model that can be fetched: {error}"
        ) from error


def _check_writable(out: Path) -> None:
    """Finds out before the work whether its result can be kept."""
    with tempfile.NamedTemporaryFile(dir=out.parent):
        pass


def _print(profile: HeadProfile, selection: Selection) -> None:
    table = Table("rank", "layer", "head", "MRR", "held-out MRR of the heads so far", title=profile.model)
    for rank, held_out in enumerate(selection.held_out):
        head = profile.heads[rank] if rank < len(profile.heads) else None
        cells = (str(head.layer), str(head.head), f"{head.mrr:.3f}") if head else ("", "", "")
        table.add_row(str(rank + 1), *cells, f"{held_out:.3f}")
    Console().print(table)
