"""The flags that say what relevance is read from, and where embeddings come from."""

from argparse import ArgumentTypeError, _ArgumentGroup
from typing import get_args

from vllm.utils.argparse_utils import human_readable_int

from positional.guard import DEFAULT_DIAL
from positional.sources.fusion import Fusion
from server.document_vectors import DEFAULT_BYTES
from server.embedder import PACKAGE
from server.relevance_choice import choice_of_flag

KEY_VARIABLE = "ROPEWAY_EMBEDDING_KEY"


def add_relevance_flags(group: _ArgumentGroup) -> None:
    """`--qgpm-relevance`, `--qgpm-fusion`, `--qgpm-guard` and `--embedding-…`."""
    group.add_argument(
        "--qgpm-relevance",
        type=choice_of_flag,
        default=None,
        metavar="NAME[=WEIGHT],…",
        help="what requests that do not say read relevance from: heads, lexical, embedding, or several, with "
        "weights (default: the head profile's, or heads)",
    )
    group.add_argument(
        "--qgpm-fusion",
        choices=get_args(Fusion),
        default="sum",
        help="how several are made one: the sum of their standardised relevance, or of reciprocal ranks "
        "(default: sum)",
    )
    group.add_argument(
        "--qgpm-guard",
        type=_dial,
        default=DEFAULT_DIAL,
        metavar="DIAL",
        help="how sure relevance must be before requests that do not say are modulated by it, from 0 (the "
        "paper's method, always) to 1 (only when sure); otherwise they are answered plainly (default: "
        f"{DEFAULT_DIAL})",
    )
    group.add_argument(
        "--embedding-model",
        metavar="NAME",
        help=f"the model of the source `embedding`: at --embedding-url, or {PACKAGE}, which comes in the "
        "package of that name (ropeway[embedding]) and needs no network (default: none)",
    )
    group.add_argument(
        "--embedding-url",
        metavar="URL",
        help="an endpoint that speaks OpenAI's API, up to its /v1; it is sent documents' sentences and "
        f"questions, with the key in the environment's {KEY_VARIABLE} (default: none)",
    )
    group.add_argument(
        "--embedding-bytes",
        type=human_readable_int,
        default=DEFAULT_BYTES,
        metavar="N",
        help="memory for the embeddings of recent documents; 0 keeps none (default: 64M)",
    )


def _dial(text: str) -> float:
    try:
        dial = float(text)
    except ValueError:
        dial = -1.0
    if not 0 <= dial <= 1:
        raise ArgumentTypeError(f"{text!r} must be a number from 0 to 1")
    return dial
