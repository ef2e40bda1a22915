"""Write the jobs that show the harness on a real GPU, for a machine that has only torch.

    python benchmarks/gpu_jobs.py FOLDER

FOLDER gets one JSON file a job: vector add with PyTorch, Triton, inline CUDA, JAX and CuPy in three
modes, every solution of every shipped task and of those in ``tests/judged`` that need more than plain tensors, imported
functions in CUDA, a speedup of each example over itself, and each template for several GPUs on two and on four.
``benchmarks/run_gpu_jobs.py FOLDER`` then runs them over there. This half needs KernelCup installed, the other half
needs nothing but torch.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kernelcup.launchers.bundle import harness_hash
from kernelcup.tasks.imports import import_task
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend, Limits, Mode, RankingBy, SourceTree, from_json, to_json

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "src/kernelcup/tasks/examples"
JUDGED = [ROOT / "tests/judged" / name for name in ("data_files", "expert_exchange", "prepared", "sparse")]
SEVERAL_GPUS = ("all_gather_matmul", "all_reduce", "moe_dispatch")
SOLVES = ROOT / "tests/data/imports"
VECTORADD = ROOT / "tests/gpu/vectoradd"
SPEEDUPS = ("vectoradd", "causal_attention", "rmsnorm_residual", "moe_gate")
MODES = (Mode.TEST, Mode.BENCHMARK, Mode.LEADERBOARD)


def main(folder: Path) -> None:
    """Write all jobs into ``folder``."""
    start_folder(folder)
    jobs = [*vectoradd_jobs(), *shipped_jobs(), *imported_jobs(), *speedup_jobs(), *several_gpu_jobs()]
    for job in jobs:
        (folder / f"job-{job['name']}.json").write_text(json.dumps(job))
    print(f"{len(jobs)} jobs in {folder}")


def start_folder(folder: Path) -> None:
    """Empty a folder of jobs and note in it what they are made from."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    (folder / "about.json").write_text(json.dumps({"commit": commit, "harness_hash": harness_hash()}))


def vectoradd_jobs() -> list[dict[str, Any]]:
    """Return vector add written in five ways, in three modes each."""
    task = EXAMPLES / "vectoradd"
    return [
        job(f"vectoradd-{path.stem}-{mode.value}", task, path, mode, "accepted", {})
        for path in sorted(VECTORADD.glob("with_*.py"))
        for mode in MODES
    ]


def shipped_jobs() -> list[dict[str, Any]]:
    """Return every solution of every shipped task with the verdict that its folder expects."""
    found: list[dict[str, Any]] = []
    for listing in [
        *sorted(EXAMPLES.glob("*/solutions/expected.yml")),
        *(each / "solutions/expected.yml" for each in JUDGED),
    ]:
        task = listing.parent.parent
        single = task / "reference_code.py"
        expectations = YAML(typ="safe").load(listing.read_text())
        for file, expected in expectations.items():
            for number, entry in enumerate(expected if isinstance(expected, list) else [expected]):
                name = f"{task.name}-{Path(file).stem}-{number}"
                path = (listing.parent / file).resolve()
                mode = Mode(entry.get("mode", "test"))
                source = single if single.exists() else task
                found.append(job(name, source, path, mode, entry["verdict"], entry.get("limits", {})))
    return found


def imported_jobs() -> list[dict[str, Any]]:
    """Return functions ``solve`` in CUDA, imported as leaderboards and judged by themselves."""
    found = []
    for file in sorted(SOLVES.glob("*.cu")):
        with tempfile.TemporaryDirectory() as folder:
            task = Path(folder, "task")
            import_task(file, task)
            for mode in (Mode.TEST, Mode.LEADERBOARD):
                path = task / "solutions/correct.cu"
                found.append(job(f"{file.stem}-{mode.value}", task, path, mode, "accepted", {}))
    return found


def speedup_jobs() -> list[dict[str, Any]]:
    """Return submissions that are their leaderboard's baseline: their speedup should be 1."""
    found = []
    for name in SPEEDUPS:
        task, code = EXAMPLES / name, (EXAMPLES / name / "template.py").read_text()
        made = job(f"speedup-{name}", task, task / "template.py", Mode.LEADERBOARD, "accepted", {})
        made["spec"]["sources"]["baseline.py"] = code
        made["spec"]["private_files"].append("baseline.py")
        made["spec"] |= {"baseline": "baseline", "ranking_by": RankingBy.SPEEDUP.value}
        found.append(made)
    return found


def several_gpu_jobs() -> list[dict[str, Any]]:
    """Return the templates of the tasks for several GPUs, tested and ranked by two and by four GPU ranks."""
    found = []
    for name in SEVERAL_GPUS:
        for path in sorted((EXAMPLES / name).glob("template*.py")):
            for world, mode in itertools.product((2, 4), (Mode.TEST, Mode.LEADERBOARD)):
                title = f"gpus{world}-{name}-{path.stem}-{mode.value}"
                made = job(title, EXAMPLES / name, path, mode, "accepted", {})
                for case in [*made["spec"]["tests"], *made["spec"]["benchmarks"]]:
                    case["world_size"] = world
                found.append(made)
    return found


def job(
    name: str, task: Path, file: Path, mode: Mode, verdict: str, limits: dict[str, Any]
) -> dict[str, Any]:
    """Return one job with what must come of it."""
    loaded = load_task(task)
    spec = build_job_spec(
        loaded,
        job_id=name,
        submission=SourceTree.of(
            file.read_text(), loaded.submission_name if file.suffix != ".py" else "submission.py"
        ),
        mode=mode,
        backend=Backend.CUDA,
    )
    merged = from_json(Limits, {**to_json(spec.limits), **limits})
    # A whole run is tried here, not a competition: two seconds a case are enough.
    rules = dataclasses.replace(spec.rules, case_budget_s=2.0)
    spec = dataclasses.replace(spec, limits=merged, rules=rules)
    return {"name": name, "expected": verdict, "spec": to_json(spec)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
