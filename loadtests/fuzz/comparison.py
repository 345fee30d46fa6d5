"""Whether stock vLLM shows the same fault for the same body."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemathesis import BaseSchema
from tqdm import tqdm

from loadtests.fuzz.session import Found, Session, judged, load
from loadtests.fuzz.views import CHAT, COMPLETION, FIELDS, RELEVANCE
from loadtests.fuzz.violation import ACCEPTED, AnyCase, Judge, Violation, twin
from server.child import Server


@dataclass(frozen=True, slots=True)
class Compared:
    """A violation, how many examples showed it, how many of them on stock vLLM too, the shortest body."""

    violation: Violation
    examples: int
    stock: int
    body: str

    @property
    def ours(self) -> bool:
        """Whether stock vLLM does not show it for some body."""
        return self.stock < self.examples


def compare(
    found: Sequence[Found], session: Session, served: Mapping[str, Any], stock: Server
) -> list[Compared]:
    """Send every body that failed to stock vLLM, and count by violation."""
    judge, document = Judge(served), load(served)
    cases: dict[Violation, list[tuple[AnyCase, bool]]] = {}
    for each in tqdm(found, desc="the same bodies to stock vLLM", leave=False):
        shown = _shows(each, session, judge, document, stock)
        cases.setdefault(each.violation, []).append((each.case, shown))
    return [
        Compared(
            violation,
            len(shown),
            sum(stock_shows for _, stock_shows in shown),
            min((repr(case.body) for case, _ in shown), key=len),
        )
        for violation, shown in cases.items()
    ]


def _shows(found: Found, session: Session, judge: Judge, document: BaseSchema, stock: Server) -> bool:
    violation, case = found.violation, found.case
    # Stock vLLM knows neither our routes nor our fields, so that it takes them proves nothing.
    if violation.kind == ACCEPTED and violation.field in FIELDS:
        return False
    path = twin(case) if case.path == RELEVANCE else case.path
    if path not in (CHAT, COMPLETION):
        return False
    sent = document[path]["POST"].Case(body=case.body, media_type=case.media_type)
    response = session.send(sent, stock)
    if violation.kind == ACCEPTED:
        return response is not None and response.status_code < 300
    same = (violation.kind, violation.status)
    return same in {(each.kind, each.status) for each in judged(judge, sent, response)}
