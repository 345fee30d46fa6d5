"""From a rendered prompt and what the request said to what the passes need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cache.extra_args import ScoreTask, reserved_names
from cache.head_profile import QUERY_TAIL, HeadProfile
from positional.coordinates import SentenceScores
from positional.evidence_count import widened
from positional.guard import DEFAULT_DIAL, PACKAGE_GUARD, Decision, Guard, Verdict, judge, softened
from positional.modulation import Modulation
from positional.qgpm import PACKAGE_DEFAULTS, Ablation, NothingToModulate, QGPMConfig, build_modulation
from positional.sources.contract import Asked, Reading
from positional.sources.fusion import Choice
from server.evidence import EvidenceRelevance, evidence_relevance
from server.fields import FieldError, QGPMFields
from server.limits import LimitError, Limits
from server.locate import Located, LocateError, Source, locate, unmarked
from server.offsets import OffsetsError, TokenizedPrompt, tokenized
from server.relevance_choice import HEADS
from server.request_error import RequestError


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the loaded model and the server's settings allow.

    `ablations`: to leave out parts of QGPM. `relevance`: the sources for requests that do not say. `embeds`:
    whether there are embeddings. `dial`: of the guard, for requests that do not say.
    """

    modulates: bool
    heads: HeadProfile | None
    enabled_by_default: bool
    ablations: bool
    limits: Limits
    relevance: Choice = HEADS
    embeds: bool = False
    dial: float = DEFAULT_DIAL

    @property
    def defaults(self) -> QGPMConfig:
        """QGPM's settings for requests that do not say."""
        return PACKAGE_DEFAULTS if self.heads is None else self.heads.defaults

    @property
    def guard(self) -> Guard:
        """What judges relevance."""
        own = None if self.heads is None else self.heads.guard
        return PACKAGE_GUARD if own is None else own

    @property
    def query_tail(self) -> int:
        """How many of the last prompt tokens are query rows."""
        return QUERY_TAIL if self.heads is None else self.heads.query_tail


@dataclass(frozen=True, slots=True)
class Preparation:
    """A prompt ready for its passes: `choice` says what its relevance is read from.

    `evidence`: what the caller gave. `neighbours`: as in QGPMFields. `adaptive_k`: whether K_s
    grows. `guard` goes by `dial`.
    """

    prompt: TokenizedPrompt
    located: Located
    config: QGPMConfig
    choice: Choice
    evidence: EvidenceRelevance | None
    ablation: Ablation | None
    neighbours: int
    adaptive_k: bool
    guard: Guard
    dial: float

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Token spans of the sentences."""
        return [(sentence.start, sentence.end) for sentence in self.located.sentences]

    @property
    def asks_heads(self) -> bool:
        """Whether there is to be a score pass: heads are chosen, and relevance can differ."""
        return "heads" in self.choice.sources and len(self.located.sentences) > 1

    def asked(self) -> Asked:
        """The texts: what the sentences say and what is asked about them."""
        text, (start, end) = self.prompt.text, self.located.question
        sentences = (text[sentence.start_char : sentence.end_char] for sentence in self.located.sentences)
        return Asked(tuple(sentences), unmarked(text[start:end]))

    def judge(self, readings: Sequence[Reading], relevance: torch.Tensor) -> Verdict:
        """Whether the sentences' z, made of these readings, is trusted; raises NothingToModulate."""
        return judge(self.guard, self.dial, readings, relevance, self.spans, self.config.k_sharp)

    def modulation(
        self, relevance: torch.Tensor, decision: Decision = "full"
    ) -> tuple[Modulation, SentenceScores]:
        """How the prompt is moved, from its sentences' z, as was decided; raises NothingToModulate."""
        if decision == "plain":
            raise NothingToModulate("guard")
        config = softened(self.config) if decision == "soft" else self.config
        config = widened(config, relevance) if self.adaptive_k else config
        return build_modulation(
            relevance, self.spans, self.located.num_tokens, config, self.ablation, self.neighbours
        )

    def score_task(self) -> ScoreTask:
        """What the score pass reads."""
        return ScoreTask.of(self.located.query_rows, self.spans, self.located.silent)


