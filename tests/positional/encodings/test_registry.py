"""What every encoding promises by its contract, of all that are registered."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import positional.encodings
from positional.encodings.contract import Encoding
from positional.encodings.registry import LENGTH, WIDTH, Entry, encodings

ENTRIES = encodings()
EVERY = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def content(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, WIDTH, dtype=torch.float64, generator=generator)
    return query, key


def scores(entry: Entry, seed: int, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return entry.example.score(*content(seed), queries, keys)


def test_every_encoding_of_the_package_is_registered() -> None:
    classes = {
        kind
        for module in pkgutil.iter_modules(positional.encodings.__path__, "positional.encodings.")
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if hasattr(kind, "contract") and hasattr(kind, "score") and kind is not Encoding
    }
    assert classes == {type(entry.example) for entry in ENTRIES}


def test_names_are_unique_and_fit_addresses() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name == name.lower() for name in names)


@EVERY
def test_a_score_has_the_shape_of_its_positions(entry: Entry) -> None:
    queries, keys = torch.arange(8, 12)[:, None], torch.arange(8)[None, :]
    assert scores(entry, 0, queries, keys).shape == (4, 8)
    assert scores(entry, 0, queries, keys).isfinite().all()
    one = scores(entry, 0, torch.tensor(10), torch.tensor(3))
    assert one.item() == pytest.approx(scores(entry, 0, queries, keys)[2, 3].item(), abs=1e-9)


@EVERY
@settings(max_examples=25)
@given(
    seed=st.integers(0, 99),
    distance=st.integers(0, LENGTH // 2),
    key=st.integers(0, LENGTH // 4),
    shift=st.integers(0, LENGTH // 4),
)
def test_what_says_that_it_is_relative_keeps_a_pairs_score_when_both_move(
    entry: Entry, seed: int, distance: int, key: int, shift: int
) -> None:
    if entry.example.contract.relative == "exact":
        keys = torch.tensor([key, key + shift])
        here, there = scores(entry, seed, keys + distance, keys).tolist()
        assert here == pytest.approx(there, abs=1e-7)


@EVERY
def test_what_says_that_it_is_not_does_not(entry: Entry) -> None:
    if entry.example.contract.relative != "exact":
        # Beyond every window, and no multiple of a group.
        distance = 201
        keys = torch.arange(LENGTH - distance)
        assert scores(entry, 0, keys + distance, keys).std() > 1e-3


@EVERY
def test_a_servable_encoding_holds_a_key_for_later_queries(entry: Entry) -> None:
    contract = entry.example.contract
    assert contract.servable <= (contract.cache_rule != "end_point")
    assert contract.needs
    assert contract.cached
    assert contract.why


def test_bytes_follow_from_what_a_key_holds() -> None:
    bytes_by_name = {entry.name: entry.bytes_per_token for entry in ENTRIES}
    assert bytes_by_name["rope"] == bytes_by_name["alibi"] == 2 * (WIDTH + WIDTH)
    assert bytes_by_name["grape_additive"] == 2 * (WIDTH + 1 + WIDTH)
    assert bytes_by_name["rope_decoupled"] == 2 * (512 + 32)
    assert bytes_by_name["retention"] == 0
