"""QGPM's settings: their ranges, what an error carries, and a caller's settings over defaults."""

import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig, QGPMError

NAN, INFINITY = math.nan, math.inf
REFUSED: list[tuple[str, Any]] = [
    *[(name, value) for name in ("k_broad", "k_sharp") for value in (0, -1, 1.0, 1.5)],
    *[(name, value) for name in ("t_broad", "t_sharp") for value in (-0.1, -1)],
    *[("score_low", value) for value in (-0.1, 1, 1.0)],
    *[("stride_floor", value) for value in (0, 0.0, -0.1, 1.01)],
    *[(name, value) for name in ("anchor_ratio", "gate_width") for value in (0, 0.0, -1)],
    *[
        (name, value)
        for name in asdict(PACKAGE_DEFAULTS)
        for value in (True, False, NAN, INFINITY, -INFINITY, "1", [1], {}, 1j, -(10**400))
    ],
    *[
        (name, 10**400)
        for name in ("t_broad", "t_sharp", "score_low", "stride_floor", "anchor_ratio", "gate_width")
    ],
]


@pytest.mark.parametrize(("field", "value"), REFUSED)
def test_a_setting_out_of_range_is_refused_with_its_field_limit_and_value(field: str, value: Any) -> None:
    with pytest.raises(QGPMError) as refused:
        PACKAGE_DEFAULTS.resolve({field: value})
    assert refused.value.field == field
    assert refused.value.value is value
    assert refused.value.limit
    assert str(refused.value) == f"{field} {refused.value.limit} (got {value!r})"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("k_broad", (7, 10**400)),
        ("k_sharp", (1, 11)),
        ("t_broad", (0, 0.0, 5e-324, 1e308, 3)),
        ("t_sharp", (0, 0.0, 5e-324, 1e308, 3)),
        ("score_low", (0, 0.0, 0.999)),
        ("stride_floor", (1e-300, 1, 1.0)),
        ("anchor_ratio", (1e-300, 1e308, 3)),
        ("gate_width", (1e-300, 1e308, 3)),
    ],
)
def test_limits_themselves_are_allowed(field: str, values: tuple[float, ...]) -> None:
    for value in values:
        changes: dict[str, Any] = {field: value}
        assert getattr(replace(PACKAGE_DEFAULTS, **changes), field) == value


@pytest.mark.parametrize(("k_broad", "k_sharp"), [(5, 5), (4, 5), (1, 1)])
def test_the_broad_map_must_be_the_broader_one(k_broad: int, k_sharp: int) -> None:
    with pytest.raises(QGPMError, match=f"greater than k_sharp \\({k_sharp}\\)") as refused:
        PACKAGE_DEFAULTS.resolve({"k_broad": k_broad, "k_sharp": k_sharp})
    assert refused.value.field == "k_broad"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (12, 6)),
        ({"k_sharp": 3}, (12, 3)),
        ({"k_sharp": 11}, (12, 11)),
        ({"k_sharp": 12}, (13, 12)),
        ({"k_sharp": 40}, (41, 40)),
        ({"k_broad": 20}, (20, 6)),
        ({"k_broad": 6}, (6, 5)),
        ({"k_broad": 2}, (2, 1)),
        ({"k_broad": None, "k_sharp": 40}, (41, 40)),
        ({"k_broad": 3, "k_sharp": 2}, (3, 2)),
    ],
)
def test_an_unset_partner_moves_along(given: dict[str, object], expected: tuple[int, int]) -> None:
    found = PACKAGE_DEFAULTS.resolve(given)
    assert (found.k_broad, found.k_sharp) == expected


@pytest.mark.parametrize("field", ["k_broad", "k_sharp"])
@pytest.mark.parametrize("value", [0, -3, True])
def test_a_moving_partner_does_not_take_the_blame(field: str, value: int) -> None:
    with pytest.raises(QGPMError) as refused:
        PACKAGE_DEFAULTS.resolve({field: value})
    assert refused.value.field == field


def test_no_broad_map_is_broader_than_nothing() -> None:
    with pytest.raises(QGPMError) as refused:
        PACKAGE_DEFAULTS.resolve({"k_broad": 1})
    assert refused.value.field == "k_broad"


def test_none_means_unset() -> None:
    assert PACKAGE_DEFAULTS.resolve(dict.fromkeys(asdict(PACKAGE_DEFAULTS))) == PACKAGE_DEFAULTS
    assert PACKAGE_DEFAULTS.resolve({"t_broad": None, "score_low": 0}) == replace(
        PACKAGE_DEFAULTS, score_low=0
    )


@pytest.mark.parametrize("value", [1, None])
def test_an_unknown_setting_is_refused_by_name(value: object) -> None:
    with pytest.raises(QGPMError) as refused:
        PACKAGE_DEFAULTS.resolve({"t_broad": 1.0, "t_broader": value})
    assert (refused.value.field, refused.value.value) == ("t_broader", value)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PACKAGE_DEFAULTS.k_broad = 3  # type: ignore[misc]
    assert hash(PACKAGE_DEFAULTS) == hash(QGPMConfig(**asdict(PACKAGE_DEFAULTS)))
