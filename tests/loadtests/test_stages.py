import httpx
import pytest

from loadtests.stages import STAGES, profile, split, stage_seconds

RECORDED = {
    "locate": 0.01,
    "score": 1.0,
    "collect": 0.02,
    "maps": 0.003,
    "answer": 1.2,
    "first_token": 2.22,
    "total": 3.0,
}


def test_stages_follow_each_other_and_make_up_what_the_caller_waited_for() -> None:
    stages = split(RECORDED, ttft=2.25)
    assert tuple(stages) == STAGES
    assert stages["score"] == pytest.approx(0.98)  # a record counts collecting into the score pass
    assert stages["other"] == pytest.approx(2.25 - 0.01 - 1.0 - 0.003 - 1.2)
    assert sum(stages.values()) == pytest.approx(2.25)


def test_a_request_without_a_score_pass_spent_no_time_in_it() -> None:
    stages = split(
        {"locate": 0.01, "maps": 0.01, "answer": 1.0, "first_token": 1.03, "total": 2.0}, ttft=1.05
    )
    assert (stages["score"], stages["collect"]) == (0.0, 0.0)
    assert stages["other"] == pytest.approx(0.03)


def test_a_profile_is_the_mean_over_requests_with_shares_of_their_time() -> None:
    first, second = split(RECORDED, ttft=2.25), split({**RECORDED, "answer": 2.2}, ttft=3.25)
    stages = {stage.stage: stage for stage in profile(2000, [first, second])}
    assert tuple(stages) == STAGES
    assert stages["answer"].seconds == pytest.approx(1.7)
    assert stages["answer"].share == pytest.approx(1.7 / 2.75)
    assert sum(stage.share for stage in stages.values()) == pytest.approx(1)
    assert {(stage.tokens, stage.count) for stage in stages.values()} == {(2000, 2)}


async def test_stages_are_read_from_the_record_of_the_request() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        known = request.url.path == "/v1/requests/cmpl-7"
        return httpx.Response(200, json={"seconds": RECORDED}) if known else httpx.Response(404)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        assert await stage_seconds(client, "http://server", "cmpl-7", 2.25) == split(RECORDED, 2.25)
        with pytest.raises(httpx.HTTPStatusError):
            await stage_seconds(client, "http://server", "cmpl-8", 2.25)
