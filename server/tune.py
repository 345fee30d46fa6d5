"""`ropeway tune`: searches QGPM's defaults for one model and writes them into its head profile.

A server of the model runs beside; candidates are measured by the log-probability of the answers of the
project's own tuning samples. No sample of calibration or evaluation is among them.
"""

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import cast

import httpx
from rich.console import Console
from rich.table import Table
from tqdm import tqdm
from transformers import AutoConfig, AutoTokenizer

from cache import head_profile
from cache.head_profile import Gain, HeadProfile, HeadProfileError, OwnSource, Tuning
from cache.whole_file import check_writable
from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig
from server import haystack, start_defaults, tune_guard, tune_held_out, tune_search
from server.child import Server, running_server
from server.embedder import PACKAGE
from server.haystack import SamplesError
from server.interruption import interruptible
from server.likelihood import PROCESSOR, LikelihoodError
from server.model_folder import ModelFolderError, model_folder
from server.samples import KINDS
from server.tune_clock import BAR, Clock
from server.tune_guard import Rankings
from server.tune_held_out import HeldOut
from server.tune_measure import SPLIT, Asked, Measure
from server.tune_search import BlockGain, Objective, Search

LENGTHS = (500, 1000, 2000)
ROOM = 512  # tokens of template, question, instruction and answer beside the context
RACE_SHARE = 0.35
HELD_OUT_SHARE = 0.2
"""Of the time behind the server's start: what the race and the comparison at the end may take."""
GUARD_SHARE = 0.15
"""Of the whole time: what the guard's calibration may take."""
SHOWN = 10
SOURCES = ("evidence", "heads")
MODEL = "tuned"


class TuningError(Exception):
    """The model cannot be tuned; the message says why."""


def run(model: str, out: Path, minutes: float, seed: int, profile: Path | None, *, guard_only: bool) -> int:
    """Tunes the model within the minutes and writes its head profile to `out`; returns the exit status.

    `profile`: the head profile to start from, found where the server would find it by default. `guard_only`:
    the settings stay, and all the time goes into the guard and the default sources. Prints the candidates,
    also where the user interrupts the search; then nothing is written.
    """
    search = Search()
    try:
        check_writable(out)
        folder = model_folder(model)
        found = head_profile.find(folder, profile)
        if found is None:
            raise TuningError(f"{folder} has no head profile; make one with `ropeway calibrate`.")
        with interruptible():
            held_out, tuned = tune(folder, found, minutes, seed, search, guard_only=guard_only)
        tuned.save(out)
    except KeyboardInterrupt:
        _print(search)
        print("ropeway: interrupted; nothing was written.", file=sys.stderr)
        return 130
    except (
        TuningError,
        ModelFolderError,
        SamplesError,
        HeadProfileError,
        LikelihoodError,
        httpx.HTTPError,
        RuntimeError,
        OSError,
    ) as error:
        _print(search)
        # httpx's have no message where a connection breaks.
        print(f"ropeway: {str(error) or repr(error)}", file=sys.stderr)
        return 1
    _print(search)
    if held_out is not None:
        _print_result(held_out, tuned)
    _print_guard(tuned)
    print(f"Written to {out}.")
    return 0


