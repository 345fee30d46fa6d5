"""The child's side of `tests.support.engine`: an engine, driven step by step."""

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from tests.support.asks import Answer, Ask
from tests.support.forced import PROCESSOR

Seen = list[list[torch.Tensor]]

_DEFAULTS: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "block_size": 32,
    "max_model_len": 1024,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": 16 << 20,
    "gpu_memory_utilization": 0.1,
    "disable_log_stats": True,
    "logits_processors": [PROCESSOR],
}


def serve(
    connection: Connection,
    model: str,
    heads: tuple[tuple[int, int], ...],
    stock: bool,
    options: dict[str, Any],
) -> None:
    """Start an engine, say so, and serve calls until the other side closes."""
    try:
        driver = Driver(model, heads, stock, options)
    except Exception as error:
        connection.send((True, _with_causes(error)))
        return
    connection.send((False, ""))
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((False, getattr(driver, name)(*arguments)))
        except Exception:
            connection.send((True, traceback.format_exc()))


def read_plans(connection: Connection, models: tuple[str, ...], options: dict[str, Any]) -> None:
    """Send each model's layer plan, or the error that kept its engine from starting."""
    for model in models:
        try:
            driver = Driver(model, (), False, {"load_format": "dummy", **options})
            connection.send(driver.state()["plan"])
        except Exception as error:
            connection.send(_with_causes(error))


def _with_causes(error: BaseException | None) -> str:
    messages = []
    while error is not None:
        messages.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(messages)


