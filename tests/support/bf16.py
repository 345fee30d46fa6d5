"""What bf16 leaves of numbers, for references that else compute in float32."""

import torch

from tests.support.hybrid_reference import HybridReference


def in_one_number(numbers: torch.Tensor) -> torch.Tensor:
    """What a single bf16 number holds of positions and phases."""
    return numbers.bfloat16().double()


class RoundedReference(HybridReference):
    """Hidden states are rounded where norms and projections take and give them; encodings are exact."""

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return super()._linear(name, states.bfloat16().float()).bfloat16().float()

    def _norm(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return super()._norm(name, states).bfloat16().float()
