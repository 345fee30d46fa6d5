"""What learned rotations and biases make of queries and keys, without an engine around them."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from vllm.config import DeviceConfig, VllmConfig
from vllm.forward_context import set_forward_context

from cache import head_weights, logit_bias
from cache.architecture_attention import basis_of
from cache.architecture_config import LayerConfig
from cache.bias_config import Bias
from cache.learned_rotation import LearnedBasis, LearnedPlane, LearnedRotation, LearnedSpectrum
from cache.logit_bias import ForgetBias, SlopeBias, own_slopes
from positional.encodings.gated_slope import GatedSlope
from positional.profile import Pairing

TOKENS, HEADS, KV_HEADS, WIDTH, HIDDEN = 40, 4, 2, 16, 24
SCALE = 0.3
PLACES = torch.arange(TOKENS) * 211
SIZES = [HEADS * WIDTH, KV_HEADS * WIDTH, KV_HEADS * WIDTH]
ARCHITECTURE: Any = SimpleNamespace(
    head_dim=WIDTH, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, hidden_size=HIDDEN
)


@pytest.fixture(autouse=True)
def one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (head_weights, logit_bias):
        monkeypatch.setattr(module, "get_tensor_model_parallel_rank", lambda: 0)
        monkeypatch.setattr(module, "get_tensor_model_parallel_world_size", lambda: 1)


def config() -> Any:
    return SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context={}))


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def basis(folds: bool, pairing: Pairing, heads: int = KV_HEADS) -> LearnedBasis:
    made = LearnedBasis(heads, WIDTH, 5, pairing, folds=folds)
    made.weight.copy_(torch.linalg.qr(noise(heads, WIDTH, WIDTH)).Q)
    return made


def settled(made: LearnedBasis) -> tuple[LearnedBasis, nn.Linear]:
    projection = nn.Linear(HIDDEN, sum(SIZES))
    with torch.no_grad():
        projection.weight.copy_(noise(sum(SIZES), HIDDEN, seed=1))
        projection.bias.copy_(noise(sum(SIZES), seed=2))
        made.settle("model.layers.3.self_attn.rotary_basis", projection, SIZES)
    return made, projection


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("heads", [1, KV_HEADS])
@torch.no_grad()
def test_a_folded_basis_does_what_it_does_at_run_time(heads: int, pairing: Pairing) -> None:
    states = noise(TOKENS, HIDDEN, seed=3)
    found = []
    for folds in (True, False):
        made, projection = settled(basis(folds, pairing, heads))
        query, key, value = projection(states).split(SIZES, dim=-1)
        found.append((*made(query, key), value))
    for folded, applied in zip(*found, strict=True):
        torch.testing.assert_close(folded, applied, rtol=0, atol=1e-5)
    assert not torch.allclose(found[0][0], projection(states)[:, : SIZES[0]], atol=0.1)


def test_a_basis_that_is_none_is_refused_by_its_layers_name() -> None:
    made = basis(True, "half")
    made.weight[1] *= 1.1
    with pytest.raises(
        ValueError, match=r"model.layers.3.self_attn.rotary_basis.weight is not an orthonormal"
    ):
        settled(made)


@pytest.mark.parametrize(
    ("more", "folds"),
    [
        ({}, True),
        ({"bias": Bias(kind="forget")}, True),
        ({"bias": Bias(kind="gated_slope", gates=("key",))}, False),
        ({"qk_norm": True}, False),
    ],
)
def test_a_basis_is_folded_where_nothing_reads_what_stands_before_it(more: Any, folds: bool) -> None:
    layer = LayerConfig(rotary="full", window=None, base=10_000.0, basis="tied", **more)
    made = basis_of(layer, ARCHITECTURE, SimpleNamespace(quant_config=None, lora_config=None))  # type: ignore[arg-type]
    assert made is not None
    assert made.folds == folds


def rotations() -> list[LearnedRotation]:
    plane = LearnedPlane(KV_HEADS, WIDTH, config(), "layer")
    plane.plane.copy_(noise(KV_HEADS, 2, WIDTH) * 0.1)
    made: list[LearnedRotation] = [plane]
    pairings: tuple[Pairing, ...] = ("half", "interleaved")
    for pairing in pairings:
        for heads in (1, KV_HEADS):
            spectrum = LearnedSpectrum(heads, 5, pairing, WIDTH, config(), "layer")
            spectrum.angles.copy_(noise(heads, 5))
            made.append(spectrum)
    return made


@pytest.mark.parametrize("index", range(5))
def test_query_heads_turn_as_their_key_head_by_definition(index: int) -> None:
    rotation = rotations()[index]
    states = noise(TOKENS, HEADS * WIDTH, seed=4)
    found = rotation.turned(PLACES, states).view(TOKENS, HEADS, WIDTH)
    for head in range(HEADS):
        kv_head = head // (HEADS // KV_HEADS)
        alone = states.view(TOKENS, HEADS, 1, WIDTH)[:, head].double().expand(-1, rotation.key_heads, -1)
        exact = rotation.reference().rotate(alone, PLACES[:, None])[:, kv_head % rotation.key_heads]
        torch.testing.assert_close(found[:, head].double(), exact, rtol=0, atol=2e-5)


def test_a_plane_turns_by_its_weights_when_they_are_loaded_anew() -> None:
    plane = rotations()[0]
    assert isinstance(plane, LearnedPlane)
    states = noise(TOKENS, HEADS * WIDTH, seed=4)
    before = plane.turned(PLACES, states)
    plane.plane.copy_(noise(KV_HEADS, 2, WIDTH, seed=9) * 0.1)
    plane.settle()
    assert not torch.allclose(plane.turned(PLACES, states), before, atol=0.1)


def products(
    bias: SlopeBias | ForgetBias, states: torch.Tensor, query: torch.Tensor, key: torch.Tensor
) -> torch.Tensor:
    """What a kernel makes of the coordinates, against each row's own key: [heads, queries, keys]."""
    queries, keys = bias.coordinates(PLACES, states, query, key)
    assert queries.shape[-1] == keys.shape[-1] == bias.extra
    keys = keys.repeat_interleave(HEADS // KV_HEADS, dim=1)
    added = SCALE * torch.einsum("qhe,khe->hqk", queries.double(), keys.double())
    return added - added.diagonal(dim1=1, dim2=2)[..., None]


@pytest.mark.parametrize("gates", [("query",), ("key",), ("query", "key")])
@pytest.mark.parametrize("link", ["softplus", "identity"])
def test_coordinates_of_a_gated_slope_multiply_to_its_bias(gates: tuple[str, ...], link: str) -> None:
    fields = {"kind": "gated_slope", "gates": gates, "link": link, "frequency": 0.1}
    bias = SlopeBias(Bias.model_validate(fields), ARCHITECTURE, SCALE, config(), "layer")
    for seed, gate in enumerate((bias.query_gate, bias.key_gate)):
        if gate is not None:
            gate.copy_(noise(*gate.shape, seed=seed))
    query, key = noise(TOKENS, HEADS, WIDTH, seed=5), noise(TOKENS, KV_HEADS, WIDTH, seed=6)
    found = products(bias, noise(TOKENS, HIDDEN), query, key)
    for head in range(HEADS):
        own = [
            None if gate is None else gate[head // (HEADS // len(gate))].double()
            for gate in (bias.query_gate, bias.key_gate)
        ]
        exact = GatedSlope(*own, link=link, frequency=0.1)  # type: ignore[arg-type]
        slopes = exact.query_slopes(query[:, head].double())[:, None]
        slopes = slopes + exact.key_slopes(key[:, head // 2].double())
        distance = (PLACES - PLACES[:, None]).double()
        torch.testing.assert_close(found[head], distance * slopes, rtol=1e-4, atol=1e-3)


def test_coordinates_of_forget_gates_multiply_to_the_sum_of_their_logarithms() -> None:
    bias = ForgetBias(Bias(kind="forget"), ARCHITECTURE, SCALE, config(), "layer")
    bias.weight.copy_(noise(KV_HEADS, HIDDEN))
    bias.bias.fill_(1.0)
    states = noise(TOKENS, HIDDEN, seed=7)
    gates = torch.sigmoid(states.double() @ bias.weight.double().T + 1)
    with set_forward_context(None, VllmConfig(device_config=DeviceConfig("cpu"))):
        found = products(bias, states, noise(TOKENS, HEADS, WIDTH), noise(TOKENS, KV_HEADS, WIDTH))
    for head in range(HEADS):
        for query, token in ((39, 0), (39, 38), (20, 3)):
            exact = gates[token + 1 : query + 1, head // 2].log().sum()
            assert found[head, query, token] == pytest.approx(float(exact), abs=1e-4)


def test_slopes_are_those_of_the_ranks_own_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_slopes(Bias(kind="alibi"), 4) == [0.25, 0.0625, 0.015625, 0.00390625]
    monkeypatch.setattr(logit_bias, "get_tensor_model_parallel_rank", lambda: 1)
    monkeypatch.setattr(logit_bias, "get_tensor_model_parallel_world_size", lambda: 2)
    assert own_slopes(Bias(kind="alibi"), 4) == [0.015625, 0.00390625]
    assert own_slopes(Bias(kind="forget"), 4) is None
    assert own_slopes(None, 4) is None
