"""What Ray's configuration names is there; Ray itself is not installed for the tests."""

import ast
from pathlib import Path

import yaml

RAY = Path(__file__).parents[2] / "deploy" / "ray"


def test_the_application_takes_the_arguments_that_the_configuration_gives() -> None:
    (application,) = yaml.safe_load((RAY / "serve.yaml").read_text())["applications"]
    module, function = application["import_path"].split(":")
    tree = ast.parse((RAY / f"{module}.py").read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (arguments,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Arguments"]
    fields = {node.target.id for node in arguments.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    assert application["args"].keys() == fields


def test_ray_waits_longer_for_the_end_than_a_replica_for_its_server() -> None:
    (application,) = yaml.safe_load((RAY / "serve.yaml").read_text())["applications"]
    (deployment,) = application["deployments"]
    assert deployment["graceful_shutdown_timeout_s"] > application["args"]["stop_seconds"]
