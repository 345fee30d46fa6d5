"""All encodings: what each is called, where it comes from, and a small example of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from positional.encodings.additive import Additive
from positional.encodings.alibi import Alibi
from positional.encodings.block import Block
from positional.encodings.contract import CacheShape, Encoding
from positional.encodings.forgetting import Forgetting
from positional.encodings.gated_slope import GatedSlope
from positional.encodings.generator import Generator
from positional.encodings.learned import Learned
from positional.encodings.noncommuting import OrderedProduct
from positional.encodings.nope import Nope
from positional.encodings.path_integral import PathIntegral
from positional.encodings.rank_two import RankTwo
from positional.encodings.retention import Retention
from positional.encodings.rope import Rope, ntk_base
from positional.encodings.sinusoidal import Sinusoidal
from positional.encodings.subspaces import Subspaces
from positional.encodings.unipotent import dictionary, key_gate, pair
from positional.encodings.warped import Warped
from positional.profile import Pairing, ParameterValue, Profile
from positional.rule import Rule, Shape
from positional.warps import Rerope, Scaled, SelfExtend, String, Warp

Family = Literal["added", "rotary", "multiplicative", "additive", "generator", "warp"]

WIDTH = 64
"""Numbers of the examples' heads."""
LENGTH = 513
"""Tokens that the examples can tell apart, four times `TRAINED` and one more."""
TRAINED = 128
"""Tokens that the scaled rules are examples of scaling from."""

BASE = 10_000.0
HEAD = CacheShape(kv_heads=1, key_width=WIDTH, value_width=WIDTH, element_size=2)
"""One key-value head of bf16."""
LATENT = CacheShape(kv_heads=1, key_width=512, value_width=0, element_size=2)
"""DeepSeek-V2's latent of bf16."""


_ORIGINAL: Mapping[str, ParameterValue] = {"original_max_position_embeddings": TRAINED}
_GROUPS = "the real Jordan form"
# Name, title, source, example, and the cache where it is not a usual one.
_Row = tuple[str, str, str, Encoding] | tuple[str, str, str, Encoding, CacheShape]


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoding: `name` in lower case, `title` and `source` for readers.

    `example`: of one head of `WIDTH` numbers. `shape`: the cache that it is usual with.
    """

    name: str
    family: Family
    title: str
    source: str
    example: Encoding
    shape: CacheShape = HEAD

    @property
    def module(self) -> str:
        """Where it is built."""
        return type(self.example).__module__

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one layer caches of a token, by its contract."""
        return self.example.contract.bytes_per_token(self.shape)


@cache
def encodings() -> tuple[Entry, ...]:
    """Every encoding, by families."""
    families: tuple[tuple[Family, Iterable[_Row]], ...] = (
        ("added", _added()),
        ("rotary", _rotary()),
        ("multiplicative", _multiplicative()),
        ("additive", _additive()),
        ("generator", _generators()),
        ("warp", _warps()),
    )
    return tuple(Entry(row[0], family, *row[1:]) for family, rows in families for row in rows)


def _added() -> Iterator[_Row]:
    halves = Sinusoidal(WIDTH, layout="half", first="cosine")
    yield "nope", "None (NoPE)", "Kazemnejad et al. 2023", Nope()
    yield "sinusoidal", "Sinusoidal, sine first", "Vaswani et al. 2017, section 3.5", Sinusoidal(WIDTH)
    yield "sinusoidal_cosine", "Sinusoidal, cosine first", "the same, as MusicGen 2023 has it", halves
    yield "learned", "Learned absolute", "Gehring et al. 2017", Learned(_drawn(LENGTH, WIDTH))


