"""Starts the server: vLLM's engine and OpenAI app with Ropeway's engine client, fields and routes."""

import asyncio
import json
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import uvloop
import vllm.envs as envs
from fastapi import FastAPI
from prometheus_client import REGISTRY
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.api_server.entry import setup_server
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.launcher import serve_http
from vllm.entrypoints.launchers.utils.server_utils import get_uvicorn_log_config
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.logger import configure_logging_from_args
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.usage.usage_lib import UsageContext

from cache.head_profile import HeadProfile
from cache.pin import check_vllm_version
from cache.registration import register_architectures
from cache.scheduler import DESCRIBE_PROGRESS
from server.api_keys import ApiKeys
from server.cache_account import CacheAccount
from server.cache_metrics import keep_fresh
from server.embeddings import Embeddings
from server.engine import RopewayEngine
from server.engine_config import REFUSALS, StartError, configured, head_profile
from server.extension import extend
from server.flags import parse
from server.handlers import ChatHandler, CompletionHandler
from server.limits import Limits
from server.memo import RelevanceMemo
from server.memo_metrics import MemoCollector
from server.metrics import Metrics
from server.preparation import Abilities
from server.profile_metrics import ProfileCollector
from server.pulse import Pulse
from server.readiness import Readiness
from server.relevance_choice import default_choice
from server.request_log import log_requests
from server.rope_choice import ServedRope
from server.rope_start import as_loaded

_EXAMPLE = (
    "The ferry to Brack leaves at seven. Nadia keeps the keys of the lighthouse. "
    "The harbour freezes in January.\n\nQuestion: When does the ferry leave?"
)


# A client that reads no further must not keep the process alive.
_CLOSE_SECONDS = 5


class EngineDiedError(RuntimeError):
    """The server ended without being told to."""


def run(model: str | None, arguments: Sequence[str]) -> int:
    """Serve until the process is told to stop; the exit status."""
    try:
        check_vllm_version()
        register_architectures()
        args = parse(model, arguments)
        heads, embeddings = head_profile(args), Embeddings.of(args)
        cli_env_setup()
        configure_logging_from_args(args)
        if args.log_requests_json:
            log_requests()
        uvloop.run(_serve(args, heads, embeddings))
    except REFUSALS as error:
        print(f"ropeway serve: {error}", file=sys.stderr)
        return 2
    except EngineDiedError as error:
        print(f"ropeway serve: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(args: Namespace, heads: HeadProfile | None, embeddings: Embeddings | None) -> None:
    # Until uvicorn takes the signal over, SIGTERM must also end a start that is under way.
    signal.signal(signal.SIGTERM, _interrupt)
    for plugin, manager in (
        (args.tool_parser_plugin, ToolParserManager.import_tool_parser),
        (args.reasoning_parser_plugin, ReasoningParserManager.import_reasoning_parser),
    ):
        if plugin:
            manager(plugin)
    address, sock = _bind(args)
    try:
        async with _engine(args, heads) as (engine, rope):
            app = await _app(args, engine, heads, rope, embeddings)
            background = [
                asyncio.create_task(_announce(address, sock, engine)),
                asyncio.create_task(app.state.ropeway_readiness.pulse.watch()),
            ]
            # vLLM's own handlers are set in the very step that this waits for.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.add_signal_handler, signal.SIGINT, _end_at_once, engine)
            stopped = await _listen(app, args, sock)
            for task in background:
                task.cancel()
            if not engine.drain.started:
                raise EngineDiedError("the server ended without being told to: the error is above")
        # As in vLLM: the server's own shutdown is awaited after the engine's.
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped, _CLOSE_SECONDS)
    finally:
        sock.close()


def _bind(args: Namespace) -> tuple[str, socket.socket]:
    """The address and the socket to serve on, taken before the engine starts; raises StartError."""
    try:
        address, sock = setup_server(args, reuse_port=False)
    except (OSError, OverflowError) as error:
        place = args.uds or f"{args.host or 'all addresses'}, port {args.port}"
        raise StartError(f"cannot serve on {place}: {error}; --port takes another") from error
    return address, sock


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("terminated")


def _end_at_once(engine: RopewayEngine) -> None:
    """Ctrl-C, or SIGINT during a drain: abort what runs."""
    engine.drain.hurry()
    signal.raise_signal(signal.SIGTERM)


