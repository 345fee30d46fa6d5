import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from server.locate import Located, LocateError, Source, locate
from server.offsets import TokenizedPrompt, tokenized

DOCUMENT = "Anna lives in Oslo. Ben sold the boat.\nCarl paints."
QUESTION = "Who paints?"


@pytest.fixture(scope="module")
def tokenizer(default_model_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(default_model_path)


def prompt_of(tokenizer: Any, text: str) -> TokenizedPrompt:
    return tokenized(tokenizer, tokenizer(text)["input_ids"], text)


def chat(
    tokenizer: Any, *messages: tuple[str, str], continue_final: bool = False
) -> tuple[TokenizedPrompt, Source]:
    text = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in messages],
        tokenize=False,
        add_generation_prompt=not continue_final,
        continue_final_message=continue_final,
    )
    return prompt_of(tokenizer, text), Source(messages, continue_final)


def sentence_texts(prompt: TokenizedPrompt, located: Located) -> list[str]:
    return [prompt.text[prompt.starts[s.start] : prompt.ends[s.end - 1]] for s in located.sentences]


def rows_text(prompt: TokenizedPrompt, rows: tuple[int, ...]) -> str:
    return "".join(prompt.text[prompt.starts[row] : prompt.ends[row]] for row in rows)


def test_a_completion_has_all_before_the_question_as_context(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"{DOCUMENT}\nQuestion: {QUESTION}\nAnswer:")
    located = locate(prompt, Source(), None, None, 0)
    assert sentence_texts(prompt, located) == [
        "Anna lives in Oslo.",
        " Ben sold the boat.",
        "\nCarl paints.\n",
    ]
    assert rows_text(prompt, located.query_rows) == f"Question: {QUESTION}\nAnswer:"
    assert located.num_tokens == len(prompt.token_ids)


def test_sentence_spans_follow_each_other_without_a_hole(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"{DOCUMENT}\n\n{QUESTION}")
    sentences = locate(prompt, Source(), None, None, 4).sentences
    assert sentences[0].start == 0
    for one, two in pairwise(sentences):
        assert one.end == two.start
        assert one.end_char == two.start_char


def test_without_a_mark_the_last_paragraph_is_the_question(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"{DOCUMENT}\n \n{QUESTION}\nIn one word.\n\n")
    located = locate(prompt, Source(), None, None, 0)
    assert rows_text(prompt, located.query_rows) == f"{QUESTION}\nIn one word."
    assert len(located.sentences) == 3


def test_the_last_mark_counts(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"Question: old one? Yes. {DOCUMENT} Question: {QUESTION}")
    located = locate(prompt, Source(), None, None, 0)
    assert rows_text(prompt, located.query_rows) == f" Question: {QUESTION}"
    assert len(located.sentences) == 5


def test_tokens_with_a_newline_are_silent(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"{DOCUMENT}\n\n{QUESTION}")
    located = locate(prompt, Source(), None, None, 4)
    with_newline = [
        i for i, (a, b) in enumerate(zip(prompt.starts, prompt.ends, strict=True)) if "\n" in prompt.text[a:b]
    ]
    assert list(located.silent) == with_newline
    assert rows_text(prompt, located.silent) == "\n\n\n"


def test_users_and_tools_messages_before_the_question_are_context(tokenizer: Any) -> None:
    prompt, source = chat(
        tokenizer,
        ("system", "You read. You answer."),
        ("user", "First fact. Second fact."),
        ("assistant", "I see. Go on."),
        ("tool", "Third fact. And a fourth"),
        ("user", f"{DOCUMENT}\n\n{QUESTION}"),
    )
    located = locate(prompt, source, None, None, 0)
    assert sentence_texts(prompt, located) == [
        "First fact.",
        " Second fact.",
        "Third fact.",
        " And a fourth",
        "Anna lives in Oslo.",
        " Ben sold the boat.",
        "\nCarl paints.\n\n",
    ]
    assert rows_text(prompt, located.query_rows) == QUESTION


def test_the_tail_of_the_prompt_is_queried_too(tokenizer: Any) -> None:
    prompt, source = chat(tokenizer, ("user", f"{DOCUMENT}\n\n{QUESTION}"))
    located = locate(prompt, source, None, None, 4)
    count = len(prompt.token_ids)
    assert located.query_rows[-4:] == (count - 4, count - 3, count - 2, count - 1)
    assert rows_text(prompt, located.query_rows).startswith(QUESTION)
    assert list(located.query_rows) == sorted(set(located.query_rows))


