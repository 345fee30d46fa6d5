"""One model, its samples and the file that is filled."""

import asyncio
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast

import httpx
from transformers import AutoConfig, AutoTokenizer

from cache import head_profile
from cache.head_profile import HeadProfile
from loadtests.quality import chance
from loadtests.quality import grid as grids
from loadtests.quality.asking import Asker
from loadtests.quality.grid import ROOM
from loadtests.quality.methods import CHANCE, SERVED, embeds
from loadtests.quality.options import Options
from loadtests.quality.plan import Turn, turns
from loadtests.quality.reference import Reference
from loadtests.quality.run import Run
from loadtests.quality.setting import Setting
from loadtests.quality.source import SPLIT, source
from loadtests.quality.store import Store
from loadtests.quality.warped_asking import WarpedAsker
from loadtests.quality.warping import BASELINES, UnwarpableError
from server import default_model
from server.child import running_server
from server.embedder import PACKAGE
from server.likelihood import PROCESSOR
from server.model_folder import model_folder
from server.overlap import SampleSet, check_disjoint
from server.samples import POOLS, Sample, Split
from server.start_defaults import on_cpu

MODEL = "measured"
READY_SECONDS = 1200
WARPED_SHARE = 0.15
"""Of the time: what the transformers model gets, which is slow and has few cells."""

CPU_FLAGS = ("--kv-cache-memory-bytes", "2G", "--gpu-memory-utilization", "0.3")
"""On the CPU vLLM would else take nearly all memory; so much holds the samples of several turns."""


class QualityError(Exception):
    """The measurement cannot begin; the message says why."""


class Measurement:
    """What is to be observed, and what already is.

    Raises QualityError, and what is wrong with the model's folder, its head profile, its window, the data
    set, the samples (OverlapError, SamplesError) or the result file.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = model_folder(options.model) if options.model else default_model.fetch()
        heads = head_profile.find(self.folder, options.head_profile)
        if heads is None:
            raise QualityError(f"{self.folder} has no head profile; make one with `ropeway calibrate`")
        if options.dataset is None:
            check_samples(heads, options.seed)
        config = AutoConfig.from_pretrained(self.folder).get_text_config()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(self.folder)
        self.window = int(config.max_position_embeddings)
        lengths = grids.lengths(self.window, options.full)
        self.source = source(options.dataset, lengths, options.seed, self._count_tokens)
        grids.check_fitting(self.source.lengths, self.window)
        if options.methods is not None:
            check_embeddings(options.methods)
        self.grid = grids.grid(self.source.tasks, self.source.lengths, options.full, options.methods)
        setting = Setting.of(options, self.folder, heads, self.source, asdict(self.grid))
        self.store = Store.open(options.out or setting.path, setting.to_json())

    def run(self) -> None:
        """First what a server answers, then what a transformers model does.

        Raises LikelihoodError, SamplesError, httpx's errors and RuntimeError (the server does not start).
        """
        seconds = 60 * self.options.minutes
        if self._left(SERVED):
            with (
                self._embeddings() as flags,
                running_server([*self._serve_flags(), *flags], ready_within=READY_SECONDS) as server,
            ):
                asyncio.run(server.serving(self._ask(server.url, (1 - WARPED_SHARE) * seconds)))
        if self._left(BASELINES):
            self._warp(WARPED_SHARE * seconds)

    async def _ask(self, url: str, seconds: float) -> None:
        # No limit of time: what a request waits for is the others, or a model as slow as it is.
        async with httpx.AsyncClient(timeout=None) as client:
            asker = Asker(client, url, MODEL, self.tokenizer)
            run = Run(self.store, self._turns(SERVED), self._make, self.options.at_once, seconds)
            await run.fill(asker, "served")

    def _warp(self, seconds: float) -> None:
        try:
            asker = WarpedAsker(Reference.load(self.folder))
        except UnwarpableError as error:
            print(f"{', '.join(BASELINES)} are left out. {error}", file=sys.stderr)
            return
        run = Run(self.store, self._turns(BASELINES), self._make, 1, seconds)
        asyncio.run(run.fill(asker, "warped"))

    def _turns(self, methods: Collection[str]) -> Iterator[Turn]:
        limits = [count for count in (self.options.samples_per_cell, self.source.count) if count is not None]
        return turns(grids.part(self.grid, methods), min(limits, default=None))

    def _left(self, methods: Collection[str]) -> bool:
        """Whether anything of these methods is not observed yet."""
        return any(key not in self.store.seen for turn in self._turns(methods) for key in turn.keys)

    def _make(self, turn: Turn) -> Sample:
        return self.source.sample(turn.task, turn.length, turn.number)

    def _count_tokens(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _serve_flags(self) -> list[str]:
        longest = max(length for lengths in self.grid.methods.values() for length in lengths)
        flags = [str(self.folder), "--served-model-name", MODEL, "--dtype", self.options.dtype]
        flags += ["--max-model-len", str(min(longest + ROOM, self.window)), "--enable-prompt-tokens-details"]
        flags += ["--logits-processors", PROCESSOR, "--qgpm-ablations"]
        flags += CPU_FLAGS if on_cpu() else ()
        if self.options.head_profile is not None:
            flags += ["--head-profile", str(self.options.head_profile)]
        return [*flags, *self.options.flags]

    @contextmanager
    def _embeddings(self) -> Iterator[list[str]]:
        """Flags of the server that say where embeddings come from."""
        if CHANCE.keys() & self.grid.methods:
            with chance.endpoint() as url:
                yield ["--embedding-model", chance.NAME, "--embedding-url", url]
        elif any(map(embeds, self.grid.methods)) and "--embedding-model" not in self.options.flags:
            yield ["--embedding-model", PACKAGE]
        else:
            yield []


def check_embeddings(methods: Collection[str]) -> None:
    """Raises QualityError for methods that need two kinds of embeddings of one server."""
    others = [method for method in methods if embeds(method) and method not in CHANCE]
    if others and CHANCE.keys() & methods:
        raise QualityError(f"{others[0]} needs embeddings that say something: measure it in a run of its own")


def check_samples(heads: HeadProfile, seed: int) -> None:
    """Raises OverlapError where the heads or the defaults were chosen by what is asked.

    QualityError where that cannot be told.
    """
    asked = SampleSet(SPLIT, seed)
    check_disjoint(asked, SampleSet("calibration", heads.calibration.seed))
    if heads.tuning is not None:
        if heads.tuning.split not in POOLS:
            raise QualityError(f"the defaults were tuned on unknown samples, of {heads.tuning.split!r}")
        check_disjoint(asked, SampleSet(cast(Split, heads.tuning.split), heads.tuning.seed))
