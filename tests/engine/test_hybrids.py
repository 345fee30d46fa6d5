"""vLLM's own models that mix layers: with windows, chunks, rotation in part, and global ones without any."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoConfig

from positional.profile import Profile
from tests.support.asks import Ask
from tests.support.cases import Case, Oracle
from tests.support.checkpoints import CHUNK, MIXED, QUERY_SCALE, WINDOW, Architecture, make
from tests.support.engine import Engine, started
from tests.support.reference import Reference

OPTIONS: dict[str, Any] = {
    # Neither a window nor a chunk nor a block ends where a step does.
    "max_num_batched_tokens": 40,
    "max_num_seqs": 8,
    "num_gpu_blocks_override": 96,
    # By default vLLM keeps the windows of few places only.
    "prefix_cache_retention_interval": None,
}
LAYERS = 4


@dataclass(frozen=True)
class Kind:
    """`span`: what a layer that is not global attends; `edge`: the length around which that shows.

    `seen` is transformers' window where it is not the checkpoint's.
    """

    architecture: Architecture
    span: int | str
    edge: int
    seen: int | None = None
    making: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self, folder: Path, **more: Any) -> Path:
        given = {"max_positions": 16_384, "window_pattern": LAYERS, "layers": LAYERS, **self.making, **more}
        return make(self.architecture, folder, **given)

    def reference(self, model: Path, rule: Mapping[str, Any] | None = None) -> Reference:
        return Reference(model, rule, self.seen)


KINDS = {
    # vLLM lets it see one token more than transformers does.
    "cohere2": Kind("cohere2", WINDOW + 1, WINDOW, seen=WINDOW + 1, making={"tie": True}),
    "exaone4": Kind("exaone4", WINDOW, WINDOW),
    "llama4": Kind(
        "llama4",
        CHUNK,
        CHUNK,
        # The only place where vLLM looks for it; else it is off up to 32,768 tokens.
        options={"override_generation_config": {"attn_temperature_tuning": True}},
    ),
    "gemma3": Kind("gemma3", WINDOW, WINDOW),
    "glm4": Kind("glm4", "full", WINDOW),
}


@pytest.fixture(
    scope="module",
    params=["cohere2", *(pytest.param(name, marks=pytest.mark.long) for name in KINDS if name != "cohere2")],
)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def model(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kind.make(tmp_path_factory.mktemp(kind.architecture))


@pytest.fixture(scope="module")
def oracle(kind: Kind, model: Path) -> Oracle:
    return Oracle(kind.reference(model))


@pytest.fixture(scope="module")
def shared_engine(kind: Kind, model: Path) -> Iterator[Engine]:
    with started(model, **OPTIONS, **kind.options) as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    shared_engine.forget()
    return shared_engine


def test_the_plan_is_what_the_layers_do(kind: Kind, engine: Engine) -> None:
    layers = engine.state()["plan"]["layers"]
    assert [layer["span"] for layer in layers] == [kind.span] * 3 + ["full"]
    assert [layer["chunked"] for layer in layers] == [kind.architecture == "llama4"] * 3 + [False]
    rotary_dim = 16 if kind.architecture == "glm4" else 32
    last = 0 if kind.architecture in MIXED else rotary_dim
    assert [layer["rotary_dim"] for layer in layers] == [rotary_dim] * 3 + [last]
    maps = ["standard"] * 3 + ["standard" if kind.architecture in MIXED else "sharp"]
    assert [layer["map"] for layer in layers] == (
        ["broad", "broad", "sharp", "sharp"] if kind.architecture == "glm4" else maps
    )
    scale = {"floor": 40, "strength": 0.3, "first": 1} if kind.architecture == "llama4" else None
    assert [layer["query_scale"] for layer in layers] == [None] * 3 + [scale]


@pytest.mark.parametrize("distance", ["w - 1", "w", "w + 1", "3 w"])
def test_prompts_around_the_window(distance: str, kind: Kind, engine: Engine, oracle: Oracle) -> None:
    length = {"w - 1": kind.edge - 1, "w": kind.edge, "w + 1": kind.edge + 1, "3 w": 3 * kind.edge}[distance]
    case = Case(length, length)
    cold, warm = (engine.answer(case.plain()) for _ in range(2))
    assert cold.logprobs == warm.logprobs == oracle.plain(case)
    assert cold.cached == 0
    assert warm.cached == (length - 1) // 32 * 32


def test_decoding_across_the_border_of_the_window(kind: Kind, engine: Engine, oracle: Oracle) -> None:
    """transformers#38156: a length was read from a windowed layer."""
    case = Case(1, kind.edge - 8, forced=2 * kind.edge, begin=1)
    assert engine.answer(case.plain()).logprobs == oracle.plain(case)


