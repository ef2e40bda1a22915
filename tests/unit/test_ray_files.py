"""The files that start a Ray cluster say what our own commands say. ``test_manifests.py`` checks their keys."""

from __future__ import annotations

import configparser
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from kernelcup.cli.app import app
from kernelcup.config.settings import Config
from kernelcup.launchers import ray_cluster

FOLDER = Path(__file__).parents[2] / "docs" / "how-to" / "ray"
UNITS = Path(__file__).parents[2] / "deploy" / "systemd"


def yaml(name: str) -> list[Any]:
    return list(YAML(typ="safe").load_all(FOLDER / name))


@pytest.fixture
def head() -> Any:
    _, cluster = yaml("kernelcup-kuberay.yaml")
    return cluster["spec"]["headGroupSpec"]


@pytest.fixture
def worker() -> Any:
    _, cluster = yaml("kernelcup-kuberay.yaml")
    (found,) = cluster["spec"]["workerGroupSpecs"]
    return found


@pytest.mark.parametrize("name", ["kernelcup-ray-head.service", "kernelcup-ray-node.service"])
def test_a_systemd_unit_has_its_sections_and_a_command_that_exists(name: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNITS / name)
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["Delegate"] == "yes"
    _, *words = unit["Service"]["ExecStart"].split()
    assert CliRunner().invoke(app, [*words[:2], "--help"]).exit_code == 0


def test_kuberay_starts_workers_as_runner_join_does(worker: Any, tmp_path: Path) -> None:
    config_map, _ = yaml("kernelcup-kuberay.yaml")
    file = tmp_path / "kernelcup.toml"
    file.write_text(config_map["data"]["worker.toml"])
    devices = Config.load(file, {"KERNELCUP_HOME": str(tmp_path)}).configured_devices
    gpus = {"H100": tuple("01234567")}
    ours = dict(
        each.removeprefix("--").split("=", 1)
        for each in ray_cluster.command(devices, gpus, where=[], host_class="h100-8")
        if "=" in each
    )
    theirs = worker["rayStartParams"]
    assert json.loads(json.loads(theirs["resources"])) == json.loads(ours["resources"])
    for name in ("num-cpus", "num-gpus", "object-store-memory"):
        assert theirs[name] == ours[name]
    assert {f"{key}={value}" for key, value in worker["labels"].items()} <= set(ours["labels"].split(","))
    limits = worker["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": int(theirs["num-gpus"])}


def test_kuberay_has_a_token_our_settings_and_volumes_that_exist(head: Any, worker: Any) -> None:
    _, cluster = yaml("kernelcup-kuberay.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    for group in (head, worker):
        (container,) = group["template"]["spec"]["containers"]
        names = {each["name"]: each["value"] for each in container["env"]}
        ours = {
            key: value
            for key, value in ray_cluster.SETTINGS.items()
            if key.startswith("RAY_") and key in names
        }
        assert {"RAY_worker_niceness", "RAY_memory_monitor_refresh_ms"} <= ours.keys()
        assert ours.items() <= names.items()
        volumes = {each["name"] for each in group["template"]["spec"]["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_server_on_kubernetes_knows_the_devices_of_the_workers() -> None:
    config_map, _ = yaml("kernelcup-kuberay.yaml")
    server, worker = (tomllib.loads(config_map["data"][name]) for name in ("server.toml", "worker.toml"))
    assert {each["name"] for each in server["devices"]} == {each["name"] for each in worker["devices"]}
    assert all(each["launcher"] == "ray" for each in server["devices"])


def test_skypilot_joins_with_a_token_that_is_asked_for() -> None:
    (task,) = yaml("kernelcup-skypilot.yaml")
    assert task["secrets"] == {"RAY_AUTH_TOKEN": None}
    assert "kernelcup runner join" in task["run"]
