"""The layer plan as text."""

import re
from typing import Any

from server.plan_table import table


def layer(number: int, **fields: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "layer": number,
        "span": "full",
        "chunked": False,
        "rotary": True,
        "rotary_dim": 32,
        "map": "standard",
        "profile": "a",
        "query_scale": None,
        "learned": None,
        "bias": None,
        "cache": {"rule": "fixed", "relative": "exact", "cached": "the key", "extra_dimensions": 0},
        "bytes_per_token": 1024,
    }
    return told | fields


NOPE = {"rotary": False, "rotary_dim": 0, "profile": None}
PLAN: dict[str, Any] = {
    "model": "a/model",
    "layers": [
        layer(0, span=256),
        layer(1, span=64, chunked=True),
        layer(2, map="sharp", profile="b", rotary_dim=8),
        layer(
            3,
            **NOPE,
            query_scale={"floor": 32.0, "strength": 0.3, "first": 1},
            cache={"rule": "fixed", "relative": "no", "extra_dimensions": 0},
        ),
        layer(4, learned="basis", cache={"rule": "grows", "relative": "exact", "extra_dimensions": 0}),
        layer(
            5,
            learned="plane",
            profile=None,
            bias="forget",
            cache={"rule": "fixed", "relative": "phase", "extra_dimensions": 3},
        ),
    ],
    "profiles": {
        "a": {"base": 10_000.0, "pairing": "half", "rope_type": "default"},
        "b": {"base": 1e6, "pairing": "interleaved", "rope_type": "yarn", "factor": 4.0},
    },
    "identity": ["tokens", "rope", "qgpm"],
    "cache": {
        "bytes_total": 1 << 30,
        "bytes_per_token": 4096,
        "lengths": [
            {"tokens": 1024, "bytes": 4_194_304, "bytes_without_windows": 4_194_304, "requests": 255},
            {"tokens": 8000, "bytes": 9_830_400, "bytes_without_windows": 32_768_000, "requests": 109},
        ],
    },
}


def cells(line: str) -> list[str]:
    return re.split(" {2,}", line)


def test_a_plan_has_a_line_for_every_layer_and_every_length() -> None:
    first, _, *layers, _, blocks, cache, _, header, short, long = table(PLAN).splitlines()
    assert first == "a/model: 6 layers, 4,096 bytes of cache a token"
    assert [" | ".join(cells(line)) for line in layers] == [
        "layer | span | rotary | rule | bias | map | query scale | cached key | relative | bytes/token",
        "0 | 256 | 32, half | base 10,000 | - | standard | - | fixed | exact | 1,024",
        "1 | chunks of 64 | 32, half | base 10,000 | - | standard | - | fixed | exact | 1,024",
        "2 | full | 8, interleaved | base 1,000,000, yarn x 4 | - | sharp | - | fixed | exact | 1,024",
        "3 | full | - | - | - | standard | 1 + 0.3 ln(1 + ⌊(p + 1) / 32⌋) | fixed | no | 1,024",
        "4 | full | 32, half, learned basis | base 10,000 | - | standard | - | grows | exact | 1,024",
        "5 | full | learned plane | - | forget | standard | - | fixed, 3 numbers more | phase | 1,024",
    ]
    assert blocks == "a block is shared by requests of the same tokens up to its end, rope and qgpm"
    assert cache == "cache of 1,073,741,824 bytes; a request while it decodes:"
    assert cells(header) == ["tokens", "bytes a request", "without windows", "requests at once"]
    assert cells(short) == ["1,024", "4,194,304", "100% of 4,194,304", "255"]
    assert cells(long) == ["8,000", "9,830,400", "30% of 32,768,000", "109"]


def test_columns_stand_below_each_other() -> None:
    _, _, header, *layers = table(PLAN).splitlines()[:9]
    begin = header.index("map")
    assert [line[begin:].split()[0] for line in layers] == ["standard"] * 2 + ["sharp"] + ["standard"] * 3


def test_blocks_that_no_field_of_a_request_moves_are_told_apart_by_tokens_alone() -> None:
    told = table(PLAN | {"identity": ["tokens"]})
    assert "requests of the same tokens up to its end\n" in told