def test_a_prompt_that_shares_a_half_whose_window_is_gone(engine: Engine, oracle: Oracle) -> None:
    """TensorRT-LLM#2912, sglang#8649: a prefix was used again after its window's blocks were evicted."""
    first, second = Case(3, 300), Case(4, 300)
    second.prompt[:130] = first.prompt[:130]
    engine.answer(first.plain())
    assert engine.answer(second.plain()).logprobs == oracle.plain(second)


def test_preempted_requests_go_on_as_if_undisturbed(kind: Kind, engine: Engine, oracle: Oracle) -> None:
    """vllm#16832: resumed with the prompt's length for the total length."""
    cases = [Case(5, 3 * kind.edge, forced=30), Case(6, kind.edge - 5, forced=30), Case(7, 250, forced=10)]
    answers = engine.run(*(case.plain() for case in cases), preempt_before=(2, 5, 9, 15, 24))
    assert [answer.logprobs for answer in answers] == [oracle.plain(case) for case in cases]


def test_global_rotary_layers_take_maps_and_no_others_do(kind: Kind, engine: Engine, oracle: Oracle) -> None:
    """QGPM on a model without such a layer is refused where the request arrives; here it changes nothing."""
    moved, plain = Case(8, 200, forced=40), Case(9, 150, forced=40)
    answers = engine.run(moved.moved(), plain.plain(at=1), preempt_before=(4, 9))
    assert [answer.logprobs for answer in answers] == [oracle.moved(moved), oracle.plain(plain)]
    assert (answers[0].logprobs == oracle.plain(moved)) == (kind.architecture in MIXED)


def test_a_requests_own_rule_is_that_of_all_layers_that_rotate_by_the_main_one(
    kind: Kind, engine: Engine, model: Path, oracle: Oracle
) -> None:
    config = AutoConfig.from_pretrained(model)
    rule = {"rope_type": "linear", "rope_theta": 5_000.0, "factor": 3.0}
    if kind.architecture == "gemma3":
        config.rope_parameters = {**config.rope_parameters, "full_attention": rule}
        profile = Profile.from_config(config, layer_type="full_attention")
    else:
        config.rope_parameters = {**config.rope_parameters, **rule}
        profile = Profile.from_config(config)
    by_rule = Oracle(kind.reference(model, config.rope_parameters))
    ruled, plain = Case(10, 3 * kind.edge, forced=20), Case(11, 3 * kind.edge, forced=20)
    answers = engine.run(ruled.plain(profile=profile), plain.plain(), preempt_before=(6,))
    assert answers[0].logprobs == by_rule.plain(ruled)
    assert answers[0].logprobs != oracle.plain(ruled)
    assert answers[1].logprobs == oracle.plain(plain)


@pytest.mark.parametrize("shift", [1, 100, 8192])
def test_keys_follow_positions_only_where_layers_rotate(shift: int, kind: Kind, engine: Engine) -> None:
    tokens = range(20, 36)
    here, there = engine.unattended(tokens, 0), engine.unattended(tokens, shift)
    for layer, (_, key), (_, moved) in zip(engine.state()["plan"]["layers"], here, there, strict=True):
        if layer["rotary"]:
            assert np.abs(moved - key).max() > 0.1 * np.abs(key).max()
        else:
            assert np.array_equal(moved, key)


