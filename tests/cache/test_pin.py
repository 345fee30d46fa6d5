from importlib.metadata import PackageNotFoundError

import pytest

from cache import pin
from cache.pin import REQUIRED_VLLM, VersionMismatchError, check_vllm_version, installed_vllm


def test_the_installed_vllm_is_the_pinned_one() -> None:
    assert installed_vllm() == REQUIRED_VLLM
    check_vllm_version()


def test_another_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin, "version", lambda distribution: "0.31.2")
    with pytest.raises(VersionMismatchError, match=r"needs vLLM 0\.32\.0, but 0\.31\.2") as caught:
        check_vllm_version()
    assert caught.value.found == "0.31.2"


def test_the_local_part_of_a_version_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin, "version", lambda distribution: f"{REQUIRED_VLLM}+cpu")
    check_vllm_version()


def test_no_vllm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(distribution: str) -> str:
        raise PackageNotFoundError(distribution)

    monkeypatch.setattr(pin, "version", missing)
    with pytest.raises(VersionMismatchError, match="none is installed"):
        check_vllm_version()
