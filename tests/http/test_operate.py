"""The metrics that docs/operate.md describes are those of a live server."""

import re

from prometheus_client.parser import text_string_to_metric_families

from server.child import Server
from tests.http.servers import post
from tests.support.operate import OPERATE, rows

pytest_plugins = ("tests.http.fixtures",)


def test_every_metric_is_described_with_its_kind_and_labels(server: Server) -> None:
    assert post(server, "/v1/completions", prompt="One token.", max_tokens=1).status_code == 200
    shown = {}
    for family in text_string_to_metric_families(server.get("/metrics").text):
        if family.name.startswith("ropeway_") and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            shown[name] = (family.type, labels)
    described = {
        name.strip("`"): (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in rows("Metrics")
    }
    assert described == shown


def test_every_metric_of_vllm_that_is_named_is_there(server: Server) -> None:
    named = set(re.findall(r"`(vllm:\w+)", OPERATE.read_text()))
    text = server.get("/metrics").text
    assert named
    assert {name for name in named if not re.search(rf"^{name}[{{ ]", text, re.MULTILINE)} == set()
