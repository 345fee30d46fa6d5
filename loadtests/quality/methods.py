"""What is compared: from a sample to the chat that a server is asked, one method each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loadtests.quality.prompt_edits import reorder, top_k
from positional.guard import DEFAULT_DIAL
from server.samples import Sample

QGPM = "qgpm"
"""The paper's method: the model's heads rank the sentences, and nothing guards."""

AS_SERVED = f"{QGPM}_guarded"
"""What a request gets that says no more than `qgpm`: the server's sources, under the guard's default dial."""

MAIN = ("plain", QGPM, AS_SERVED, "gold", "top_k", "reorder")
"""At every length, in the order in which they are asked: QGPM's score pass finds the blocks of plain."""


@dataclass(frozen=True, slots=True)
class Method:
    """A prompt edit and what the field `qgpm` says; `evidence`: whether it is told the gold sentences.

    `dial`: the guard's.
    """

    edit: Callable[[Sample], Sample] | None = None
    modulated: bool = False
    evidence: bool = False
    dial: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def body(self, sample: Sample) -> dict[str, Any]:
        """`messages` and `qgpm` of the chat that is asked."""
        told = sample if self.edit is None else self.edit(sample)
        if not self.modulated:
            return {"messages": chat(told), "qgpm": False}
        located = {"question": told.question, "context": told.context}
        evidence = {"evidence": list(told.evidence)} if self.evidence else {}
        return {"messages": chat(told), "qgpm": {**located, **evidence, "guard": self.dial, **self.settings}}


def chat(sample: Sample) -> list[dict[str, str]]:
    """The sample's messages as a body holds them."""
    return [{"role": role, "content": content} for role, content in sample.messages]


def _source(*names: str) -> Method:
    return Method(modulated=True, settings={"relevance": list(names)})


def _guarded(method: Method) -> Method:
    return replace(method, dial=DEFAULT_DIAL)


def _ablation(**settings: Any) -> Method:
    # With gold evidence, so that what changes is not the ranking.
    return Method(modulated=True, evidence=True, settings=settings)


METHODS: Mapping[str, Method] = {
    "plain": Method(),
    QGPM: _source("heads"),
    AS_SERVED: Method(modulated=True, dial=DEFAULT_DIAL),
    "gold": Method(modulated=True, evidence=True),
    "top_k": Method(edit=top_k),
    "reorder": Method(edit=reorder),
    "no_prefix": _ablation(ablation="no_prefix"),
    "one_map": _ablation(ablation="one_map"),
    # The boundary beyond the slowest plane, and a gate that is a hard cut at it (paper, eq. 3 and 7).
    "all_planes": _ablation(anchor_ratio=1e12),
    "fast_planes": _ablation(gate_width=1e-3),
    # Both maps cut hard after K sentences (eq. 6 in the limit).
    "t_0": _ablation(t_broad=0.0, t_sharp=0.0),
    # The maps' centres; unset, the sharp one is at least the number of gold sentences.
    "k_small": _ablation(k_broad=2, k_sharp=1),
    "k_large": _ablation(k_broad=48, k_sharp=24),
    # What else the paper fixes: where the planes divide, the least step, two maps of one breadth.
    "anchor_near": _ablation(anchor_ratio=0.01),
    "anchor_far": _ablation(anchor_ratio=0.25),
    "floor_high": _ablation(stride_floor=0.5),
    "floor_low": _ablation(stride_floor=0.03),
    "broad_maps": _ablation(k_broad=16, k_sharp=15),
    "keep_last": _ablation(ablation="keep_last"),
    "keep_starts": _ablation(ablation="keep_starts"),
}

SOURCES: Mapping[str, Method] = {
    "lexical": _source("lexical"),
    "embedding": _source("embedding"),
    "heads_lexical": _source("heads", "lexical"),
    "lexical_embedding": _source("lexical", "embedding"),
    "fused": _source("heads", "lexical", "embedding"),
}
"""Methods that read relevance from elsewhere than heads alone."""

GUARDED: Mapping[str, Method] = {
    AS_SERVED: METHODS[AS_SERVED],
    "heads_guarded": _guarded(METHODS[QGPM]),
    **{f"{name}_guarded": _guarded(method) for name, method in SOURCES.items()},
}
"""Those that rank under the guard's default dial; beside `AS_SERVED` asked only where they are chosen."""

CHANCE: Mapping[str, Method] = {
    "chance_guarded": _guarded(_source("embedding")),
    "heads_chance_guarded": _guarded(_source("heads", "embedding")),
    "lexical_chance_guarded": _guarded(_source("lexical", "embedding")),
    "heads_lexical_chance_guarded": _guarded(_source("heads", "lexical", "embedding")),
}
"""Under the guard's default dial, with embeddings that say nothing; asked only where they are chosen."""

SERVED: Mapping[str, Method] = {**METHODS, **SOURCES, **GUARDED, **CHANCE}
"""Everything that a server can be asked."""

RANKED = (QGPM, *SOURCES, *GUARDED, *CHANCE)
"""Methods whose sentences the server ranks itself."""


def embeds(method: str) -> bool:
    """Whether a method needs a server with embeddings."""
    return method in SERVED and "embedding" in SERVED[method].settings.get("relevance", ())
