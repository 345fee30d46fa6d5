"""The request field `rope`: what it accepts, what each refusal names, and what it leaves to the server."""

from typing import Any

import pytest
from transformers import LlamaConfig

from positional.rule import ModelRope, Rule
from server.fields import FieldError
from server.rope_choice import AutoRule
from server.rope_fields import RopeFields

MODEL = ModelRope.from_config(
    LlamaConfig(
        head_dim=32,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
)
YARN = {"rope_type": "yarn", "factor": 4.0}
DECLARED = MODEL.rule(scaling=YARN)


def parsed(value: object, declared: Rule | None = DECLARED) -> RopeFields:
    return RopeFields.parse(value, MODEL, declared)


def refused(value: object, declared: Rule | None = DECLARED) -> FieldError:
    with pytest.raises(FieldError) as error:
        parsed(value, declared)
    return error.value


def test_null_leaves_the_choice_to_the_server() -> None:
    assert parsed(None).wish is None


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({"base": 20_000}, MODEL.rule(base=20_000)),
        ({"scaling": YARN}, DECLARED),
        ({"base": 20_000, "scaling": YARN}, MODEL.rule(20_000, YARN)),
        ({"base": 20_000, "scaling": None, "policy": None}, MODEL.rule(base=20_000)),
        ({"scaling": {"rope_type": "default"}}, MODEL.own),
    ],
)
def test_a_rule_is_read(value: object, rule: Rule) -> None:
    assert parsed(value).wish == rule


def test_the_policy_auto_takes_the_declared_rule() -> None:
    assert parsed({"policy": "auto"}).wish == AutoRule(MODEL.native, DECLARED)


def test_the_policy_auto_needs_a_declared_rule() -> None:
    error = refused({"policy": "auto"}, declared=None)
    assert error.parameter == "rope.policy"
    assert "--rope-scaling" in error.message


@pytest.mark.parametrize("policy", ["native", "", True, 1, ["auto"], {}])
def test_another_policy_is_refused(policy: object) -> None:
    error = refused({"policy": policy})
    assert error.parameter == "rope.policy"
    assert 'must be "auto"' in error.message


@pytest.mark.parametrize("other", [{"base": 2e4}, {"scaling": YARN}])
def test_the_policy_stands_alone(other: dict[str, Any]) -> None:
    assert refused({"policy": "auto"} | other).parameter == "rope.policy"


@pytest.mark.parametrize("value", [True, False, 1, "auto", [], [YARN]])
def test_what_is_no_object_is_refused(value: object) -> None:
    assert refused(value).message.startswith("rope must be null or an object")


@pytest.mark.parametrize("value", [{}, {"base": None}, {"base": None, "scaling": None, "policy": None}])
def test_an_object_that_says_nothing_is_refused(value: object) -> None:
    assert refused(value).message.startswith("rope must hold one of base, scaling, policy")


def test_a_name_that_is_no_text_is_named_escaped() -> None:
    assert refused({"\ud800": 1}).parameter == "rope.\\ud800"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    error = refused({"base": 2e4, "rope_theta": 2e4})
    assert (error.parameter, error.value) == ("rope.rope_theta", 2e4)
    assert "known are base, scaling, policy" in error.message


@pytest.mark.parametrize(
    ("value", "parameter", "shown"),
    [
        ({"base": True}, "rope.base", "True"),
        ({"base": float("nan")}, "rope.base", "nan"),
        ({"scaling": YARN | {"factor": 0.5}}, "rope.scaling.factor", "0.5"),
        ({"scaling": YARN | {"factr": 2}}, "rope.scaling.factr", "2"),
        ({"scaling": {"rope_type": "su"}}, "rope.scaling.rope_type", "'su'"),
        ({"scaling": {"rope_type": "yarn"}}, "rope.scaling.factor", "None"),
        ({"scaling": "yarn"}, "rope.scaling", "'yarn'"),
    ],
)
def test_a_fault_of_the_rule_names_its_field_and_value(value: object, parameter: str, shown: str) -> None:
    error = refused(value)
    assert error.parameter == parameter
    assert error.message.startswith(f"{parameter} ")
    assert error.message.endswith(f"(got {shown})")
