"""What a resumed run must have in common with the one before: its samples too, and how they are made."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.quality import source as sources
from loadtests.quality.setting import identity
from loadtests.quality.source import SPLIT, digest, source
from server.samples import POOLS, Sample, sample


def words(text: str) -> int:
    return len(text.split())


def drawn(seed: int = 0, lengths: tuple[int, ...] = (200, 400)) -> str:
    return digest(source(None, lengths, seed, words))


def test_data_sets_of_one_name_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    names = []
    for folder, text in (("a", "one"), ("b", "two"), ("c", "one")):
        path = tmp_path / folder / "validation.jsonl"
        path.parent.mkdir()
        path.write_text(text)
        names.append(identity(path))
    assert names[0] == names[2] != names[1]
    assert all(name.startswith("validation.jsonl, ") for name in names)


def test_the_books_of_a_needle_set_belong_to_it(tmp_path: Path) -> None:
    needles, book = tmp_path / "needle_set.json", tmp_path / "haystack" / "book.txt"
    needles.write_text("[]")
    book.parent.mkdir()
    names = []
    for text in ("One.", "Two.", "One."):
        book.write_text(text)
        names.append(identity(needles))
    assert names[0] == names[2] != names[1]


def test_the_same_samples_have_the_same_digest() -> None:
    assert drawn() == drawn()


def test_another_seed_has_another_digest() -> None:
    assert drawn(seed=1) != drawn(seed=0)


def _other_text(made: Sample) -> Sample:
    return replace(made, context=made.context.replace("\n", " "))


def _other_depth(made: Sample) -> Sample:
    return replace(made, depth=made.depth / 2)


@pytest.mark.parametrize("change", [_other_text, _other_depth])
def test_samples_that_are_made_otherwise_have_another_digest(
    change: Callable[[Sample], Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn()
    monkeypatch.setattr(sources, "sample", lambda *arguments: change(sample(*arguments)))
    assert drawn() != before


def test_a_pool_that_was_rewritten_gives_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before, pool = drawn(), POOLS[SPLIT]
    monkeypatch.setitem(POOLS, SPLIT, replace(pool, names=pool.names[::-1]))
    assert drawn() != before


def test_a_short_data_set_is_digested_whole(tmp_path: Path) -> None:
    path = tmp_path / "heron.jsonl"
    digests = []
    for answer in ("51", "52"):
        row = {
            "input": f"Read.\nThe code is {answer}. It rains.\nWhich code?",
            "outputs": [answer],
            "length": 9,
        }
        path.write_text(json.dumps({**row, "outputs": ["51"]}) + "\n" + json.dumps(row) + "\n")
        digests.append(digest(source(path, (200,), 0, words)))
    assert digests[0] != digests[1]