def test_messages_that_look_like_the_template_are_found_in_their_place(tokenizer: Any) -> None:
    prompt, source = chat(tokenizer, ("user", "AI. user."), ("assistant", "assistant"), ("user", "user"))
    located = locate(prompt, source, None, None, 0)
    assert sentence_texts(prompt, located) == ["AI.", " user."]
    assert prompt.starts[located.query_rows[0]] == prompt.text.rindex("user")


def test_a_message_that_the_template_strips_is_found(tokenizer: Any) -> None:
    content = f"  {DOCUMENT}\n\n{QUESTION} \n"
    prompt = prompt_of(tokenizer, f"<|im_start|>user\n{content.strip()}<|im_end|>\n")
    located = locate(prompt, Source((("user", content),)), None, None, 0)
    assert len(located.sentences) == 3
    assert rows_text(prompt, located.query_rows) == QUESTION


def test_a_message_that_the_template_rewrites_is_an_error(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, "<|im_start|>user\nSomething else.\n\nWhat?<|im_end|>\n")
    source = Source((("tool", "A fact. Two."), ("user", "What?")))
    with pytest.raises(LocateError) as caught:
        locate(prompt, source, None, None, 4)
    assert caught.value.field == caught.value.parameter == "messages"
    assert "messages[0]" in caught.value.message


def test_a_given_context_asks_nothing_of_the_messages(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"rewritten: {DOCUMENT} {QUESTION}")
    located = locate(prompt, Source((("user", "absent"),)), QUESTION, DOCUMENT, 0)
    assert [(s.start_char, s.end_char) for s in located.sentences][-1][1] == prompt.text.index(f" {QUESTION}")


def test_assistant_messages_that_a_template_drops_are_no_error(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"<user>{DOCUMENT}</user><user>{QUESTION}</user>")
    source = Source((("user", DOCUMENT), ("assistant", "<think>Hm.</think>"), ("user", QUESTION)))
    assert len(locate(prompt, source, None, None, 4).sentences) == 3


def test_a_given_question_is_its_last_occurrence_and_a_given_context_its_first(tokenizer: Any) -> None:
    text = f"{QUESTION} One. Two. One. Two. {QUESTION} Go."
    prompt = prompt_of(tokenizer, text)
    located = locate(prompt, Source(), QUESTION, "One. Two.", 0)
    assert prompt.ends[located.query_rows[-1]] == text.rindex(" Go")
    assert located.sentences[0].start_char == text.index("One")


@pytest.mark.parametrize(
    ("field", "question", "context"), [("question", "absent", None), ("context", None, "absent")]
)
def test_a_text_that_is_not_there_is_named(
    tokenizer: Any, field: str, question: str | None, context: str | None
) -> None:
    prompt, source = chat(tokenizer, ("user", f"{DOCUMENT}\n\n{QUESTION}"))
    with pytest.raises(LocateError) as caught:
        locate(prompt, source, question, context, 4)
    assert caught.value.field == field
    assert caught.value.parameter == f"qgpm.{field}"
    assert caught.value.value == "absent"


def test_a_chat_without_a_user_has_no_question(tokenizer: Any) -> None:
    prompt, source = chat(tokenizer, ("system", DOCUMENT))
    with pytest.raises(LocateError) as caught:
        locate(prompt, source, None, None, 4)
    assert caught.value.field == "question"


def test_before_the_context_the_question_is_not_queried(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, f"{QUESTION}\n\n{DOCUMENT}\nAnswer now:")
    located = locate(prompt, Source(), QUESTION, DOCUMENT, 3)
    assert located.query_rows == tuple(range(len(prompt.token_ids) - 3, len(prompt.token_ids)))
    assert len(located.sentences) == 3


def test_a_question_inside_the_given_context_is_cut_out(tokenizer: Any) -> None:
    whole = f"Anna left. {QUESTION} Ben stayed. Carl too."
    prompt = prompt_of(tokenizer, f"Read. {whole}")
    located = locate(prompt, Source(), QUESTION, whole, 0)
    # " Anna" is one token, and its first character is outside.
    assert sentence_texts(prompt, located) == [" left.", " Ben stayed.", " Carl too."]
    assert rows_text(prompt, located.query_rows) == f" {QUESTION}"
    assert not {*located.query_rows} & {t for s in located.sentences for t in range(s.start, s.end)}


