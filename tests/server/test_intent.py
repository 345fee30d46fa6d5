"""What a request asked for, and the runs of its prompts."""

import gc
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from prometheus_client import CollectorRegistry
from vllm.sampling_params import SamplingParams

from server.default_profile import DefaultProfile, RunningPrompt
from server.fields import QGPMFields
from server.intent import Intent
from server.locate import Source
from server.memo import RelevanceMemo
from server.metrics import Metrics
from server.request_record import PromptRecord
from server.request_trace import RequestTrace
from server.score_pass import Inner
from server.score_passes import ScorePasses
from server.two_passes import PromptRun


def _intent() -> Intent:
    return Intent(QGPMFields(False), Source(), None, max_tokens_given=True, numbered=False)


def _run(intent: Intent, metrics: Metrics) -> PromptRun:
    profiles = DefaultProfile(None, 100)
    record = PromptRecord(0.0, 3)
    running = profiles.enter(RunningPrompt({}, SamplingParams(), None, True, record))
    return PromptRun(
        Inner(_never, {}, running.parameters, "one", {}),
        running,
        profiles,
        record,
        metrics,
        RelevanceMemo(b""),
        intent,
        None,
        RequestTrace.silent(),
        ScorePasses(0).place(None),
        None,
    )


async def _never(*_: Any, **__: Any) -> AsyncGenerator[Any, None]:
    raise AssertionError("it was given up before it started")
    yield


@contextmanager
def _uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_run_that_has_ended_is_free_with_all_its_texts_at_once() -> None:
    metrics = Metrics(CollectorRegistry())
    with _uncollected():
        intent = _intent()
        run = _run(intent, metrics)
        intent.enter(run)
        kept = ref(run.running)
        run.abandon("aborted")
        del run, intent
        assert kept() is None


def test_every_run_is_given_up_once_and_the_first_one_stays_the_first() -> None:
    metrics = Metrics(CollectorRegistry())
    intent = _intent()
    runs = [_run(intent, metrics) for _ in range(3)]
    assert [intent.enter(run) for run in runs[:2]] == [True, False]
    runs[0].abandon("aborted")
    runs[1].abandon("error")
    assert not intent.enter(runs[2])
    intent.abandon("rejected")
    assert [run.record.outcome for run in runs] == ["aborted", "error", "rejected"]
    assert len(intent.runs) == 0
