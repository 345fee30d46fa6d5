"""Files in RULER's and NoLiMa's formats, with words of our own."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.quality.dataset_error import DatasetError
from loadtests.quality.datasets import Dataset, read
from server.samples import DEPTHS

HAY = ["The ferry left at noon.", "Nobody on the pier spoke of the fog.", "Gulls sat on the ropes."]
CODE = "The code of the grey locker is 7719."


def words(text: str) -> int:
    return len(text.split())


def opened(path: Path, seed: int = 0) -> Dataset:
    return read(path, (60, 120), seed, words)


def ruler_row(**changed: Any) -> dict[str, Any]:
    context = " ".join([*HAY * 3, CODE, *HAY])
    prompt = f"Remember every code in this text.\n{context}\nWhich code has the grey locker?"
    row = {"index": 0, "input": prompt, "outputs": ["7719"], "length": 4096}
    return {**row, **changed}


def ruler_file(folder: Path, *rows: dict[str, Any], name: str = "niah_single_2/validation.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_prompt_of_rulers_stays_as_it_is(tmp_path: Path) -> None:
    dataset = opened(ruler_file(tmp_path, ruler_row()))

    sample = dataset.sample("niah_single_2", 4096, 0)

    assert (dataset.tasks, dataset.lengths, dataset.count) == (("niah_single_2",), (4096,), 1)
    assert sample.messages == (("user", ruler_row()["input"]),)
    assert sample.question == "Which code has the grey locker?"
    assert sample.context == " ".join([*HAY * 3, CODE, *HAY])
    assert (sample.answers, sample.evidence) == (("7719",), (CODE,))
    assert sample.depth == pytest.approx(0.75, abs=0.02)
    assert (sample.kind, sample.length) == ("niah_single_2", 4096)


def test_rulers_answer_prefix_ends_the_prompt(tmp_path: Path) -> None:
    prefix = " The code of the grey locker is"
    dataset = opened(ruler_file(tmp_path, ruler_row(answer_prefix=prefix)))
    assert dataset.sample("niah_single_2", 4096, 0).messages[0][1] == ruler_row()["input"] + prefix


def test_several_outputs_are_asked_for_together_but_spellings_of_one_are_not(tmp_path: Path) -> None:
    context = " ".join([HAY[0], "One code is 11.", HAY[1], "One code is 22.", "A third code is 222."])
    row = ruler_row(input=f"Read.\n\n{context}\n\nWhich codes?", outputs=["11", "22"])
    needles = opened(ruler_file(tmp_path, row)).sample("", 0, 0)
    answered = opened(ruler_file(tmp_path, row, name="qa_1.jsonl")).sample("", 0, 0)

    assert needles.answers == ("11", "22")
    assert needles.evidence == ("One code is 11.", "One code is 22.")
    assert answered.kind == "qa_1"
    assert answered.answers == ("11",)


def test_an_answer_that_no_sentence_holds_has_no_evidence(tmp_path: Path) -> None:
    sample = opened(ruler_file(tmp_path, ruler_row(outputs=["fog on the ferry"]))).sample("", 0, 0)
    assert (sample.evidence, sample.depth) == ((), 0.0)


def test_the_samples_of_rulers_are_its_lines(tmp_path: Path) -> None:
    dataset = opened(ruler_file(tmp_path, ruler_row(length=3990), ruler_row(outputs=["noon"])))
    assert dataset.count == 2
    assert dataset.lengths == (4096,)
    assert [dataset.sample("", 0, number).answers for number in range(2)] == [("7719",), ("noon",)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"input": "Which?", "outputs": ["1"]}, "line 2: the input has no context"),
        ({"outputs": ["1"]}, "line 2: no field 'input'"),
        (ruler_row(outputs=[]), "line 2: the outputs are no list"),
        (ruler_row(outputs="7719"), "line 2: the outputs are no list"),
        (ruler_row(outputs=["7719", " "]), "line 2: an output is empty"),
        (ruler_row(length=-5), "line 2: a length of -5"),
        (ruler_row(length=None), "line 2: "),
        ([], "line 2: "),
    ],
)
def test_a_line_that_is_not_rulers_is_named(tmp_path: Path, row: Any, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        opened(ruler_file(tmp_path, ruler_row(), row))


NEEDLE = {
    "id": "0001",
    "reasoning_type": "world_knowledge",
    "system_prompt": "",
    "task_template": "A chapter:\n\n{haystack}\n\nQuestion: {question}\n\nOne name, please.",
    "needle": "From the desk of {CHAR} one sees {1}.",
    "questions": {"onehop": "Who works in {2}?", "twohop": "Who works in {3}?"},
    "character_set": ["Berit", "Osman"],
    "tests": {
        "T1": {"input_args": ["the Atomium", "Brussels", "Belgium"]},
        "T2": {"input_args": ["the Prater", "Vienna", "Austria"]},
    },
}


def needle_file(folder: Path, books: str = "haystack/rand_shuffle", **changed: Any) -> Path:
    path = folder / "needlesets" / "needle_set.json"
    path.parent.mkdir()
    path.write_text(json.dumps([{**NEEDLE, **changed}]), encoding="utf-8")
    book_folder = folder / books
    book_folder.mkdir(parents=True)
    for number in (1, 2):
        text = "\n".join(
            f"{sentence[:-1]} on day {day} of year {number}." for day in range(40) for sentence in HAY
        )
        (book_folder / f"rand_book_{number}.txt").write_text(text, encoding="utf-8")
    return path


def test_a_needle_of_nolimas_is_hidden_in_one_of_its_books(tmp_path: Path) -> None:
    dataset = opened(needle_file(tmp_path))
    sample = dataset.sample("nolima_twohop", 120, 1)

    assert (dataset.tasks, dataset.lengths, dataset.count) == (
        ("nolima_onehop", "nolima_twohop"),
        (60, 120),
        None,
    )
    assert sample.question == "Who works in Austria?"
    assert sample.answers in (("Berit",), ("Osman",))
    assert sample.evidence == (f"From the desk of {sample.answers[0]} one sees the Prater.",)
    assert sample.evidence[0] in sample.context
    prompt = f"A chapter:\n\n{sample.context}\n\nQuestion: Who works in Austria?\n\nOne name, please."
    assert sample.messages == (("user", prompt),)
    assert 120 <= words(sample.context) < 140
    assert ("year 1" in sample.context) != ("year 2" in sample.context)


def test_nolimas_samples_vary_by_number_and_seed_alone(tmp_path: Path) -> None:
    path = needle_file(tmp_path)
    first, again, other = opened(path), opened(path), opened(path, seed=1)

    made = [first.sample("nolima_onehop", 120, number) for number in range(2 * DEPTHS)]

    assert made == [again.sample("nolima_onehop", 120, number) for number in range(2 * DEPTHS)]
    assert made != [other.sample("nolima_onehop", 120, number) for number in range(2 * DEPTHS)]
    assert {sample.question for sample in made} == {"Who works in Brussels?", "Who works in Vienna?"}
    assert {sample.answers for sample in made} == {("Berit",), ("Osman",)}
    for question in ("Who works in Brussels?", "Who works in Vienna?"):
        depths = sorted(sample.depth for sample in made if sample.question == question)
        assert depths == pytest.approx([tenth / 10 for tenth in range(11)], abs=0.06)


def test_system_prompt_distractor_and_given_answers_are_kept(tmp_path: Path) -> None:
    dataset = opened(
        needle_file(
            tmp_path,
            system_prompt="Answer briefly.",
            needle="One sees {1} from the desk.",
            distractors={"onehop": "A card from {2} lay on the floor."},
            character_set=[],
            tests={
                "T1": {"input_args": ["the Atomium", "Brussels", "Belgium"], "gold_answers": ["A", "a desk"]}
            },
        )
    )

    one, two = (dataset.sample(task, 60, 0) for task in dataset.tasks)

    assert one.messages[0] == ("system", "Answer briefly.")
    assert "A card from Brussels lay on the floor." in one.context
    assert "A card" not in two.context
    assert one.answers == ("A",)


@pytest.mark.parametrize(
    "books", ["haystack/rand_shuffle", "needlesets/haystack", "needlesets/haystack/rand_shuffle"]
)
def test_books_are_found_beside_the_needles(tmp_path: Path, books: str) -> None:
    assert "on day" in opened(needle_file(tmp_path, books)).sample("nolima_onehop", 60, 0).context


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"questions": {}}, "holds no needle"),
        ({"tests": {"T1": {}}}, "no field 'input_args'"),
        ({"character_set": []}, "neither characters nor gold answers"),
        ({"tests": []}, "is no needle set"),
    ],
)
def test_what_a_needle_set_lacks_is_said(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        opened(needle_file(tmp_path, **changed))


def test_a_needle_set_without_books_says_where_they_are_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no books .*haystack/rand_shuffle"):
        opened(needle_file(tmp_path, books="elsewhere"))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"Too short.", "less than the 120 tokens"), (b"\xff", "cannot be read"), (b"", "less")],
)
def test_a_book_that_cannot_fill_the_contexts_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = needle_file(tmp_path)
    (tmp_path / "haystack/rand_shuffle/rand_book_2.txt").write_bytes(content)
    with pytest.raises(DatasetError, match=f"rand_book_2.txt .*{said}"):
        opened(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="neither"):
        opened(tmp_path / "samples.csv")
    for name in ("absent.json", "absent.jsonl"):
        with pytest.raises(DatasetError, match="absent"):
            opened(tmp_path / name)