@pytest.mark.parametrize("shift", [1, 100, 8192])
def test_queries_without_rotation_follow_positions_by_their_scale(
    shift: int, kind: Kind, engine: Engine
) -> None:
    """vllm#16417: layers without rotation whose query scale still depends on absolute positions."""
    if kind.architecture not in MIXED:
        pytest.skip("all layers rotate")
    tokens = range(20, 36)
    here, there = (engine.unattended(tokens, first)[-1][0] for first in (0, shift))
    factors = [scale_at(position + shift) / scale_at(position) for position in range(len(tokens))]
    expected = factors if kind.architecture == "llama4" else [1.0] * len(tokens)
    assert np.allclose(there, here * np.array(expected)[:, None], rtol=1e-5)


def scale_at(position: int) -> float:
    floors = (position + 1) // QUERY_SCALE["floor_scale"]
    return 1 + QUERY_SCALE["attn_scale"] * math.log(1 + floors)


@pytest.mark.parametrize("length", [WINDOW + 40, 2 * CHUNK, 2 * CHUNK + 1])
def test_a_layer_with_a_window_reads_no_token_outside(length: int, kind: Kind, engine: Engine) -> None:
    """The window of Cohere 2 as vLLM serves it: the query's own token and `sliding_window` before it."""
    if kind.span == "full":
        pytest.skip("no layer has a window")
    last = length - 1
    # Llama 4 sees the tokens of its own chunk.
    first = last // CHUNK * CHUNK if kind.architecture == "llama4" else last + 1 - int(kind.span)
    prompt = Case(14, length).prompt
    (_, attended), *_ = engine.attended(Ask(prompt))
    for changed, is_read in ((0, False), (first - 1, False), (first, True)):
        other = [*prompt]
        other[changed] += 1
        (_, found), *_ = engine.attended(Ask(other))
        assert (np.abs(found - attended).max() > 1e-5) == is_read


def test_the_first_token_stays_visible_to_a_global_layer(kind: Kind, engine: Engine) -> None:
    """vllm#11357, #11583: a window fell back to 4096 on global layers."""
    if kind.span == "full":
        pytest.skip("no layer has a window")
    prompt = Case(15, 3 * kind.edge + 40).prompt
    other = [prompt[0] + 1, *prompt[1:]]
    (query, attended), (other_query, found) = (engine.attended(Ask(ids))[-1] for ids in (prompt, other))
    # Three windows below do not reach so far, so what changes is read by the last layer itself.
    assert np.abs(other_query - query).max() < 1e-5
    assert np.abs(found - attended).max() > 1e-4


@pytest.mark.long
@pytest.mark.usefixtures("two_cores")
def test_each_of_two_ranks_measures_its_own_layers(tmp_path: Path) -> None:
    check_mode(tmp_path, tensor_parallel_size=2)


@pytest.mark.long
def test_a_model_is_measured_before_it_is_compiled(tmp_path: Path) -> None:
    check_mode(tmp_path, enforce_eager=False)


@pytest.mark.long
def test_a_model_that_knows_adapters_is_measured_without_one(tmp_path: Path) -> None:
    check_mode(tmp_path, enable_lora=True, max_lora_rank=8)


@pytest.mark.long
def test_windows_hold_where_all_layers_share_one_group_of_the_cache(tmp_path: Path) -> None:
    """vllm#51756: one group's window was applied to its global layers."""
    check_mode(tmp_path, disable_hybrid_kv_cache_manager=True)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_of_low_precision_is_measured_too(dtype: str, tmp_path: Path) -> None:
    check_mode(tmp_path, tolerance=0.2, dtype=dtype)


def check_mode(folder: Path, tolerance: float = 1e-3, **options: Any) -> None:
    kind = KINDS["cohere2"]
    model = kind.make(folder)
    oracle = Oracle(kind.reference(model))
    with started(model, **OPTIONS, **options) as engine:
        plans = engine.plans()
        assert len(plans) == options.get("tensor_parallel_size", 1)
        for plan in plans:
            assert [layer["rotary"] for layer in plan["layers"]] == [True] * 3 + [False]
            assert [layer["span"] for layer in plan["layers"]] == [kind.span] * 3 + ["full"]
        case = Case(16, 3 * kind.edge, forced=20)
        assert engine.answer(case.plain()).logprobs == oracle.plain(case, tolerance)
