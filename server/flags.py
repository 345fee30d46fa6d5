"""The command line of `ropeway serve`: vLLM's flags, ours, and the ones that cannot go together."""

import json
import os
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser, human_readable_int

from server.admin_key import HEADER, VARIABLE, AdminKey
from server.limits import add_limit_flags
from server.memo import DEFAULT_BYTES
from server.relevance_flags import add_relevance_flags

DESCRIPTION = """Serve a model over the OpenAI API, with QGPM per request. Without MODEL: the default model.
Every flag of `vllm serve` keeps its meaning; those that Ropeway must set itself are refused by name."""
DRAIN_SECONDS = 25
"""What vLLM's `--shutdown-timeout` is by default: Kubernetes kills 30 seconds after it asks."""
STALL_SECONDS = 60.0
_V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


class FlagError(ValueError):
    """A flag that contradicts what Ropeway must set, or that is not covered; the message names it."""

    def __init__(self, flag: str, reason: str) -> None:
        self.flag = flag
        super().__init__(f"{flag}: {reason}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A flag, when its value is refused, and why."""

    flag: str
    refused: Callable[[Any], bool]
    reason: str

    @property
    def attribute(self) -> str:
        """The flag's name in the parsed arguments."""
        return self.flag.lstrip("-").replace("-", "_")


def _given(value: Any) -> bool:
    return value is not None


def _above_one(value: Any) -> bool:
    return value is not None and value > 1


_REFUSALS = (
    Refusal("--worker-cls", lambda value: value != "auto", "Ropeway sets the worker class itself"),
    Refusal("--scheduler-cls", _given, "Ropeway sets the scheduler class itself"),
    Refusal("--speculative-config", _given, "speculative decoding is not tested under Ropeway"),
    Refusal("--kv-transfer-config", _given, "KV connectors bypass the key shadow"),
    Refusal("--kv-offloading-size", _given, "offloaded blocks come back without the key shadow and phases"),
    Refusal("--kv-events-config", _given, "KV events do not carry Ropeway's block keys"),
    Refusal("--enable-dbo", bool, "microbatch overlap is not covered"),
    Refusal("--pipeline-parallel-size", _above_one, "pipeline parallelism is not covered"),
    Refusal("--data-parallel-size", _above_one, "data parallelism is not covered; run several servers"),
    Refusal("--decode-context-parallel-size", _above_one, "context parallelism bypasses the key shadow"),
    Refusal("--prefill-context-parallel-size", _above_one, "context parallelism bypasses the key shadow"),
    Refusal("--api-server-count", _above_one, "records are kept in one API process; run several servers"),
    Refusal("--nnodes", _above_one, "all nodes but the first would be headless, which is refused"),
    Refusal("--headless", bool, "a headless engine has no API process to run the two passes"),
    Refusal("--memo-bytes", lambda value: value < 0, "memory cannot be negative; 0 keeps nothing"),
    Refusal("--embedding-bytes", lambda value: value < 0, "memory cannot be negative; 0 keeps nothing"),
    Refusal("--ready-stall-seconds", lambda value: value <= 0, "a stall takes time"),
    Refusal("--grpc", bool, "only the HTTP server is Ropeway's"),
    Refusal("--grpc-port", _given, "only the HTTP server is Ropeway's"),
)


def parser() -> FlexibleArgumentParser:
    """vLLM's parser of `serve` with a group of Ropeway's own flags."""
    made = FlexibleArgumentParser(prog="ropeway serve", description=DESCRIPTION)
    ours = made.add_argument_group("Ropeway")
    ours.add_argument(
        "--qgpm",
        choices=("off", "on"),
        default="off",
        help="QGPM for requests that do not say; a request's own false always wins (default: off)",
    )
    ours.add_argument(
        "--qgpm-ablations",
        action="store_true",
        help="let requests leave out a part of QGPM by qgpm.ablation, to measure what it does",
    )
    ours.add_argument(
        "--head-profile",
        type=Path,
        metavar="FILE",
        help="the heads that can rank sentences, and QGPM's defaults (default: ropeway-heads.json in the "
        "model's folder, else the one that comes with the package for the model)",
    )
    add_relevance_flags(ours)
    ours.add_argument(
        "--admin-key",
        type=AdminKey.of,
        default=AdminKey.of_environment(),
        metavar="KEY",
        help=f"what the header {HEADER} must hold on PUT /v1/positional/profile, which is off without a key "
        f"(default: the environment's {VARIABLE}, which other users of the machine cannot see)",
    )
    ours.add_argument(
        "--memo-bytes",
        type=human_readable_int,
        default=DEFAULT_BYTES,
        metavar="N",
        help="memory for the relevance of recent prompts, so that the same question again needs no score "
        "pass; 0 keeps none (default: 64M)",
    )
    ours.add_argument(
        "--rope-policy",
        choices=("auto",),
        help="auto: requests that do not say take the model's unscaled RoPE while prompt and max_tokens fit "
        "its native window, else the declared scaled rule (default: the model's own rule)",
    )
    ours.add_argument(
        "--rope-scaling",
        type=_json_object,
        metavar="JSON",
        help="the scaled rule of the policy auto, in the spelling of transformers' rope_parameters (default: "
        "the one in the model's config); --max-model-len then defaults to what it covers",
    )
    ours.add_argument(
        "--drop-rotation",
        action="store_true",
        help="let --hf-overrides take the rotation from layers that were trained with it, which changes what "
        "the model computes",
    )
    ours.add_argument(
        "--no-ui",
        action="store_true",
        help="serve no page at /ui, where documents are asked about in a browser",
    )
    ours.add_argument(
        "--ready-stall-seconds",
        type=float,
        default=STALL_SECONDS,
        metavar="N",
        help="/ready answers 503 when running requests have made no progress for so long; a step of the "
        "engine that takes longer is a stall (default: 60)",
    )
    ours.add_argument(
        "--log-requests-json",
        action="store_true",
        help="log a line of JSON for each finished request: what was done, never its text",
    )
    add_limit_flags(ours)
    complete = make_arg_parser(made)
    complete.set_defaults(shutdown_timeout=DRAIN_SECONDS)
    return complete


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def parse(model: str | None, arguments: Sequence[str]) -> Namespace:
    """Parse and check a command line; raises FlagError for what cannot go together with Ropeway."""
    args = parser().parse_args([*([model] if model else []), *arguments])
    args.model = args.model_tag or args.model
    for refusal in _REFUSALS:
        if refusal.refused(getattr(args, refusal.attribute, None)):
            raise FlagError(refusal.flag, refusal.reason)
    if "ropeway" in (args.additional_config or {}):
        raise FlagError("--additional-config", 'its entry "ropeway" is set by Ropeway itself')
    if os.environ.setdefault(_V2_RUNNER, "0") != "0":
        raise FlagError(_V2_RUNNER, "model runner V2 is not covered; leave it unset")
    validate_parsed_serve_args(args)
    return args
