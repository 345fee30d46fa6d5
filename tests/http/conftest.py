"""One server per configuration, shared by the comparisons with the reference."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from cache.head_profile import find
from server.child import running_server
from tests.http.fidelity import HEADS, Model, Setup, Target
from tests.support.checkpoints import make
from tests.support.head_profiles import save_arbitrary
from tests.support.reference import Reference

Models = Callable[[str], Model]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Models:
    """Tiny checkpoints with a head profile in their folder, by architecture, and the default model."""
    known: dict[str, Model] = {}

    def load(name: str) -> Model:
        if name not in known:
            if name == "default":
                path: Path = request.getfixturevalue("default_model_path")
            else:
                path = make(name, tmp_path_factory.mktemp(name))  # type: ignore[arg-type]
                save_arbitrary(path, path.name, HEADS)
            profile = find(path, None)
            assert profile is not None
            known[name] = Model(path, AutoTokenizer.from_pretrained(path), profile.pairs, Reference(path))
        return known[name]

    return load


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest, models: Models) -> Iterator[Target]:
    """A server of ours under the `Setup` that the test is parametrised with."""
    setup: Setup = request.param
    model = models(setup.model)
    # By the heads and without the guard, which random models would not pass.
    paper = ["--qgpm-relevance", "heads", "--qgpm-guard", "0"]
    with running_server([str(model.path), *paper, *setup.flags]) as server:
        yield Target(server, model, setup)
