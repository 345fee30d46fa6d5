"""Samples from a file of RULER's: one JSON object a line with the whole prompt and its answers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from loadtests.quality.dataset_error import DatasetError
from server import sentences
from server.samples import Sample, depth_of

SUBSET = "validation"
"""The name of RULER's files; the task is their folder's."""


@dataclass(frozen=True, slots=True)
class RulerFile:
    """All samples of a file, as one task at one length: that of the longest."""

    task: str
    samples: tuple[Sample, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises DatasetError, naming the line, where one is not as RULER writes it."""
        task = path.parent.name if path.stem == SUBSET else path.stem
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{path} cannot be read: {error}") from error
        samples = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                samples.append(_sample(task, json.loads(line)))
            except KeyError as error:
                raise DatasetError(f"{path}, line {number}: no field {error}") from error
            except (ValueError, TypeError, AttributeError) as error:
                raise DatasetError(f"{path}, line {number}: {error}") from error
        if not samples:
            raise DatasetError(f"{path} holds no sample")
        return cls(task, tuple(samples))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The one."""
        return (self.task,)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The longest, as RULER counted: prompt and room for the answer."""
        return (max(sample.length for sample in self.samples),)

    @property
    def count(self) -> int:
        """As many as the file has lines."""
        return len(self.samples)

    def sample(self, task: str, length: int, number: int) -> Sample:
        """The sample of a line."""
        return self.samples[number]


def _sample(task: str, row: dict[str, Any]) -> Sample:
    """A prompt is an instruction in its first line, the context, and the question in its last.

    RULER names no evidence: it is the sentences that hold an answer. Where none does, the depth is 0.
    """
    prompt = row["input"].strip()
    body, _, question = prompt.partition("\n")[2].rpartition("\n")
    context = body.strip()
    if not context:
        raise ValueError("the input has no context between its first line and its last")
    answers = _answers(row["outputs"])
    length = int(row["length"])
    if length < 1:
        raise ValueError(f"a length of {length}")
    if task.startswith("qa"):
        # One answer in several spellings, not several answers.
        answers = answers[:1]
    evidence = tuple(_holding(context, answers))
    return Sample(
        kind=task,
        length=length,
        messages=(("user", prompt + row.get("answer_prefix", "")),),
        question=question.strip(),
        context=context,
        evidence=evidence,
        answers=answers,
        lead_in="",
        depth=depth_of(evidence[0], context) if evidence and evidence[0] != context else 0.0,
    )


def _answers(outputs: Any) -> tuple[str, ...]:
    if not isinstance(outputs, list) or not outputs:
        raise ValueError("the outputs are no list of answers")
    answers = tuple(str(output).strip() for output in outputs)
    if not all(answers):
        raise ValueError("an output is empty")
    return answers


def _holding(context: str, answers: tuple[str, ...]) -> Iterator[str]:
    alternatives = "|".join(re.escape(answer) for answer in answers)
    held = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
    for start, end in sentences.split(context):
        if held.search(context, start, end):
            yield context[start:end].strip()
