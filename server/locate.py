"""Finds question, context, sentences and query rows in a prompt."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from server.limits import NO_LIMITS, Limits
from server.offsets import TokenizedPrompt
from server.sentences import split

QUESTION_MARK = "Question:"
_CONTEXT_ROLES = frozenset({"user", "tool", "function"})
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
# A message is looked for this close before the next one, where only a template's own words lie between, and
# behind that in the whole text; so often that this comes to so many characters, which takes seconds.
_NEAR = 512
_MOST_IN_VAIN = 1_000_000_000

Span = tuple[int, int]
"""Characters [start, end) of the prompt's text."""


def unmarked(question: str) -> str:
    """What is asked, without the mark before it and white space around it."""
    return question.removeprefix(QUESTION_MARK).strip()


class LocateError(ValueError):
    """A text that the prompt does not hold: `field` of the `qgpm` object, or "messages" of the body."""

    def __init__(self, field: str, message: str, value: object = None) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.value = value

    @property
    def parameter(self) -> str:
        """The field's full name in the request body."""
        return self.field if self.field == "messages" else f"qgpm.{self.field}"


@dataclass(frozen=True, slots=True)
class Source:
    """What the request said: its messages as (role, text), or None for a completion.

    `continue_final`: the last message is the beginning of the answer, to be continued.
    """

    messages: tuple[tuple[str, str], ...] | None = None
    continue_final: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens [start, end) whose first characters are in [start_char, end_char)."""

    start: int
    end: int
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Located:
    """What QGPM needs to know of a prompt; token numbers count from the prompt's first token.

    `num_tokens`: L, the tokens before an assistant prefix that is to be continued, otherwise all.
    `sentences`: in document order; those of one part of the context (one message) follow without a hole.
    `query_rows`: ascending; `question_tokens` of them are the question's. `silent`: the context's tokens that
    contain a newline, which give no signal. `question`: where it stands.
    """

    num_tokens: int
    sentences: tuple[Sentence, ...]
    question: Span
    query_rows: tuple[int, ...]
    question_tokens: int
    silent: tuple[int, ...]


def locate(
    prompt: TokenizedPrompt,
    source: Source,
    question: str | None,
    context: str | None,
    query_tail: int,
    limits: Limits = NO_LIMITS,
) -> Located:
    """Finds the question, the context's sentences and the query rows; a context of one or none is no error.

    A given `question` is its last occurrence. Otherwise it is the text from the last "Question:" on in the
    last user message (of the whole prompt, for a completion), else its last paragraph. A given `context` is
    its first occurrence, otherwise all of the user's and tools' messages (of the prompt) before the question;
    the question itself is cut out. The query rows are the question's tokens and the last `query_tail` of the
    prompt; these alone where the question stands before the context. Raises LocateError for a text that does
    not occur, and LimitError for a context that is too long to be split. Source: QGPM paper, appendix B,
    "Prompts and query rows" and "Sentence segmentation".
    """
    layout = _Layout.of(prompt, source)
    asked = layout.question(question)
    first, last = prompt.overlapping(*asked)
    last = min(last, layout.num_tokens)
    # A token that the question shares with the text before it is the question's.
    cut = min(asked[0], prompt.starts[first]) if first < last else asked[0]
    parts = _without(layout.context(context, asked[0]), (cut, asked[1]))
    limits.check_document(sum(end - start for start, end in parts))
    sentences = tuple(_sentences(prompt, parts, layout.num_tokens))
    tail = range(max(0, layout.num_tokens - query_tail), layout.num_tokens)
    before_context = bool(parts) and asked[1] <= parts[0][0]
    own_rows = range(0) if before_context else range(first, last)
    rows = tuple(sorted({*own_rows, *tail}))
    silent = tuple(t for s in sentences for t in range(s.start, s.end) if prompt.holds_newline(t))
    return Located(layout.num_tokens, sentences, asked, rows, len(own_rows), silent)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The prompt's text up to `end` and where each message's text stands in it (None: not found)."""

    text: str
    backwards: "Backwards"
    start: int
    end: int
    num_tokens: int
    messages: tuple[tuple[str, Span | None], ...] | None

    @classmethod
    def of(cls, prompt: TokenizedPrompt, source: Source) -> "_Layout":
        end, num_tokens = len(prompt.text), len(prompt.token_ids)
        backwards = Backwards(prompt.text)
        if source.messages is None:
            start = prompt.ends[prompt.leading - 1] if prompt.leading else 0
            return cls(prompt.text, backwards, start, end, num_tokens, None)
        messages = source.messages
        if source.continue_final and messages:
            prefix = backwards.last(messages[-1][1], end)
            if prefix is None:
                raise LocateError("messages", "cannot be located: the prompt does not hold the last one")
            messages = messages[:-1]
            if prefix[0] < prefix[1]:
                end, num_tokens = prefix[0], prompt.overlapping(*prefix)[0]
        spans = backwards.all([text for _, text in messages], end)
        roles = [role for role, _ in messages]
        return cls(prompt.text, backwards, 0, end, num_tokens, tuple(zip(roles, spans, strict=True)))

    def question(self, given: str | None) -> Span:
        if given is not None:
            found = self.backwards.last(given, self.end)
            if found is None:
                raise LocateError("question", "does not occur in the prompt", given)
            return found
        start, end = self._last_user_text()
        marked = self.text.rfind(QUESTION_MARK, start, end)
        if marked >= 0:
            return _stripped(self.text, (marked, end))
        return _last_paragraph(self.text, (start, end))

    def context(self, given: str | None, question_start: int) -> list[Span]:
        if given is not None:
            found = _first(self.text, given, self.end)
            if found is None:
                raise LocateError("context", "does not occur in the prompt", given)
            return [found]
        if self.messages is None:
            return [(self.start, question_start)]
        told = [index for index, (role, _) in enumerate(self.messages) if role in _CONTEXT_ROLES]
        return [(start, min(end, question_start)) for start, end in map(self._found, told)]

    def _last_user_text(self) -> Span:
        if self.messages is None:
            return self.start, self.end
        users = [index for index, (role, _) in enumerate(self.messages) if role == "user"]
        if not users:
            raise LocateError("question", "cannot be found: there is no user message")
        return self._found(users[-1])

    def _found(self, index: int) -> Span:
        span = (self.messages or ())[index][1]
        if span is None:
            raise LocateError("messages", f"cannot be located: the prompt does not hold messages[{index}]")
        return span


