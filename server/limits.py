"""What a request may ask for at most."""

from argparse import ArgumentTypeError, Namespace, _ArgumentGroup
from dataclasses import dataclass, field, fields
from http import HTTPStatus
from typing import Any, Literal

from vllm.utils.argparse_utils import human_readable_int

from server.body_limit import FLAG as BODY_FLAG
from server.request_error import RequestError

Limit = Literal["body", "document", "question", "evidence", "score_passes"]


class LimitError(RequestError):
    """A request that asks for more than the server gives.

    `limit`: which of them; `status` of the answer; `retry_after` seconds, where waiting helps.
    """

    def __init__(
        self,
        limit: Limit,
        parameter: str,
        message: str,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, parameter)
        self.limit = limit
        self.status = status
        self.retry_after = retry_after


def _limit(default: int, flag: str, says: str) -> Any:
    return field(default=default, metadata={"flag": flag, "help": says})


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that the server takes; 0 everywhere: no limit but vLLM's own."""

    body_bytes: int = _limit(64 << 20, BODY_FLAG, "bytes of a request's body, on every route")
    document_characters: int = _limit(
        16 << 20, "--max-document-characters", "characters of the text that qgpm modulates"
    )
    document_tokens: int = _limit(0, "--max-document-tokens", "tokens of the text that qgpm modulates")
    sentences: int = _limit(
        50_000,
        "--max-sentences",
        "sentences of that text; each takes some KiB in the worker while its request runs",
    )
    question_tokens: int = _limit(
        1024,
        "--max-question-tokens",
        "tokens of a question, each of which heads compare with each of the document's",
    )
    evidence_passages: int = _limit(1000, "--max-evidence-passages", "passages in qgpm.evidence")
    evidence_characters: int = _limit(
        1 << 20, "--max-evidence-characters", "characters of all passages together"
    )
    score_passes: int = _limit(
        64, "--max-score-passes", "score passes at a time for one API key; without keys, for all"
    )

    @staticmethod
    def of(args: Namespace) -> "Limits":
        """The limits of a command line."""
        return Limits(
            **{each.name: getattr(args, _attribute(each.metadata["flag"])) for each in fields(Limits)}
        )

    def check_evidence(self, passages: int, characters: int) -> None:
        """Raise LimitError for evidence that is too much to look for."""
        self._check("evidence_passages", "evidence", "qgpm.evidence", passages, "passages")
        self._check("evidence_characters", "evidence", "qgpm.evidence", characters, "characters")

    def check_document(self, characters: int) -> None:
        """Raise LimitError for a text that is too long to be split."""
        self._check("document_characters", "document", "qgpm.context", characters, "characters")

    def check_sentences(self, sentences: int, tokens: int) -> None:
        """Raise LimitError for a text that is too long to be modulated."""
        self._check("sentences", "document", "qgpm.context", sentences, "sentences")
        self._check("document_tokens", "document", "qgpm.context", tokens, "tokens")

    def check_question(self, tokens: int) -> None:
        """Raise LimitError for a question of too many query rows."""
        self._check("question_tokens", "question", "qgpm.question", tokens, "tokens")

    def _check(self, name: str, limit: Limit, parameter: str, value: int, unit: str) -> None:
        most: int = getattr(self, name)
        if most and value > most:
            flag = type(self).__dataclass_fields__[name].metadata["flag"]
            raise LimitError(
                limit, parameter, f"{parameter} has {value} {unit}, but this server takes {most} ({flag})"
            )


NO_LIMITS = Limits(**{each.name: 0 for each in fields(Limits)})


def add_limit_flags(group: _ArgumentGroup) -> None:
    """One flag for each limit."""
    for each in fields(Limits):
        group.add_argument(
            each.metadata["flag"],
            type=_count,
            default=each.default,
            metavar="N",
            help=f"the most {each.metadata['help']}; 0 for no limit (default: {each.default})",
        )


def _count(text: str) -> int:
    number: int = human_readable_int(text)
    if number < 0:
        raise ArgumentTypeError("a limit cannot be negative; 0 is none")
    return number


def _attribute(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")