class Driver:
    """One engine and the calls that tests make."""

    def __init__(
        self, model: str, heads: tuple[tuple[int, int], ...], stock: bool, options: dict[str, Any]
    ) -> None:
        from vllm.config import KVTransferConfig
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        from cache.registration import register_architectures
        from cache.settings import EngineSettings

        register_architectures()

        ours = {
            "worker_cls": "cache.worker.RopewayCPUWorker",
            "scheduler_cls": "cache.scheduler.RopewayScheduler",
            "additional_config": EngineSettings(heads).to_config(),
        }
        arguments = {"model": model, **_DEFAULTS, **({} if stock else ours), **options}
        if "kv_transfer_config" in arguments:
            arguments["kv_transfer_config"] = KVTransferConfig(**arguments["kv_transfer_config"])
        self.engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self._served = 0
        self._watched: list[dict[str, Any]] | None = None
        self._preemptions: dict[str, int] = {}

    def run(
        self, asks: tuple[Ask, ...], preempt_before: tuple[int, ...], keeping_blocks: bool
    ) -> list[Answer]:
        """Serve requests together, step by step."""
        names = [f"r{self._served + number}" for number in range(len(asks))]
        self._served += len(asks)
        waiting = dict(zip(names, asks, strict=True))
        aborts = [(name, ask.abort_at) for name, ask in waiting.items() if ask.abort_at is not None]
        answers: dict[str, Answer] = {}
        step = 0
        while waiting or self.engine.has_unfinished_requests():
            for name in [name for name, ask in waiting.items() if ask.at <= step]:
                self._add(name, waiting.pop(name))
            self.engine.abort_request([name for name, at in aborts if at == step])
            if step in preempt_before:
                self._preempt(keeping_blocks)
            outputs = self.engine.step()
            self._preemptions |= {name: r.num_preemptions for name, r in self.scheduler.requests.items()}
            for output in outputs:
                if output.finished:
                    answers[output.request_id] = _answer(output, step)
            if self._watched is not None:
                self._watched.append(self.memory())
            step += 1
        aborted = {name for name, _ in aborts}
        return [answers[name] for name in names if name not in aborted]

    def _preempt(self, keeping_blocks: bool) -> None:
        if not keeping_blocks:
            self.engine.reset_prefix_cache(reset_running_requests=True)
            return
        while self.scheduler.running:
            self.scheduler._preempt_request(self.scheduler.running.pop(), time.monotonic())
        # As a reset does it: what resumes in the step to come did not run in the one before.
        self.scheduler.prev_step_scheduled_req_ids.clear()

    def _add(self, name: str, ask: Ask) -> None:
        from vllm.inputs import TokensPrompt

        prompt = TokensPrompt(prompt_token_ids=list(ask.prompt))
        if ask.salt is not None:
            prompt["cache_salt"] = ask.salt
        self.engine.add_request(name, prompt, _parameters(ask))

    def block_hashes(self, ask: Ask) -> list[bytes]:
        """The hashes of a request's full blocks, made as the engine core makes them when it arrives."""
        from vllm.v1.request import Request

        hasher = self.engine.engine_core.engine_core.request_block_hasher
        request = Request(
            "hashed", list(ask.prompt), _parameters(ask), None, cache_salt=ask.salt, block_hasher=hasher
        )
        return list(request.block_hashes)

    def keys(self, ask: Ask, tokens: tuple[int, ...]) -> np.ndarray:
        """The keys of a prompt that reach attention, of the given tokens: float32 [tokens, layers, …]."""
        with self._attention() as (_, keys, _):
            self.run((ask,), (), False)
        return np.stack([torch.cat(kept)[list(tokens)].numpy() for kept in keys], axis=1)

    def attended(self, ask: Ask) -> list[tuple[np.ndarray, np.ndarray]]:
        """By layer, the last prompt token's query and attention's answer; for an ask of one token."""
        with self._attention() as (queries, _, answers):
            self.run((ask,), (), False)
        return [(q[-1][-1].numpy(), a[-1][-1].numpy()) for q, a in zip(queries, answers, strict=True)]

    def unattended(self, tokens: tuple[int, ...], first: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """By layer, queries and keys of tokens from position `first` on, of a forward without attention."""
        from vllm.forward_context import set_forward_context

        runner = self.engine.model_executor.driver_worker.worker.model_runner
        positions = torch.arange(first, first + len(tokens))
        if runner.positional._phases is not None:
            runner.positional._phases.fill(positions, [])
        with (
            self._attention(silent=True) as (queries, keys, _),
            torch.inference_mode(),
            set_forward_context(None, runner.vllm_config, num_tokens=len(tokens)),
        ):
            runner.model(
                input_ids=torch.tensor(tokens, dtype=torch.int32),
                positions=positions,
                intermediate_tensors=None,
                inputs_embeds=None,
            )
        return [(q[0].numpy(), k[0].numpy()) for q, k in zip(queries, keys, strict=True)]

    @contextmanager
    def _attention(self, silent: bool = False) -> Iterator[tuple[Seen, Seen, Seen]]:
        """What attention is given and answers, by layer and forward; a `silent` one answers with zeros."""
        from vllm.model_executor.layers.attention.attention import Attention

        model = self.engine.model_executor.driver_worker.worker.model_runner.model
        layers = [module for module in model.modules() if isinstance(module, Attention)]
        queries, keys, answers = ([[] for _ in layers] for _ in range(3))

        def watch(index: int, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            queries[index].append(inputs[0].flatten(1).clone())
            keys[index].append(inputs[1].flatten(1).clone())
            answers[index].append(output.clone())
            return torch.zeros_like(output) if silent else output

        hooks = [
            layer.register_forward_hook(lambda _, i, o, index=index: watch(index, i, o))
            for index, layer in enumerate(layers)
        ]
        try:
            yield queries, keys, answers
        finally:
            for hook in hooks:
                hook.remove()

    def plans(self) -> list[dict[str, Any]]:
        """The layer plan of every rank."""
        return self.engine.collective_rpc("describe_plan")

    def forget(self) -> None:
        """Drop all cached blocks."""
        if not self.engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache is in use")

    def memories(self, asks: tuple[Ask, ...], preempt_before: tuple[int, ...]) -> list[dict[str, Any]]:
        """Serve requests together; the memory behind every step."""
        self._watched = []
        try:
            self.run(asks, preempt_before, True)
            return self._watched
        finally:
            self._watched = None

    def memory(self) -> dict[str, Any]:
        """Where the cache's memory goes now, as `GET /v1/cache` tells it."""
        from cache.accounting import Pool, describe_memory
        from cache.scheduler import DESCRIBE_CACHE

        pools = self.engine.collective_rpc("describe_positions")[0]["pools"]
        told = getattr(self.engine.engine_core.engine_core, DESCRIBE_CACHE)()
        return describe_memory([Pool.from_json(pool) for pool in pools], told)

    def state(self) -> dict[str, Any]:
        """The layer plan, memory in bytes, and what scheduler and worker keep by request."""
        runner = self.engine.model_executor.driver_worker.worker.model_runner
        positional = runner.positional
        phases = positional._phases
        caches = runner.kv_caches
        return {
            "plan": positional.plan.describe(),
            "pools": self.engine.collective_rpc("describe_positions")[0]["pools"],
            "scheduler": type(self.scheduler).__name__,
            "cache_bytes": sum(
                {c.untyped_storage().data_ptr(): c.untyped_storage().nbytes() for c in caches}.values()
            ),
            "shadow_bytes": sum(shadow._keys.nbytes for shadow in positional._shadows.values()),
            "layer_bytes": [cache.nbytes for cache in caches],
            "blocks": runner.kv_cache_config.num_blocks,
            "preemptions": sum(self._preemptions.values()),
            "followed": [*positional._placements, *positional._score_passes, *runner._tables],
            "row_pointers": [] if phases is None else [rows.data_ptr() for rows in phases.rows.values()],
        }


def _parameters(ask: Ask) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=len(ask.forced),
        temperature=1.0 if ask.n > 1 else 0.0,
        ignore_eos=True,
        detokenize=False,
        logprobs=0,
        prompt_logprobs=0 if ask.prompt_logprobs else None,
        n=ask.n,
        extra_args=ask.extra_args,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _answer(output: Any, step: int) -> Answer:
    from cache.relevance_output import RELEVANCE

    table = (output.kv_transfer_params or {}).get(RELEVANCE)
    prompt = zip(output.prompt_token_ids, output.prompt_logprobs or [], strict=False)
    return Answer(
        choices=tuple(
            tuple(at[token].logprob for token, at in zip(choice.token_ids, choice.logprobs, strict=True))
            for choice in output.outputs
        ),
        cached=output.num_cached_tokens or 0,
        relevance=None if table is None else np.frombuffer(table, "<f4"),
        prompt_logprobs=tuple(at[token].logprob for token, at in prompt if at is not None),
        finished_at=step,
    )
