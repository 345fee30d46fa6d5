"""What a layer's configuration says of the bias on its logits."""

from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from positional.encodings.alibi import Alibi
from positional.encodings.contract import Contract
from positional.encodings.forgetting import Forgetting
from positional.encodings.gated_slope import GatedSlope, Link
from positional.encodings.path_integral import PathIntegral

BiasKind = Literal["alibi", "gated_slope", "forget", "path_integral"]
Gate = Literal["query", "key"]
# The kinds that a field is for; one that is not given is None.
_FIELDS = {"slopes": "alibi", "gates": "gated_slope", "link": "gated_slope", "frequency": "gated_slope"}


class BiasError(ValueError):
    """A bias that no layer can have here: the field, what is wrong, the value."""

    def __init__(self, field: str, reason: str, value: object = None) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
        self.value = value


class Bias(BaseModel):
    """What is added to a layer's logits, by how far a key lies behind the query (additive GRAPE).

    `alibi`: minus a slope × distance, the slope of each query head among `slopes` (null: ALiBi's own).
    `gated_slope`: so with slopes that the content of query, key or both sets (`gates`), through `link`
    ("softplus" by default) and times `frequency` (1 by default). `forget`: the sum of the log forget gates
    between them (FoX). `path_integral` is refused.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    kind: BiasKind
    slopes: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] | None = None
    gates: Annotated[tuple[Gate, ...], Field(min_length=1, max_length=2)] | None = None
    link: Link | None = None
    frequency: Annotated[float, Field(gt=0)] | None = None

    @property
    def contract(self) -> Contract:
        """How it meets a cache; what its weights are changes nothing of that."""
        one: Any = torch.ones(2, dtype=torch.float64)
        match self.kind:
            case "alibi":
                return Alibi(1.0).contract
            case "forget":
                return Forgetting(-one).contract
            case "gated_slope":
                query, key = (one if gate in (self.gates or ()) else None for gate in ("query", "key"))
                return GatedSlope(query, key).contract
            case "path_integral":
                return PathIntegral(one[None], 1.0).contract

    def check(self, heads: int) -> None:
        """Raises BiasError for what a layer of so many query heads cannot have."""
        for field, kind in _FIELDS.items():
            if kind != self.kind and (value := getattr(self, field)) is not None:
                raise BiasError(field, f"is {kind}'s, not {self.kind}'s", value)
        if self.kind == "gated_slope" and len(set(self.gates or ())) != len(self.gates or "0"):
            raise BiasError("gates", "must be query, key or both", self.gates)
        if not self.contract.servable:
            raise BiasError("kind", f"cannot be served: {self.contract.why}", self.kind)
        if self.slopes is not None and len(self.slopes) != heads:
            raise BiasError("slopes", f"must be {heads}, one a query head", len(self.slopes))
