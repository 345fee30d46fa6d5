"""Which biases a layer may have."""

import pytest

from cache.bias_config import Bias, BiasError


def refused(heads: int = 4, **fields: object) -> str:
    with pytest.raises(BiasError) as caught:
        Bias.model_validate(fields).check(heads)
    return str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "alibi"},
        {"kind": "alibi", "slopes": (0.5, 0.25, 0.1, 0.1)},
        {"kind": "forget"},
        {"kind": "gated_slope", "gates": ("query", "key"), "link": "identity", "frequency": 0.1},
    ],
)
def test_what_a_cache_can_hold_is_taken(fields: dict[str, object]) -> None:
    Bias.model_validate(fields).check(4)


def test_a_field_of_another_kind_is_named() -> None:
    assert refused(kind="forget", link="softplus").startswith("link: is gated_slope's, not forget's")


def test_slopes_are_one_a_query_head() -> None:
    assert refused(kind="alibi", slopes=(0.5,) * 3) == "slopes: must be 4, one a query head"


def test_a_path_integral_is_refused_for_what_its_contract_says() -> None:
    assert "no number at a key is right for two queries" in refused(kind="path_integral")