@asynccontextmanager
async def _engine(
    args: Namespace, heads: HeadProfile | None
) -> AsyncIterator[tuple[RopewayEngine, ServedRope | None]]:
    engine_args = AsyncEngineArgs.from_cli_args(args)
    config, rope = configured(engine_args, heads, args)
    try:
        engine = RopewayEngine.from_vllm_config(
            vllm_config=config,
            usage_context=UsageContext.OPENAI_API_SERVER,
            enable_log_requests=engine_args.enable_log_requests,
            aggregate_engine_logging=engine_args.aggregate_engine_logging,
            disable_log_stats=engine_args.disable_log_stats,
        )
    except RuntimeError as error:
        raise StartError("the engine did not start: its own error is above") from error
    try:
        await engine.reset_mm_cache()
        yield engine, rope
    finally:
        engine.shutdown(timeout=0)  # what ran has had its time, unless the server never came up


async def _app(
    args: Namespace,
    engine: RopewayEngine,
    heads: HeadProfile | None,
    rope: ServedRope | None,
    embeddings: Embeddings | None,
) -> FastAPI:
    tasks = await engine.get_supported_tasks()
    ranks = await engine.collective_rpc("describe_positions")
    plan = ranks[0]["plan"]
    modulates = any(layer["map"] != "standard" for layer in plan["layers"])
    heads = heads if modulates else None
    memo = RelevanceMemo(b"" if heads is None else heads.digest, args.memo_bytes)
    REGISTRY.register(MemoCollector(memo))
    abilities = Abilities(
        modulates,
        heads,
        args.qgpm == "on",
        args.qgpm_ablations,
        Limits.of(args),
        replace(default_choice(args.qgpm_relevance, heads), fusion=args.qgpm_fusion),
        embeddings is not None,
        args.qgpm_guard,
    )
    metrics = Metrics()
    engine.open(abilities, as_loaded(rope, plan), metrics, memo, ApiKeys.of(args), embeddings)
    REGISTRY.register(ProfileCollector(engine.profiles))
    app = build_app(args, tasks, engine.model_config)
    extend(app, args, metrics, engine.drain)
    account = CacheAccount(engine, [rank["pools"] for rank in ranks])
    keep_fresh(app, account)
    await init_app_state(engine, app.state, args, tasks)
    app.state.ropeway_plan = plan
    app.state.ropeway_cache = account
    app.state.ropeway_readiness = _readiness(engine, args.ready_stall_seconds)
    app.state.openai_serving_chat = ChatHandler(app.state.openai_serving_chat, engine)
    app.state.openai_serving_completion = CompletionHandler(app.state.openai_serving_completion, engine)
    return app


def _readiness(engine: RopewayEngine, stall_seconds: float) -> Readiness:
    async def ask() -> tuple[int, int]:
        computed, unfinished = await engine.engine_core.call_utility_async(DESCRIBE_PROGRESS)
        return computed, unfinished

    made = Readiness(Pulse(ask), engine.drain, lambda: engine.errored, stall_seconds)
    engine.metrics.watch(made.ready, made.pulse.seconds_since_progress)
    return made


async def _listen(app: FastAPI, args: Namespace, sock: socket.socket) -> Awaitable[None]:
    """Serve HTTP until told to stop; what is returned is the rest of the shutdown."""
    logging: dict[str, Any] = {}
    if (log_config := get_uvicorn_log_config(args)) is not None:
        logging["log_config"] = log_config
    return await serve_http(
        app,
        sock=sock,
        enable_ssl_refresh=args.enable_ssl_refresh,
        host=args.host,
        port=args.port,
        log_level=args.uvicorn_log_level,
        access_log=not args.disable_uvicorn_access_log,
        timeout_keep_alive=envs.VLLM_HTTP_TIMEOUT_KEEP_ALIVE,
        ssl_keyfile=args.ssl_keyfile,
        ssl_certfile=args.ssl_certfile,
        ssl_ca_certs=args.ssl_ca_certs,
        ssl_cert_reqs=args.ssl_cert_reqs,
        ssl_ciphers=args.ssl_ciphers,
        h11_max_incomplete_event_size=args.h11_max_incomplete_event_size,
        h11_max_header_count=args.h11_max_header_count,
        **logging,
    )


async def _announce(address: str, sock: socket.socket, engine: RopewayEngine) -> None:
    """Say that the server is ready, with a request to paste, once it accepts connections."""
    while not await _accepts(sock):
        await asyncio.sleep(0.1)
    model = engine.model_config.served_model_name
    body = {
        "model": model,
        "messages": [{"role": "user", "content": _EXAMPLE}],
        "max_tokens": 32,
        "temperature": 0,
        "qgpm": engine.abilities.heads is not None,
    }
    print(
        f"\nRopeway is ready: {model} on {address}\nTry:\n\n"
        f"curl {address}/v1/chat/completions -H 'Content-Type: application/json' -d '{json.dumps(body)}'\n",
        flush=True,
    )


async def _accepts(sock: socket.socket) -> bool:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    try:
        _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
    except OSError:
        return False
    writer.close()
    return True
