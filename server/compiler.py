"""Whether this machine can compile what `torch.compile` generates."""

import os
import shutil
import sysconfig
from pathlib import Path


def can_compile(include: Path | None = None) -> tuple[bool, str]:
    """Whether a C++ compiler and the Python headers are here, and the sentence that says so.

    The compiler is `$CXX`, else `g++`, as for PyTorch; `include` stands for the interpreter's header folder.
    """
    name = os.environ.get("CXX") or "g++"
    compiler = shutil.which(name)
    if compiler is None:
        return False, f"there is no C++ compiler ({name})"
    headers = include or Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return False, f"there are no Python headers (Python.h in {headers})"
    return True, f"{compiler} and the Python headers in {headers} are here"
