"""The scenarios: which documents are asked, how long they are, and which fields the requests carry."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from loadtests.load.target import Target
from tests.support.prose import document

_LEAST_SENTENCES = 4
_PASSAGES = 2
_PASSAGE_WORDS = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request: its fields, and its length as a multiple of the run's."""

    part: str
    fields: Mapping[str, object] = field(default_factory=dict)
    length: float = 1.0
    evidence: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """Kinds that take turns. `documents`: so many are asked again and again, None: each only once.

    `least`: how many kinds a server must understand, or the scenario is left out.
    """

    name: str
    kinds: Sequence[Kind]
    documents: int | None = None
    least: int = 1


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: the kind that it is of, and its body."""

    part: str
    body: dict[str, Any]


_PLAIN = Kind("plain")
_QGPM = Kind("qgpm", {"qgpm": {"relevance": "heads", "guard": 0}})
_RULES: Mapping[str, Mapping[str, object]] = {
    "base 20,000": {"base": 20_000.0},
    "base 200,000": {"base": 200_000.0},
    "base 500,000": {"base": 500_000.0},
    "base 1,000,000": {"base": 1_000_000.0},
    "linear 2": {"scaling": {"rope_type": "linear", "factor": 2.0}},
    "dynamic 2": {"scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "yarn 2": {"scaling": {"rope_type": "yarn", "factor": 2.0}},
    "yarn 4": {"scaling": {"rope_type": "yarn", "factor": 4.0}},
}
_SHORT = Kind("short", length=0.25)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("plain", (_PLAIN,)),
    Scenario("qgpm_cold", (_QGPM,)),
    Scenario("qgpm_same_document", (_QGPM,), documents=2),
    Scenario("qgpm_evidence", (Kind("evidence", evidence=True),)),
    Scenario("mixed", (_PLAIN, _QGPM), least=2),
    Scenario(
        "many_profiles",
        (_PLAIN, *(Kind(name, {"rope": rule}) for name, rule in _RULES.items())),
        least=3,
    ),
    Scenario("long_short", (Kind("long", length=4.0), _SHORT, _SHORT, _SHORT)),
)


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the requests of one run; `nonce` opens every document, so that no other run's is hit."""

    target: Target
    nonce: str
    tokens: int
    max_tokens: int

    def ask(self, scenario: Scenario, run: str, number: int) -> Ask:
        """Request `number` of a scenario; `run` keeps the documents of its runs apart."""
        kind = scenario.kinds[number % len(scenario.kinds)]
        place = number if scenario.documents is None else number % scenario.documents
        return self._ask(kind, f"{self.nonce} {scenario.name} {run} {place}", number)

    def trial(self, kind: Kind) -> dict[str, Any]:
        """A request of a kind for one token, to see whether the server takes it."""
        return replace(self, max_tokens=1)._ask(kind, f"{self.nonce} trial {kind.part}", 0).body

    def sentences(self, length: float) -> int:
        """How many sentences make `length` times the run's tokens, or what the window leaves."""
        tokens = length * self.tokens
        if self.target.window is not None:
            # Texts differ a little in length, and the template and the question come on top.
            tokens = min(tokens, 0.9 * self.target.window - self.max_tokens - 80)
        return max(round(tokens / self.target.tokens_per_sentence), _LEAST_SENTENCES)

    def _ask(self, kind: Kind, name: str, number: int) -> Ask:
        text = document(self.sentences(kind.length), seed=zlib.crc32(name.encode()))
        question = f"Question: What was said of the harbour on day {number + 1}?"
        prompt = f"Report {name}. {text}\n\n{question}"
        fields = dict(kind.fields)
        if kind.evidence:
            fields["qgpm"] = {"evidence": _passages(text)}
        return Ask(kind.part, self.target.body(prompt, self.max_tokens, **fields))


def _passages(text: str) -> list[str]:
    """Some sentences out of the middle, as a retriever might find them."""
    words = text.split()
    places = [len(words) * place // (_PASSAGES + 1) for place in range(1, _PASSAGES + 1)]
    return [" ".join(words[place : place + _PASSAGE_WORDS]) for place in places]


def understood(client: httpx.Client, writer: Writer, scenario: Scenario) -> tuple[Scenario, str | None]:
    """The scenario with the kinds that the server takes, and why it must be left out, if so."""
    taken, reasons = [], []
    for kind in scenario.kinds:
        ours = bool(kind.fields) or kind.evidence
        reason = writer.target.no_fields if ours else None
        if ours and reason is None:
            reason = writer.target.refusal(client, writer.trial(kind))
        if reason is None:
            taken.append(kind)
        else:
            reasons.append(reason)
    skipped = reasons[0] if len(taken) < scenario.least else None
    return replace(scenario, kinds=tuple(taken)), skipped
