"""The request field `qgpm`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from positional.qgpm import Ablation, QGPMConfig, QGPMError
from positional.sources.fusion import Choice, Fusion
from server.evidence import evidence_overrides
from server.relevance_choice import CALLER, ChoiceError, Weights, weights_of

MOST_NEIGHBOURS = 16

_SHOWN = 80
_LONGEST_WORD = 16
# These hold what a client may not want to read in the log of whoever passed the error on.
_TEXTS = ("qgpm.question", "qgpm.context", "qgpm.evidence")


class FieldError(ValueError):
    """A value of the request body that cannot be used: its full name, what is wrong and the value.

    Of a name that a client made up so much is kept as can be sent back; of a text only its length, unless it
    is a word.
    """

    def __init__(self, parameter: str, message: str, value: object = None) -> None:
        self.parameter = _shortened(parameter.encode(errors="backslashreplace").decode())
        self.message = f"{self.parameter} {message} (got {_shown(parameter, value)})"
        self.value = value
        super().__init__(self.message)


def _shown(parameter: str, value: object) -> str:
    match value:
        case str() if parameter.startswith(_TEXTS) or len(value) > _LONGEST_WORD or len(value.split()) > 1:
            return f"a text of {len(value)} characters"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)}"
    return _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@dataclass(frozen=True, slots=True)
class QGPMFields:
    """What a request said in `qgpm`.

    `asked`: the request itself said whether to use QGPM; otherwise `enabled` is the server's default.
    `evidence`: passages with their scores. `relevance`: the sources to ask, `fusion`: how several are made
    one. `neighbours`: how many sentences on both sides of a relevant one are kept with it. `adaptive_k`: as
    `adapts` takes it. `guard`: how sure relevance must be, from 0 to 1; None: as the server's default.
    `overrides`: the settings of QGPMConfig that the request gave. `ablation`: the part of QGPM that it
    leaves out.
    """

    enabled: bool
    asked: bool = True
    question: str | None = None
    context: str | None = None
    evidence: tuple[tuple[str, float | None], ...] | None = None
    overrides: Mapping[str, int | float] = field(default_factory=dict)
    ablation: Ablation | None = None
    relevance: Weights | None = None
    fusion: Fusion | None = None
    neighbours: int = 0
    adaptive_k: bool | None = None
    guard: float | None = None

    @classmethod
    def parse(cls, value: object, defaults: QGPMConfig, enabled_by_default: bool = False) -> "QGPMFields":
        """Reads the field's JSON value; null (or an absent field) leaves the choice to the server.

        An object switches QGPM on; null inside it means the default. `defaults`: the settings that the object
        changes. Raises FieldError, naming the field, its limit and the value.
        """
        if value is None:
            return cls(enabled_by_default, asked=False)
        if isinstance(value, bool):
            return cls(value)
        if not isinstance(value, dict):
            raise FieldError("qgpm", "must be true, false, null or an object", value)
        body = _validated(value)
        given = body.model_dump(include=set(QGPMConfig.__dataclass_fields__), exclude_none=True)
        passages = None if body.evidence is None else tuple((p.text, p.score) for p in body.evidence)
        _check_sources(body)
        parsed = cls(
            enabled=True,
            question=body.question,
            context=body.context,
            evidence=passages,
            overrides=MappingProxyType(given),
            ablation=body.ablation,
            relevance=body.relevance,
            fusion=body.fusion,
            neighbours=body.neighbours or 0,
            adaptive_k=body.adaptive_k,
            guard=body.guard,
        )
        parsed.config(defaults)
        return parsed

    def adapts(self, choice: Choice, dial: float) -> bool:
        """Whether K_s grows to what looks like evidence, where the sources of `choice` rank under a `dial`.

        By itself not in the paper's method, nor where the caller told what counts or how much of it.
        """
        if self.adaptive_k is not None:
            return self.adaptive_k
        return dial > 0 and choice.sources != ("caller",) and "k_sharp" not in self.overrides

    def choice(self, default: Choice) -> Choice:
        """The sources to ask: the request's, else its evidence, else the server's `default`."""
        fusion = self.fusion or default.fusion
        if self.relevance is not None:
            return Choice(self.relevance, fusion)
        return CALLER if self.evidence is not None else Choice(default.weights, fusion)

    def config(self, defaults: QGPMConfig, evidence_sentences: int | None = None) -> QGPMConfig:
        """The settings to use: the defaults with this request's.

        `evidence_sentences`: how many sentences the request's evidence touches, once that is known; K follows
        it unless the request set K. Raises FieldError for a setting out of range.
        """
        overrides = self.overrides
        if evidence_sentences is not None:
            overrides = evidence_overrides(overrides, defaults, evidence_sentences)
        try:
            return defaults.resolve(overrides)
        except QGPMError as error:
            raise FieldError(f"qgpm.{error.field}", error.limit, error.value) from error


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return text


_Text = Annotated[str, AfterValidator(_not_blank)]
# Anything above has the same effect as the number of sentences; a limit keeps it a machine number.
_Count = Annotated[int, Field(le=2**31 - 1)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


def _weights(value: object) -> Weights | None:
    try:
        return None if value is None else weights_of(value)
    except ChoiceError as error:
        raise PydanticCustomError("sources", "{reason}", {"reason": str(error)}) from error


class _Passage(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: _Text
    score: _Number | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: object) -> object:
        if isinstance(value, str):
            return {"text": value}
        if not isinstance(value, dict):
            raise PydanticCustomError("passage", 'must be a text or {"text": …, "score": …}')
        return value


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    question: _Text | None = None
    context: _Text | None = None
    evidence: Annotated[list[_Passage], Field(min_length=1)] | None = None
    k_broad: Annotated[_Count, Field(ge=2)] | None = None  # K_s is at least 1
    t_broad: _Number | None = None
    k_sharp: _Count | None = None
    t_sharp: _Number | None = None
    score_low: _Number | None = None
    stride_floor: _Number | None = None
    anchor_ratio: _Number | None = None
    gate_width: _Number | None = None
    ablation: Ablation | None = None
    relevance: Annotated[Weights | None, BeforeValidator(_weights)] = None
    fusion: Fusion | None = None
    neighbours: Annotated[int, Field(ge=0, le=MOST_NEIGHBOURS)] | None = None
    adaptive_k: bool | None = None
    guard: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


def _check_sources(body: _Body) -> None:
    """Raise FieldError where the sources and the evidence contradict each other."""
    names = [name for name, _ in body.relevance or ()]
    if "caller" in names and body.evidence is None:
        raise FieldError("qgpm.relevance", "names caller, but there is no qgpm.evidence", names)
    if names and "caller" not in names and body.evidence is not None:
        raise FieldError("qgpm.relevance", "leaves out caller, but there is qgpm.evidence", names)


def _validated(value: Mapping[Any, Any]) -> _Body:
    try:
        return _Body.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise FieldError(_name(first["loc"]), _message(first), first["input"]) from error


def _name(location: Sequence[int | str]) -> str:
    return "qgpm" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _message(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        known = _Passage if error["loc"][0] == "evidence" else _Body
        return f"is unknown; known are {', '.join(known.model_fields)}"
    if error["type"] == "missing":
        return "is missing"
    return re.sub(r"^\w+ should ", "must ", error["msg"]).partition(" after validation")[0]
