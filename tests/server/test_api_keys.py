"""Whose API key a request came with."""

from argparse import Namespace

import pytest

from server.api_keys import ApiKeys

KEYS = ApiKeys.of(Namespace(api_key=["first-key", "zweiter Schlüssel"]))


def test_holders_of_different_keys_are_told_apart() -> None:
    first = KEYS.holder("Bearer first-key")
    assert first is not None
    assert first == KEYS.holder("bearer first-key")
    assert KEYS.holder("Bearer zweiter Schlüssel") not in (None, first)


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer other", "Basic first-key", "first-key", "Bearer first-key "],
)
def test_a_key_that_the_server_does_not_take_makes_no_holder(header: str | None) -> None:
    assert KEYS.holder(header) is None


def test_without_keys_nobody_holds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    assert ApiKeys.of(Namespace(api_key=None)).holder("Bearer anything") is None


def test_the_environment_s_key_counts_where_no_flag_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "of the environment")
    assert ApiKeys.of(Namespace(api_key=None)).holder("Bearer of the environment") is not None
    assert ApiKeys.of(Namespace(api_key=["k"])).holder("Bearer of the environment") is None


def test_nothing_prints_a_key() -> None:
    assert "first-key" not in repr(KEYS)
    assert KEYS.digests[0].hex() not in repr(KEYS)
