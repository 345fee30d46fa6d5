"""Sentence boundaries of a plain text."""

import re
from collections.abc import Iterator

from sentencex import get_sentence_boundaries

LANGUAGE = "en"
"""Whose abbreviations are protected; stops of other scripts are known whatever the language."""

_STOPPED_BY_SPACE = ".!?"
_STOPS = _STOPPED_BY_SPACE + "…。｡．！？۔؟।॥"  # noqa: RUF001  # full-width and other scripts' stops
_CLOSING = "\"'”’»)]}」』）】"  # noqa: RUF001
# A stop, then closing quotes, brackets and note marks such as [2]: all of one sentence's end.
_END = re.compile(rf"[{re.escape(_STOPS)}](?:\[\w{{1,3}}\]|[{re.escape(_CLOSING)}])*\Z")
_LONGEST_END = 32
_LONE = re.compile("[\ud800-\udfff]")  # surrogates, which are no text to the library

# The library keeps all that stands between a pair of these in one piece; where a whole document is quoted
# there would be no sentence left. So it reads the text a second time without them.
_PAIRED = frozenset("\"'“”‘’„«»()[]{}")  # noqa: RUF001


def split(text: str) -> list[tuple[int, int]]:
    """Character spans of the sentences of `text`; they tile it, so there is none only for an empty text.

    A sentence ends after . ! ? (and the closing quotes behind it) followed by white space, or after a
    full-width stop; abbreviations are protected. White space between two sentences belongs to the next one,
    trailing white space to the last. Source: QGPM paper, appendix B, "Sentence segmentation".
    """
    if not text:
        return []
    ends = sorted({*_stops(text), *_bare_stops(text)})
    while ends and not text[ends[-1] :].strip():
        ends.pop()
    return list(zip([0, *ends], [*ends, len(text)], strict=True))


def _stops(text: str) -> Iterator[int]:
    for end in _boundaries(text):
        last = _END.search(text, max(0, end - _LONGEST_END), end)
        if last is not None and (text[last.start()] not in _STOPPED_BY_SPACE or _space_at(text, end)):
            yield end


def _bare_stops(text: str) -> Iterator[int]:
    """Ends inside quotes and brackets: only directly after a stop."""
    kept = [index for index, character in enumerate(text) if character not in _PAIRED]
    for bare_end in _boundaries("".join(text[index] for index in kept)):
        end = kept[bare_end - 1] + 1 if bare_end else 0
        stop, follower = text[end - 1 : end], text[end : end + 1]
        if not stop or stop not in _STOPS:
            continue
        if _space_at(text, end) or (stop not in _STOPPED_BY_SPACE and follower not in _CLOSING):
            yield end


def _boundaries(text: str) -> Iterator[int]:
    """Where the library ends a sentence, before the white space that it leaves with it."""
    for boundary in get_sentence_boundaries(LANGUAGE, _LONE.sub("\ufffd", text)):
        start, end = boundary["start_index"], boundary["end_index"]
        yield start + len(text[start:end].rstrip())


def _space_at(text: str, index: int) -> bool:
    return text[index : index + 1].isspace()
