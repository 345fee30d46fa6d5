"""Rules that fire when they should, and dashboards that Grafana reads as they are written."""

import json
import subprocess
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.support.monitoring import (
    CONFIG,
    DASHBOARDS,
    MONITORING,
    RULES,
    Query,
    asked,
    dashboard,
    missing,
    panel_queries,
    panels,
    records,
    rule_queries,
    rules,
    variable_queries,
)
from tests.support.prometheus import tools

RULE_TESTS = sorted(Path(__file__).with_name("monitoring").glob("*.yml"))
QUERIES = [*rule_queries(), *panel_queries(), *variable_queries()]
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}


@pytest.fixture(scope="module")
def promtool() -> str:
    found = tools()
    if found is None:
        pytest.skip("Prometheus is neither on PATH nor among this system's Debian packages")
    return str(found / "promtool")


def _passes(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_configuration_and_rules(promtool: str) -> None:
    _passes(promtool, "check", "config", CONFIG)
    _passes(promtool, "check", "rules", "--lint-fatal", *RULES)


@pytest.mark.parametrize("file", RULE_TESTS, ids=lambda file: file.stem)
def test_rules_record_and_alert_as_their_tests_say(promtool: str, file: Path) -> None:
    _passes(promtool, "test", "rules", file)


def test_every_rule_is_among_what_is_tested() -> None:
    tested = "\n".join(file.read_text() for file in RULE_TESTS)
    unasked = [
        name for name in records() if f"expr: {name}\n" not in tested and f"round({name}," not in tested
    ]
    silent = [name for name in ALERTS if f'{{alertname="{name}"' not in tested]
    assert unasked == []
    assert silent == ["RopewayStalled"]
    assert "alertname: RopewayStalled\n" in tested


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_the_matter_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert set(rule["annotations"]) == {"summary", "description", "action"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert "$labels.instance" in rule["annotations"]["summary"]
    assert not any(text.count("  ") for text in rule["annotations"].values())


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_a_query_is_promql_that_names_series(query: Query) -> None:
    assert all(wanted.name for wanted in asked(query))


def test_a_query_for_what_nobody_exposes_is_found_out() -> None:
    samples = {"ropeway_requests_total": [{"mode": "plain", "outcome": "success"}]}

    def faults(text: str) -> list[str | None]:
        return [missing(wanted, samples) for wanted in asked(Query("", text))]

    assert faults('sum by (mode, instance) (rate(ropeway_requests_total{outcome!="error"}[5m]))') == [None]
    assert faults("rate(ropeway_request_total[5m])") == ["there is no ropeway_request_total"]
    assert faults("sum by (model) (ropeway_requests_total)") == ["ropeway_requests_total has no ['model']"]
    assert faults('ropeway_requests_total{mode="qpgm"}') == [
        "no ropeway_requests_total has ['mode=\"qpgm\"']"
    ]
    assert faults("histogram_quantile(0.5, ropeway_requests_total)") == [
        "ropeway_requests_total has no ['le']"
    ]
    assert faults('instance:ropeway_memo:hit_ratio_5m{mode="qgpm"}') == [
        "instance:ropeway_memo:hit_ratio_5m has no ['mode']"
    ]


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_grafana_reads_a_dashboard_as_it_is_written(file: Path) -> None:
    register_default_plugins()
    written = dashboard(file)
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(written)))
    assert list(_lost(written, read)) == []


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_has_its_variables_and_described_panels(file: Path) -> None:
    content = dashboard(file)
    variables = [variable["name"] for variable in content["templating"]["list"]]
    assert variables[:3] == ["datasource", "model_name", "instance"]
    assert content["description"]
    assert len({panel["id"] for panel in content["panels"]}) == len(content["panels"])
    for panel in panels(file):
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert sources == [{"type": "prometheus", "uid": "${datasource}"}] * len(sources)
        for target in panel["targets"]:
            assert 'instance=~"$instance"' in target["expr"], panel["title"]
            assert ("vllm:" in target["expr"]) == ('model_name=~"$model_name"' in target["expr"]), panel[
                "title"
            ]


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_fill_their_rows_without_lying_on_each_other(file: Path) -> None:
    places = [panel["gridPos"] for panel in dashboard(file)["panels"]]
    for one, two in combinations(places, 2):
        beside = one["x"] + one["w"] <= two["x"] or two["x"] + two["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= two["y"] or two["y"] + two["h"] <= one["y"]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert all(first["y"] <= second["y"] for first, second in pairwise(places))


def test_grafana_is_provisioned_with_the_dashboards_and_their_data() -> None:
    provisioning = MONITORING / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    interval = yaml.safe_load(CONFIG.read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "ropeway.yml").read_text())["providers"]
    assert provider["type"] == "file"
    assert len({dashboard(file)["uid"] for file in DASHBOARDS}) == len(DASHBOARDS) == 3


def _lost(written: Any, read: Any, place: str = "") -> list[str]:
    """Where a value that was written is not what was read."""
    if isinstance(written, dict) and isinstance(read, dict):
        pairs = [(f"{place}.{name}", value, read.get(name)) for name, value in written.items()]
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        pairs = [(f"{place}[{i}]", *both) for i, both in enumerate(zip(written, read, strict=True))]
    else:
        return [] if written == read else [place]
    return [lost for name, value, found in pairs for lost in _lost(value, found, name)]