def test_a_prefix_to_be_continued_is_neither_context_nor_counted(tokenizer: Any) -> None:
    messages = (("user", f"{DOCUMENT}\n\n{QUESTION}"), ("assistant", f"It is {QUESTION} Carl paints."))
    prompt, source = chat(tokenizer, *messages, continue_final=True)
    plain, plain_source = chat(tokenizer, messages[0])
    located = locate(prompt, source, QUESTION, None, 4)
    assert located == locate(plain, plain_source, QUESTION, None, 4)
    assert located.num_tokens == len(plain.token_ids) < len(prompt.token_ids)


def test_an_empty_prefix_to_be_continued_takes_nothing(tokenizer: Any) -> None:
    text = f"<user>{DOCUMENT}\n\n{QUESTION}</user><assistant>"
    source = Source((("user", f"{DOCUMENT}\n\n{QUESTION}"), ("assistant", "")), continue_final=True)
    prompt = prompt_of(tokenizer, text)
    assert locate(prompt, source, None, None, 4).num_tokens == len(prompt.token_ids)


@pytest.mark.parametrize(
    "text", ["", "\n\n", QUESTION, f"One thing only.\n\n{QUESTION}", f"\n \n\n{QUESTION}"]
)
def test_too_little_context_is_no_error(tokenizer: Any, text: str) -> None:
    located = locate(prompt_of(tokenizer, text), Source(), None, None, 4)
    assert len(located.sentences) < 2


def test_a_begin_token_is_not_context(tokenizer: Any) -> None:
    ids = [tokenizer.bos_token_id, *tokenizer(f"{DOCUMENT}\n\n{QUESTION}")["input_ids"]]
    located = locate(tokenized(tokenizer, ids, None), Source(), None, None, 4)
    assert located.sentences[0].start == 1


def test_a_sentence_without_a_token_of_its_own_vanishes() -> None:
    text = "你好。好。Yes. No. What?"
    starts = (0, 5, 9, 13)  # one token for two sentences
    prompt = TokenizedPrompt((1, 2, 3, 4), text, starts, (*starts[1:], len(text)))
    located = locate(prompt, Source(), "What?", None, 1)
    assert [(s.start, s.end) for s in located.sentences] == [(0, 1), (1, 2), (2, 3)]
    assert [(s.start_char, s.end_char) for s in located.sentences] == [(0, 5), (5, 9), (9, 13)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "tool", "assistant"]),
            st.text(
                st.one_of(
                    st.sampled_from("a .!?\n😀。"), st.characters(exclude_categories=["Cs", "Co", "Cn"])
                )
            ),
        ),
        max_size=4,
    )
)
def test_any_chat_is_tiled_message_by_message(tokenizer: Any, messages: list[tuple[str, str]]) -> None:
    prompt, source = chat(tokenizer, *messages, ("user", f"{DOCUMENT}\n\n{QUESTION}"))
    located = locate(prompt, source, None, None, 4)
    sentences = located.sentences
    assert all(s.start < s.end and s.start_char < s.end_char for s in sentences)
    for one, two in pairwise(sentences):
        assert one.end <= two.start
        assert (one.end == two.start) or (one.end_char < two.start_char)
    for sentence in sentences:
        assert "<|im_" not in prompt.text[sentence.start_char : sentence.end_char]
        assert all(
            sentence.start_char <= prompt.starts[token] < sentence.end_char
            for token in range(sentence.start, sentence.end)
        )
    assert [prompt.text[s.start_char : s.end_char] for s in sentences[-3:]] == [
        "Anna lives in Oslo.",
        " Ben sold the boat.",
        "\nCarl paints.\n\n",
    ]


def test_long_prompts_take_seconds_at_most(tokenizer: Any) -> None:
    prompt = prompt_of(tokenizer, "Go! " * 50_000 + f"\n\n{QUESTION}")
    assert len(prompt.token_ids) > 100_000
    begun = time.monotonic()
    assert len(locate(prompt, Source(), None, None, 4).sentences) == 50_000
    assert time.monotonic() - begun < 20


def test_a_long_question_in_a_repetitive_prompt_takes_seconds_at_most() -> None:
    text = "a" * 2_000_000
    prompt = TokenizedPrompt((1,), text, (0,), (len(text),))
    question = f"{text[:400_000]}b{text[:400_000]}"
    begun = time.monotonic()
    with pytest.raises(LocateError):
        locate(prompt, Source(), question, None, 4)
    assert time.monotonic() - begun < 20  # comparing at every place takes minutes
