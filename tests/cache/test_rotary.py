"""Real rotary modules of vLLM: with its own rows, a mapped module gives what the stock one gives."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import get_rope

from cache.key_tap import KeyTap
from cache.rotary import MappedRotary, UnsupportedRotaryError, stock_table

HEAD = 32
HEADS, KV_HEADS = 4, 2
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0 + m / 20 for m in range(HEAD // 2)],
    "long_factor": [1.0 + m / 4 for m in range(HEAD // 2)],
    "original_max_position_embeddings": 64,
}
RULES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 10_000.0},
    "partial": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
    "linear": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "longrope": LONGROPE,
}


@pytest.fixture(autouse=True)
def engine_config() -> Iterator[None]:
    config = VllmConfig(device_config=DeviceConfig("cpu"))
    # All that longrope reads of a model's configuration.
    config.model_config = SimpleNamespace(max_model_len=256)
    with set_current_vllm_config(config):
        yield


def rotary(rule: str, dtype: torch.dtype = torch.float32, neox: bool = True) -> Any:
    return get_rope(HEAD, 256, is_neox_style=neox, rope_parameters=RULES[rule], dtype=dtype)


def batch(dtype: torch.dtype, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(tokens, HEADS * HEAD).to(dtype), torch.randn(tokens, KV_HEADS * HEAD).to(dtype)


def mapped(stock: Any, rows: torch.Tensor, tap: KeyTap | None = None) -> MappedRotary:
    return MappedRotary(stock, rows, torch.arange(len(rows)), tap)


POSITIONS = torch.tensor([0, 1, 2, 17, 63, 64, 200, 5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rule", RULES)
def test_stock_rows_rotate_like_the_stock_module_bit_for_bit(rule: str, dtype: torch.dtype) -> None:
    stock = rotary(rule, dtype)
    query, key = batch(dtype, len(POSITIONS))
    rows = torch.zeros(16, stock_table(stock).shape[1], dtype=dtype)
    rows[: len(POSITIONS)] = stock_table(stock)[POSITIONS].to(dtype)
    expected = stock(POSITIONS, query.clone(), key.clone())
    found = mapped(stock, rows)(POSITIONS, query.clone(), key.clone())
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    assert not torch.equal(found[0], query)


def test_interleaved_pairing_is_kept() -> None:
    stock = rotary("default", neox=False)
    query, key = batch(torch.float32, 8)
    rows = stock_table(stock)[POSITIONS].clone()
    expected = stock(POSITIONS, query.clone(), key.clone())
    found = mapped(stock, rows)(POSITIONS, query.clone(), key.clone())
    assert torch.equal(found[0], expected[0])
    half = rotary("default")(POSITIONS, query.clone(), key.clone())
    assert not torch.equal(half[0], expected[0])


def test_positions_decide_nothing_but_the_number_of_tokens() -> None:
    stock = rotary("default")
    module = mapped(stock, stock_table(stock)[POSITIONS].clone())
    query, key = batch(torch.float32, 8)
    first = module(POSITIONS, query.clone(), key.clone())
    second = module(torch.zeros_like(POSITIONS), query.clone(), key.clone())
    assert torch.equal(first[0], second[0])


def test_rows_changed_between_steps_are_read_anew() -> None:
    stock = rotary("default")
    rows = stock_table(stock)[:8].clone()
    module = mapped(stock, rows)
    query, key = batch(torch.float32, 8)
    module(POSITIONS, query.clone(), key.clone())
    rows.copy_(stock_table(stock)[POSITIONS])
    expected = stock(POSITIONS, query.clone(), key.clone())
    assert torch.equal(module(POSITIONS, query.clone(), key.clone())[0], expected[0])


def test_the_stock_module_that_other_layers_share_is_left_alone() -> None:
    stock = rotary("default")
    table = stock_table(stock).clone()
    query, key = batch(torch.float32, 8)
    before = stock(POSITIONS, query.clone(), key.clone())
    mapped(stock, torch.zeros(8, HEAD))(POSITIONS, query.clone(), key.clone())
    assert torch.equal(stock_table(stock), table)
    assert torch.equal(stock(POSITIONS, query.clone(), key.clone())[0], before[0])


def test_a_tap_sees_what_attention_gets() -> None:
    stock = rotary("default")
    tap = KeyTap((2,), (1,), HEAD, 16, torch.float32, torch.device("cpu"))
    module = mapped(stock, stock_table(stock)[POSITIONS].clone(), tap)
    query, key = module(POSITIONS, *batch(torch.float32, 8))
    assert torch.equal(tap.queries[0, :8], query.view(8, HEADS, HEAD)[:, 2])
    assert torch.equal(tap.keys[0, :8], key.view(8, KV_HEADS, HEAD)[:, 1])


def test_a_mapped_module_adds_nothing_to_the_models_weights() -> None:
    stock = rotary("default")
    assert mapped(stock, torch.zeros(8, HEAD)).state_dict() == {}


def test_a_module_that_rotates_by_code_of_its_own_is_refused() -> None:
    sections = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 6, 6]}
    stock = get_rope(HEAD, 256, rope_parameters=sections, dtype=torch.float32)
    for refused in (stock, nn.Identity()):
        with pytest.raises(UnsupportedRotaryError, match=type(refused).__name__):
            stock_table(refused)


def test_longrope_reads_the_rows_that_vllm_chose() -> None:
    stock = rotary("longrope")
    assert stock.use_long_rope
    assert torch.equal(stock_table(stock), stock.long_short_cos_sin_cache[64:])
    stock.use_long_rope = False
    assert torch.equal(stock_table(stock), stock.long_short_cos_sin_cache[:64])
    stock.use_long_rope = True
