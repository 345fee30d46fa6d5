"""The options of `ropeway init-config`, and what they ask for."""

import argparse
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Writes a model folder of RopewayForCausalLM, a Llama whose layers differ in rotation and in what they see.
With --pattern 3:1, three windowed layers with rotation and one global layer without take turns. Without
--from, the folder holds a configuration for a model that is yet to be trained. With --from, it holds a model
that is there, written in this architecture: its weights are linked, not copied, where the disk allows it."""
# They describe a model that is yet to be trained; --from brings its own.
_SHAPE = (
    *("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "max_positions"),
    *("base", "rotary_fraction", "qk_norm", "untie"),
    *("attention_bias", "output_bias", "mlp_bias"),
)


class OptionError(ValueError):
    """Options that cannot go together, or one that is missing; the message names it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """So many layers with a window, then so many global ones, again and again."""

    windowed: int
    unwindowed: int

    @staticmethod
    def parse(text: str) -> "Pattern":
        """Read `3:1`; raises argparse.ArgumentTypeError."""
        first, _, second = text.partition(":")
        if not (first.isdecimal() and second.isdecimal() and int(first) + int(second)):
            raise ArgumentTypeError(f"{text!r} is not a pattern such as 3:1")
        return Pattern(int(first), int(second))

    def has_window(self, index: int) -> bool:
        """Whether a layer is one of those with a window."""
        return index % (self.windowed + self.unwindowed) < self.windowed


def add_options(parser: ArgumentParser) -> None:
    """Add all options of the command."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="MODEL",
        help="a model's folder to take shape and weights from",
    )
    layers = parser.add_argument_group("layers")
    layers.add_argument(
        "--pattern",
        type=Pattern.parse,
        metavar="L:G",
        help="L windowed layers, then G global ones, and so on (default with --from: as they are)",
    )
    layers.add_argument(
        "--window", type=_count, metavar="TOKENS", help="what a windowed layer sees, its own token included"
    )
    layers.add_argument(
        "--global-rotates",
        action="store_true",
        help="rotate in global layers too (default: only in windowed ones)",
    )
    layers.add_argument(
        "--query-scale",
        type=_positive,
        nargs=2,
        metavar=("FLOOR", "SCALE"),
        help="scale the queries of layers without rotation, at position p by "
        "1 + SCALE ln(1 + floor((p + 1) / FLOOR))",
    )
    layers.add_argument(
        "--drop-rotation",
        action="store_true",
        help="with --from: do take the rotation from layers that were trained with it, which changes what "
        "the model computes",
    )
    _add_shape(parser.add_argument_group("shape, where there is no --from"))


def _add_shape(shape: "argparse._ArgumentGroup") -> None:
    for flag, what in (
        ("--layers", "decoder layers (needed)"),
        ("--hidden", "width of the hidden states (needed)"),
        ("--intermediate", "width of the MLP (default: 4 x hidden)"),
        ("--heads", "query heads (default: hidden / 64)"),
        ("--kv-heads", "key heads (default: as many)"),
        ("--head-dim", "width of a head (default: hidden / heads)"),
        ("--vocab", "tokens of the vocabulary (default: 32000)"),
        ("--max-positions", "longest sequence (default: 32768)"),
    ):
        shape.add_argument(flag, type=_count, metavar="N", help=what)
    shape.add_argument("--base", type=_positive, help="RoPE's base (default: 10000)")
    shape.add_argument(
        "--rotary-fraction", type=_positive, metavar="SHARE", help="of a head's width to rotate"
    )
    shape.add_argument("--qk-norm", action="store_true", default=None, help="norm queries and keys by head")
    shape.add_argument("--untie", action="store_true", default=None, help="a head of its own for the logits")
    for flag, what in (
        ("--attention-bias", "the projections to queries, keys and values"),
        ("--output-bias", "the projection of attention's output"),
        ("--mlp-bias", "the MLP's projections"),
    ):
        shape.add_argument(flag, action="store_true", default=None, help=f"biases in {what}")


def shape_of(parsed: Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the architecture and of each of its layers; raises OptionError."""
    for name in ("layers", "hidden", "pattern"):
        if getattr(parsed, name) is None:
            raise OptionError(f"--{name} is needed where there is no --from")
    heads = parsed.heads or max(1, parsed.hidden // 64)
    shape = {
        "num_hidden_layers": parsed.layers,
        "hidden_size": parsed.hidden,
        "intermediate_size": parsed.intermediate or 4 * parsed.hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": parsed.kv_heads or heads,
        "head_dim": parsed.head_dim or parsed.hidden // heads,
        "vocab_size": parsed.vocab or 32_000,
        "max_position_embeddings": parsed.max_positions or 32_768,
        "tie_word_embeddings": not parsed.untie,
        **{name: bool(getattr(parsed, name)) for name in ("attention_bias", "output_bias", "mlp_bias")},
    }
    layer = {
        "rotary": "full" if parsed.rotary_fraction is None else "partial",
        "rotary_fraction": parsed.rotary_fraction,
        "base": 10_000.0 if parsed.base is None else parsed.base,
        "qk_norm": bool(parsed.qk_norm),
    }
    return shape, layer


def run(parsed: Namespace) -> str:
    """Write the folder; what was written. Raises OptionError and InitConfigError."""
    from server.init_config import Change, Source, init_config, uniform

    scale = None if parsed.query_scale is None else tuple(parsed.query_scale)
    change = Change(parsed.pattern, parsed.window, parsed.global_rotates, scale)
    if parsed.source is None:
        return init_config(parsed.out, uniform(*shape_of(parsed)), change, drop_rotation=parsed.drop_rotation)
    for name in _SHAPE:
        if getattr(parsed, name) is not None:
            raise OptionError(f"--{name.replace('_', '-')} does not go with --from, which brings its own")
    return init_config(parsed.out, Source.read(parsed.source), change, drop_rotation=parsed.drop_rotation)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not a number") from error
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not above 0")
    return value
