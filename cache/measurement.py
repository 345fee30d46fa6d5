"""What each layer of a loaded model does to queries and keys, measured by two short eager forwards.

The same few tokens stand at several positions, and attention gives zeros, so no hidden state depends on a
position: whatever differs where queries and keys enter attention is done by their own layer. The first
forward is the model as it is; in the second the rotary modules pass through what they are given, so what
still follows positions is not their doing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.forward_context import set_forward_context

from cache.learned_rotation import LearnedRotation
from cache.rotary import stock_table
from cache.unsupported import UnsupportedModelError
from positional.phases import rotate, rotation_rows
from positional.profile import Profile

# As far as there are; the last one stands for the longest request's last.
_POSITIONS = (0, 1, 2, 61, 100, 8191, 8192, 1 << 62)
_TOKENS = 2
ROWS = _TOKENS * len(_POSITIONS)
"""Tokens of a forward; a model that knows adapters must be told before that none is on for so many."""

# Of a float32 frequency, as a share of the angle.
_FREQUENCY_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """What a rotary module made of probe vectors of tokens, wherever its layer said that they stand.

    `positions` int64 [tokens], where they do stand; `before` and `after` float64 [tokens, heads, width];
    `rotary_dim` is the width of the module's table, whose numbers are of `dtype`.
    """

    positions: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor
    rotary_dim: int
    dtype: torch.dtype

    def error(self, profile: Profile) -> float:
        """How far it is from a profile's rotation, in units of the largest probe.

        What float32 frequencies lose at far positions is left out.
        """
        places = self.positions.double()[:, None].expand(-1, profile.planes)
        rows = rotation_rows(places, profile, torch.float64)
        error = (self.after - rotate(self.before, rows, profile.pairing)).abs().amax(dim=1)
        tokens, half = len(error), profile.pairing == "half"
        pairs = error[:, : profile.rotary_dim].reshape(tokens, *((2, -1) if half else (-1, 2)))
        by_plane = pairs.amax(dim=1 if half else 2)
        lost = _FREQUENCY_ROUNDING * places * profile.inverse_frequencies * profile.attention_factor
        scale = self.before.abs().max()
        kept = error[:, profile.rotary_dim :].flatten()
        return torch.cat(((by_plane / scale - lost).flatten(), kept / scale)).max().item()


@dataclass(frozen=True, slots=True)
class Measured:
    """One layer.

    `rotation` is None where its rotary module was not called. `motion`: the largest change of a key from
    position 0 to another, as a share of the largest key; `drift`: the same with rotation passed through.
    `factors`: what queries are multiplied by, by position; `residue`: what of their change that leaves
    unexplained. `bare`: attention reads what the rotary module gave, unchanged. `learned`: how far a rotation
    by weights is from its definition, in units of the largest probe. The coordinates of a bias are left out.
    """

    rotation: Rotation | None
    motion: float
    drift: float
    factors: tuple[tuple[int, float], ...]
    residue: float
    bare: bool
    learned: float = 0.0


def measure(
    model: nn.Module, names: Sequence[str], config: VllmConfig, device: torch.device
) -> tuple[Measured, ...]:
    """Measure the decoder self-attentions of these names; raises UnsupportedModelError, naming one.

    Compilation is left out, and nothing is cached. Every rank of a tensor-parallel model must call it.
    """
    positions = _positions(model, names, config)
    tokens = config.model_config.hf_text_config.vocab_size * torch.arange(1, _TOKENS + 1) // (_TOKENS + 1)
    ids = tokens.to(torch.int32).repeat_interleave(len(positions)).to(device)
    rows = torch.tensor(positions * _TOKENS, device=device)
    with _watched(model, names, rows.cpu()) as watches:
        _forward(model, ids, rows, config)
        moved = [watch.take() for watch in watches]
        for watch in watches:
            watch.passes = True
        _forward(model, ids, rows, config)
        still = [watch.take() for watch in watches]
    return tuple(
        _measured(watch, positions, *states)
        for watch, states in zip(watches, zip(moved, still, strict=True), strict=True)
    )


def _measured(watch: "_Watch", positions: list[int], moved: "_States", still: "_States") -> Measured:
    factors, residue = _factors(still.query)
    return Measured(
        rotation=watch.rotation,
        motion=_change(moved.key, watch.name),
        drift=_change(still.key, watch.name),
        factors=tuple(dict(zip(positions, factors, strict=True)).items()),
        residue=residue,
        bare=watch.bare,
        learned=watch.learned,
    )


def _positions(model: nn.Module, names: Sequence[str], config: VllmConfig) -> list[int]:
    """Positions that a request can have and every table has a row for."""
    owners = {name.rpartition(".")[0] for name in names}
    rotaries = [getattr(model.get_submodule(owner), "rotary_emb", None) for owner in owners]
    stock = [r for r in rotaries if isinstance(r, nn.Module) and not isinstance(r, LearnedRotation)]
    tables = [len(stock_table(rotary)) for rotary in stock]
    last = min([config.model_config.max_model_len, *tables]) - 1
    return [min(position, last) for position in _POSITIONS]


def _forward(model: nn.Module, ids: torch.Tensor, positions: torch.Tensor, config: VllmConfig) -> None:
    with (
        torch.no_grad(),
        torch.compiler.set_stance("force_eager"),
        set_forward_context(None, config, num_tokens=len(ids), skip_compiled=True),
    ):
        model(input_ids=ids, positions=positions, intermediate_tensors=None, inputs_embeds=None)


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """One layer's queries and keys, float64 [tokens, positions, heads, width]."""

    query: torch.Tensor
    key: torch.Tensor

    def same(self, other: "_States") -> bool:
        return torch.equal(self.query, other.query) and torch.equal(self.key, other.key)


