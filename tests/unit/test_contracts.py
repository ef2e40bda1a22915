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
SOURCES = [ROOT / "src", *sorted(ROOT.glob("packages/*/src"))]
LINTER = Path(sys.executable).parent / "lint-imports"

PLANTED = {
    "Layers": ("kernelcup.tasks.loader", "kernelcup.app.access"),
    "KernelCup knows no package beside it": ("kernelcup.launchers.outcomes", "kernelcup_modal"),
    "A server that does not judge loads no judge": ("kernelcup.http.logs", "kernelcup.app.queue.dispatcher"),
    "Launchers in packages know the port, not the platform": ("kernelcup_github.api", "kernelcup.app.access"),
    "The loopback Discord stands alone": ("discord_loopback.clock", "kernelcup.errors"),
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
    for source in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "examples")
        shutil.copytree(source, root / "src", ignore=ignored, dirs_exist_ok=True)
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


@pytest.mark.jobs  # `make check` runs the contracts themselves
@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_violation_breaks_its_contract(contract: str, broken: dict[str, str]) -> None:
    importer, imported = PLANTED[contract]
    assert f"{importer} -> {imported} " in broken[contract]


DRIVERS = re.compile(r"lib(cuda|nvidia-ml|cupti)\.so|pynvml")
"""What a program has to name to load CUDA's driver, NVML or CUPTI."""
CALLS_DRIVERS = ("kernelcup_harness/device/nvidia", "kernelcup/launchers/gpu_health/probe.py")
LINKS_DRIVER = "kernelcup_harness/submission/cuda/driver_library.py"
"""Names the library to a linker, and cannot load it."""


def test_no_library_of_the_driver_is_named_where_it_may_not_be_loaded() -> None:
    source = ROOT / "src"
    naming = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if DRIVERS.search(path.read_text(encoding="utf-8"))
    }
    assert [name for name in sorted(naming) if not name.startswith(CALLS_DRIVERS)] == [LINKS_DRIVER]
    assert "ctypes" not in (source / LINKS_DRIVER).read_text(encoding="utf-8")
    assert len(naming) >= 5


DECIDES = re.compile(
    r"JobState\.(QUARANTINED|REJECTED|DONE)\b|[rR]un(Row)?\.(counted|judging)\b|\bfinished_at [<>]=? |"
    r"score_s\.is_|(Run|Leaderboard)Row\.trust\b|PUT_ASIDE"
)
"""What a query or a reader would have to name to decide by itself which results count."""
NAMES_STATES = {
    "app/queue/queries/jobs.py": "sets states",
    "app/queue/queries/rejudges.py": "only a job that has ended is judged again",
    "app/results/rejudge.py": "says of which jobs none is judged again",
    "app/results/final_order.py": "says why a duel of a final has no outcome",
    "app/boards/queries/boards.py": "counts the jobs that a rejudge repeats",
    "app/rules/queries/gpu_uses.py": "counts what a busy machine could not measure",
    "app/rules/queries/limits.py": "counts uses in a period",
    "app/results/queries/run_costs.py": "counts costs in a period",
    "app/events/queries/events.py": "counts what was submitted outside of the dates of an event",
    "app/results/queries/old_data.py": "chooses reports by their age",
    "app/results/queries/attempts.py": "tells how a time was taken",
    "app/results/queries/ranking_query.py": "places the results of each version apart",
    "app/queue/assignment.py": "replays a binary only of the same version of the task",
    "app/submissions/submissions.py": "shows to others a job that was put aside as done",
    "app/submissions/redaction.py": "shows the report of a job that is done",
    "http/pages/submissions/report_words.py": "names states",
    "bot/messages/reports.py": "marks a result that waits for a review",
    "cli/compete/submissions.py": "says that a result waits for a review",
}
"""Files that name them for another purpose, and which."""


def test_only_the_rule_decides_which_results_count() -> None:
    source = ROOT / "src" / "kernelcup"
    rule = source / "app" / "results" / "queries" / "ruling.py"
    naming = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if path != rule and "examples" not in path.parts and DECIDES.search(path.read_text(encoding="utf-8"))
    }
    assert naming == NAMES_STATES.keys()
    assert DECIDES.search(rule.read_text(encoding="utf-8"))
