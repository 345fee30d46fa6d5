"""How a layer meets the cache: the contracts of its rotation and of its bias in one."""

from typing import Any

import torch

from cache.bias_config import Bias
from cache.declaration import Learned
from positional.encodings.contract import CacheRule, Contract, Relative
from positional.encodings.nope import Nope
from positional.encodings.rank_two import RankTwo
from positional.encodings.rope import Rope
from positional.encodings.subspaces import Subspaces
from positional.profile import Profile

# What holds for shorter, or of less, comes later.
_RULES: tuple[CacheRule, ...] = ("fixed", "grows", "end_point")
_RELATIVE: tuple[Relative, ...] = ("exact", "phase", "no")


def layer_contract(
    profile: Profile | None, learned: Learned | None, bias: Bias | None, *, scaled: bool = False
) -> dict[str, Any]:
    """JSON for `ropeway plan`: what a cached key holds and for how long, with how many numbers for a bias.

    `scaled`: a factor of each query's own position is on its scores, which are then not relative.
    """
    rotation = _rotation(profile, learned)
    relative: Relative = "no" if scaled else rotation.relative
    if bias is None:
        return _told(rotation.cache_rule, relative, rotation.cached, 0)
    added = bias.contract
    return _told(
        max(rotation.cache_rule, added.cache_rule, key=_RULES.index),
        max(relative, added.relative, key=_RELATIVE.index),
        # A bias is added to whatever the rotation makes of the key.
        added.cached.replace("the key", rotation.cached, 1),
        added.extra_dimensions,
    )


def _told(rule: CacheRule, relative: Relative, cached: str, extra: int) -> dict[str, Any]:
    return {"rule": rule, "relative": relative, "cached": cached, "extra_dimensions": extra}


def _rotation(profile: Profile | None, learned: Learned | None) -> Contract:
    """Of what a contract says the weights change nothing."""
    one = torch.ones(2, dtype=torch.float64)
    rule = None if profile is None else Rope(profile, profile.rotary_dim).contract
    if learned == "plane":
        return RankTwo(one, one).contract
    if learned is not None and (rule is None or rule.cache_rule == "fixed"):
        return Subspaces(torch.eye(2, dtype=torch.float64), one[:1]).contract
    return rule or Nope().contract
