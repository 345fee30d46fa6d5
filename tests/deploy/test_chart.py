from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "ropeway"
SHARED = {"cache": {"accessModes": ["ReadWriteMany"]}}
SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "cpu": {"device": "cpu", "cache": {"claim": False}},
    "keys": {
        "apiKey": {"secret": "keys"},
        "adminKey": {"secret": "keys"},
        "env": [{"name": "A", "value": "b"}],
    },
    "four gpus": {"model": "org/model", "args": ["--qgpm", "on"], "parallel": {"tensor": 4}},
    "hpa": {"autoscaling": {"by": "hpa"}, **SHARED},
    "keda": {"autoscaling": {"by": "keda"}, **SHARED},
    "several": {"replicas": 3, "service": {"headless": True}, **SHARED},
    "monitored": {"serviceMonitor": {"enabled": True, "rules": True, "labels": {"release": "prometheus"}}},
    "placed": {
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": "serving",
        "gpu": {"runtimeClassName": "nvidia"},
        "image": {"pullSecrets": [{"name": "registry"}]},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "service": {"annotations": {"e": "f"}},
        "extraVolumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
        "extraVolumeMounts": [{"name": "models", "mountPath": "/models"}],
    },
}
OF_OPERATORS = ("monitoring.coreos.com/v1", "keda.sh/v1alpha1")


def rendered(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every object by its kind, as `helm template` makes it."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values, name="east", namespace="serving")
    return {found["kind"]: found for text in files.values() for found in objects(text)}


def objects(text: str) -> Iterator[dict[str, Any]]:
    if "apiVersion:" in text:
        yield from (found for found in yaml.safe_load_all(text) if found)


def pod(values: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = rendered(values)["Deployment"]["spec"]["template"]["spec"]
    return spec


def container(values: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod(values)["containers"]
    return only


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS.keys())
def test_helm_finds_nothing_to_complain_about(values: dict[str, Any]) -> None:
    report = helm_python.lint(CHART, values, strict=True)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] > 1] == []


@pytest.mark.parametrize("version", ["1.27", "1.32", "1.37"])
@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS.keys())
def test_kubernetes_knows_every_field_that_is_rendered(values: dict[str, Any], version: str) -> None:
    for found in rendered(values).values():
        # Those of other operators have no schema in Kubernetes itself.
        if found["apiVersion"] not in OF_OPERATORS:
            kubernetes_validate.validate(found, version, strict=True)


def test_an_unknown_field_would_be_noticed() -> None:
    service = rendered({})["Service"]
    service["spec"]["sessionAfinity"] = "None"
    with pytest.raises(kubernetes_validate.ValidationError, match="sessionAfinity"):
        kubernetes_validate.validate(service, "1.37", strict=True)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "two"}, "/replicas"),
        ({"device": "tpu"}, "/device"),
        ({"parallel": {"pipeline": 2}}, "pipeline"),
        ({"parallel": {"tensor": 0}}, "/parallel/tensor"),
        ({"sharedMemory": "much"}, "/sharedMemory"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=named):
        rendered(values)


def test_several_replicas_do_not_share_a_volume_of_one_node() -> None:
    with pytest.raises(helm_python.HelmRenderError, match="ReadWriteMany"):
        rendered({"replicas": 2})


def test_every_value_is_described_and_every_description_has_a_value() -> None:
    with helm_python.Chart.load(CHART) as chart:
        schema, values = chart.schema, chart.values
    assert schema is not None
    assert schema["properties"].keys() - {"global"} == values.keys()
    for name, part in schema["properties"].items():
        if "properties" in part:
            assert part["properties"].keys() == values[name].keys(), name


def test_a_pod_without_rights_writes_only_into_its_volumes() -> None:
    assert pod({})["securityContext"]["runAsNonRoot"] is True
    assert pod({})["automountServiceAccountToken"] is False
    only = container({})
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert only["securityContext"]["allowPrivilegeEscalation"] is False
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {mount["mountPath"] for mount in only["volumeMounts"]} == {"/cache", "/tmp", "/dev/shm"}


def test_shared_memory_is_memory() -> None:
    volumes = {volume["name"]: volume for volume in pod({"sharedMemory": "3Gi"})["volumes"]}
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "3Gi"}


def test_a_start_may_take_minutes_and_a_stall_only_stops_new_requests() -> None:
    only = container({})
    startup = only["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600
    assert only["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert only["livenessProbe"]["httpGet"]["path"] == "/health"


def test_a_pod_leaves_the_service_before_it_is_told_to_stop_and_then_has_time() -> None:
    values = {"drain": {"deregister": 7, "finish": 100, "margin": 13}}
    assert container(values)["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "7"]
    assert "--shutdown-timeout=100" in container(values)["args"]
    assert pod(values)["terminationGracePeriodSeconds"] == 120


def test_keys_come_from_secrets_and_without_one_there_is_no_key() -> None:
    variables = {entry["name"]: entry for entry in container(SETTINGS["keys"])["env"]}
    assert variables["VLLM_API_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "keys", "key": "api-key"}
    assert variables["ROPEWAY_ADMIN_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "keys", "key": "admin-key"}
    assert "env" not in container({})


def test_the_model_comes_first_and_each_rank_gets_a_gpu() -> None:
    only = container(SETTINGS["four gpus"])
    assert only["args"] == [
        "org/model",
        "--host=0.0.0.0",
        "--port=8000",
        "--shutdown-timeout=60",
        "--tensor-parallel-size=4",
        "--qgpm",
        "on",
    ]
    assert only["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert container(SETTINGS["cpu"])["resources"]["limits"].keys() == {"memory"}


def test_the_queue_decides_how_many_replicas_there_are() -> None:
    by_keda = rendered(SETTINGS["keda"])
    assert "replicas" not in by_keda["Deployment"]["spec"]
    (trigger,) = by_keda["ScaledObject"]["spec"]["triggers"]
    assert trigger["metadata"]["query"] == (
        'sum(vllm:num_requests_waiting{namespace="serving",service="east-ropeway"})'
    )
    (metric,) = rendered(SETTINGS["hpa"])["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "vllm_num_requests_waiting"


def test_prometheus_finds_the_pods_behind_the_service() -> None:
    found = rendered(SETTINGS["monitored"])
    monitor = found["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= found["Service"]["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == found["Service"]["spec"]["ports"][0]["name"]
    # The alerts go by the job.
    assert found["Service"]["metadata"]["labels"][monitor["jobLabel"]] == "ropeway"


def test_the_rules_come_along_as_they_are() -> None:
    rule = rendered(SETTINGS["monitored"])["PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    files = sorted((CHART.parents[1] / "monitoring" / "prometheus" / "rules").glob("*.yml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    assert rule["spec"]["groups"] == groups


def test_a_headless_service_resolves_to_the_pods() -> None:
    assert rendered(SETTINGS["several"])["Service"]["spec"]["clusterIP"] == "None"
