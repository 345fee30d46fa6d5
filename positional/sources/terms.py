"""The terms of texts in any script, for ranking by words."""

import unicodedata
from collections.abc import Iterator, Sequence

import regex
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

# Scripts without spaces between words, and Hangul, whose particles are written in one with the word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々〆"
_RUN = regex.compile(
    rf"(?P<unspaced>[{_UNSPACED}][{_UNSPACED}\p{{M}}]*)|[[\p{{L}}\p{{M}}\p{{N}}_]--[{_UNSPACED}]]+", regex.V1
)
# Of getHTTPName2: get, HTTP, Name, 2. Of other scripts: what stands between digits and underscores.
_PART = regex.compile(r"\p{Lu}+(?![\p{Ll}\p{M}])|\p{Lu}?[\p{Ll}\p{M}]+|[\p{Lo}\p{Lm}\p{Lt}\p{M}]+|\p{N}+")
_POSSESSIVE = regex.compile(r"(?<=\p{L})['’]s\b")  # noqa: RUF001
# In other scripts a vowel sign is a letter in all but name.
_MARKS = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}\p{Arabic}\p{Hebrew}])\p{Mn}+")
_ARABIC = str.maketrans({"ٱ": "ا", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ـ": None})  # noqa: RUF001
_LANGUAGES = {"english": r"\p{Latin}+", "russian": r"\p{Cyrillic}+", "arabic": r"\p{Arabic}+"}
_FUNCTION_WORDS = frozenset(STOPWORDS_EN_PLUS)


def terms(texts: Sequence[str]) -> list[list[str]]:
    """The terms of each text, in order.

    A word is folded (case, width, accents, the spellings of an Arabic letter) and stemmed by its script:
    Latin as English, Cyrillic as Russian, and Arabic. An identifier (`maxTokens`, `max_tokens`) gives itself
    and its parts. Scripts without spaces give pairs of neighbouring characters. English function words give
    nothing.
    """
    reader = _Reader()
    return [list(reader.read(text)) for text in texts]


class _Reader:
    """Remembers the terms of words; for one thread, since stemmers keep a state."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        self._stemmers = [(regex.compile(of), Stemmer.Stemmer(name)) for name, of in _LANGUAGES.items()]

    def read(self, text: str) -> Iterator[str]:
        for run in _RUN.finditer(_POSSESSIVE.sub("", unicodedata.normalize("NFKC", text))):
            if run["unspaced"]:
                yield from _pairs(run[0])
                continue
            if run[0] not in self._known:
                self._known[run[0]] = tuple(self._of_word(run[0]))
            yield from self._known[run[0]]

    def _of_word(self, word: str) -> Iterator[str]:
        for form in dict.fromkeys(_folded(part) for part in (word, *_PART.findall(word))):
            if form and form not in _FUNCTION_WORDS:
                yield self._stemmed(form)

    def _stemmed(self, word: str) -> str:
        for script, stemmer in self._stemmers:
            if script.fullmatch(word):
                return str(stemmer.stemWord(word))
        return word


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _folded(word: str) -> str:
    parted = _MARKS.sub("", unicodedata.normalize("NFD", word.casefold()))
    return unicodedata.normalize("NFC", parted).translate(_ARABIC)
