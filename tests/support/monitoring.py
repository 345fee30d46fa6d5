"""What deploy/monitoring holds: rules, dashboards, and what their queries ask for."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql
import yaml

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
CONFIG = MONITORING / "prometheus" / "prometheus.yml"
RULES = sorted((MONITORING / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((MONITORING / "grafana" / "dashboards").glob("*.json"))

_VARIABLES = ("model_name", "instance", "mode")
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
# Prometheus makes these series itself.
_ITS_OWN = {
    "up": frozenset({"job", "instance"}),
    "ALERTS": frozenset({"job", "instance", "alertname", "alertstate", "severity"}),
}


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL with Grafana's variables filled in, and where it stands."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A series that a query asks for, with the labels that it needs and the matchers of their values."""

    name: str
    labels: frozenset[str]
    matchers: tuple[promql.Matcher, ...]


def rules() -> list[dict[str, Any]]:
    """All rules, of records and of alerts."""
    groups = [group for file in RULES for group in yaml.safe_load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def records() -> dict[str, frozenset[str]]:
    """The recorded series and their labels, which their names begin with."""
    names = [rule["record"] for rule in rules() if "record" in rule]
    return {name: frozenset({"job", *name.partition(":")[0].split("_")}) for name in names}


def rule_queries() -> list[Query]:
    """The expression of each rule."""
    return [Query(rule.get("record") or rule["alert"], rule["expr"]) for rule in rules()]


def dashboard(file: Path) -> dict[str, Any]:
    """The content of a dashboard's file."""
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def panels(file: Path) -> list[dict[str, Any]]:
    """The panels of a dashboard that show something."""
    return [panel for panel in dashboard(file)["panels"] if panel["type"] != "row"]


def panel_queries(window: str = "5m") -> list[Query]:
    """All queries of all dashboards, for all models, servers and modes, with rates over a window."""
    return [
        Query(f"{file.stem}: {panel['title']}", filled(target["expr"], window))
        for file in DASHBOARDS
        for panel in panels(file)
        for target in panel["targets"]
    ]


def variable_queries() -> list[Query]:
    """What the variables' choices are made of, as queries for the values of a label."""
    found = []
    for file in DASHBOARDS:
        for variable in dashboard(file)["templating"]["list"]:
            if variable["type"] != "query":
                continue
            match = _LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert match is not None, variable
            text = f"count by ({match['label']}) ({filled(match['selector'], '5m')})"
            found.append(Query(f"{file.stem}: variable {variable['name']}", text))
    return found


def filled(text: str, window: str) -> str:
    """PromQL without Grafana's variables."""
    for name in _VARIABLES:
        text = text.replace(f"${name}", ".+")
    return text.replace("$__rate_interval", window)


def asked(query: Query) -> Iterator[Asked]:
    """Every series of a query, with the labels that it matches, groups and joins by."""
    yield from _asked(promql.parse(query.text), frozenset())


def _asked(expression: Any, needed: frozenset[str]) -> Iterator[Asked]:
    match expression:
        case promql.VectorSelector(matchers=matchers):
            found = tuple(matchers.matchers)
            yield Asked(expression.name or "", needed | {matcher.name for matcher in found}, found)
        case promql.MatrixSelector(vector_selector=selector):
            yield from _asked(selector, needed)
        case promql.AggregateExpr(expr=inner, modifier=modifier):
            # An aggregation drops other labels, so what was needed outside must be among these.
            labels = frozenset() if modifier is None else frozenset(modifier.labels)
            assert needed <= labels, f"{needed - labels} are gone behind {expression}"
            yield from _asked(inner, labels)
        case promql.BinaryExpr(lhs=left, rhs=right, modifier=modifier):
            joined = None if modifier is None else modifier.matching
            labels = frozenset() if joined is None else frozenset(joined.labels)
            excluded = joined is not None and joined.type == promql.LabelModifierType.Exclude
            yield from _asked(left, needed | labels)
            yield from _asked(right, frozenset() if excluded else labels)
        case promql.Call(args=arguments):
            bucket = {"le"} if expression.func.name == "histogram_quantile" else set()
            for argument in arguments:
                if not isinstance(argument, promql.NumberLiteral):
                    yield from _asked(argument, needed | bucket)
        case promql.ParenExpr(expr=inner) | promql.UnaryExpr(expr=inner) | promql.SubqueryExpr(expr=inner):
            yield from _asked(inner, needed)
        case promql.NumberLiteral() | promql.StringLiteral():
            return
        case _:
            raise TypeError(f"what is {expression!r}?")


def missing(wanted: Asked, samples: Mapping[str, list[dict[str, str]]]) -> str | None:
    """What a server does not expose of a series, None where it has all; `samples`: label sets by name."""
    made = _ITS_OWN | records()
    if wanted.name in made:
        lacking = wanted.labels - made[wanted.name]
        return f"{wanted.name} has no {sorted(lacking)}" if lacking else None
    if wanted.name not in samples:
        return f"there is no {wanted.name}"
    sets = [labels | {"job": "ropeway", "instance": "a"} for labels in samples[wanted.name]]
    if not any(wanted.labels <= labels.keys() for labels in sets):
        return f"{wanted.name} has no {sorted(wanted.labels - sets[0].keys())}"
    if not any(all(_matches(labels, matcher) for matcher in wanted.matchers) for labels in sets):
        return f"no {wanted.name} has {[str(matcher) for matcher in wanted.matchers]}"
    return None


def _matches(labels: Mapping[str, str], matcher: promql.Matcher) -> bool:
    found = labels.get(matcher.name, "")
    if matcher.op in (promql.MatchOp.Re, promql.MatchOp.NotRe):
        return (re.fullmatch(matcher.value, found) is None) == (matcher.op == promql.MatchOp.NotRe)
    return (found == matcher.value) == (matcher.op == promql.MatchOp.Equal)
