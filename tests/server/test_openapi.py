"""What `/openapi.json` tells of our fields and routes is what the server takes and answers."""

from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from prometheus_client import CollectorRegistry
from transformers import LlamaConfig
from vllm.entrypoints.launchers.app import build_app

from positional.qgpm import PACKAGE_DEFAULTS
from positional.rule import ModelRope
from server.drain import Drain
from server.error_response import OwnRoute
from server.extension import extend
from server.fields import FieldError, QGPMFields
from server.flags import parser
from server.metrics import Metrics
from server.openapi import QGPM, ROPE
from server.rope_fields import RopeFields

QGPM_SCHEMA, ROPE_SCHEMA = Draft202012Validator(QGPM), Draft202012Validator(ROPE)
MODEL = ModelRope.from_config(
    LlamaConfig(
        head_dim=32,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
)
NUMBERS = st.sampled_from([-1, -0.5, 0, 1e-9, 0.5, 1, 1.5, 2, 3, 2**31 - 1, 2**31]) | st.floats(-9.9, 9.9)
VALUES = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "text", [], ["text"], {}, [1]])
PASSAGES = st.fixed_dictionaries({}, optional={"text": VALUES, "score": VALUES, "weight": VALUES}) | VALUES
SOURCE_NAMES = st.sampled_from(["heads", "lexical", "embedding", "caller", "fused"])
RELEVANCE = (
    SOURCE_NAMES
    | st.lists(SOURCE_NAMES | VALUES, max_size=3)
    | st.dictionaries(SOURCE_NAMES, VALUES, max_size=3)
    | VALUES
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("question", "context", *PACKAGE_DEFAULTS.__dataclass_fields__), VALUES),
        "evidence": st.lists(PASSAGES, max_size=3) | VALUES,
        "relevance": RELEVANCE,
        "fusion": st.sampled_from(["sum", "rank", "product"]) | VALUES,
        "neighbours": st.integers(-1, 17) | VALUES,
        "adaptive_k": VALUES,
        "ablation": st.sampled_from(["no_prefix", "one_map", "keep_last", "keep_starts", "no_map"]) | VALUES,
        "unknown": VALUES,
    },
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "base": VALUES,
        "scaling": st.sampled_from([{"rope_type": "linear", "factor": 2}, {"rope_type": "no"}]) | VALUES,
        "policy": st.sampled_from(["auto", "other"]) | VALUES,
        "unknown": VALUES,
    },
)


BEYOND_A_SCHEMA = ("greater than k_sharp", "valid integer", "names caller", "leaves out caller")


@pytest.fixture(scope="module")
def app() -> FastAPI:
    args = parser().parse_args(["model"])
    made: FastAPI = build_app(args, ("generate",), None)
    extend(made, args, Metrics(CollectorRegistry()), Drain())
    return made


def _refusal(parse: Any) -> str | None:
    try:
        parse()
    except FieldError as error:
        return f"{error.parameter}: {error.message}"
    return None


@given(SETTINGS | VALUES)
def test_the_schema_of_qgpm_admits_what_the_server_takes(value: Any) -> None:
    refused = _refusal(lambda: QGPMFields.parse(value, PACKAGE_DEFAULTS))
    # A schema can't compare two numbers; and to it 2.0 is a whole one.
    beyond = refused is not None and any(told in refused for told in BEYOND_A_SCHEMA)
    if not beyond:
        assert QGPM_SCHEMA.is_valid(value) is (refused is None), refused


@given(RULES | VALUES)
def test_the_schema_of_rope_admits_what_the_server_takes(value: Any) -> None:
    refused = _refusal(
        lambda: RopeFields.parse(value, MODEL, MODEL.rule(scaling={"rope_type": "linear", "factor": 2}))
    )
    beyond = refused is not None and ("must hold one of" in refused or "beside base" in refused)
    if not beyond:
        assert ROPE_SCHEMA.is_valid(value) is (refused is None), refused


def test_our_fields_are_told_of_the_two_bodies_that_have_them(app: FastAPI) -> None:
    schemas = app.openapi()["components"]["schemas"]
    having = {name for name, schema in schemas.items() if "qgpm" in schema.get("properties", {})}
    assert having == {"ChatCompletionRequest", "CompletionRequest"}
    assert all(schemas[name]["properties"]["rope"] == ROPE for name in having)
    assert app.openapi() is app.openapi()


def test_every_route_of_ours_tells_what_it_answers(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    own = [route for route in app.routes if isinstance(route, OwnRoute)]
    assert own
    for route in own:
        for operation in paths[route.path_format].values():
            answers = operation["responses"]
            assert answers["200"]["content"]["application/json"]["schema"], route.path
            assert {"405", "503"} <= answers.keys()
            assert "422" not in answers