def tune(
    folder: Path, profile: HeadProfile, minutes: float, seed: int, search: Search, *, guard_only: bool
) -> tuple[HeldOut | None, HeadProfile]:
    """Fills `search`, compares its best on held-out samples; the profile with the better of them and a guard.

    `guard_only`: only the guard, and there is nothing that was held out. Ends within the minutes, the
    server's start included. Raises TuningError, SamplesError, LikelihoodError, httpx's errors and
    RuntimeError (the server does not start).
    """
    clock = Clock(time.monotonic() + 60 * minutes)
    window = int(AutoConfig.from_pretrained(folder).get_text_config().max_position_embeddings)
    lengths = _lengths(folder, window)
    # Twice as much as is known to be needed: a tokenizer may make many tokens of a question.
    seen = min(window, 2 * (max(lengths) + ROOM))
    with asyncio.Runner() as runner, _served(folder, profile, seen, clock) as server:
        client = httpx.AsyncClient(timeout=None)
        asked = Asked(client, server.url, MODEL, AutoTokenizer.from_pretrained(folder))
        measure = Measure(asked, lengths, seed)
        try:
            held_out, tuned = None, profile
            if not guard_only:
                held_out = find(
                    lambda config, block: runner.run(server.serving(measure.gain(config, block))),
                    profile.defaults,
                    seed,
                    Clock(clock.end - GUARD_SHARE * 60 * minutes),
                    search,
                )
                samples = len(measure.blocks) * len(KINDS)
                tuned = tuned_profile(profile, held_out, minutes, seed, lengths, samples)
            rankings = Rankings(measure, tuned.defaults, _embeds())
            guarded = tune_guard.find(
                lambda block: runner.run(server.serving(rankings.told(block))),
                lambda block, fusion: runner.run(server.serving(rankings.judged(block, fusion))),
                clock,
            )
        finally:
            runner.run(client.aclose())
    if guarded is not None:
        relevance = cast(dict[OwnSource, float], dict(guarded.relevance.weights))
        tuned = replace(tuned, guard=guarded.guard, relevance=relevance)
    elif guard_only:
        raise TuningError(f"{minutes:g} minutes are too few to calibrate a guard.")
    return held_out, tuned


def tuned_profile(
    profile: HeadProfile,
    held_out: HeldOut,
    minutes: float,
    seed: int,
    lengths: tuple[int, ...],
    samples: int,
) -> HeadProfile:
    """The profile with the better defaults, and how they were found on so many samples in all.

    Raises TuningError where too few were held out.
    """
    evidence, heads = held_out.gain("evidence"), held_out.gain("heads")
    if evidence is None or heads is None:
        raise TuningError(f"{minutes:g} minutes are too few to compare on held-out samples.")
    tuning = Tuning(
        samples=samples,
        held_out=len(held_out.incumbent_gains) * len(KINDS),
        split=SPLIT,
        seed=seed,
        kinds=KINDS,
        lengths=lengths,
        text=haystack.text_source(),
        minutes=minutes,
        changed=held_out.changes,
        gain_evidence=evidence,
        gain_heads=heads,
    )
    return replace(profile, defaults=held_out.chosen, tuning=tuning)


def find(objective: Objective, incumbent: QGPMConfig, seed: int, clock: Clock, search: Search) -> HeldOut:
    """Fills `search` and compares its best with the incumbent, before the clock's end.

    Raises TuningError where there is no time for a single block.
    """
    race, held_back = RACE_SHARE * clock.left, HELD_OUT_SHARE * clock.left
    total = round(clock.left)
    with tqdm(desc="tuning", total=total, bar_format=BAR) as bar:

        def timed(config: QGPMConfig, block: int) -> BlockGain:
            with clock.step():
                gain = objective(config, block)
            bar.set_postfix_str(_progress(search), refresh=False)
            bar.update(total - round(clock.left) - bar.n)
            return gain

        tune_search.run(search, timed, _starts(incumbent), seed, lambda: clock.allows(1, race + held_back))
        tune_search.race(search, timed, lambda gains: clock.allows(gains, held_back))
        best = search.best
        if best is None:
            raise TuningError("The time is too short to measure anything.")
        held_out = HeldOut(incumbent, best.config)
        tune_held_out.run(held_out, timed, lambda: clock.allows(2))
    return held_out


def _embeds() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


