"""The contracts between the rooms of the code: each one breaks where it is violated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"

PLANTED = {
    "Layers": ("kernelcup.tasks.loader", "kernelcup.app.access"),
    "The bot knows the platform only through its HTTP API": ("kernelcup.bot.api", "kernelcup.scoring"),
    "The harness stands alone": ("kernelcup_harness.__main__", "kernelcup.errors"),
    "Rooms of the harness": ("kernelcup_harness.isolation.cgroups", "kernelcup_harness.run.record"),
    "The core knows the wire and the protocol only": (
        "kernelcup_harness.core.structure",
        "kernelcup_harness.device.machine",
    ),
    "Judge, contestant and timer meet on the wire only": (
        "kernelcup_harness.doubt.floor",
        "kernelcup_harness.contestant.inputs",
    ),
    "Only device.nvidia calls CUDA's driver, NVML or CUPTI": (
        "kernelcup_harness.wire.guards",
        "kernelcup_harness.device.nvidia.driver",
    ),
    "Timer and witness see nothing that needs torch": ("kernelcup_harness.clocks.trace", "torch"),
    "Only the witness reads the device's counters": (
        "kernelcup_harness.doubt.changes",
        "kernelcup_harness.device.nvidia.pm_sampling",
    ),
    "The control plane enters the harness by its protocol": (
        "kernelcup.app.stats",
        "kernelcup_harness.__main__",
    ),
    "The control plane has one client of NVML": ("kernelcup.config.local_devices", "pynvml"),
    "The server asks operations, not queries": ("kernelcup.http.throttle", "kernelcup.tables"),
    "The client of the API runs without a platform": ("kernelcup.client.api", "kernelcup.launchers.base"),
    "Rooms of the application": ("kernelcup.app.people.tokens", "kernelcup.app.rules.limits"),
    "Queries know no operations": ("kernelcup.app.people.queries.tokens", "kernelcup.app.people.tokens"),
    "Frameworks stay at the edge, torch in the harness": ("kernelcup.domain", "typer"),
}
"""An import that each contract forbids: who imports, and what."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what import-linter says about each broken contract, of a copy with all violations planted."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "examples"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for module, imported in PLANTED.values():
        with (root / "src" / f"{module.replace('.', '/')}.py").open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    environ = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200", "TERM": "dumb"}
    done = subprocess.run(
        [LINTER, "--no-cache"], cwd=root, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    sections = re.split(r"\n([^\n]+)\n-+\n", done.stdout.partition("Broken contracts")[2])
    return dict(zip(sections[1::2], sections[2::2], strict=True))


def test_each_contract_has_a_planted_violation() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    assert {each["name"] for each in contracts} == PLANTED.keys()


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_violation_breaks_its_contract(contract: str, broken: dict[str, str]) -> None:
    importer, imported = PLANTED[contract]
    assert f"{importer} -> {imported} " in broken[contract]


DRIVERS = re.compile(r"lib(cuda|nvidia-ml|cupti)\.so|pynvml")
"""What a program has to name to load CUDA's driver, NVML or CUPTI."""
CALLS_DRIVERS = ("kernelcup_harness/device/nvidia", "kernelcup/launchers/gpu_health/probe.py")


def test_no_library_of_the_driver_is_named_where_it_may_not_be_loaded() -> None:
    source = ROOT / "src"
    naming = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if DRIVERS.search(path.read_text(encoding="utf-8"))
    }
    assert [name for name in sorted(naming) if not name.startswith(CALLS_DRIVERS)] == []
    assert len(naming) >= 5
