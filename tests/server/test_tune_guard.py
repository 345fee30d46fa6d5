"""The guard's calibration, from rankings that are known to be right or wrong."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoTokenizer

from cache.extra_args import FORCE_TOKENS
from positional.guard import DEFAULT_DIAL, Guard, Signs
from positional.qgpm import PACKAGE_DEFAULTS
from positional.sources.fusion import Choice, equal
from server.likelihood import golds
from server.samples import KINDS, Sample, sample
from server.tune_clock import Clock
from server.tune_guard import FEWEST_BLOCKS, Judged, calibrated, find, judge
from server.tune_measure import Asked, messages
from server.tune_weights import Told
from tests.support import checkpoints

HEADS, WORDS = equal("heads"), equal("lexical")
SIGNS = Signs(0.5, 0.1, 1.0, 1.0, 0.0, 0.0, 0.0, 0.9, 1.0, 0.0, 0.0)


def _rankings(gain_of_wrong: float, kinds: tuple[str, ...] = KINDS) -> list[Judged]:
    """Right ones stand out, with some overlap, and gain; the wrong ones add what is given."""
    draw = random.Random(0)
    made = []
    for number in range(600):
        right = draw.random() < 0.5
        signs = replace(SIGNS, margin=draw.gauss(2.0 if right else 0.8, 0.4), prominence=draw.gauss(0.3, 0.2))
        gain = 0.3 if right else gain_of_wrong
        made.append(Judged(kinds[number % len(kinds)], signs, right, gain, WORDS, sample=number))
    return made


def _guard(rankings: list[Judged]) -> Guard:
    return calibrated(rankings, (WORDS,)).guard


def test_confidence_is_the_share_that_is_right() -> None:
    rankings = _rankings(-1.0)
    guard = _guard(rankings)
    surest = sorted(rankings, key=lambda one: guard.confidence(one.signs))
    for part in (surest[:200], surest[200:400], surest[400:]):
        told = sum(guard.confidence(one.signs) for one in part) / len(part)
        assert told == pytest.approx(sum(one.right for one in part) / len(part), abs=0.08)


def test_at_the_default_dial_no_kind_surely_loses_and_what_pays_is_kept() -> None:
    rankings = _rankings(-1.0)
    guard = _guard(rankings)
    kept = [one for one in rankings if guard.decide(guard.confidence(one.signs), DEFAULT_DIAL) == "full"]
    for kind in KINDS:
        assert fmean(one.gain or 0.0 for one in kept if one.kind == kind) > -0.2
    assert fmean(one.gain or 0.0 for one in kept) > fmean(one.gain or 0.0 for one in rankings)
    assert len(kept) > 0.25 * len(rankings)


def test_hardly_any_ranking_by_chance_modulates() -> None:
    known = _rankings(0.0)
    chance = [replace(one, gain=None, by_chance=True) for one in _rankings(0.0) if not one.right]
    guard = _guard([*known, *chance])
    decisions = [guard.decide(guard.confidence(one.signs), DEFAULT_DIAL) for one in chance]
    assert decisions.count("plain") >= 0.95 * len(chance)
    assert guard.level > _guard(known).level


def test_a_kind_that_surely_loses_raises_the_level() -> None:
    calm = _rankings(0.0)
    costly = [replace(one, gain=-2.0) if one.kind == "qa" and not one.right else one for one in calm]
    assert _guard(costly).level > _guard(calm).level


def test_a_loss_too_small_to_change_an_answer_does_not_close_the_guard() -> None:
    calm = _rankings(0.0)
    faint = [replace(one, gain=-0.02) if one.kind == "single" else one for one in calm]
    assert _guard(faint).level < 0.5


def test_where_nothing_was_asked_hardly_any_ranking_by_chance_modulates() -> None:
    chance = [replace(one, gain=None, by_chance=True) for one in _rankings(0.0)]
    guard = _guard(chance)
    decisions = [guard.decide(guard.confidence(one.signs), DEFAULT_DIAL) for one in chance]
    assert guard.level == 0.95 or decisions.count("plain") >= 0.95 * len(chance)


def test_of_the_levels_that_cost_no_kind_the_one_that_pays_most_is_taken() -> None:
    rankings = _rankings(-0.5)
    guard = _guard(rankings)

    def gained(level: float) -> float:
        sure = [guard.confidence(one.signs) >= level for one in rankings]
        return fmean((one.gain or 0.0) if kept else 0.0 for one, kept in zip(rankings, sure, strict=True))

    assert gained(guard.level) == pytest.approx(max(gained(0.05 * step) for step in range(1, 20)), abs=0.01)
    assert _guard(_rankings(-3.0)).level > guard.level


def test_where_even_right_rankings_cost_the_highest_level_is_asked_for() -> None:
    costly = [replace(one, gain=-1.0) for one in _rankings(-1.0)]
    assert _guard(costly).level == 0.95


@pytest.mark.parametrize(("blocks", "enough"), [(FEWEST_BLOCKS - 1, False), (FEWEST_BLOCKS, True)])
def test_a_guard_is_found_within_the_time_or_not_at_all(blocks: int, enough: bool) -> None:
    now = 0.0

    def told(number: int) -> list[Told]:
        nonlocal now
        now += 1.0
        return []

    def ranked(number: int, fusion: Choice) -> list[Judged]:
        nonlocal now
        now += 10.0
        return _rankings(0.0)[number * 50 : number * 50 + 50]

    end = 10.0 * blocks + 8
    found = find(told, ranked, Clock(end, lambda: now))
    assert (found is not None) is enough
    assert end - 11 < now <= end


def test_the_fusion_has_the_weights_that_rank_evidence_best() -> None:
    now = 0.0
    fusions = []
    z = torch.tensor([3.0, 0.0, -1.0, -2.0], dtype=torch.float64)
    misled = Told({"heads": z.flip(0), "lexical": 0.6 * z}, frozenset({0}))

    def told(number: int) -> list[Told]:
        nonlocal now
        now += 1.0
        return [misled]

    def ranked(number: int, fusion: Choice) -> list[Judged]:
        nonlocal now
        now += 10.0
        fusions.append(fusion)
        return _rankings(0.0)[number * 50 : number * 50 + 50]

    find(told, ranked, Clock(60.0, lambda: now))
    assert set(fusions) == {Choice((("heads", 1.0), ("lexical", 2.0)))}


def _ranked_by(choice: Choice, gains: Sequence[float], right: bool = True) -> list[Judged]:
    signs = replace(SIGNS, margin=3.0 if right else 0.0)
    return [Judged("qa", signs, right, gain, choice, sample=number) for number, gain in enumerate(gains)]


def test_what_costs_no_pass_is_the_default_unless_another_surely_gains_more() -> None:
    gains = [0.1, -0.1, 0.3, 0.2, 0.0, 0.1, -0.2, 0.4]
    draw = random.Random(0)
    words = _ranked_by(WORDS, gains)
    about_as_good = _ranked_by(HEADS, [gain + draw.gauss(0.02, 0.5) for gain in gains])
    better = _ranked_by(HEADS, [gain + 0.2 + draw.gauss(0, 0.05) for gain in gains])
    assert calibrated([*words, *about_as_good], (WORDS, HEADS)).relevance == WORDS
    assert calibrated([*words, *better], (WORDS, HEADS)).relevance == HEADS


def test_a_sample_that_a_source_does_not_rank_gains_nothing_by_it() -> None:
    heads = _ranked_by(HEADS, [0.2] * 30)
    # Twice as good, on the few samples that it ranks at all.
    words = _ranked_by(WORDS, [0.4] * 5)
    assert calibrated([*words, *heads], (WORDS, HEADS)).relevance == HEADS


def test_the_level_is_that_of_the_default_and_what_others_lose_below_it_does_not_count() -> None:
    words = [*_ranked_by(WORDS, [0.5] * 20), *_ranked_by(WORDS, [-0.01] * 20, right=False)]
    words = [replace(one, sample=number) for number, one in enumerate(words)]
    heads = [replace(one, choice=HEADS, gain=-9.0) for one in words]
    found = calibrated([*words, *heads], (WORDS, HEADS))
    assert found.relevance == WORDS
    assert found.guard.level < 0.95


class Server:
    """Ranks one sentence first, and answers with a log-probability by the field `qgpm`."""

    def __init__(self, one: Sample) -> None:
        texts = [f"Sentence {number} says nothing." for number in range(40)]
        self.sentences = [
            {"start": 9 * at, "end": 9 * at + 9, "rank": at, "z": 3.0 - at, "text": text}
            for at, text in enumerate([one.evidence[0], *texts])
        ]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/v1/qgpm/relevance":
            if list(body["qgpm"]["relevance"]) == ["lexical"]:
                return httpx.Response(200, json={"sentences": [], "reason": "equal_relevance"})
            signs = {name: getattr(SIGNS, name) for name in SIGNS.__dataclass_fields__}
            return httpx.Response(200, json={"sentences": self.sentences, "guard": {"signs": signs}})
        tokens = body["vllm_xargs"][FORCE_TOKENS]
        content = [{"logprob": -0.5} for _ in tokens]
        choice = {"token_ids": tokens, "logprobs": {"content": content}}
        return httpx.Response(200, json={"id": "1", "usage": {"prompt_tokens": 9}, "choices": [choice]})


async def test_a_ranking_is_right_where_all_evidence_is_kept_and_not_only_its_first(tmp_path: Any) -> None:
    checkpoints.make_tokenizer().save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    one = sample("tuning", "multi_value", 300, 0, 0, lambda text: len(text.split()))
    forced = golds(tokenizer, messages(one), one.lead_in, one.told)
    rights = []
    for last in (3, 20):
        server = Server(one)
        for at, place in enumerate((0, 1, 2, last)):
            server.sentences[place]["text"] = f" {one.evidence[at]}"
        client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        asked = Asked(client, "http://server", "tuned", tokenizer)
        found = await judge(asked, one, forced, -9.0, PACKAGE_DEFAULTS, (HEADS,), 0)
        rights.append(found[0].right)
    assert rights == [True, False]


async def test_a_sample_is_ranked_by_every_source_that_tells_sentences_apart_and_by_chance(
    tmp_path: Any,
) -> None:
    checkpoints.make_tokenizer().save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    one = sample("tuning", "single", 300, 0, 0, lambda text: len(text.split()))
    client = httpx.AsyncClient(transport=httpx.MockTransport(Server(one)))
    asked = Asked(client, "http://server", "tuned", tokenizer)
    forced = golds(tokenizer, messages(one), one.lead_in, one.told)
    choices = (HEADS, WORDS, equal("heads", "lexical"))
    found = await judge(asked, one, forced, -9.0, PACKAGE_DEFAULTS, choices, 7)
    assert {ranking.sample for ranking in found} == {7}
    told = [ranking for ranking in found if ranking.gain is not None]
    assert [ranking.choice for ranking in told] == [HEADS, equal("heads", "lexical")]
    assert [ranking.right for ranking in told] == [True, True]
    counted = sum(gold.counted for gold in forced) / len(forced)
    assert [ranking.gain for ranking in told] == pytest.approx([9.0 - 0.5 * counted] * len(told))
    chance = [ranking for ranking in found if ranking.gain is None]
    assert [ranking.by_chance for ranking in chance] == [True, True, False, False, False]
    spoke = [(one.signs.heads, one.signs.lexical, one.signs.embedding) for one in chance]
    assert spoke == [(1, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1)]
    # Words find the evidence, which shares more than one term with the question.
    assert all((one.signs.shared > 0) is (one.signs.lexical == 1) for one in chance)