@dataclass(frozen=True, slots=True)
class PlainReason:
    """Why a request is answered plainly although QGPM was on; None where QGPM was off."""

    reason: str | None


def refuse_forged(extra_args: Mapping[str, Any] | None) -> None:
    """Raise RequestError where a client's extra arguments hold a name of ours."""
    forged = reserved_names(extra_args)
    if forged:
        raise RequestError(f"vllm_xargs.{forged[0]} is a name that only the server may set", "vllm_xargs")


def refusal(prompt: Mapping[str, Any], fields: QGPMFields, abilities: Abilities) -> RequestError | None:
    """Why a request that has QGPM on cannot have it, before its text is looked at."""
    if prompt.get("type") != "token":
        return RequestError("qgpm cannot be used with prompt embeddings or multimodal prompts", "qgpm")
    if not abilities.modulates:
        return RequestError(
            "this model has no full-attention rotary layer, so qgpm has nothing to modulate", "qgpm"
        )
    if fields.ablation is not None and not abilities.ablations:
        return RequestError(
            "qgpm.ablation is for measurements, on a server that was started with --qgpm-ablations",
            "qgpm.ablation",
        )
    sources = fields.choice(abilities.relevance).sources
    parameter = "qgpm" if fields.relevance is None else "qgpm.relevance"
    if "heads" in sources and abilities.heads is None:
        return RequestError(
            "this model has no head profile; give qgpm.evidence, name another source in qgpm.relevance, or "
            "start the server with --head-profile (made by `ropeway calibrate`)",
            parameter,
        )
    if "embedding" in sources and not abilities.embeds:
        return RequestError(
            "qgpm.relevance names embedding, but this server was started without --embedding-model", parameter
        )
    return None


def prepare(
    prompt: Mapping[str, Any], fields: QGPMFields, source: Source, abilities: Abilities, tokenizer: Any
) -> Preparation | PlainReason:
    """Locate the prompt's parts and settle the settings.

    Where QGPM is on by the server's default only, what cannot be had makes the answer plain, with a reason.
    Raises RequestError.
    """
    error = refusal(prompt, fields, abilities)
    if error is None:
        try:
            return _prepare(prompt, fields, source, abilities, tokenizer)
        except LimitError as found:
            error = found
        except LocateError as found:
            error = RequestError(f"{found.parameter} {found.message}", found.parameter)
        except FieldError as found:
            error = RequestError(found.message, found.parameter)
        except OffsetsError as found:
            error = RequestError(f"qgpm cannot be used on this prompt: {found}", "qgpm")
    if fields.asked:
        raise error
    return PlainReason(f"{error}")


def _prepare(
    prompt: Mapping[str, Any], fields: QGPMFields, source: Source, abilities: Abilities, tokenizer: Any
) -> Preparation:
    text = tokenized(tokenizer, prompt["prompt_token_ids"], prompt.get("prompt"))
    limits = abilities.limits
    located = locate(text, source, fields.question, fields.context, abilities.query_tail, limits)
    sentences = located.sentences
    limits.check_sentences(len(sentences), sum(sentence.end - sentence.start for sentence in sentences))
    choice = fields.choice(abilities.relevance)
    evidence = None
    if fields.evidence is not None:
        evidence = evidence_relevance(text, located, fields.evidence)
    if "heads" in choice.sources and len(sentences) > 1:
        limits.check_question(located.question_tokens)
    count = None if evidence is None else evidence.count
    dial = abilities.dial if fields.guard is None else fields.guard
    return Preparation(
        prompt=text,
        located=located,
        config=fields.config(abilities.defaults, count),
        choice=choice,
        evidence=evidence,
        ablation=fields.ablation,
        neighbours=fields.neighbours,
        adaptive_k=fields.adapts(choice, dial),
        guard=abilities.guard,
        dial=dial,
    )
