"""The files that start agents and Ray clusters have the keys that the published schemas allow.

``tests/data/manifest_keys.yml`` names each schema and its version. No service is asked; systemd's own checker is.
"""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
KEYS: dict[str, str] = YAML(typ="safe").load(ROOT / "tests/data/manifest_keys.yml")
FOLDERS = ("docs/how-to/agent", "docs/how-to/ray", "deploy/systemd")
FILES = {each.name: each for name in FOLDERS for each in (ROOT / name).iterdir()}
UNITS = sorted(name for name in FILES if name.endswith((".service", ".timer")))
DOCUMENTS = {
    "kernelcup-agent.yaml": ["DaemonSet"],
    "kernelcup-agent.dstack.yml": ["DstackTask"],
    "kernelcup-kuberay.yaml": ["ConfigMap", "RayCluster"],
    "kernelcup-skypilot.yaml": ["SkyPilotTask"],
}
KINDS = {"string": str, "integer": int, "boolean": bool, "map": dict, "strings": dict}


def read(name: str) -> list[Any]:
    return list(YAML(typ="safe").load_all(FILES[name]))


def faults(value: Any, kind: str, path: str = "") -> Iterator[str]:
    """Yield what is wrong with a value of a kind in ``manifest_keys.yml``."""
    if kind.endswith("[]"):
        if not isinstance(value, list):
            yield f"{path}: expected a list"
            return
        for number, each in enumerate(value):
            yield from faults(each, kind[:-2], f"{path}[{number}]")
    elif kind in KEYS:
        yield from object_faults(value, kind, path)
    elif kind in KINDS:
        if type(value) is not KINDS[kind]:
            yield f"{path}: expected {kind}"
        elif kind == "strings" and any(type(each) is not str for each in value.values()):
            yield f"{path}: expected texts"
    elif value not in kind.split("|"):
        yield f"{path}: expected {kind}"


def object_faults(value: Any, kind: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected {kind}"
        return
    words = [each.partition(":") for each in KEYS[kind].split()]
    allowed = {key.removesuffix("!"): type_ for key, _, type_ in words}
    for key in (key[:-1] for key, _, _ in words if key.endswith("!")):
        if key not in value:
            yield f"{path}.{key}: missing"
    for key, each in value.items():
        if not allowed.get(key):
            yield f"{path}.{key}: {'give it a type in manifest_keys.yml' if key in allowed else 'no such key'}"
        else:
            yield from faults(each, allowed[key], f"{path}.{key}")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_manifest_has_the_keys_and_types_of_its_schema(name: str) -> None:
    found = read(name)
    assert len(found) == len(DOCUMENTS[name])
    for value, kind in zip(found, DOCUMENTS[name], strict=True):
        assert list(faults(value, kind, kind)) == []


def test_every_file_is_checked() -> None:
    assert {name for name in FILES if not name.endswith(".sbatch")} - set(UNITS) == set(DOCUMENTS)


def test_a_wrong_key_or_type_is_noticed() -> None:
    _, cluster = read("kernelcup-kuberay.yaml")
    broken = copy.deepcopy(cluster)
    (group,) = broken["spec"]["workerGroupSpecs"]
    group["rayStartParam"] = group.pop("rayStartParams")
    group["template"]["spec"]["containers"][0]["volumemounts"] = []
    broken["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0
    broken["spec"]["authOptions"] = {"mode": "tokens"}
    del group["maxReplicas"]
    assert sorted(faults(broken, "RayCluster")) == [
        ".spec.authOptions.mode: expected disabled|token",
        ".spec.headGroupSpec.rayStartParams: expected texts",
        ".spec.workerGroupSpecs[0].maxReplicas: missing",
        ".spec.workerGroupSpecs[0].rayStartParam: no such key",
        ".spec.workerGroupSpecs[0].template.spec.containers[0].volumemounts: no such key",
    ]


def test_kuberay_gets_no_labels_among_the_parameters_where_its_operator_refuses_them() -> None:
    _, cluster = read("kernelcup-kuberay.yaml")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    assert not any("labels" in each["rayStartParams"] for each in groups)
    # It compares this text with 2.52, the first version with a token.
    major, minor, _ = cluster["spec"]["rayVersion"].split(".")
    assert (int(major), int(minor)) >= (2, 52)


def test_sbatch_knows_the_options_of_the_slurm_script() -> None:
    text = FILES["kernelcup-agent.sbatch"].read_text()
    used = re.findall(r"^#SBATCH --([a-z0-9-]+)", text, re.MULTILINE)
    assert len(used) == len(re.findall(r"^#SBATCH", text, re.MULTILINE))
    assert [each for each in used if each not in KEYS["Sbatch"].split()] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    for unit in UNITS:  # a timer needs its service
        text, replaced = re.subn(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", FILES[unit].read_text())
        assert replaced == unit.endswith(".service")
        (tmp_path / unit).write_text(text)
    assert verify(tmp_path / name) == ""
    (tmp_path / name).write_text(re.sub(r"(?m)^(User|Persistent)=", r"\1s=", (tmp_path / name).read_text()))
    assert "Unknown key" in verify(tmp_path / name)


def verify(unit: Path) -> str:
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr
