"""Documents in other scripts, and code: sentences, their tokens, terms and ranks."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from positional.qgpm import PACKAGE_DEFAULTS, NothingToModulate
from positional.relevance import rank
from positional.sources.lexical import LexicalSource
from positional.sources.terms import terms
from server.fields import QGPMFields
from server.limits import NO_LIMITS
from server.locate import Source
from server.preparation import Abilities, Preparation, prepare

JAPANESE = (
    "港町の灯台は百年前に建てられた。",
    "灯台守の健二は、鉄の鍵を三段目の下に隠した！",  # noqa: RUF001
    "「誰にも言うな。」",
    "と彼は言った。",
    "フェリーは七時に出る？",  # noqa: RUF001
    "翌朝、港は凍っていた。",
)
ARABIC = (
    "بُنيت منارة الميناء قبل مئة عام.",
    " أخفى حارس المنارة المفتاحَ الحديديَّ تحت الدرجة الثالثة!",
    " هل تغادر العبّارة في السابعة؟",
    " نعم، كل يوم.",
    " تجمّد الميناء في يناير.",
)
CODE = (
    '"""Sends letters to the lighthouse.',
    ' It keeps a log of each."""\nLOG = open("letters.log")\n\n'
    "def open_gate(gateKey, max_retries=3):\n    # Try the iron key first.",
    " If it fails, ask the keeper.",
    "\n    for attempt in range(max_retries):\n        gateKey.turn()\n\n"
    "class FerryTimetable:\n    def departureTime(self, day):\n        return self.times[day]",
)
DOCUMENTS = {"Japanese": JAPANESE, "Arabic": ARABIC, "code": CODE}
ASKED = {
    "Japanese": ("質問: 誰が鉄の鍵を隠しましたか？", 1),  # noqa: RUF001
    "Arabic": ("من أخفى مفتاح المنارة؟", 1),
    "code": ("Where does ferry_timetable compute the departure_time?", 3),
}


@pytest.fixture(scope="module")
def tokenizer(default_model_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(default_model_path)


def _prepared(tokenizer: Any, document: str, question: str) -> Preparation:
    text = f"{document}\n\n{question}"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    prompt = {"type": "token", "prompt_token_ids": ids, "prompt": text}
    abilities = Abilities(True, None, False, ablations=False, limits=NO_LIMITS)
    fields = QGPMFields.parse({"relevance": "lexical"}, PACKAGE_DEFAULTS)
    found = prepare(prompt, fields, Source(), abilities, tokenizer)
    assert isinstance(found, Preparation)
    return found


@pytest.mark.parametrize("language", DOCUMENTS)
def test_sentences_and_the_question_are_found(tokenizer: Any, language: str) -> None:
    question, _ = ASKED[language]
    asked = _prepared(tokenizer, "".join(DOCUMENTS[language]), question).asked()
    assert [text.rstrip("\n") for text in asked.sentences] == list(DOCUMENTS[language])
    assert asked.question == question


@pytest.mark.parametrize("language", DOCUMENTS)
def test_tokens_belong_to_the_sentence_of_their_first_character(tokenizer: Any, language: str) -> None:
    found = _prepared(tokenizer, "".join(DOCUMENTS[language]), ASKED[language][0])
    prompt, sentences = found.prompt, found.located.sentences
    assert [s.start for s in sentences[1:]] == [s.end for s in sentences[:-1]]
    for sentence in sentences:
        starts = [prompt.starts[token] for token in range(sentence.start, sentence.end)]
        assert all(sentence.start_char <= start < sentence.end_char for start in starts)
    # A character's pieces are in one sentence, so that each is decoded whole.
    for sentence, text in zip(sentences, DOCUMENTS[language], strict=True):
        decoded = tokenizer.decode(prompt.token_ids[sentence.start : sentence.end])
        assert "\ufffd" not in decoded
        assert text[1:-1] in decoded


@pytest.mark.parametrize("language", DOCUMENTS)
async def test_the_sentence_that_answers_comes_first(tokenizer: Any, language: str) -> None:
    question, best = ASKED[language]
    found = _prepared(tokenizer, "".join(DOCUMENTS[language]), question)
    reading = await LexicalSource().read(found.asked())
    assert rank(reading.z).tolist()[best] == 0


def test_terms_are_those_of_the_script() -> None:
    japanese, arabic, code = terms([JAPANESE[3], ARABIC[4], CODE[3]])
    assert japanese == ["と彼", "彼は", "は言", "言っ", "った"]
    assert arabic == terms(["تجمد"])[0] + terms(["ميناء في يناير"])[0]
    assert {"ferrytimet", "ferri", "timet", "departuretim", "departur", "max_retries", "retri"} <= {*code}


def test_code_without_a_full_stop_stays_plain_and_says_why(tokenizer: Any) -> None:
    code = "def turn(key):\n    return key.turn()\n\nclass Gate:\n    opened = False"
    found = _prepared(tokenizer, code, "What does turn return?")
    assert len(found.located.sentences) == 1
    with pytest.raises(NothingToModulate, match="too_few_sentences"):
        found.modulation(LexicalSource().read_here(found.asked()).z)