def _rotary() -> Iterator[_Row]:
    def rope(base: float = BASE, turned: int = WIDTH, pairing: Pairing = "half", apart: bool = False) -> Rope:
        return Rope(Profile.rope(base, turned, pairing), WIDTH, apart)

    yield "rope", "RoPE, halves paired", "Su et al. 2021", rope()
    yield "rope_interleaved", "RoPE, neighbours paired", "Su et al. 2021", rope(pairing="interleaved")
    yield "rope_partial", "Partial RoPE", "Black et al. 2022, section 2.1", rope(turned=WIDTH // 4)
    decoupled = rope(turned=WIDTH // 2, pairing="interleaved", apart=True)
    yield "rope_decoupled", "Decoupled RoPE (MLA)", "DeepSeek-V2 2024, section 2.1.3", decoupled, LATENT
    yield "rope_base", "RoPE of another base", "Xiong et al. 2023", rope(500_000.0)
    yield "rope_ntk", "NTK-aware base", "Peng et al. 2023, section 3.1", rope(ntk_base(BASE, 4, WIDTH))
    yield "rope_linear", "Position interpolation", "Chen et al. 2023", _scaled("linear")
    yield "rope_dynamic", "Dynamic NTK", "Peng et al. 2023, section 3.3", _scaled("dynamic")
    yield "rope_yarn", "YaRN", "Peng et al. 2023", _scaled("yarn", **_ORIGINAL)
    bands = {**_ORIGINAL, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    yield "rope_llama3", "Llama 3's scaling", "Llama 3 2024, by its code", _scaled("llama3", **bands)
    planes = range(WIDTH // 2)
    factors = {"short_factor": tuple(1.0 for _ in planes), "long_factor": tuple(1 + m / 8 for m in planes)}
    yield "rope_longrope", "LongRoPE", "Ding et al. 2024", _scaled("longrope", **_ORIGINAL, **factors)


def _multiplicative() -> Iterator[_Row]:
    direction = torch.full((WIDTH,), WIDTH**-0.5, dtype=torch.float64)
    plane = RankTwo.canonical(direction, -0.05)
    crossing = RankTwo.canonical(direction, -0.03, "half")
    skew = (_drawn(WIDTH, WIDTH) - _drawn(WIDTH, WIDTH).T) / 8
    learned = Subspaces(torch.linalg.matrix_exp(skew), Profile.rope(BASE, WIDTH).inverse_frequencies)
    yield "grape_plane", "One plane (rank 2)", "GRAPE, section 2", plane
    yield "grape_subspaces", "Planes of a learned basis", "GRAPE, section 3.1", learned
    yield "grape_product", "Planes that cross", "GRAPE, appendix D", OrderedProduct((plane, crossing))


def _additive() -> Iterator[_Row]:
    log_gates = torch.full((LENGTH,), -0.005, dtype=torch.float64)
    log_gates[::64] = -0.3
    gate = torch.full((WIDTH,), -0.5, dtype=torch.float64)
    direction = torch.full((WIDTH,), 1 / WIDTH, dtype=torch.float64)
    both = (
        key_gate(direction, WIDTH + 2, reads=WIDTH),
        pair(WIDTH + 2, reads=WIDTH, writes=WIDTH + 1),
    )
    query_tail, key_tail = torch.eye(2, dtype=torch.float64)
    summed = Additive(dictionary(both, (0.5, 0.5)), query_tail, key_tail, -0.1)
    path = PathIntegral(torch.ones(LENGTH, 8, dtype=torch.float64), 0.02)
    yield "alibi", "ALiBi", "Press et al. 2022, section 3", Alibi(2.0**-6)
    yield "grape_additive", "Lifted content", "GRAPE, section 4.1", Additive.gated_by_key(direction, -0.1)
    yield "grape_dictionary", "A sum of generators", "GRAPE, appendix J.3", summed
    yield "forgetting", "Forgetting (FoX)", "Lin et al. 2025", Forgetting(log_gates)
    yield "slope_by_query", "Slope gated by the query", "GRAPE, section 4.1", GatedSlope(gate, None)
    yield "slope_by_key", "Slope gated by the key", "GRAPE, section 4.1", GatedSlope(None, gate)
    yield "path_integral", "Path integral", "GRAPE, section 5", path


def _generators() -> Iterator[_Row]:
    turns = Profile.rope(BASE, WIDTH, "interleaved")
    chains = Generator((Block(decay=0.01, size=2, coupling=0.02),) * (WIDTH // 2))
    yield "rotation_decay", "Rotation and decay", _GROUPS, Generator.rotations(turns, decay=0.005)
    yield "jordan", "Decay with chains (Jordan blocks)", _GROUPS, chains
    yield "retention", "Retention", "Sun et al. 2023", Retention.of_head(2, turns)


def _warps() -> Iterator[_Row]:
    def warped(warp: Warp) -> Warped:
        return Warped(warp, Profile.rope(BASE, WIDTH), WIDTH)

    yield "string", "STRING", "An et al. 2025", warped(String(shift=LENGTH // 3, window=32))
    yield "self_extend", "Self-Extend", "Jin et al. 2024", warped(SelfExtend(group=4, window=TRAINED))
    yield "rerope", "ReRoPE", "Su 2023", warped(Rerope(TRAINED))
    yield "leaky_rerope", "Leaky ReRoPE", "Su 2023", warped(Rerope(TRAINED, leak=0.25))
    yield "ms_poe", "Ms-PoE, one head", "Zhang et al. 2024", warped(Scaled(1.5))


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def _scaled(rope_type: str, **parameters: ParameterValue) -> Rope:
    """Fourfold over what was trained, at all of that length."""
    shape = Shape(WIDTH, "half", TRAINED, TRAINED)
    named = tuple(sorted({"factor": 4.0, **parameters}.items()))
    return Rope(Rule(shape, BASE, rope_type, named, 4 * TRAINED).profile(4 * TRAINED), WIDTH)
