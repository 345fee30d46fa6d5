"""What the image's Dockerfile says, as far as tests ask."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Every instruction and its arguments, continued lines joined, in order."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    pairs = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(name, arguments) for name, arguments in pairs]


def of(name: str) -> list[str]:
    """The arguments of every instruction of that name."""
    return [arguments for instruction, arguments in instructions() if instruction == name]


def command() -> list[str]:
    """What the image runs when nothing follows its name."""
    (entry,), (default,) = of("ENTRYPOINT"), of("CMD")
    return [*json.loads(entry), *json.loads(default)]


def environment() -> dict[str, str]:
    """The variables that the image sets, without what they refer to."""
    return dict(pair.split("=", 1) for pair in " ".join(of("ENV")).split())


def sources() -> list[str]:
    """What goes into the image's build from the repository."""
    copies = (arguments.split() for arguments in of("COPY") if not arguments.startswith("--from"))
    return [name for *names, _ in copies for name in names]
