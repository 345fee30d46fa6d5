"""Samples from a needle set of NoLiMa's and the folder of books that lies beside it."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from loadtests.quality.dataset_error import DatasetError
from server import haystack, sentences
from server.samples import Message, Sample, depth_of, even_depth

BOOKS = ("../haystack/rand_shuffle", "haystack/rand_shuffle", "haystack")
"""Where the books are looked for, from the needle set's folder: first where NoLiMa's download puts them."""

CHARACTER = "{CHAR}"


@dataclass(frozen=True, slots=True)
class Case:
    """A needle with its question; `characters`: who may stand in it; `answers`: none where it is who does."""

    needle: str
    question: str
    distractor: str | None
    characters: tuple[str, ...]
    answers: tuple[str, ...]
    system_prompt: str
    template: str


@dataclass(frozen=True, slots=True)
class NeedleSet:
    """The cases by task, that is by kind of question; `books` as sentences."""

    cases: Mapping[str, tuple[Case, ...]]
    books: tuple[tuple[str, ...], ...]
    lengths: tuple[int, ...]
    seed: int
    count_tokens: Callable[[str], int]

    @classmethod
    def read(
        cls, path: Path, lengths: tuple[int, ...], seed: int, count_tokens: Callable[[str], int]
    ) -> Self:
        """Raises DatasetError where the file is not as NoLiMa writes it or no books lie beside it."""
        cases: dict[str, list[Case]] = {}
        try:
            for entry in json.loads(path.read_text(encoding="utf-8")):
                for question_type, case in _cases(entry):
                    cases.setdefault(f"nolima_{question_type}", []).append(case)
        except KeyError as error:
            raise DatasetError(f"{path}: a needle has no field {error}") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DatasetError(f"{path} is no needle set: {error}") from error
        if not cases:
            raise DatasetError(f"{path} holds no needle")
        found = {task: tuple(of_task) for task, of_task in cases.items()}
        return cls(found, tuple(_books(path.parent, max(lengths), count_tokens)), lengths, seed, count_tokens)

    @property
    def tasks(self) -> tuple[str, ...]:
        """One for each kind of question."""
        return tuple(self.cases)

    @property
    def count(self) -> None:
        """No end: characters, books and depths vary."""
        return None

    def sample(self, task: str, length: int, number: int) -> Sample:
        """Case by case, each at another depth the next time it comes."""
        cases = self.cases[task]
        case = cases[number % len(cases)]
        draw = random.Random(f"{task}/{length}/{self.seed}/{number}")
        character = draw.choice(case.characters) if case.characters else ""
        needle = case.needle.replace(CHARACTER, character)
        hidden = [needle, *([case.distractor] if case.distractor else [])]
        room = length - sum(self.count_tokens(text) for text in hidden)
        hay = haystack.excerpt(draw.choice(self.books), room, self.count_tokens, draw)
        context = haystack.hide(hidden, hay, draw, even_depth(number + number // len(cases)))
        prompt = case.template.replace("{question}", case.question).replace("{haystack}", context)
        system: tuple[Message, ...] = (("system", case.system_prompt),) if case.system_prompt else ()
        answers = case.answers or (character,)
        return Sample(
            kind=task,
            length=length,
            messages=(*system, ("user", prompt)),
            question=case.question,
            context=context,
            evidence=(needle,),
            # Several are spellings of one.
            answers=answers[:1],
            lead_in="",
            depth=depth_of(needle, context),
        )


def _cases(entry: Mapping[str, Any]) -> Iterator[tuple[str, Case]]:
    characters = tuple(entry.get("character_set") or ())
    for question_type, question in entry["questions"].items():
        for test in entry["tests"].values():
            arguments, answers = test["input_args"], _answers(test)
            if not characters and not answers:
                raise ValueError("a needle has neither characters nor gold answers")
            distractor = entry.get("distractors", {}).get(question_type)
            yield (
                question_type,
                Case(
                    needle=_filled(entry["needle"], arguments),
                    question=_filled(question, arguments),
                    distractor=None if distractor is None else _filled(distractor, arguments),
                    characters=characters,
                    answers=answers,
                    system_prompt=entry["system_prompt"],
                    template=entry["task_template"],
                ),
            )


def _filled(template: str, arguments: list[str]) -> str:
    """With argument i in place of {i}, from 1 on."""
    for number, argument in enumerate(arguments, start=1):
        template = template.replace(f"{{{number}}}", argument)
    return template


def _answers(test: Mapping[str, Any]) -> tuple[str, ...]:
    given = test.get("gold_answers") or ()
    return (given,) if isinstance(given, str) else tuple(given)


def book_paths(beside: Path) -> list[Path]:
    """The books that a needle set in the folder `beside` is read with. Raises DatasetError."""
    for folder in (beside / place for place in BOOKS):
        if paths := sorted(folder.glob("*.txt")):
            return paths
    raise DatasetError(f"no books (*.txt) in {' or '.join(BOOKS)} from {beside}")


def _books(beside: Path, tokens: int, count_tokens: Callable[[str], int]) -> Iterator[tuple[str, ...]]:
    """Each book as sentences; one that holds fewer tokens than a context needs is refused."""
    for path in book_paths(beside):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{path} cannot be read: {error}") from error
        book = tuple(" ".join(text[start:end].split()) for start, end in sentences.split(text))
        if not any(held >= tokens for held in accumulate(map(count_tokens, book))):
            raise DatasetError(f"{path} holds less than the {tokens:,} tokens of the longest context")
        yield book
