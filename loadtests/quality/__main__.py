"""`python -m loadtests.quality`: serve a model, fill the grid, end with a table."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import httpx
from rich.console import Console
from transformers import AutoConfig, AutoTokenizer

from cache import head_profile
from cache.head_profile import HeadProfile, HeadProfileError
from loadtests.quality import grid as grids
from loadtests.quality.asking import Asker
from loadtests.quality.cells import Cells
from loadtests.quality.dataset_error import DatasetError
from loadtests.quality.grid import ROOM, GridError
from loadtests.quality.methods import METHODS
from loadtests.quality.observations import Grid, ObservationError, read
from loadtests.quality.options import Options
from loadtests.quality.plan import Turn, turns
from loadtests.quality.reference import Reference
from loadtests.quality.run import Run
from loadtests.quality.setting import Setting
from loadtests.quality.source import SPLIT, source
from loadtests.quality.store import SettingError, Store
from loadtests.quality.table import table
from loadtests.quality.warped_asking import WarpedAsker
from loadtests.quality.warping import BASELINES, UnwarpableError
from server import default_model
from server.child import running_server
from server.haystack import SamplesError
from server.likelihood import PROCESSOR, LikelihoodError
from server.model_folder import ModelFolderError, model_folder
from server.overlap import OverlapError, SampleSet, check_disjoint
from server.samples import Sample, Split
from server.start_defaults import on_cpu

MODEL = "measured"
READY_SECONDS = 1200
WARPED_SHARE = 0.15
"""Of the time: what the transformers model gets, which is slow and has few cells."""

CPU_FLAGS = ("--kv-cache-memory-bytes", "2G", "--gpu-memory-utilization", "0.3")
"""On the CPU vLLM would else take nearly all memory; so much holds the samples of several turns."""


class QualityError(Exception):
    """The measurement cannot begin; the message says why."""


REFUSALS = (
    QualityError,
    DatasetError,
    GridError,
    SettingError,
    ObservationError,
    OverlapError,
    ModelFolderError,
    HeadProfileError,
)
FAILURES = (LikelihoodError, UnwarpableError, SamplesError, httpx.HTTPError, RuntimeError)


def main(arguments: Sequence[str]) -> int:
    """Measures until the time is over or the user interrupts, then prints the table; the exit status."""
    options = Options.parse(arguments)
    # Otherwise the server would outlive a measurement that is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        measurement = Measurement(options)
    except REFUSALS as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    status = 0
    try:
        measurement.run()
    except KeyboardInterrupt:
        status = 130
    except FAILURES as error:
        print(f"quality: {error}", file=sys.stderr)
        status = 1
    Console().print(table(Cells(read(measurement.store.path))))
    print(f"{len(measurement.store.seen)} observations in {measurement.store.path}")
    return status


class Measurement:
    """One model, its samples and the file that is filled; raises one of REFUSALS."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = model_folder(options.model) if options.model else default_model.fetch()
        heads = head_profile.find(self.folder, options.head_profile)
        if heads is None:
            raise QualityError(f"{self.folder} has no head profile; make one with `ropeway calibrate`")
        if options.dataset is None:
            _check_samples(heads, options.seed)
        config = AutoConfig.from_pretrained(self.folder).get_text_config()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(self.folder)
        lengths = grids.lengths(config.max_position_embeddings, options.full)
        self.source = source(options.dataset, lengths, options.seed, self._count_tokens)
        self.grid = grids.grid(self.source.tasks, self.source.lengths, options.full)
        setting = Setting.of(options, self.folder, heads, asdict(self.grid))
        self.store = Store.open(options.out or setting.path, setting.to_json())

    def run(self) -> None:
        """First what a server answers, then what a transformers model does; raises one of FAILURES."""
        seconds = 60 * self.options.minutes
        flags = [str(self.folder), *_serve_flags(self.options, self.grid)]
        with running_server(flags, ready_within=READY_SECONDS) as server:
            asyncio.run(self._ask(server.url, (1 - WARPED_SHARE) * seconds))
        warped = WarpedAsker(Reference.load(self.folder))
        asyncio.run(
            self._run(grids.part(self.grid, BASELINES), 1, WARPED_SHARE * seconds).fill(warped, "warped")
        )

    async def _ask(self, url: str, seconds: float) -> None:
        # No limit of time: what a request waits for is the others, or a model as slow as it is.
        async with httpx.AsyncClient(timeout=None) as client:
            asker = Asker(client, url, MODEL, self.tokenizer)
            run = self._run(grids.part(self.grid, METHODS), self.options.at_once, seconds)
            await run.fill(asker, "served")

    def _run(self, part: Grid, at_once: int, seconds: float) -> Run:
        limits = [count for count in (self.options.samples_per_cell, self.source.count) if count is not None]
        return Run(self.store, turns(part, min(limits, default=None)), self._make, at_once, seconds)

    def _make(self, turn: Turn) -> Sample:
        return self.source.sample(turn.task, turn.length, turn.number)

    def _count_tokens(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def _check_samples(heads: HeadProfile, seed: int) -> None:
    """Raises OverlapError where the heads or the defaults were chosen by what is asked."""
    asked = SampleSet(SPLIT, seed)
    check_disjoint(asked, SampleSet("calibration", heads.calibration.seed))
    if heads.tuning is not None:
        check_disjoint(asked, SampleSet(cast(Split, heads.tuning.split), heads.tuning.seed))


def _serve_flags(options: Options, grid: Grid) -> list[str]:
    longest = max(length for lengths in grid.methods.values() for length in lengths)
    flags = ["--served-model-name", MODEL, "--dtype", options.dtype, "--max-model-len", str(longest + ROOM)]
    flags += ["--logits-processors", PROCESSOR, "--enable-prompt-tokens-details", "--qgpm-ablations"]
    flags += CPU_FLAGS if on_cpu() else ()
    if options.head_profile is not None:
        flags += ["--head-profile", str(options.head_profile)]
    return [*flags, *options.flags]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
