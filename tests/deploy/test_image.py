import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.deploy import dockerfile

HADOLINT = Path(sys.executable).with_name("hadolint")
CONFIG = dockerfile.DOCKERFILE.with_name("hadolint.yaml")
IGNORED = dockerfile.DOCKERFILE.with_name("Dockerfile.dockerignore")


def lint(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, "--config", CONFIG, file], capture_output=True, text=True)


def test_hadolint_finds_nothing() -> None:
    result = lint(dockerfile.DOCKERFILE)
    assert result.returncode == 0, result.stdout


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    worse = tmp_path / "Dockerfile"
    worse.write_text(dockerfile.DOCKERFILE.read_text().replace("--no-install-recommends", ""))
    assert lint(worse).returncode == 1


def test_every_base_is_pinned_to_a_release() -> None:
    bases = [base.split()[0] for base in dockerfile.of("FROM") if "$" not in base]
    assert bases
    for base in bases:
        assert re.search(r":\d+\.\d+\.\d+-", base), base


def test_the_server_runs_as_a_user_without_rights() -> None:
    (user,) = dockerfile.of("USER")
    # A number, so that Kubernetes can tell that it is not root.
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    names = [name for name, _ in dockerfile.instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_the_image_holds_no_secret() -> None:
    set_anywhere = " ".join(dockerfile.of("ENV") + dockerfile.of("ARG"))
    assert not re.search(r"key|token|password|secret", set_anywhere, re.IGNORECASE)


def test_what_is_written_goes_to_the_volume() -> None:
    variables = dockerfile.environment()
    assert dockerfile.of("VOLUME") == ["/cache"]
    assert (variables["HOME"], variables["XDG_CACHE_HOME"]) == ("/cache", "/cache")


def test_the_health_check_asks_the_port_that_is_served() -> None:
    (check,) = dockerfile.of("HEALTHCHECK")
    assert "http://127.0.0.1:8000/ready" in check
    assert dockerfile.of("EXPOSE") == ["8000"]


def test_the_build_gets_every_package_and_little_else() -> None:
    with (dockerfile.ROOT / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {name for name in found if "." not in name}
    assert packages <= set(dockerfile.sources())
    let_through = {line[1:] for line in IGNORED.read_text().splitlines() if line.startswith("!")}
    assert let_through == set(dockerfile.sources())
