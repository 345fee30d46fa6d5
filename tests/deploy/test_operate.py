"""What docs/operate.md says of alerts and routers agrees with the files; its links lead somewhere."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support.operate import OPERATE, rows

ROOT = Path(__file__).parents[2]
ROUTING = ROOT / "deploy" / "routing"
HEADER = "X-Document-Id"


def test_every_alert_has_a_row_that_says_what_to_do() -> None:
    rules = yaml.safe_load((ROOT / "deploy/monitoring/prometheus/rules/alerts.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert {cells[2] for cells in rows("When something is wrong")} - {""} == alerts


def test_every_router_looks_at_the_header_that_is_described() -> None:
    assert f"**`{HEADER}`**" in OPERATE.read_text()
    assert "$http_" + HEADER.lower().replace("-", "_") in (ROUTING / "nginx.conf").read_text()
    for name in ("envoy.yaml", "gateway.yaml"):
        text = (ROUTING / name).read_text()
        assert all(yaml.safe_load_all(text))
        assert HEADER.lower() in text


@pytest.mark.parametrize("file", [OPERATE, *ROOT.glob("deploy/**/*.md")], ids=lambda path: path.name)
def test_every_file_that_is_linked_is_there(file: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", file.read_text())
    assert [link for link in links if not (file.parent / link).exists()] == []
