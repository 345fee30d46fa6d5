"""What our routes answer, as `/openapi.json` tells it; the routes themselves answer plain JSON.

More names may come beside those that are told.
"""

from typing import Any, Literal

from pydantic import BaseModel

from positional.guard import Decision
from server.request_record import Mode, Outcome


class Sentence(BaseModel):
    """A sentence by its tokens [start, end), and its relevance."""

    start: int
    end: int
    rank: int
    z: float
    broad: float
    sharp: float


class ScoredSentence(Sentence):
    """The same with its place in the prompt's text, and that text."""

    start_char: int
    end_char: int
    text: str


class GuardVerdict(BaseModel):
    """What the guard let QGPM do, what it asked for and saw; `signs`: null for a caller's own evidence."""

    decision: Decision
    dial: float
    asked: float
    confidence: float
    signs: dict[str, float] | None


class PromptDone(BaseModel):
    """What was done for one prompt."""

    mode: Mode
    reason: str = ""
    sentences: int | None
    protected_prefix: int | None
    top: list[Sentence]
    seconds: dict[str, float]
    guard: GuardVerdict | None
    memo: bool
    profile: dict[str, Any]
    rebuilt: int
    not_rebuilt: str = ""
    tokens: dict[str, int | None]
    outcome: Outcome


class RequestDone(PromptDone):
    """What was done for a request of one prompt."""

    id: str


class PromptsDone(BaseModel):
    """What was done for a request of several."""

    id: str
    prompts: list[PromptDone]


class PlaneMaps(BaseModel):
    """Where the told tokens stand on a plane."""

    name: Literal["fast", "boundary", "slow"]
    plane: int
    broad: list[float]
    sharp: list[float]


class Positions(BaseModel):
    """Tokens at which straight lines of position meet, the boundary plane, and three planes."""

    tokens: list[int]
    boundary: float
    planes: list[PlaneMaps]


class ScoredTokens(BaseModel):
    """Tokens of the prompt, and how many of them were cached."""

    prompt: int
    cached: int


class PromptRelevance(BaseModel):
    """The relevance of one prompt's sentences."""

    reason: str = ""
    query_rows: list[int]
    tokens: ScoredTokens
    sentences: list[ScoredSentence]
    protected_prefix: int | None
    positions: Positions | None
    seconds: dict[str, float] = {}
    guard: GuardVerdict | None = None


class OneRelevance(PromptRelevance):
    """The relevance for a body with one prompt."""

    model: str


class SeveralRelevances(BaseModel):
    """The relevance for a body with several."""

    model: str
    prompts: list[PromptRelevance]


class DefaultRule(BaseModel):
    """The rule of requests that bring none, and how many prompts run on which generation of it."""

    policy: Literal["auto"] | None
    profile: dict[str, Any] | None
    generation: int
    running: dict[str, int]


class ChangedRule(DefaultRule):
    """The rule after a change: how many prompts were rebuilt, and how many were not, by reason."""

    rebuilt: int
    not_rebuilt: dict[str, int]


class Positional(BaseModel):
    """Layer plan, profiles by digest, head profile and defaults."""

    layers: list[dict[str, Any]]
    profile: str | None
    profiles: dict[str, dict[str, Any]]
    default: DefaultRule
    head_profile: dict[str, Any] | None
    defaults: dict[str, Any]


class PoolGroup(BaseModel):
    """What a cache group holds of a pool."""

    name: str
    kind: Literal["full", "sliding", "shadow"]
    layers: list[int]
    window: int | None
    bytes_used: int
    bytes_cached: int
    bytes_per_token: int


class PoolBytes(BaseModel):
    """One allocation."""

    name: str
    bytes_total: int
    bytes_free: int
    bytes_reserved: int
    groups: list[PoolGroup]


class Cache(BaseModel):
    """Where cache memory goes."""

    pools: list[PoolBytes]
    capacity_tokens: int
    hit_tokens: dict[str, int]
    evicted_blocks: int
    memo: dict[str, int]
    invalidations: dict[str, int]


class Ready(BaseModel):
    """Whether requests should be sent here, and why not."""

    status: Literal["ready", "starting", "stalled", "draining", "dead"]
    reason: str = ""
