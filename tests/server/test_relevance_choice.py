"""The flag that names sources of relevance."""

from argparse import ArgumentTypeError
from dataclasses import replace

import pytest

from cache import head_profile
from positional.sources.fusion import Choice, equal
from server.embeddings import Embeddings
from server.flags import FlagError, parser
from server.relevance_choice import choice_of_flag, default_choice


def test_the_flag_names_sources_with_weights() -> None:
    assert choice_of_flag("lexical") == Choice((("lexical", 1.0),))
    assert choice_of_flag("heads=2, lexical") == Choice((("heads", 2.0), ("lexical", 1.0)))


@pytest.mark.parametrize(
    "text", ["", "head", "heads=", "heads=x", "heads=0", "heads,heads", "heads=inf", "caller"]
)
def test_what_names_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        choice_of_flag(text)


def test_the_command_line_names_the_default_else_the_head_profile_else_it_is_the_heads() -> None:
    args = parser().parse_args([])
    assert (args.qgpm_relevance, args.qgpm_fusion) == (None, "sum")
    profile = replace(head_profile.shipped()[0], relevance=None)
    tuned = replace(profile, relevance={"heads": 1.0, "lexical": 2.0})
    assert default_choice(None, None) == default_choice(None, profile) == equal("heads")
    assert default_choice(None, tuned) == Choice((("heads", 1.0), ("lexical", 2.0)))
    assert default_choice(equal("lexical"), tuned) == equal("lexical")
    assert Embeddings.of(args) is None


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        (["--qgpm-relevance", "heads,embedding"], "--qgpm-relevance"),
        (["--embedding-url", "http://127.0.0.1:1/v1"], "--embedding-url"),
        (["--embedding-url", "127.0.0.1:1/v1", "--embedding-model", "small"], "--embedding-url"),
        (["--embedding-model", "small"], "--embedding-model"),
    ],
)
def test_embeddings_that_come_from_nowhere_are_refused(flags: list[str], flag: str) -> None:
    with pytest.raises(FlagError) as found:
        Embeddings.of(parser().parse_args(flags))
    assert found.value.flag == flag


def test_an_endpoint_is_asked_only_with_a_request() -> None:
    args = parser().parse_args(
        ["--embedding-url", "http://127.0.0.1:1/v1", "--embedding-model", "small", "--embedding-bytes", "1k"]
    )
    found = Embeddings.of(args)
    assert found is not None
    assert found.known.limit == 1000
