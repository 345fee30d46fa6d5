"""Examples of every view, sent to a server one after the other, and what was wrong with the answers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from loadtests.fuzz.views import CHAT, COMPLETION, KNOWN_IDS, MODEL, PROMPT, VIEWS, View, shared
from loadtests.fuzz.violation import AnyCase, Judge, Violation
from server.child import Server

NO_ANSWER = "no answer"
_SECONDS = 120
_TRIES = 100
_STREAM_EVENTS = 100_000  # a stream is read to its end


@dataclass(frozen=True, slots=True)
class Found:
    """A violation and the case that shows it."""

    violation: Violation
    case: AnyCase


@dataclass(slots=True)
class Session:
    """What was sent to a server and how it answered: examples by view, answers by view and status."""

    server: Server
    headers: Mapping[str, str]
    seed: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    distinct: set[str] = field(default_factory=set)
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)

    def run(self, examples: int, views: Sequence[View] = VIEWS, tell: Callable[[str], None] = print) -> None:
        """Send so many examples of the views, by their shares."""
        served = self.server.get("/openapi.json").json()
        judge = Judge(served)
        self._remember_ids()
        for view, count in shared(examples, views).items():
            self._run_view(view, count, served, judge)
            tell(f"{view.name}: {self.sent[view.name]} sent, {self.told(view.name)}")

    def told(self, view: str) -> str:
        """The statuses of a view's answers, for people."""
        counts = sorted(self.statuses.get(view, Counter()).items())
        return ", ".join(f"{count} x {status}" for status, count in counts)

    def send(self, case: AnyCase, server: Server) -> schemathesis.Response | None:
        """A case's answer from a server, None without one."""
        try:
            return case.call(base_url=server.url, headers=dict(self.headers), timeout=_SECONDS)
        except requests.RequestException:
            return None

    def _run_view(self, view: View, examples: int, served: Mapping[str, Any], judge: Judge) -> None:
        operation = load(view.of(served))[view.path][view.method]
        half = examples // 2
        modes = {GenerationMode.POSITIVE: examples - half, GenerationMode.NEGATIVE: half}
        for mode, share in modes.items():
            goal = self.sent[view.name] + share
            # Hypothesis ends early where it believes to have seen all; another seed goes on.
            for attempt in range(_TRIES):
                if (missing := goal - self.sent[view.name]) > 0:
                    _generate(operation, mode, missing, self.seed + 1000 * attempt, self._take(view, judge))

    def _take(self, view: View, judge: Judge) -> Callable[[AnyCase], None]:
        def take(case: AnyCase) -> None:
            self.sent[view.name] += 1
            self.distinct.add(f"{view.path} {case.path_parameters} {case.body!r}")
            response = self.send(case, self.server)
            status = 0 if response is None else response.status_code
            self.statuses.setdefault(view.name, Counter())[status] += 1
            self.found += [Found(violation, case) for violation in judged(judge, case, response)]

        return take

    def _remember_ids(self) -> None:
        """Send the requests whose ids `KNOWN_IDS` names."""
        told: dict[str, dict[str, Any]] = {
            COMPLETION: {"prompt": PROMPT},
            CHAT: {"messages": [{"role": "user", "content": PROMPT}]},
        }
        for (path, prompt), identity in zip(told.items(), KNOWN_IDS, strict=True):
            headers = {**self.headers, "X-Request-Id": identity.partition("-")[2]}
            body = {"model": MODEL, "max_tokens": 2, "qgpm": True, **prompt}
            requests.post(
                self.server.url + path, json=body, headers=headers, timeout=_SECONDS
            ).raise_for_status()


def load(document: Mapping[str, Any]) -> schemathesis.BaseSchema:
    """A document as schemathesis has it, whose streams are read whole."""
    config = SchemathesisConfig.from_dict({"max-stream-events": _STREAM_EVENTS})
    return schemathesis.openapi.from_dict(dict(document), config=config)


def judged(judge: Judge, case: AnyCase, response: schemathesis.Response | None) -> list[Violation]:
    """What is wrong with an answer, or that there was none."""
    if response is None:
        return [Violation(f"{case.method} {case.path}", NO_ANSWER, 0, f"within {_SECONDS} s")]
    return judge.violations(case, response)


def _generate(
    operation: schemathesis.APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
    examples: int,
    start: int,
    take: Callable[[AnyCase], None],
) -> None:
    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode))
    def send(case: AnyCase) -> None:
        take(case)

    send()
