"""The choice of a request's rule: by its length under `auto`, capped and refused by what a rule covers."""

import pytest
from transformers import LlamaConfig, Phi3Config

from positional.rule import ModelRope
from server.request_error import RequestError
from server.rope_choice import AutoRule, Choice, ServedRope, Wish, choose

NATIVE = 2048
MODEL = ModelRope.from_config(
    LlamaConfig(
        head_dim=32,
        max_position_embeddings=NATIVE,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
)
SCALED = MODEL.rule(scaling={"rope_type": "yarn", "factor": 4.0})
AUTO = AutoRule(MODEL.native, SCALED)
LONGROPE = ModelRope.from_config(
    Phi3Config(
        hidden_size=128,
        num_attention_heads=4,
        pad_token_id=0,
        max_position_embeddings=4 * NATIVE,
        original_max_position_embeddings=NATIVE,
        rope_parameters={
            "rope_theta": 1e4,
            "rope_type": "longrope",
            "short_factor": [1.0] * 16,
            "long_factor": [2.0] * 16,
        },
    )
)
SERVER = 100_000
"""A server's own limit that never binds."""


def given(wish: Wish, prompt: int, max_tokens: int) -> Choice:
    return choose(wish, prompt, max_tokens, max_tokens_given=True)


def omitted(wish: Wish, prompt: int, server: int = SERVER) -> Choice:
    return choose(wish, prompt, server - prompt, max_tokens_given=False)


@pytest.mark.parametrize(("excess", "rule"), [(-1, MODEL.native), (0, MODEL.native), (1, SCALED)])
def test_auto_scales_only_what_exceeds_the_native_window(excess: int, rule: object) -> None:
    choice = given(AUTO, NATIVE - 100, 100 + excess)
    assert choice.rule == rule
    assert choice.max_tokens == 100 + excess


@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_auto_on_a_longrope_model_goes_over_to_the_long_factors_at_the_same_place(excess: int) -> None:
    policy = AutoRule(LONGROPE.native, LONGROPE.own)
    choice = given(policy, NATIVE - 100, 100 + excess)
    assert choice.profile.digest == LONGROPE.own.profile(NATIVE + excess).digest


def test_without_max_tokens_auto_ends_a_native_prompt_with_the_native_window() -> None:
    for prompt in (1, 100, NATIVE - 1):
        choice = omitted(AUTO, prompt)
        assert (choice.rule, choice.max_tokens) == (MODEL.native, NATIVE - prompt)


def test_without_max_tokens_auto_scales_a_prompt_that_leaves_no_native_room() -> None:
    for prompt in (NATIVE, NATIVE + 1, 4 * NATIVE - 1):
        choice = omitted(AUTO, prompt)
        assert (choice.rule, choice.max_tokens) == (SCALED, 4 * NATIVE - prompt)


def test_the_servers_own_limit_holds_below_the_rules() -> None:
    assert omitted(AUTO, 100, server=300).max_tokens == 200
    assert omitted(SCALED, 100, server=300).max_tokens == 200


def test_a_fixed_rule_without_max_tokens_ends_with_its_window() -> None:
    assert omitted(MODEL.own, 100).max_tokens == NATIVE - 100
    assert omitted(SCALED, 100).max_tokens == 4 * NATIVE - 100


@pytest.mark.parametrize(("wish", "window"), [(MODEL.own, NATIVE), (SCALED, 4 * NATIVE), (AUTO, 4 * NATIVE)])
def test_a_request_up_to_its_rules_window_is_taken(wish: Wish, window: int) -> None:
    assert given(wish, window - 10, 10).max_tokens == 10
    assert omitted(wish, window - 1).max_tokens == 1


@pytest.mark.parametrize(("wish", "window"), [(MODEL.own, NATIVE), (SCALED, 4 * NATIVE), (AUTO, 4 * NATIVE)])
def test_a_longer_request_is_refused_with_its_length_and_the_limit(wish: Wish, window: int) -> None:
    with pytest.raises(RequestError) as refused:
        given(wish, window - 10, 11)
    assert refused.value.parameter == "max_tokens"
    assert f"{window + 1} tokens" in str(refused.value)
    assert f"covers {window} tokens" in str(refused.value)


@pytest.mark.parametrize("excess", [0, 1, 5000])
def test_a_prompt_that_fills_the_window_is_refused_with_its_length(excess: int) -> None:
    for max_tokens_given in (True, False):
        with pytest.raises(RequestError) as refused:
            choose(SCALED, 4 * NATIVE + excess, 7, max_tokens_given)
        assert refused.value.parameter == "rope"
        assert str(4 * NATIVE + excess) in str(refused.value)
        assert f"covers {4 * NATIVE} tokens" in str(refused.value)


def test_the_least_answer_decides_where_the_longest_was_left_out() -> None:
    room = {"max_tokens": 5000, "max_tokens_given": False}
    natively = choose(AUTO, NATIVE - 10, min_tokens=10, **room)
    assert (natively.rule, natively.max_tokens) == (MODEL.native, 10)
    assert choose(AUTO, NATIVE - 10, min_tokens=11, **room).rule == SCALED
    with pytest.raises(RequestError, match=f"reach {NATIVE + 1} tokens") as refused:
        choose(MODEL.own, NATIVE - 10, min_tokens=11, **room)
    assert refused.value.parameter == "min_tokens"


def test_dynamic_ntk_is_fixed_by_prompt_and_answer_together() -> None:
    dynamic = MODEL.rule(scaling={"rope_type": "dynamic", "factor": 4.0})
    choice = given(dynamic, 3000, 500)
    assert choice.profile == dynamic.profile(3500)
    assert choice.profile == given(dynamic, 2500, 1000).profile
    assert choice.profile != given(dynamic, 3000, 501).profile


def test_what_vllm_holds_itself_is_not_carried() -> None:
    served = ServedRope(MODEL, SCALED, AUTO, MODEL.native)
    assert served.carried(given(AUTO, 100, 100)) is None
    assert served.carried(given(MODEL.own, 100, 100)) is None
    assert served.carried(given(AUTO, NATIVE, 100)) == SCALED.profile(1)


def test_an_unscaled_rule_by_another_name_is_not_carried() -> None:
    dynamic = MODEL.rule(scaling={"rope_type": "dynamic", "factor": 4.0})
    served = ServedRope(MODEL, dynamic, MODEL.own, MODEL.own)
    assert served.carried(given(dynamic, 100, 100)) is None
    assert served.carried(given(dynamic, NATIVE, 100)) is not None


def test_the_pairing_of_the_loaded_model_reaches_every_rule() -> None:
    served = ServedRope(MODEL, SCALED, AUTO, MODEL.native).paired("interleaved")
    rules = (served.model.own, served.model.native, served.declared, served.loaded)
    assert served.default == AutoRule(MODEL.native.paired("interleaved"), SCALED.paired("interleaved"))
    assert {rule.profile(10).pairing for rule in rules if rule is not None} == {"interleaved"}