@contextmanager
def _served(folder: Path, profile: HeadProfile, seen: int, clock: Clock) -> Iterator[Server]:
    """A server of the model that can force answers, and sees so many tokens.

    Raises TuningError where it is not ready before the clock's end, RuntimeError where it cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="ropeway-tune-") as work:
        heads = Path(work) / head_profile.FILE_NAME
        profile.save(heads)
        arguments = [
            str(folder),
            "--served-model-name", MODEL,
            "--head-profile", str(heads),
            "--logits-processors", PROCESSOR,
            "--max-model-len", str(seen),
        ]  # fmt: skip
        if _embeds():
            arguments += ["--embedding-model", PACKAGE]
        if start_defaults.on_cpu() and "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
            arguments += ["--kv-cache-memory-bytes", start_defaults.CPU_CACHE]
        with ExitStack() as stack:
            try:
                server = stack.enter_context(running_server(arguments, ready_within=clock.left))
            except RuntimeError as error:
                if clock.left > 0:
                    raise
                raise TuningError("The time is too short: the server was not ready in it.") from error
            yield server


def _lengths(folder: Path, window: int) -> tuple[int, ...]:
    fitting = tuple(length for length in LENGTHS if length + ROOM <= window)
    if not fitting:
        raise TuningError(f"{folder} has a window of {window} tokens, too short for any sample.")
    return fitting


def _progress(search: Search) -> str:
    best = search.best
    shown = "" if best is None else f", best {best.mean:+.2f} nats on {len(best.gains)} blocks"
    return f"{len(search.candidates)} candidates{shown}"


def _starts(incumbent: QGPMConfig) -> list[QGPMConfig]:
    """What is measured before anything is drawn: the defaults so far, the paper's, and others.

    These modulate both halves of the layers, or all but spare the lower one, more or less.
    """
    few = replace(PACKAGE_DEFAULTS, t_broad=0.1, k_sharp=1, t_sharp=0.1, anchor_ratio=0.5)
    others = [
        replace(few, k_broad=k_broad, score_low=score_low)
        for k_broad in (3, 1000)
        for score_low in (0.1, 0.3, 0.6, 0.8)
    ]
    return list(dict.fromkeys([incumbent, PACKAGE_DEFAULTS, *others]))


def _print(search: Search) -> None:
    """The best candidates, the first, which are the defaults so far, and the best in a request's names."""
    ranked, best = search.ranked(), search.best
    if best is None:
        return
    first = search.candidates[0]
    table = Table("blocks", "gain", "evidence", "heads", "settings", title=f"{len(ranked)} candidates")
    for candidate in [*ranked[:SHOWN], *([first] if first in ranked[SHOWN:] else [])]:
        gains = [candidate.mean, *(fmean(getattr(g, s) for g in candidate.gains) for s in SOURCES)]
        note = " (the defaults so far)" if candidate is first else ""
        cells = [str(len(candidate.gains)), *(f"{gain:+.2f}" for gain in gains)]
        table.add_row(*cells, _shown_settings(candidate.config) + note)
    Console().print(table)
    print("Gains in nats against plain, averaged over kinds; candidates by the blocks that they passed.")
    print(f"Best: {json.dumps(asdict(best.config))}")


def _shown_settings(config: QGPMConfig) -> str:
    return (
        f"k {config.k_broad}/{config.k_sharp}, t {config.t_broad:g}/{config.t_sharp:g}, "
        f"low {config.score_low:g}, floor {config.stride_floor:g}, anchor {config.anchor_ratio:g}, "
        f"gate {config.gate_width:g}"
    )


def _print_result(held_out: HeldOut, profile: HeadProfile) -> None:
    tuning, difference = profile.tuning, held_out.difference
    assert tuning is not None  # where either is missing `tune` has raised
    assert difference is not None
    verb = "replace" if held_out.changes else "do not beat"
    print(
        f"The best candidate's settings {verb} the defaults so far: {_shown(difference)} "
        f"on {tuning.held_out} held-out samples."
    )
    print(
        f"The profile's defaults against plain: with gold evidence {_shown(tuning.gain_evidence)}, ", end=""
    )
    print(f"with heads {_shown(tuning.gain_heads)}.")


def _print_guard(profile: HeadProfile) -> None:
    """The guard, and what requests that do not say are ranked by."""
    print(f"Its guard: {'that of the package' if profile.guard is None else asdict(profile.guard)}.")
    print(f"Ranked by: {'heads' if profile.relevance is None else profile.relevance}.")


def _shown(gain: Gain) -> str:
    return f"{gain.mean:+.2f} nats [{gain.low:+.2f}, {gain.high:+.2f}]"
