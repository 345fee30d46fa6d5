"""The OpenAPI document whole, and narrowed so that random bodies reach what lies behind the first refusal."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.support.prose import document

Method = Literal["GET", "POST", "PUT"]
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
RELEVANCE, PROFILE, REQUESTS = "/v1/qgpm/relevance", "/v1/positional/profile", "/v1/requests/{request_id}"
FIELDS = ("qgpm", "rope")
"""Of ours, in the bodies of chats and completions."""
MODEL = "tiny"
KNOWN_IDS = ("cmpl-known", "chatcmpl-known")
"""Of the requests that a session sends before any other."""

DOCUMENT = document(5, seed=29)
QUESTION = "Question: Who hid the lighthouse key?"
PROMPT = f"{DOCUMENT}\n\n{QUESTION}"
_SENTENCES = [f"{part}." for part in DOCUMENT.split(". ")]
_WORDS = [
    *(PROMPT, f"{document(3, seed=30)}\n\nAnd then?", "One sentence only.", " ", "\0. \0?", "🇺🇸. 👩‍👩‍👧! é"),
    *("Yes! No! " * 12, "a. b. c.\n\nd?", "\n\n", "Question: Question:"),
]


@dataclass(frozen=True, slots=True)
class View:
    """An operation of a document, and its share of the examples; `narrowed` names what of its body."""

    path: str
    method: Method
    share: int
    narrowed: Literal["whole", "plain", "qgpm", "rope"] = "whole"

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.method} {self.path}" + ("" if self.narrowed == "whole" else f", {self.narrowed}")

    def of(self, served: Mapping[str, Any]) -> dict[str, Any]:
        """The view's document, from the one that is served."""
        narrowed = copy.deepcopy(dict(served))
        schemas = narrowed["components"]["schemas"]
        for body, own in ((_CHAT_BODY, _CHAT), (_COMPLETION_BODY, _COMPLETION)):
            schemas[body]["properties"]["model"] = {"enum": [MODEL, None]}
            if self.narrowed != "whole":
                schemas[body] = _narrow(schemas[body], own, self.narrowed)
        if self.path == REQUESTS:
            narrowed["paths"][REQUESTS]["get"]["parameters"][0]["schema"] = {"enum": list(KNOWN_IDS)}
        return narrowed


VIEWS = (
    View(COMPLETION, "POST", 14),
    View(CHAT, "POST", 14),
    View(COMPLETION, "POST", 5, "plain"),
    View(CHAT, "POST", 5, "plain"),
    View(COMPLETION, "POST", 14, "qgpm"),
    View(CHAT, "POST", 14, "qgpm"),
    View(COMPLETION, "POST", 6, "rope"),
    View(CHAT, "POST", 5, "rope"),
    View(RELEVANCE, "POST", 4),
    View(RELEVANCE, "POST", 9, "qgpm"),
    View(PROFILE, "PUT", 8),
    View(REQUESTS, "GET", 2),
    View("/v1/positional", "GET", 0),
    View("/v1/cache", "GET", 0),
    View("/ready", "GET", 0),
)
"""Shares are percent; an operation without parameters has one example."""


