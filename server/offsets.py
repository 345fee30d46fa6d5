"""Where the tokens of a prompt stand in its text."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_REPLACEMENT = "\ufffd"
# One character is at most four byte pieces. A run of tokens that stays undecodable for longer is no character
# at all, and waiting for its end would decode it again and again.
_LONGEST_WAIT = 16


class OffsetsError(ValueError):
    """The tokenizer gives no text for the prompt's tokens, so nothing can be located in them."""


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt's tokens and the characters of `text` that each holds.

    `starts` and `ends` have one entry a token; `starts` never falls. All byte pieces of one character have
    the start of the first piece, and an added special token that has no text is empty. `leading` counts the
    special tokens in front.
    """

    token_ids: tuple[int, ...]
    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    leading: int = 0

    def owned(self, start: int, end: int) -> tuple[int, int]:
        """Token span [first, last) of the tokens whose first character is in [start, end)."""
        return bisect_left(self.starts, start), bisect_left(self.starts, end)

    def overlapping(self, start: int, end: int) -> tuple[int, int]:
        """Token span [first, last) of the tokens that hold some character of [start, end)."""
        first, last = self.owned(start, end)
        while start < end and first > 0 and self.ends[first - 1] > start:
            first -= 1
        return first, last

    def holds_newline(self, token: int) -> bool:
        """Whether the token's text contains a newline."""
        return "\n" in self.text[self.starts[token] : self.ends[token]]


def tokenized(tokenizer: Any, token_ids: Sequence[int], text: str | None) -> TokenizedPrompt:
    """Aligns a prompt's tokens with its text.

    `text` is what was tokenised, or None for a prompt of token ids. The offsets are the tokenizer's own where
    it gives back exactly these ids; otherwise text and offsets come from decoding token by token, and the
    text is then the decoded one: what the model reads. Raises OffsetsError where the tokenizer can do
    neither.
    """
    if tokenizer is None:
        raise OffsetsError("the server runs without a tokenizer")
    ids = tuple(int(token) for token in token_ids)
    special = frozenset(getattr(tokenizer, "all_special_ids", ()))
    if getattr(tokenizer, "is_fast", False):
        source = _decode(tokenizer, ids) if text is None else text
        pairs = _own_offsets(tokenizer, ids, source)
        if pairs is not None:
            return _prompt(ids, source, pairs, special)
    decoded, pairs = _decoded_offsets(tokenizer, ids)
    return _prompt(ids, decoded, pairs, special)


def _own_offsets(tokenizer: Any, ids: tuple[int, ...], text: str) -> list[tuple[int, int]] | None:
    for add_special_tokens in (False, True):
        try:
            encoded = tokenizer(text, add_special_tokens=add_special_tokens, return_offsets_mapping=True)
        except (TypeError, NotImplementedError):  # Mistral's own call themselves fast, but know no offsets
            return None
        if tuple(encoded["input_ids"]) == ids:
            return [(int(start), int(end)) for start, end in encoded["offset_mapping"]]
    return None


def _prompt(
    ids: tuple[int, ...], text: str, pairs: list[tuple[int, int]], special: frozenset[int]
) -> TokenizedPrompt:
    starts: list[int] = []
    ends: list[int] = []
    leading = next((index for index, token in enumerate(ids) if token not in special), len(ids))
    covered = 0  # characters that the tokens so far hold
    for token, (start, end) in zip(ids, pairs, strict=True):
        if start >= end <= covered and token in special:  # an added special token, without any text
            start = end = covered
        elif starts and (start < covered or end <= covered):  # a further piece of a character, perhaps empty
            start, end = starts[-1], max(end, covered)
        elif not text[covered:start].strip():  # white space that the tokenizer cut off its offsets
            start = covered
        starts.append(start)
        ends.append(end)
        covered = end
    return TokenizedPrompt(ids, text, tuple(starts), tuple(ends), leading)


def _decoded_offsets(tokenizer: Any, ids: tuple[int, ...]) -> tuple[str, list[tuple[int, int]]]:
    """Text and offsets from decoding a moving window: two groups of tokens, each ending with a character.

    The group before gives the decoder its surroundings (a leading space kept or dropped, pieces joined).
    """
    parts: list[str] = []
    pairs: list[tuple[int, int]] = []
    window = group = length = 0  # window: first token of the group before; group: first token of this one
    before = ""
    for end in range(1, len(ids) + 1):
        both = _decode(tokenizer, ids[window:end])
        complete = len(both) > len(before) and not both.endswith(_REPLACEMENT)
        if not complete and end < len(ids) and end - group < _LONGEST_WAIT:
            continue
        part = both[len(before) :]
        pairs.extend([(length, length + len(part))] * (end - group))
        parts.append(part)
        length += len(part)
        window, group = group, end
        before = _decode(tokenizer, ids[window:group])
    return "".join(parts), pairs


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    # Cleaned-up text lacks characters that the tokens hold. Only tokenizers that clean up know the option.
    uncleaned = {"clean_up_tokenization_spaces": False} if _cleans_up(tokenizer) else {}
    try:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False, **uncleaned))
    except Exception as error:  # tokenizers raise anything for ids that they do not know
        raise OffsetsError(f"the tokenizer cannot decode the prompt: {error}") from error


def _cleans_up(tokenizer: Any) -> bool:
    return bool(getattr(tokenizer, "clean_up_tokenization_spaces", False))
