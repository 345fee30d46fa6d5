import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy import dockerfile

UNIT = dockerfile.ROOT / "deploy" / "systemd" / "ropeway.service"
ENVIRONMENT = UNIT.with_name("ropeway.env")
COMMAND = "/opt/ropeway/bin/ropeway"


def settings() -> dict[str, list[str]]:
    """What the unit sets, every value by its name."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_it_starts_what_the_image_starts() -> None:
    (start,) = settings()["ExecStart"]
    assert start == f"{COMMAND} serve $ROPEWAY_ARGS"
    entry = dockerfile.command()[:2]
    assert Path(start.split()[0]).name == entry[0]
    assert start.split()[1] == entry[1]
    assert f"{Path(COMMAND).parents[1]}" in " ".join(dockerfile.of("COPY"))


def test_it_has_the_images_environment_with_a_cache_of_its_own() -> None:
    assigned = dict(pair.split("=", 1) for pair in settings()["Environment"][0].split())
    image = dockerfile.environment()
    del image["PATH"]
    assert assigned == {name: value.replace("/cache", "%C/ropeway") for name, value in image.items()}
    assert settings()["CacheDirectory"] == ["ropeway"]


def test_it_has_neither_a_key_nor_rights() -> None:
    named = settings()
    assert named["DynamicUser"] == ["yes"]
    assert named["CapabilityBoundingSet"] == [""]
    assert named["ProtectSystem"] == ["strict"]
    keys = [line for line in ENVIRONMENT.read_text().splitlines() if "KEY=" in line]
    assert keys == ["VLLM_API_KEY=", "ROPEWAY_ADMIN_KEY="]


@pytest.mark.long
def test_systemd_accepts_it_and_finds_it_hardened(tmp_path: Path) -> None:
    """Needs systemd-analyze, of the package systemd."""
    tool = shutil.which("systemd-analyze")
    assert tool is not None, "there is no systemd-analyze: install the package systemd"
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(COMMAND, sys.executable))
    verified = subprocess.run([tool, "verify", unit], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    # Of 100; an ordinary service has 96.
    security = [tool, "security", "--offline=true", "--threshold=25", unit]
    judged = subprocess.run(security, capture_output=True, text=True)
    assert judged.returncode == 0, judged.stdout
