from pathlib import Path

import pytest

from server import command, start_defaults
from server.compiler import can_compile
from server.start_defaults import (
    compilation_arguments,
    config_file,
    default_model_arguments,
    named_flags,
    sharing_arguments,
)

DENSE = ["--prefix-cache-retention-interval", "None"]


def test_flags_are_recognised_in_every_spelling_that_vllm_takes() -> None:
    line = [
        "--max_model_len=9",
        "-O3",
        "-cc",
        "{}",
        "--compilation-config.mode",
        "3",
        "--host",
        "::1",
        "model",
    ]
    assert named_flags(line) == {"max-model-len", "O", "cc", "compilation-config", "host"}


def test_a_machine_without_a_compiler_or_without_headers_cannot_compile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert can_compile() == (False, "there is no C++ compiler (no-such-compiler)")
    monkeypatch.setenv("CXX", "sh")
    possible, reason = can_compile(include=tmp_path)
    assert not possible
    assert "Python.h" in reason
    (tmp_path / "Python.h").touch()
    assert can_compile(include=tmp_path)[0]


def test_without_a_compiler_the_engine_starts_eager_unless_the_user_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compilation_arguments(frozenset())[0] == ["--enforce-eager"]
    assert compilation_arguments(frozenset({"no-enforce-eager"}))[0] == []
    assert compilation_arguments(frozenset({"O"}))[0] == []


def test_the_default_model_is_local_and_small_unless_the_user_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    monkeypatch.setattr(start_defaults, "on_cpu", lambda: True)
    assert default_model_arguments(frozenset(), "tiny") == [
        "--host",
        "127.0.0.1",
        "--served-model-name",
        "tiny",
        "--kv-cache-memory-bytes",
        start_defaults.CPU_CACHE,
    ]
    own = frozenset({"host", "served-model-name", "gpu-memory-utilization"})
    assert default_model_arguments(own, "tiny") == []
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    assert default_model_arguments(own - {"gpu-memory-utilization"}, "tiny") == []


def test_windows_are_kept_densely_unless_the_user_decides() -> None:
    assert sharing_arguments(frozenset()) == DENSE
    assert sharing_arguments(frozenset({"prefix-cache-retention-interval"})) == []


def test_what_a_config_file_says_counts_as_said(tmp_path: Path) -> None:
    path = tmp_path / "vllm.yaml"
    path.write_text("model: some/model\nenforce_eager: true\n")
    assert config_file(["--config", str(path)]) == {"model": "some/model", "enforce-eager": True}
    model, arguments = command.complete(["--config", str(path)])
    assert (model, arguments) == ("some/model", ["--config", str(path), *DENSE])


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: ["])
def test_a_config_file_that_is_no_mapping_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vllm.yaml"
    path.write_text(content)
    with pytest.raises(command.CommandError, match="--config"):
        command.complete([f"--config={path}"])


@pytest.mark.parametrize(
    "line",
    [["a/model", "--port", "1"], ["--port", "1", "--model", "a/model"], ["--model=a/model", "--port", "1"]],
)
def test_a_named_model_is_served_with_the_users_flags(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.complete([*line, "--enforce-eager"]) == (
        "a/model",
        ["--port", "1", "--enforce-eager", *DENSE],
    )
    assert "as the command line says" in capsys.readouterr().err


def test_without_a_model_the_default_one_is_served(default_model_path: Path) -> None:
    model, arguments = command.complete(["--port", "1"])
    assert model == str(default_model_path)
    assert arguments[:2] == ["--port", "1"]
    assert "--served-model-name" in arguments


@pytest.mark.parametrize("subcommand", [[], ["model"], ["plan"], ["calibrate"], ["init-config"], ["ask"]])
def test_help_is_there_for_every_command(subcommand: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([*subcommand, "--help"])
    assert ended.value.code == 0
    assert "usage: ropeway" in capsys.readouterr().out
