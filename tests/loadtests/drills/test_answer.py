"""Whether two greedy answers are the same."""

from typing import Any

import pytest

from loadtests.drills.answer import Answer, nearly_tied

RIGHT = Answer((5, 6, 7), (-0.1, -0.2, -0.3), (1.0, 0.0005, 1.0), "length", 0)
NEAR = 1e-3


def answer(tokens: tuple[int, ...], logprobs: tuple[float, ...], finish: str = "length") -> Answer:
    return Answer(tokens, logprobs, (1.0,) * len(tokens), finish, 0)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (RIGHT, "equal"),
        (answer((5, 6, 7), (-0.1005, -0.2, -0.3)), "equal"),
        (answer((5, 6, 7), (-0.102, -0.2, -0.3)), "wrong"),
        (answer((5, 9, 9), (-0.1, -0.2, -9.0)), "tied"),
        (answer((9, 6, 7), (-0.1, -0.2, -0.3)), "wrong"),
        (answer((5, 6), (-0.1, -0.2), "abort"), "wrong"),
        (answer((5, 6, 7), (-0.1, -0.2, float("nan"))), "wrong"),
    ],
    ids=["same", "noise", "off", "tie", "token", "short", "nan"],
)
def test_answers_are_compared_up_to_noise_and_ties(found: Answer, verdict: str) -> None:
    assert found.compared(RIGHT, NEAR)[0] == verdict


def test_a_tie_excuses_nothing_before_it() -> None:
    assert answer((5, 9, 9), (-0.2, -0.2, -0.3)).compared(RIGHT, NEAR)[0] == "wrong"


def test_a_stream_joined_is_the_whole_completion() -> None:
    tops = [{"token_id:5": -0.1, "token_id:6": -2.1}, {"token_id:6": -0.2, "token_id:5": -0.7}]
    whole: dict[str, Any] = {
        "choices": [
            {
                "token_ids": [5, 6],
                "finish_reason": "length",
                "logprobs": {"token_logprobs": [-0.1, -0.2], "top_logprobs": tops},
            }
        ],
        "usage": {"prompt_tokens_details": {"cached_tokens": 32}},
    }
    chunks: list[dict[str, Any]] = [
        {
            "choices": [
                {
                    "token_ids": [token],
                    "finish_reason": finish,
                    "logprobs": {"token_logprobs": [value], "top_logprobs": [top]},
                }
            ]
        }
        for token, value, top, finish in zip((5, 6), (-0.1, -0.2), tops, (None, "length"), strict=True)
    ]
    assert Answer.join([*chunks, {"choices": [], "usage": whole["usage"]}]) == Answer.read(whole)
    assert Answer.read(whole).gaps == pytest.approx((2.0, 0.5))
    assert Answer.read(whole).cached == 32


def test_a_chat_tells_the_same() -> None:
    content = [{"logprob": -0.1, "top_logprobs": [{"logprob": -0.1}, {"logprob": -1.1}]}]
    chat = {"choices": [{"token_ids": [5], "finish_reason": "stop", "logprobs": {"content": content}}]}
    found = Answer.read(chat)
    assert (found.tokens, found.logprobs, found.finish, found.cached) == ((5,), (-0.1,), "stop", None)
    assert found.gaps == pytest.approx((1.0,))


def test_only_sentences_that_hardly_differ_may_change_places() -> None:
    right = [{"start": 0, "z": 2.0}, {"start": 9, "z": 1.9995}]
    turned = [{"start": 9, "z": 1.9998}, {"start": 0, "z": 1.9997}]
    assert nearly_tied(turned, right, NEAR)
    assert not nearly_tied(right, right, NEAR)
    assert not nearly_tied([{"start": 9, "z": 3.0}, {"start": 0, "z": 1.9995}], right, NEAR)
    assert not nearly_tied((), right, NEAR)
