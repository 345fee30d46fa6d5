"""A command line that contradicts Ropeway is refused by name before anything starts."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import cache.pin
from cache.head_profile import Calibration, Head, HeadProfile
from cache.pin import VersionMismatchError, check_vllm_version
from positional.qgpm import PACKAGE_DEFAULTS
from server.flags import DRAIN_SECONDS, parser
from tests.support.checkpoints import make

ROOT = Path(__file__).resolve().parents[2]

REFUSED: dict[str, list[str]] = {
    "--worker-cls": ["--worker-cls", "my.Worker"],
    "--scheduler-cls": ["--scheduler-cls", "my.Scheduler"],
    "--speculative-config": ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'],
    "--kv-transfer-config": ["--kv-transfer-config", '{"kv_connector": "X", "kv_role": "kv_both"}'],
    "--kv-offloading-size": ["--kv-offloading-size", "1"],
    "--kv-events-config": ["--kv-events-config", '{"enable_kv_cache_events": true}'],
    "--pipeline-parallel-size": ["--pipeline-parallel-size", "2"],
    "--data-parallel-size": ["--data-parallel-size", "2"],
    "--decode-context-parallel-size": ["--decode-context-parallel-size", "2"],
    "--api-server-count": ["--api-server-count", "2"],
    "--nnodes": ["--nnodes", "2", "--tensor-parallel-size", "2"],
    "--headless": ["--headless"],
    "--memo-bytes": ["--memo-bytes", "-1"],
    "--ready-stall-seconds": ["--ready-stall-seconds", "0"],
    "--additional-config": ["--additional-config", '{"ropeway": {}}'],
}

# What a model's own configuration shows to be impossible: refused after the command line was read.
UNFIT: dict[str, list[str]] = {
    "--rope-policy": ["--rope-policy", "auto"],
    "--rope-scaling": ["--rope-policy", "auto", "--rope-scaling", '{"rope_type": "yarn"}'],
    "--max-model-len": ["--rope-scaling", '{"rope_type": "yarn", "factor": 2.0}', "--max-model-len", "16385"],
    "--hf-overrides": ["--hf-overrides", '{"rope_theta": 500000.0}'],
}

# One process for all: importing vLLM takes longer than everything else here.
CHILD = """
import contextlib, io, json, sys
from server.serve import run
answers = []
for arguments in json.load(sys.stdin):
    caught = io.StringIO()
    with contextlib.redirect_stderr(caught):
        status = run(sys.argv[1], arguments)
    answers.append([status, caught.getvalue()])
print("\\n" + json.dumps(answers))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("flags"), layers=1)


@pytest.fixture(scope="module")
def foreign_profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The head profile of another model."""
    profile = HeadProfile(
        format=4,
        model="elsewhere",
        fingerprint="0" * 64,
        heads=(Head(0, 0, 0.5),),
        query_tail=4,
        defaults=PACKAGE_DEFAULTS,
        calibration=Calibration(1, 0, (100,), "none", "float32", 0.5),
        tuning=None,
        relevance=None,
        guard=None,
    )
    path = tmp_path_factory.mktemp("profiles") / "foreign.json"
    profile.save(path)
    return path


def test_refused_flags_are_named_with_a_reason(
    model: Path, foreign_profile: Path, tmp_path: Path, free_port: int
) -> None:
    unfit = [["--port", str(free_port), *arguments] for arguments in UNFIT.values()]
    missing = tmp_path / "missing.json"
    profiles = [["--head-profile", str(path)] for path in (foreign_profile, missing)]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(model)],
        input=json.dumps([*REFUSED.values(), *unfit, *profiles]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    *answers, foreign, absent = json.loads(child.stdout.splitlines()[-1])
    for flag, (status, message) in zip([*REFUSED, *UNFIT], answers, strict=True):
        assert status == 2
        assert message.splitlines()[-1].startswith(f"ropeway serve: {flag}: ")
    assert foreign[0] == absent[0] == 2
    assert str(foreign_profile) in foreign[1]
    assert "elsewhere" in foreign[1]
    assert "ropeway calibrate" in foreign[1]
    assert str(missing) in absent[1]


@pytest.mark.parametrize("found", ["0.31.0", "0.32.1", "0.33.0+cpu", None])
def test_another_vllm_is_refused_by_its_version(found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        if found is None:
            raise PackageNotFoundError
        return found

    monkeypatch.setattr(cache.pin, "version", version)
    with pytest.raises(VersionMismatchError, match=r"needs vLLM 0\.32\.0") as refused:
        check_vllm_version()
    assert (found or "none").partition("+")[0] in str(refused.value)


@pytest.mark.parametrize("text", ["{", "[1]", "yarn", "2"])
def test_a_scaling_that_is_no_json_object_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["model", "--rope-scaling", text])
    assert "--rope-scaling" in capsys.readouterr().err


def test_a_scaling_is_read_as_json() -> None:
    for arguments in (["--rope-scaling", '{"factor": 4}'], ["--rope-scaling.factor", "4"]):
        assert parser().parse_args(["model", *arguments]).rope_scaling == {"factor": 4}


def test_running_requests_get_time_to_finish_unless_the_command_line_says_otherwise() -> None:
    assert parser().parse_args(["model"]).shutdown_timeout == DRAIN_SECONDS
    assert parser().parse_args(["model", "--shutdown-timeout", "0"]).shutdown_timeout == 0


def test_a_local_build_of_the_right_vllm_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.pin, "version", lambda _: "0.32.0+cpu")
    check_vllm_version()