@dataclass(slots=True)
class Backwards:
    """A text that is searched from its end; `in_vain`: characters that were looked through without a find."""

    text: str
    in_vain: int = 0
    _reversed: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._reversed = self.text[::-1]  # `str.find` takes linear time, `str.rfind` does not

    def all(self, contents: Sequence[str], end: int) -> list[Span | None]:
        """Where each message's text stands, in order.

        From the last one back, because a template writes more in front of messages (role names, a system
        prompt of its own) than behind them. A text that is not there is passed over: templates drop old
        reasoning and move system texts. Raises LocateError where that would take too long.
        """
        spans: list[Span | None] = []
        for content in reversed(contents):
            span = self.last(content, end, len(content) + _NEAR) or self.last(content, end)
            if span is not None:
                end = span[0]
            elif self.in_vain > _MOST_IN_VAIN:
                raise LocateError("messages", "cannot be located: the prompt does not hold too many of them")
            spans.append(span)
        return spans[::-1]

    def last(self, wanted: str, end: int, reach: int | None = None) -> Span | None:
        """Last occurrence before `end` of the text, or of what a template leaves of it after stripping.

        It begins at most `reach` characters before `end`.
        """
        behind = len(self.text) - end
        stop = len(self.text) if reach is None else min(len(self.text), behind + reach)
        for form in dict.fromkeys((wanted, wanted.strip())):
            found = self._reversed.find(form[::-1], behind, stop)
            if found >= 0:
                last = len(self.text) - found
                return last - len(form), last
            self.in_vain += stop - behind
        return None


def _first(text: str, wanted: str, end: int) -> Span | None:
    for form in (wanted, wanted.strip()):
        start = text.find(form, 0, end)
        if start >= 0:
            return start, start + len(form)
    return None


def _stripped(text: str, span: Span) -> Span:
    inside = text[slice(*span)]
    start = span[0] + len(inside) - len(inside.lstrip())
    return start, max(start, span[0] + len(inside.rstrip()))


def _last_paragraph(text: str, span: Span) -> Span:
    """The last run of lines without a blank one between; empty for a blank text."""
    start, end = _stripped(text, span)
    for blank in _BLANK_LINES.finditer(text, start, end):
        start = blank.end()
    return start, end


def _without(parts: Sequence[Span], hole: Span) -> list[Span]:
    """The parts with the hole cut out; empty parts vanish."""
    before = [(start, min(end, hole[0])) for start, end in parts]
    behind = [(max(start, hole[1]), end) for start, end in parts]
    return sorted((start, end) for start, end in before + behind if start < end)


def _sentences(prompt: TokenizedPrompt, parts: Iterable[Span], num_tokens: int) -> list[Sentence]:
    """A sentence without a token vanishes; its characters go to its neighbour before, or else behind."""
    found: list[Sentence] = []
    for part_start, part_end in parts:
        text = prompt.text[part_start:part_end]
        before, reached = len(found), part_start
        for _, length in split(text) if not text.isspace() else ():
            end_char = part_start + length
            start, end = prompt.owned(reached, end_char)
            if start < (end := min(end, num_tokens)):
                found.append(Sentence(start, end, reached, end_char))
            elif len(found) > before:
                found[-1] = replace(found[-1], end_char=end_char)
            else:
                continue
            reached = end_char
    return found
