"""Where an answer begins is the chat template's to say; what a server answers is read, or refused by name."""

from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from server.likelihood import Gold, LikelihoodError, answer_ids, golds, lead_tokens, likelihood
from tests.support.checkpoints import make

MESSAGES = [{"role": "user", "content": "Read.\n\nNadia keeps the key.\n\nQuestion: Who keeps the key?"}]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tiny")
    make("llama", folder)
    return AutoTokenizer.from_pretrained(folder)


def prompt(tokenizer: Any) -> str:
    return str(tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False))


@pytest.mark.parametrize("answer", ["Nadia", "4711", "12, 34", "the ferry's keeper"])
def test_prompt_and_answer_are_what_the_template_and_the_answer_say(tokenizer: Any, answer: str) -> None:
    start = tokenizer(prompt(tokenizer), add_special_tokens=False)["input_ids"]
    whole = start + answer_ids(tokenizer, MESSAGES, answer)
    assert tokenizer.decode(whole) == prompt(tokenizer) + answer
    assert whole == tokenizer(prompt(tokenizer) + answer, add_special_tokens=False)["input_ids"]


def told_by(before: str, end: str = "[assistant]") -> str:
    """A template that writes `before` ahead of every answer, and `end` where one is to begin."""
    role = "[{{ m.role }}]{% if m.role == 'assistant' %}" + before + "{% endif %}"
    messages = "{% for m in messages %}" + role + "{{ m.content }}{% endfor %}"
    return messages + "{% if add_generation_prompt %}" + end + "{% endif %}"


@pytest.mark.parametrize(("before", "begins"), [("", ""), (" ", " ")])
def test_white_space_that_the_template_writes_before_an_answer_belongs_to_it(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, before: str, begins: str
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", told_by(before))
    assert tokenizer.decode(answer_ids(tokenizer, MESSAGES, "Nadia")) == f"{begins}Nadia"


def test_a_thought_that_the_template_writes_is_no_part_of_the_answer(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", told_by("<think>\n\n</think>\n"))
    assert tokenizer.decode(answer_ids(tokenizer, MESSAGES, "Nadia")) == "Nadia"


def test_an_answer_that_shares_a_token_with_the_template_is_refused(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", told_by("", end="The vio"))
    with pytest.raises(LikelihoodError, match="'lin' share"):
        answer_ids(tokenizer, MESSAGES, "lin")


def test_each_of_several_answers_is_told_behind_the_lead_in(tokenizer: Any) -> None:
    one, other = golds(
        tokenizer, MESSAGES, "The key is kept by", ["The key is kept by Nadia", "The key is kept by me"]
    )
    assert one.lead == other.lead > 0
    assert tokenizer.decode(one.ids[one.lead :]) == " Nadia"
    assert tokenizer.decode(other.ids[other.lead :]) == " me"
    assert one.counted == len(one.ids) - one.lead


def test_the_tokens_of_a_lead_in_are_counted_in_its_place(tokenizer: Any) -> None:
    ids = answer_ids(tokenizer, MESSAGES, "The key is kept by Nadia")

    lead = lead_tokens(tokenizer, MESSAGES, "The key is kept by", ids)

    assert tokenizer.decode(ids[lead:]) == " Nadia"
    assert lead_tokens(tokenizer, MESSAGES, "", ids) == 0
    with pytest.raises(LikelihoodError, match="share a token"):
        lead_tokens(tokenizer, MESSAGES, "The vio", answer_ids(tokenizer, MESSAGES, "The violin"))


def answering(status: int, content: dict[str, Any]) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(status, json=content)))


def response(token_ids: list[int]) -> dict[str, Any]:
    logprobs = {"content": [{"logprob": -0.5 * number} for number, _ in enumerate(token_ids, 1)]}
    usage = {"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": 64}}
    return {
        "id": "chatcmpl-1",
        "usage": usage,
        "choices": [{"token_ids": token_ids, "logprobs": logprobs}],
    }


async def test_the_log_probability_of_an_answer_is_the_sum_of_its_tokens() -> None:
    async with answering(200, response([5, 6, 7])) as client:
        found = await likelihood(client, "http://server", {"messages": MESSAGES}, Gold((5, 6, 7), 0))
    assert found.logprobs == (-0.5, -1.0, -1.5)
    assert found.total == -3.0
    assert (found.request_id, found.prompt_tokens, found.cached_tokens) == ("chatcmpl-1", 70, 64)


async def test_a_lead_in_is_forced_and_counts_for_nothing() -> None:
    async with answering(200, response([5, 6, 7])) as client:
        found = await likelihood(client, "http://server", {"messages": MESSAGES}, Gold((5, 6, 7), 2))
    assert found.logprobs == (-1.5,)


async def test_a_server_that_does_not_force_tokens_is_found_out() -> None:
    async with answering(200, response([5, 6, 8])) as client:
        with pytest.raises(LikelihoodError, match="--logits-processors"):
            await likelihood(client, "http://server", {"messages": MESSAGES}, Gold((5, 6, 7), 0))


async def test_a_refusal_says_what_the_server_said() -> None:
    async with answering(400, {"error": {"message": "qgpm.k_sharp must be whole"}}) as client:
        with pytest.raises(LikelihoodError, match=r"400.*k_sharp"):
            await likelihood(client, "http://server", {"messages": MESSAGES}, Gold((5,), 0))