class _Watch:
    """Sees one layer's queries and keys, in front of attention and around its rotary module."""

    def __init__(self, name: str, attention: Any, owner: Any, positions: torch.Tensor) -> None:
        self.name = name
        self.passes = False
        self.rotation: Rotation | None = None
        self.bare = True
        self.learned = 0.0
        self._cached_width: int = attention.head_size
        self._width: int = getattr(owner, "content_width", self._cached_width)
        self._positions = positions
        self._rotated: _States | None = None
        self._read: _States | None = None

    def read(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A hook in front of attention."""
        given = {**dict(zip(("query", "key"), args, strict=False)), **kwargs}
        self._read = self._states(given["query"], given["key"], self._cached_width)
        if self._rotated is not None:
            self.bare = self._rotated.same(self._read)
            self._rotated = None

    def rotate(
        self, stock: nn.Module, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """In place of the rotary module."""
        if self.passes:
            return query, key
        probe = torch.randn(query.shape, generator=torch.Generator().manual_seed(0)).to(query)
        turned, _ = stock(positions, probe.clone(), torch.zeros_like(key))
        before, after = self._heads(probe, self._width), self._heads(turned, self._width)
        if isinstance(stock, LearnedRotation):
            self.learned = self._strayed(stock, before, after)
        else:
            table = stock_table(stock)
            self.rotation = Rotation(self._positions, before, after, table.shape[1], table.dtype)
        query, key = stock(positions, query, key)
        self._rotated = self._states(query, key, self._width)
        return query, key

    def _strayed(self, learned: LearnedRotation, before: torch.Tensor, after: torch.Tensor) -> float:
        places = self._positions[:, None, None]
        by_group = before.view(len(before), learned.key_heads, -1, self._width).transpose(1, 2)
        exact = learned.reference().rotate(by_group, places).transpose(1, 2).flatten(1, 2)
        return ((after - exact).abs().max() / before.abs().max()).item()

    def take(self) -> _States:
        """What attention was given in the last forward; raises UnsupportedModelError where it was not."""
        if self._read is None:
            raise UnsupportedModelError(f"{self.name} was passed by: what it reads cannot be measured")
        read, self._read = self._read, None
        return read

    def _states(self, query: torch.Tensor, key: torch.Tensor, width: int) -> _States:
        heads = (self._heads(query, width), self._heads(key, width))
        return _States(*(states.reshape(_TOKENS, -1, *states.shape[1:]) for states in heads))

    def _heads(self, states: torch.Tensor, width: int) -> torch.Tensor:
        """The layer's own part of heads of a width, float64 [tokens, heads, content width]."""
        heads = states.detach().reshape(states.shape[0], -1, width)[..., : self._width]
        return heads.to("cpu", torch.float64, copy=True)


class _WatchedRotary(nn.Module):
    """Stands in for a layer's rotary module, which it may share with other layers."""

    def __init__(self, stock: nn.Module, watch: _Watch) -> None:
        super().__init__()
        self.stock = stock
        self.watch = watch

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As the rotary module."""
        return self.watch.rotate(self.stock, positions, query, key)


@contextmanager
def _watched(model: nn.Module, names: Sequence[str], positions: torch.Tensor) -> Iterator[list[_Watch]]:
    """Watch these attentions, and have them give zeros, until the block ends."""
    hooks, rotaries, watches = [], [], []
    try:
        for name in names:
            attention, owner = model.get_submodule(name), model.get_submodule(name.rpartition(".")[0])
            watch = _Watch(name, attention, owner, positions)
            watches.append(watch)
            hooks.append(attention.register_forward_pre_hook(watch.read, with_kwargs=True))
            hooks.append(attention.register_forward_hook(_nothing_attended))
            if isinstance(rotary := getattr(owner, "rotary_emb", None), nn.Module):
                rotaries.append((owner, rotary))
                owner.rotary_emb = _WatchedRotary(rotary, watch)
        yield watches
    finally:
        for hook in hooks:
            hook.remove()
        for owner, rotary in rotaries:
            owner.rotary_emb = rotary


def _nothing_attended(module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(output)


def _change(states: torch.Tensor, name: str) -> float:
    """The largest change from the first position to another, as a share of the largest value."""
    largest = states.abs().max()
    if not (torch.isfinite(largest) and largest > 0):
        raise UnsupportedModelError(f"{name} has keys of {largest:g}: what it does cannot be measured")
    return ((states - states[:, :1]).abs().max() / largest).item()


def _factors(query: torch.Tensor) -> tuple[list[float], float]:
    """By position, the factor that best makes its queries of those at the first; and what is left over."""
    first = query[:, :1]
    factors = (query * first).sum(dim=(0, 2, 3)) / (first * first).sum()
    left = (query - factors[:, None, None] * first).abs().max() / query.abs().max()
    return factors.tolist(), left.item()
