"""What is served of the encodings: by which fields of a layer, and how near bf16 comes to float32."""

from collections.abc import Mapping

from loadtests.results import markdown
from positional.encodings.registry import encodings

BF16_TIMES = 3
"""How many times of what rounding hidden states costs a bf16 model's log-probability may be off."""

_SCALING = "`scaling` of a layer, or of a request's `rope`"
FIELDS: Mapping[str, str] = {
    "nope": '`"rotary": "none"`',
    "rope": '`"rotary": "full"`',
    "rope_interleaved": '`"pairing": "interleaved"`',
    "rope_partial": '`"rotary": "partial"`, with `rotary_fraction`',
    "rope_base": "`base` of a layer, or of a request's `rope`",
    "rope_ntk": "`base`, likewise",
    "rope_linear": _SCALING,
    "rope_dynamic": _SCALING,
    "rope_yarn": _SCALING,
    "rope_llama3": _SCALING,
    "rope_longrope": _SCALING,
    "grape_plane": '`"rotary": "plane"`',
    "grape_subspaces": "`basis`, beside a rule or a learned `spectrum`",
    "alibi": '`"bias": {"kind": "alibi"}`',
    "forgetting": '`"bias": {"kind": "forget"}`',
    "slope_by_query": '`"bias": {"kind": "gated_slope", "gates": ["query"]}`',
    "slope_by_key": '`"bias": {"kind": "gated_slope", "gates": ["key"]}`',
}
"""By an encoding's name, what asks for it in a layer of `RopewayForCausalLM`."""
ELSEWHERE: Mapping[str, str] = {
    "sinusoidal": "models that add positions to embeddings are not covered",
    "sinusoidal_cosine": "models that add positions to embeddings are not covered",
    "learned": "models that add positions to embeddings are not covered",
    "rope_decoupled": "MLA's attention is not covered",
}
"""By the name of one that a cache could hold and that Ropeway does not serve, why."""

_TEXT = f"""\
`RopewayForCausalLM` serves these, each by the fields of a layer; vLLM's own models, which turn by a rule or
not at all, are served too. Answers token by token, in chunks and from cached blocks are those of the whole
sequence computed at once: in float32 to within 0.001 of a log-probability, and in bf16 so.

- A logit keeps its position to what `positional.encodings.augmented.logit_bound` says: for slopes
  |slope · distance| · 2⁻¹⁶, for phases |phase| · 2⁻²⁴, and width · largest |slope · position|, or |phase|,
  · 2⁻²² of the kernel's sum in float32. With slopes of 0.01 and 64 features that is 0.01 at 32,000.
- A turned query or key is as near as its rounding to bf16. Learned turns take their angles in float64, vLLM's
  rows of a rule theirs in float32, which is off by some 0.004 radians at 32,000.
- The rest is what bf16 does to any model. A rounding errs by up to 2⁻⁹ of a number, and there are some twenty
  of them on the way through two layers. A float32 model of that size whose hidden states alone are rounded to
  bf16, at norms and projections, differs in a log-probability by 0.02 to 0.08, without any encoding by 0.03.

A log-probability at 32,000 tokens, of a windowed and a global layer, is held to {BF16_TIMES} times what that
rounding costs the same model (`tests/engine/test_encodings.py`), since attention rounds what it reads by and
its answers too; seen were 0.03 to 0.11. Positions or phases in one bf16 number each would cost 0.6 to 4."""


def served() -> str:
    """The section on what is served, in Markdown."""
    rows = [(entry.title, FIELDS[entry.name]) for entry in encodings() if entry.name in FIELDS]
    left = [(entry.title, ELSEWHERE[entry.name]) for entry in encodings() if entry.name in ELSEWHERE]
    parts = (
        "## Served",
        _TEXT,
        markdown.table(("encoding", "asked for by"), rows, texts=2),
        "A cache could hold these too, but Ropeway serves no model that has them:",
        markdown.table(("encoding", "why not"), left, texts=2),
    )
    return "\n\n".join(parts)
