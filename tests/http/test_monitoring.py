"""What deploy/monitoring asks for is what a server exposes, and Prometheus finds it there."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from server.child import Server
from tests.http.servers import PASSAGE, complete, post
from tests.support.monitoring import (
    CONFIG,
    DASHBOARDS,
    Query,
    asked,
    filled,
    missing,
    panel_queries,
    panels,
    rule_queries,
    variable_queries,
)
from tests.support.prometheus import tools

pytest_plugins = ("tests.http.fixtures",)

WINDOW = "30s"
_ROOT = Path(__file__).resolve().parents[2]


def test_queries_ask_for_metrics_labels_and_values_that_a_server_exposes(server: Server) -> None:
    samples: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(server.get("/metrics").text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    queries = [*rule_queries(), *panel_queries(), *variable_queries()]
    faults = {
        (query.place, fault)
        for query in queries
        for wanted in asked(query)
        if (fault := missing(wanted, samples)) is not None
    }
    assert faults == set()


@pytest.mark.long  # load for a minute, and a Prometheus beside it
def test_prometheus_has_data_for_every_query_while_load_runs(
    server: Server, free_port: int, tmp_path: Path
) -> None:
    if (folder := tools()) is None:
        pytest.skip("Prometheus is neither on PATH nor among this system's Debian packages")
    complete(server)  # so that every series has a value before the first scrape
    with _scraping(folder / "prometheus", server, free_port, tmp_path) as prometheus:
        _load(server)
        for _ in range(2):
            _ask_in_every_mode(server)
            time.sleep(7)  # two scrapes and two evaluations
        empty = [query for query in _all_queries() if not _values(prometheus, query.text)]
        assert empty == []
        groups = prometheus.get("/api/v1/rules").json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert [rule for rule in rules if rule["health"] != "ok"] == []
        assert [rule["name"] for rule in rules if rule.get("state") == "firing"] == []
        for file in DASHBOARDS:
            for panel in panels(file):
                for target in panel["targets"]:
                    _check_legend(prometheus, panel["title"], target)


def _all_queries() -> list[Query]:
    recorded = [query for query in rule_queries() if ":" in query.place]
    return [*recorded, *panel_queries(WINDOW), *variable_queries()]


def _check_legend(prometheus: httpx.Client, title: str, target: dict[str, Any]) -> None:
    """Every label that a legend shows is one of the result's."""
    wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    for result in _results(prometheus, filled(target["expr"], WINDOW)):
        assert wanted <= result["metric"].keys(), title


@contextmanager
def _scraping(program: Path, server: Server, port: int, folder: Path) -> Iterator[httpx.Client]:
    """Prometheus under our configuration, only faster, with one server as its target."""
    config = yaml.safe_load(CONFIG.read_text())
    # A busy engine leaves /metrics waiting for 2 s.
    config["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "3s")
    config["rule_files"] = [str(CONFIG.parent / pattern) for pattern in config["rule_files"]]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "targets").mkdir()
    target = [{"targets": [server.url.removeprefix("http://")]}]
    (folder / "targets" / "ropeway.yml").write_text(yaml.safe_dump(target))
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            _wait_for_target(client, process, folder / "log.txt")
            yield client
    finally:
        process.terminate()
        process.wait(30)


def _wait_for_target(prometheus: httpx.Client, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if _values(prometheus, 'up{job="ropeway"}') == [1]:
                return
        except (httpx.TransportError, httpx.HTTPStatusError):
            pass  # it is still starting
        time.sleep(0.5)
    raise AssertionError(f"Prometheus does not scrape:\n{log.read_text()[-3000:]}")


def _results(prometheus: httpx.Client, text: str) -> list[dict[str, Any]]:
    response = prometheus.post("/api/v1/query", data={"query": text}).raise_for_status()
    results: list[dict[str, Any]] = response.json()["data"]["result"]
    return results


def _values(prometheus: httpx.Client, text: str) -> list[float]:
    """The values of a query's series now, without those that are no number."""
    values = (float(result["value"][1]) for result in _results(prometheus, text))
    return [value for value in values if value == value]


def _load(server: Server) -> None:
    """What `make loadtest` runs, with few requests."""
    command = [sys.executable, "-m", "loadtests.load", "--url", server.url, "--arrival", "concurrency=2"]
    amount = ["--requests", "8", "--warm-up", "2", "--tokens", "600", "--max-tokens", "8", "--minutes", "5"]
    done = subprocess.run([*command, *amount], cwd=_ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def _ask_in_every_mode(server: Server) -> None:
    for qgpm in (False, True, True, {"evidence": [PASSAGE]}):
        complete(server, qgpm=qgpm, max_tokens=8)
    assert post(server, "/v1/completions", prompt="Hello.", qgpm={"k_sharp": 0}).status_code == 400
