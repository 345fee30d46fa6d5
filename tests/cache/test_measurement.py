"""Small models that do one thing each to their queries and keys, and what is measured of it."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import get_rope

from cache.measurement import Measured, measure
from cache.unsupported import UnsupportedModelError
from positional.profile import Profile

WIDTH, HEADS, KV_HEADS, LENGTH = 32, 4, 2, 256
Change = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def nothing(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return query, key


class Attended(nn.Module):
    """What attention would be; it reads queries and keys and answers with rubbish."""

    head_size = WIDTH

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.full_like(query, float("nan"))


class Block(nn.Module):
    def __init__(self, rotary: nn.Module | None, change: Change, places: int = 1) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.weight = torch.randn(WIDTH * HEADS, WIDTH * (HEADS + 2 * KV_HEADS), generator=generator) / 12
        self.rotary_emb = rotary
        self.attn = Attended()
        self.change = change
        self.places = places

    def forward(self, positions: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        heads = (states @ self.weight.to(states)).view(len(states), -1, WIDTH)
        query, key, value = heads[:, :HEADS], heads[:, HEADS:-KV_HEADS], heads[:, -KV_HEADS:]
        query, key = query.flatten(1), key.flatten(1)
        if self.rotary_emb is not None:
            query, key = self.rotary_emb(positions * self.places, query, key)
        query, key = self.change(positions, query, key)
        return torch.tanh(states + self.attn(query, key, value))


class Model(nn.Module):
    def __init__(self, dtype: torch.dtype, *blocks: Block) -> None:
        super().__init__()
        self.states = torch.randn(100, WIDTH * HEADS, generator=torch.Generator().manual_seed(0)).to(dtype)
        self.layers = nn.ModuleList(blocks)

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, **_: Any) -> torch.Tensor:
        states = self.states[input_ids]
        for layer in self.layers:
            states = layer(positions, states)
        return states


@pytest.fixture
def config() -> Iterator[VllmConfig]:
    config = VllmConfig(device_config=DeviceConfig("cpu"))
    # All that the measurement reads of a model's configuration.
    text = SimpleNamespace(vocab_size=100)
    config.model_config = SimpleNamespace(max_model_len=LENGTH, hf_text_config=text)
    with set_current_vllm_config(config):
        yield config


def rope(dtype: torch.dtype = torch.float32, neox: bool = True, **rule: Any) -> nn.Module:
    parameters = {"rope_type": "default", "rope_theta": 10_000.0, **rule}
    return get_rope(WIDTH, LENGTH, is_neox_style=neox, rope_parameters=parameters, dtype=dtype)


def measured(config: VllmConfig, *blocks: Block, dtype: torch.dtype = torch.float32) -> list[Measured]:
    names = [f"layers.{index}.attn" for index in range(len(blocks))]
    return list(measure(Model(dtype, *blocks), names, config, torch.device("cpu")))


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rotation_is_that_of_its_profile_alone(config: VllmConfig, dtype: torch.dtype, neox: bool) -> None:
    rotary = rope(dtype, neox, partial_rotary_factor=0.5)
    (layer,) = measured(config, Block(rotary, nothing), dtype=dtype)
    exact = 1e-4 if dtype is torch.float32 else 1.6e-2
    own, other = ("half", "interleaved") if neox else ("interleaved", "half")
    assert layer.rotation is not None
    assert layer.rotation.rotary_dim == WIDTH // 2
    assert layer.rotation.error(Profile.rope(10_000.0, 16, own)) < exact  # type: ignore[arg-type]
    for wrong in (
        Profile.rope(10_000.0, 16, other),  # type: ignore[arg-type]
        Profile.rope(11_000.0, 16, own),  # type: ignore[arg-type]
        Profile.rope(10_000.0, 14, own),  # type: ignore[arg-type]
    ):
        assert layer.rotation.error(wrong) > 3 * exact


def test_a_layer_that_hands_other_positions_to_its_module_rotates_by_other_angles(config: VllmConfig) -> None:
    config.model_config.max_model_len = LENGTH // 2
    (layer,) = measured(config, Block(rope(), nothing, places=2))
    assert layer.rotation is not None
    assert layer.rotation.error(Profile.rope(10_000.0, WIDTH)) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_that_rotate_are_told_from_those_that_do_not(config: VllmConfig, dtype: torch.dtype) -> None:
    shared = rope(dtype)
    uncalled = Block(shared, nothing)
    uncalled.forward = Block(None, nothing).forward  # type: ignore[method-assign]
    uncalled.attn = uncalled.forward.__self__.attn  # type: ignore[attr-defined]
    blocks = Block(shared, nothing), Block(None, nothing), uncalled, Block(shared, nothing)
    layers = measured(config, *blocks, dtype=dtype)
    assert [layer.rotation is not None for layer in layers] == [True, False, False, True]
    assert [layer.motion > 0.1 for layer in layers] == [True, False, False, True]
    assert all(layer.drift < 0.01 for layer in layers)
    assert [block.rotary_emb for block in blocks] == [shared, None, shared, shared]


def test_keys_that_follow_positions_without_a_rotary_module(config: VllmConfig) -> None:
    def learned(
        positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return query, key + positions[:, None] / LENGTH

    first, second = measured(config, Block(rope(), learned), Block(rope(), nothing))
    assert first.drift > 0.1
    assert second.drift == 0


def test_queries_scaled_by_position(config: VllmConfig) -> None:
    def scaled(
        positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return query * (1 + positions[:, None] / LENGTH), key

    for rotary in (None, rope()):
        (layer,) = measured(config, Block(rotary, scaled))
        assert [position for position, _ in layer.factors] == [0, 1, 2, 61, 100, LENGTH - 1]
        assert [factor for _, factor in layer.factors] == pytest.approx(
            [1 + position / LENGTH for position, _ in layer.factors]
        )
        assert layer.residue < 1e-5
        assert layer.drift == 0


def test_queries_that_follow_positions_by_more_than_a_factor(config: VllmConfig) -> None:
    def shifted(
        positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return query + positions[:, None] / LENGTH, key

    (layer,) = measured(config, Block(rope(), shifted))
    assert layer.residue > 0.1


def test_what_changes_after_the_rotation_is_not_bare(config: VllmConfig) -> None:
    def normed(
        positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.normalize(query, dim=-1), key

    layers = measured(config, Block(rope(), nothing), Block(rope(), normed), Block(None, normed))
    assert [layer.bare for layer in layers] == [True, False, True]


def test_a_table_with_fewer_rows_than_the_longest_request_is_measured_within_them(config: VllmConfig) -> None:
    config.model_config.max_model_len = 100 * LENGTH
    (layer,) = measured(config, Block(rope(), nothing))
    assert layer.factors[-1][0] == LENGTH - 1


def test_keys_of_nothing_cannot_be_measured(config: VllmConfig) -> None:
    block = Block(rope(), nothing)
    block.weight.zero_()
    with pytest.raises(UnsupportedModelError, match=r"layers\.0\.attn has keys of 0"):
        measured(config, block)


def test_the_model_is_left_as_it_was(config: VllmConfig) -> None:
    model = Model(torch.float32, Block(rope(), nothing))
    before = {name: id(module) for name, module in model.named_modules()}
    measure(model, ["layers.0.attn"], config, torch.device("cpu"))
    assert {name: id(module) for name, module in model.named_modules()} == before
    attention = model.get_submodule("layers.0.attn")
    assert not attention._forward_hooks
    assert not attention._forward_pre_hooks
