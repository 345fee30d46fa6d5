"""Additive biases as coordinates behind a cached key, whose products with a query's are exact in bf16.

An attention kernel gives (q·k)·scale and nothing else. What is to be added to it is put behind q and k, as
numbers whose products sum to it. One bf16 number has 8 significant bits and would lose every position above
256; so each is held as the sum of several, and since a kernel multiplies exactly and sums in float32, the
sum of the products is the bias. What is the same along a row, the query's own position or phase, is left out
wherever nothing is multiplied with it: softmax does not see it.
"""

import torch

from positional.encodings.contract import EncodingError

BITS = 8
"""Significant bits of a bf16 number, with the hidden one: rounding errs by at most 2^−8 of a value."""

SLOPE_PARTS = 2
POSITION_PARTS = 2
PHASE_PARTS = 3
PRODUCT_PARTS = 4

EXACT_POSITIONS = 2 ** ((BITS + 1) * POSITION_PARTS - 1)
"""Positions up to here are exact in their parts: a part is rounded to nearest, so its sign is a bit more."""

SLOPE_WIDTH = SLOPE_PARTS * POSITION_PARTS
PHASE_WIDTH = PHASE_PARTS
GATE_WIDTH = SLOPE_PARTS * POSITION_PARTS + PRODUCT_PARTS


def split(values: torch.Tensor, parts: int, dtype: torch.dtype) -> torch.Tensor:
    """`values` [...] as sums of `parts` numbers of `dtype`, the largest first: [..., parts].

    In bf16 the sum is within 2^(−8·parts) of a value, relatively, and an integer up to 2^(9·parts − 1) is
    exact. Raises EncodingError for a `dtype` other than bfloat16 and float32: float16 ends at 65,504.

    Keep it from compilers that fuse: they hold a part with more bits than `dtype` has, so that nothing is
    left for the next one, while what is stored is rounded.
    """
    if dtype not in (torch.bfloat16, torch.float32):
        raise EncodingError("dtype", dtype, "must be bfloat16 or float32")
    rest, found = values.double(), []
    for _ in range(parts):
        part = rest.to(dtype)
        rest = rest - part.double()
        found.append(part)
    return torch.stack(found, dim=-1)


def slope_query(slopes: torch.Tensor, scale: float, dtype: torch.dtype) -> torch.Tensor:
    """A query's side of slope · j, as ALiBi has it or a gate of the query: `dtype` [..., SLOPE_WIDTH].

    `slopes` [...], one of each query head, even where heads share keys. `scale`: what the kernel multiplies
    products by.
    """
    return split(slopes / scale, SLOPE_PARTS, dtype).repeat_interleave(POSITION_PARTS, dim=-1)


def slope_key(positions: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A key's side of slope · j: `dtype` [..., SLOPE_WIDTH] of int64 `positions` [...] to EXACT_POSITIONS."""
    return _repeated(split(positions, POSITION_PARTS, dtype), SLOPE_PARTS)


def phase_query(query: torch.Tensor) -> torch.Tensor:
    """A query's side of −Φ_j, ones: in the dtype of `query` [..., width], [..., PHASE_WIDTH]."""
    return query.new_ones(*query.shape[:-1], PHASE_WIDTH)


def phase_key(phases: torch.Tensor, scale: float, dtype: torch.dtype) -> torch.Tensor:
    """A key's side of −Φ_j (FoX): float64 `phases` [...] of key-value heads, `dtype` [..., PHASE_WIDTH].

    Heads that share keys share their phases: a cached key has one.
    """
    return split(-phases / scale, PHASE_PARTS, dtype)


def gate_query(positions: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A query's side of (j − i)·g_j, a slope gated by keys: `dtype` [..., GATE_WIDTH] of int64 i [...]."""
    own = -split(positions, POSITION_PARTS, dtype).repeat_interleave(SLOPE_PARTS, dim=-1)
    return torch.cat((own, own.new_ones(*positions.shape, PRODUCT_PARTS)), dim=-1)


def gate_key(gates: torch.Tensor, positions: torch.Tensor, scale: float, dtype: torch.dtype) -> torch.Tensor:
    """A key's side of (j − i)·g_j: `gates` g_j and int64 `positions` j [...], `dtype` [..., GATE_WIDTH].

    j·g_j is taken of the gate as its parts hold it, so that at the distance 0 the bias is 0 and the gate's
    rounding is one of the slope alone.
    """
    held = split(gates / scale, SLOPE_PARTS, dtype)
    products = split(positions * held.double().sum(-1), PRODUCT_PARTS, dtype)
    return torch.cat((_repeated(held, POSITION_PARTS), products), dim=-1)


def logit_bound(*, held: float, parts: int, largest: float, width: int) -> float:
    """How far a logit can be from the exact one, both taken against the logit of their row's own key.

    `held`: what is rounded to `parts` bf16 numbers: slope · distance, or a phase. `largest`: the sum of the
    absolute products of one logit, which is about slope · position, or a phase, and the content's. `width`:
    how many products. The second part is float32's rounding of their sum, in a kernel that truncates too.
    """
    return abs(held) * 2.0 ** (-BITS * parts) + 2 * width * largest * 2.0**-23


def _repeated(parts: torch.Tensor, times: int) -> torch.Tensor:
    return parts.repeat(*[1] * (parts.dim() - 1), times)
