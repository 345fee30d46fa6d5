import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = Path(sys.executable).with_name("docker-compose")
FILES = (DEPLOY / "compose.yaml",)
ON_GPUS = (*FILES, DEPLOY / "compose.cuda.yaml")
PASSWORD = {"GRAFANA_PASSWORD": "only-here"}


def ask(files: tuple[Path, ...], **environment: str) -> subprocess.CompletedProcess[str]:
    named = [argument for file in files for argument in ("-f", str(file))]
    return subprocess.run(
        [COMPOSE, *named, "config", "--format", "json"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )


def services(files: tuple[Path, ...], **environment: str) -> dict[str, Any]:
    result = ask(files, **PASSWORD, **environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["services"]


@pytest.mark.parametrize("files", [FILES, ON_GPUS], ids=["cpu", "cuda"])
def test_compose_reads_the_files_without_a_warning(files: tuple[Path, ...]) -> None:
    result = ask(files, **PASSWORD)
    assert (result.returncode, result.stderr) == (0, "")


def test_compose_refuses_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILES[0].read_text().replace("shm_size:", "shm-size:"))
    assert "shm-size" in ask((wrong,), **PASSWORD).stderr


def test_grafana_does_not_start_with_a_password_that_everybody_knows() -> None:
    result = ask(FILES)
    assert result.returncode != 0
    assert "set GRAFANA_PASSWORD" in result.stderr


def test_keys_come_from_the_environment() -> None:
    server = services(FILES, VLLM_API_KEY="for clients", ROPEWAY_ADMIN_KEY="for admins")["ropeway"]
    assert server["environment"] == {"VLLM_API_KEY": "for clients", "ROPEWAY_ADMIN_KEY": "for admins"}


def test_every_service_is_pinned_and_reached_from_this_machine_alone() -> None:
    for name, service in services(FILES).items():
        assert ":" in service["image"], name
        assert not service["image"].endswith(":latest"), name
        assert all(port["host_ip"] == "127.0.0.1" for port in service["ports"]), name


def test_every_service_runs_without_capabilities() -> None:
    for name, service in services(FILES).items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_every_file_that_is_mounted_is_there() -> None:
    volumes = [volume for service in services(FILES).values() for volume in service["volumes"]]
    mounted = [Path(volume["source"]) for volume in volumes if volume["type"] == "bind"]
    assert mounted
    assert [path for path in mounted if not path.exists()] == []


def test_on_gpus_another_image_is_built_and_gpus_are_reserved() -> None:
    server = services(ON_GPUS)["ropeway"]
    assert server["image"].endswith("-cuda")
    assert server["build"]["args"] == {"EXTRA": "cuda"}
    (device,) = server["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
