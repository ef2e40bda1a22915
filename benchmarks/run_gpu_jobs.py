"""Run the jobs of ``gpu_jobs.py`` on a machine that has torch and nothing else of ours.

    python benchmarks/run_gpu_jobs.py FOLDER RESULT.json [SECONDS] [PATTERN] [warm]

Each job goes through ``python -m kernelcup_harness``. The result is rewritten after every job, so an
outer limit loses nothing; jobs that do not fit into SECONDS are listed as not run. With ``warm`` the processes
of each job wait for it, as those of a server do, and its seconds begin when it is sent.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JOB_TIMEOUT_S = 240


def main(folder: Path, target: Path, seconds: float, pattern: str, *, warm: bool) -> int:
    """Run every job and return how many came out otherwise than expected."""
    end = time.monotonic() + seconds
    about = json.loads((folder / "about.json").read_text())
    result: dict[str, Any] = {
        **about,
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(),
        "jobs": [],
    }
    result["not_run"] = []
    for path in sorted(folder.glob("job-*.json")):
        job = json.loads(path.read_text())
        if not fnmatch(job["name"], pattern):
            continue
        if time.monotonic() > end:
            result["not_run"].append(job["name"])
            continue
        result["jobs"].append(run(job, warm=warm))
        target.write_text(json.dumps(result, indent=1))
    target.write_text(json.dumps(result, indent=1))
    wrong = [job for job in result["jobs"] if not job["as_expected"]]
    print(f"{len(result['jobs'])} run, {len(wrong)} not as expected, {len(result['not_run'])} not run")
    return len(wrong) + len(result["not_run"])


def run(job: dict[str, Any], *, warm: bool) -> dict[str, Any]:
    """Run one job and keep what a reader wants of its report."""
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "kernelcup_harness", "-"]
    if warm:
        command += ["--ahead", job["spec"]["backend"], "--ranks", str(ranks_of(job["spec"]))]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    try:
        with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
            if warm and "ready" not in process.stdout.readline():
                raise ValueError("its processes did not start")
            began = time.monotonic()
            try:
                said, _ = process.communicate(json.dumps(job["spec"]), timeout=JOB_TIMEOUT_S)
            finally:
                process.kill()
        report = json.loads(said.splitlines()[-1])["report"]
    except (subprocess.TimeoutExpired, IndexError, ValueError, OSError) as error:
        report = {"verdict": "none", "message": f"{type(error).__name__}: no report", "stages": []}
    found = {
        "name": job["name"],
        "mode": job["spec"]["mode"],
        "expected": job["expected"],
        "verdict": report["verdict"],
        "as_expected": report["verdict"] == job["expected"],
        "message": report["message"][-600:],
        "wall_s": round(time.monotonic() - began, 2),
        "phases": report.get("phases", {}),
        "stages": [
            {key: stage[key] for key in ("name", "verdict", "duration_s")} for stage in report["stages"]
        ],
        "cases": cases(report),
    }
    mark = "ok  " if found["as_expected"] else "FAIL"
    print(
        f"{mark} {found['name']:50} {found['verdict']:22} {found['wall_s']:6.1f} s  {summary(found)}",
        flush=True,
    )
    if not found["as_expected"]:
        print(f"     {found['message']}", flush=True)
    return found


def ranks_of(spec: dict[str, Any]) -> int:
    """Return how many processes the calls of a job have; 0 for a task on one GPU."""
    cases = [*spec["tests"], *spec["benchmarks"]]
    return max(case.get("world_size", 1) for case in cases) if spec.get("multi_gpu") else 0


def cases(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the timed cases with all their samples and those of the baseline in nanoseconds."""
    return [
        {
            "stage": stage["name"],
            "parameters": case["parameters"],
            "samples_ns": case["timing"]["samples_ns"],
            "baseline_ns": case["baseline_ns"],
            "level": (case["timing"]["audit"] or {}).get("level"),
            "score_ns": (case["timing"]["audit"] or {}).get("score_ns"),
        }
        for stage in report["stages"]
        for case in stage["cases"]
        if case["timing"]
    ]


def summary(found: dict[str, Any]) -> str:
    """Return the median times of the timed cases, and of their baseline."""
    return ", ".join(
        f"{median(case['samples_ns']) / 1000:.1f} us"
        + (f" of {median(case['baseline_ns']) / 1000:.1f}" if case["baseline_ns"] else "")
        + (f" {case['level']}" if case["level"] else "")
        for case in found["cases"]
        if case["samples_ns"]  # a task's own harness reports none
    )


def machine() -> dict[str, Any]:
    """Name GPU, driver and libraries; the GPU is empty where there is none."""
    import torch

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        gpu = ""
    return {
        "gpu": gpu,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


if __name__ == "__main__":
    limit = float(sys.argv[3]) if len(sys.argv) > 3 else 1e9
    chosen = sys.argv[4] if len(sys.argv) > 4 else "*"
    folder, target = map(Path, sys.argv[1:3])
    sys.exit(1 if main(folder, target, limit, chosen, warm="warm" in sys.argv[5:]) else 0)