def shared(examples: int, views: Sequence[View]) -> dict[View, int]:
    """So many examples by the views' shares; the first one takes what rounding leaves."""
    whole, single = sum(view.share for view in views), sum(not view.share for view in views)
    counts = {view: (examples - single) * view.share // whole if view.share else 1 for view in views}
    counts[views[0]] += examples - sum(counts.values())
    return counts


_CHAT_BODY, _COMPLETION_BODY = "ChatCompletionRequest", "CompletionRequest"
_TEXTS = {"anyOf": [{"enum": _WORDS}, {"type": "string", "minLength": 1}]}
_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 600}, "minItems": 1}
_PART = {
    "type": "object",
    "properties": {"type": {"enum": ["text", "text", "text", "refusal"]}, "text": _TEXTS},
    "required": ["type", "text"],
}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["user", "user", "system", "assistant", "developer", "", "narrator"]},
        "content": {"anyOf": [_TEXTS, {"type": "array", "items": _PART, "minItems": 1, "maxItems": 3}]},
    },
    "required": ["role", "content"],
}
_ASKING = {**_MESSAGE, "properties": {"role": {"const": "user"}, "content": _TEXTS}}
_PROMPTS = {"type": "array", "items": _TEXTS, "minItems": 1, "maxItems": 3}
_MESSAGES = {"type": "array", "minItems": 1, "maxItems": 4}
_COMPLETION = {"prompt": {"anyOf": [{"const": PROMPT}, _TEXTS, _TOKENS, _PROMPTS]}}
_CHAT = {"messages": {"anyOf": [{**_MESSAGES, "items": _ASKING}, {**_MESSAGES, "items": _MESSAGE}]}}
# Of the properties that a body shares with vLLM's, with values that most of them take.
_COMMON = {
    "model": {"const": MODEL},
    "max_tokens": {"type": "integer", "minimum": 1, "maximum": 4},
    "n": {"enum": [1, 1, 2]},
    "stream": {"type": "boolean"},
    "seed": {"type": "integer"},
    "temperature": {"enum": [0, 0.5, 1]},
    "ignore_eos": {"type": "boolean"},
    "min_tokens": {"enum": [0, 1]},
    "stop": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 2},
    "cache_salt": {"enum": ["one", "two"]},
    "add_special_tokens": {"type": "boolean"},
    "truncate_prompt_tokens": {"enum": [-1, 1, 20, 60]},
    "return_token_ids": {"type": "boolean"},
    "repetition_penalty": {"enum": [0.5, 1, 2]},
    "request_id": {"enum": ["known", "a/b", "\0", "é"]},
}
_RULES: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("linear", {}),
    ("dynamic", {}),
    ("yarn", {"attention_factor": {"type": "number"}, "beta_fast": {"type": "number"}}),
    ("llama3", {"low_freq_factor": {"enum": [1, 2]}, "high_freq_factor": {"enum": [1, 4]}}),
    (
        "longrope",
        {f"{name}_factor": {"enum": [[1.5] * 16, [2] * 15, [0] * 16]} for name in ("short", "long")},
    ),
]


def _narrow(body: Mapping[str, Any], own: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Fewer properties, texts that hold what others name, and short answers."""
    common = {name: schema for name, schema in _COMMON.items() if name in body["properties"]}
    narrowed = {"qgpm": _qgpm, "rope": _rope}
    asked = {field: narrowed[field](body["properties"][field])} if field in FIELDS else {}
    return {
        "type": "object",
        "properties": {**common, **own, **asked},
        "required": ["model", "max_tokens", *own, *asked],
    }


def _qgpm(field: Mapping[str, Any]) -> dict[str, Any]:
    """The field with texts that occur in `PROMPT`, as often as not."""
    settings: dict[str, Any] = copy.deepcopy(field["anyOf"][1])
    known: dict[str, dict[str, Any]] = {
        "question": {"enum": [QUESTION, "lighthouse"]},
        "context": {"enum": [DOCUMENT, DOCUMENT[:90]]},
        "evidence": {"type": "array", "items": {"enum": _SENTENCES}, "minItems": 1, "maxItems": 3},
    }
    for name, schema in known.items():
        settings["properties"][name]["anyOf"].append(schema)
    alone = [
        {**settings, "properties": {name: {"anyOf": [schema]}}, "required": [name]}
        for name, schema in {**settings["properties"], **known}.items()
    ]
    return {"anyOf": [{"const": True}, field["anyOf"][0], settings, *alone]}


def _rope(field: Mapping[str, Any]) -> dict[str, Any]:
    """The field with rules that hold all their numbers."""
    members = field["anyOf"][1]["properties"]
    scalings = [_scaling(name, properties) for name, properties in _RULES]
    rule: dict[str, Any] = {
        "type": "object",
        "properties": {"base": members["base"]},
        "additionalProperties": False,
    }
    scaled = [
        {**rule, "properties": {**rule["properties"], "scaling": scaling}, "required": ["scaling"]}
        for scaling in scalings
    ]
    return {"anyOf": [*scaled, {**rule, "required": ["base"]}, {"type": "object", "properties": members}]}


def _scaling(rope_type: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    factor = {"type": "number", "minimum": 1, "maximum": 64}
    numbers: dict[str, Any] = {
        "rope_type": {"const": rope_type},
        **({} if rope_type == "default" else {"factor": factor}),
    }
    original = {"original_max_position_embeddings": {"type": "integer", "minimum": 1, "maximum": 4096}}
    return {
        "type": "object",
        "properties": {**numbers, **properties, **(original if rope_type in _WITH_ORIGINAL else {})},
        "required": [*numbers, *(name for name in properties if name not in _OPTIONAL)],
        "additionalProperties": False,
    }


_WITH_ORIGINAL = ("yarn", "llama3", "longrope")
_OPTIONAL = ("attention_factor", "beta_fast")
