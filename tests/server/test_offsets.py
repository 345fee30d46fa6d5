import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from server.offsets import OffsetsError, TokenizedPrompt, tokenized

MIXED = "One.  Two 😀。 x\n\n y  Hi 你好。世界🤦🏽 a"


@pytest.fixture(scope="module")
def default_tokenizer(default_model_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(default_model_path)


class WithoutOffsets:
    """A tokenizer that can only encode and decode, as slow ones do."""

    is_fast = False

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.all_special_ids = inner.all_special_ids

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))


def byte_tokenizer(trim_offsets: bool, begin: bool = False) -> PreTrainedTokenizerFast:
    """One token a byte, with GPT-2's way of writing bytes; `begin` puts <s> in front."""
    vocabulary = {token: index for index, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    steps: list[Any] = [processors.ByteLevel(trim_offsets=trim_offsets)]
    if begin:
        steps.append(
            processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", len(vocabulary))])
        )
    tokenizer.post_processor = processors.Sequence(steps)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """Pieces with ▁ for a space, unknown characters as their bytes: the SentencePiece family."""
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", ".", *"OneTwothr"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(dict.fromkeys(pieces))},
            merges=[],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(prepend="▁"), normalizers.Replace(pattern=" ", content="▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text)["input_ids"])


def assert_ordered(prompt: TokenizedPrompt) -> None:
    assert len(prompt.starts) == len(prompt.ends) == len(prompt.token_ids)
    assert list(prompt.starts) == sorted(prompt.starts)
    assert list(prompt.ends) == sorted(prompt.ends)
    assert all(start <= end for start, end in zip(prompt.starts, prompt.ends, strict=True))


def assert_tiles(prompt: TokenizedPrompt) -> None:
    assert_ordered(prompt)
    covered = 0
    for start, end in zip(prompt.starts, prompt.ends, strict=True):
        assert start <= covered
        covered = end
    assert covered == len(prompt.text)


def test_tokens_stand_where_the_tokenizer_says(default_tokenizer: Any) -> None:
    prompt = tokenized(default_tokenizer, ids_of(default_tokenizer, MIXED), MIXED)
    assert prompt.text == MIXED
    held = [MIXED[start:end] for start, end in zip(prompt.starts, prompt.ends, strict=True)]
    assert held[:4] == ["One", ".", " ", " Two"]
    assert_tiles(prompt)


def test_decoding_gives_the_same_offsets_as_the_tokenizer(default_tokenizer: Any) -> None:
    ids = ids_of(default_tokenizer, MIXED)
    own = tokenized(default_tokenizer, ids, MIXED)
    assert tokenized(WithoutOffsets(default_tokenizer), ids, MIXED) == own
    assert tokenized(default_tokenizer, ids, None) == own


@pytest.mark.parametrize("trim_offsets", [True, False])
def test_all_bytes_of_a_character_start_where_it_starts(trim_offsets: bool) -> None:
    tokenizer = byte_tokenizer(trim_offsets)
    prompt = tokenized(tokenizer, ids_of(tokenizer, "a 😀\n。b"), "a 😀\n。b")
    assert prompt.starts == (0, 1, 2, 2, 2, 2, 3, 4, 4, 4, 5)
    assert_tiles(prompt)


def test_white_space_that_the_tokenizer_trims_stays_with_its_token() -> None:
    vocabulary = {token: index for index, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary["Ġb"] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("Ġ", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    raw = fast("a.  b", return_offsets_mapping=True)["offset_mapping"]
    assert raw == [(0, 1), (1, 2), (3, 3), (4, 5)]
    prompt = tokenized(fast, ids_of(fast, "a.  b"), "a.  b")
    assert prompt.starts == (0, 1, 2, 3)
    assert_tiles(prompt)


def test_pieces_with_empty_offsets_stay_with_the_character_before() -> None:
    class EmptyPieces(WithoutOffsets):
        is_fast = True

        def __call__(self, text: str, **_: object) -> dict[str, Any]:
            return {"input_ids": [1, 2, 3, 4], "offset_mapping": [(0, 1), (0, 1), (1, 1), (1, 2)]}

    prompt = tokenized(EmptyPieces(byte_tokenizer(False)), [1, 2, 3, 4], "。b")
    assert prompt.starts == (0, 0, 0, 1)


@pytest.mark.parametrize("by_decoding", [False, True])
def test_an_added_special_token_is_leading(by_decoding: bool) -> None:
    tokenizer = byte_tokenizer(trim_offsets=True, begin=True)
    ids = ids_of(tokenizer, "ab c")
    assert ids[0] == tokenizer.bos_token_id
    prompt = tokenized(WithoutOffsets(tokenizer) if by_decoding else tokenizer, ids, "ab c")
    assert prompt.leading == 1
    assert prompt.text == ("<s>ab c" if by_decoding else "ab c")
    assert_tiles(prompt)


@pytest.mark.parametrize("text", ["One.  Two three", " One", "h😀。 n", "One\n\n two"])
def test_metaspace_pieces_and_their_decoding_agree(text: str) -> None:
    tokenizer = metaspace_tokenizer()
    ids = ids_of(tokenizer, text)
    own = tokenized(tokenizer, ids, text)
    decoded = tokenized(WithoutOffsets(tokenizer), ids, text)
    assert own.text == decoded.text == text
    assert_tiles(own)
    assert_tiles(decoded)
    assert own.starts[1:] == decoded.starts[1:]


def test_ids_that_no_text_encodes_to_are_decoded(default_tokenizer: Any) -> None:
    ids = [*default_tokenizer("Th")["input_ids"], *default_tokenizer("e dog.")["input_ids"]]
    assert default_tokenizer("The dog.")["input_ids"] != ids
    for text in (None, "The dog."):
        prompt = tokenized(default_tokenizer, ids, text)
        assert prompt.text == "The dog."
        assert prompt.token_ids == tuple(ids)
        assert_tiles(prompt)


def test_a_cut_prompt_has_the_text_of_its_tokens(default_tokenizer: Any) -> None:
    text = "First part. Second part."
    prompt = tokenized(default_tokenizer, ids_of(default_tokenizer, text)[3:], text)
    assert prompt.text == " Second part."


def test_tokens_overlap_a_span_that_begins_inside_them(default_tokenizer: Any) -> None:
    text = "Who said it? What now?"
    prompt = tokenized(default_tokenizer, ids_of(default_tokenizer, text), text)
    start, end = text.index("What"), len(text)
    first, last = prompt.overlapping(start, end)
    assert text[prompt.starts[first] : prompt.ends[last - 1]] == " What now?"
    assert prompt.owned(start, end) == (first + 1, last)
    assert prompt.overlapping(start + 1, start + 1)[0] == prompt.overlapping(start + 1, start + 1)[1]


@pytest.mark.parametrize("tokenizer", [None, object()])
def test_without_any_text_there_are_no_offsets(tokenizer: object) -> None:
    with pytest.raises(OffsetsError):
        tokenized(tokenizer, [1, 2], "ab")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_tokens_tile_any_text(default_tokenizer: Any, text: str) -> None:
    ids = ids_of(default_tokenizer, text)
    own = tokenized(default_tokenizer, ids, text)
    decoded = tokenized(WithoutOffsets(default_tokenizer), ids, text)
    assert_ordered(own)
    assert_tiles(decoded)
    lossless = default_tokenizer.decode(ids) == text  # its vocabulary lacks a few bytes
    if lossless and "\ufffd" not in text:
        assert_tiles(own)
        assert own.text == decoded.text == text
        assert own.starts == decoded.starts


def test_a_character_that_the_tokenizer_drops_moves_no_other(default_tokenizer: Any) -> None:
    text = "Lost: \U00040000. Found."
    prompt = tokenized(default_tokenizer, ids_of(default_tokenizer, text), text)
    held = [text[start:end] for start, end in zip(prompt.starts, prompt.ends, strict=True)]
    assert held[-2:] == [" Found", "."]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.integers(0, 49_151), max_size=60))
def test_tokens_tile_the_text_of_any_ids(default_tokenizer: Any, ids: list[int]) -> None:
    prompt = tokenized(default_tokenizer, ids, None)
    assert prompt.token_ids == tuple(ids)
    assert_tiles(prompt)


def test_long_prompts_take_seconds_at_most(default_tokenizer: Any) -> None:
    ids = ids_of(default_tokenizer, MIXED) * 3_000
    half_character = [default_tokenizer("😀")["input_ids"][0]] * 100_000
    begun = time.monotonic()
    for prompt in (ids, half_character):
        tokenized(WithoutOffsets(default_tokenizer), prompt, None)
    assert time.monotonic() - begun < 60  # decoding the whole prompt for every token takes an hour
