"""Run the jobs of ``attack_jobs.py`` on a machine that has torch and nothing else of ours.

    python benchmarks/run_attack_jobs.py FOLDER RESULT.json [--at-once 8] [--seconds 500] [--rounds 2]

Verdicts count here, not times: several jobs share the GPU. What attacks the machine itself runs alone,
and after it an honest job shows how soon the next one can start. RESULT.json is rewritten as jobs end,
so an outer limit loses nothing, and what it has already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from run_gpu_jobs import machine

ROOT = Path(__file__).resolve().parent.parent
JOB_TIMEOUT_S = 150
NEXT_JOB = "honest"

# Jobs that share a GPU must not each keep 40 % of it for the judge.
PART = "KERNELCUP_HARNESS_GPU_PART"

writing = threading.Lock()


def main() -> int:
    """Run every job and return how many came out otherwise than expected."""
    options = parse_options()
    end = time.monotonic() + options.seconds
    about = json.loads((options.folder / "about.json").read_text())
    result: dict[str, Any] = {
        **about,
        "machine": machine(),
        "sandbox": described(),
        "date": datetime.now(UTC).isoformat(),
        "at_once": options.at_once,
        "jobs": [],
        "not_run": [],
        "left_out": [],
    }
    if options.result.exists():
        before = json.loads(options.result.read_text())
        if before["harness_hash"] == about["harness_hash"]:
            result["jobs"] = before["jobs"]
    jobs = [json.loads(path.read_text()) for path in sorted(options.folder.glob("job-*.json"))]
    if "cgroup" not in result["sandbox"].get("limits", ""):
        # Memory that no process has mapped is bounded by control groups only.
        result["left_out"] = [job["name"] for job in jobs if job["group"]]
        jobs = [job for job in jobs if not job["group"]]
    run_all(jobs, options, result, end)
    wrong = [job["name"] for job in result["jobs"] if not job["as_expected"]]
    counts = f"{len(result['jobs'])} runs, {len(wrong)} not as expected, {len(result['not_run'])} not run"
    print(f"{counts} {wrong}")
    return 1 if wrong or result["not_run"] else 0


def run_all(
    jobs: list[dict[str, Any]], options: argparse.Namespace, result: dict[str, Any], end: float
) -> None:
    """Run all rounds: first what may share the machine, then what attacks it."""
    done = {(job["key"], job["round"]) for job in result["jobs"]}
    plan = [(job, number) for number in range(options.rounds) for job in jobs]
    plan = [(job, number) for job, number in plan if (job["key"], number) not in done]
    together = [each for each in plan if not each[0]["alone"]]
    alone = [each for each in plan if each[0]["alone"]]
    after = next(job for job in jobs if job["role"] == NEXT_JOB)

    def take(each: tuple[dict[str, Any], int], *, then: dict[str, Any] | None = None) -> None:
        job, number = each
        if time.monotonic() > end:
            with writing:
                result["not_run"].append(f"{job['name']} round {number}")
            return
        found = {**run(job), "round": number}
        if then is not None:
            found["next_job_s"] = started_after_s(then)
        with writing:
            result["jobs"].append(found)
            options.result.write_text(json.dumps(result, indent=1))

    with ThreadPoolExecutor(options.at_once) as pool:
        consume(pool.map(take, together))
    for each in alone:
        take(each, then=after if each[1] == 0 else None)
    options.result.write_text(json.dumps(result, indent=1))


def consume(values: Iterable[object]) -> None:
    """Wait for all, and raise what one of them has raised."""
    for _ in values:
        pass


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--rounds", type=int, default=2)
    return parser.parse_args()


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run one job and keep what a reader wants of its report."""
    began = time.monotonic()
    # Some attacks look for what an earlier job has left: that job goes first, whatever becomes of it.
    before = harness(job["first"])["verdict"] if job.get("first") else ""
    report = harness(job["spec"])
    expected = job["expected"]
    right = report["verdict"] in expected["verdicts"]
    right = right and (not expected["reasons"] or report.get("reason") in expected["reasons"])
    found = {
        **{key: job[key] for key in ("key", "name", "id", "role", "needs", "expected")},
        "verdict": report["verdict"],
        "reason": report.get("reason", ""),
        "before": before,
        "as_expected": right,
        "message": report["message"][-300:],
        "wall_s": round(time.monotonic() - began, 2),
    }
    mark = "ok  " if right else "FAIL"
    print(
        f"{mark} {found['name']:46} {found['verdict']:22} {found['reason']:14} {found['wall_s']:6.1f} s",
        flush=True,
    )
    if not right:
        print(f"     {found['message']}", flush=True)
    return found


def started_after_s(job: dict[str, Any]) -> float:
    """Return how long the next job took to start, beyond what it takes itself."""
    began = time.monotonic()
    report = harness(job["spec"])
    if report["verdict"] != "accepted":
        return float("inf")
    return round(time.monotonic() - began - float(report["duration_s"]), 2)


def harness(spec: dict[str, Any]) -> dict[str, Any]:
    """Judge a job in a process of its own, which is gone in the end whatever it does."""
    command = [sys.executable, "-m", "kernelcup_harness", "--die-with-parent", "-"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(spec),
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), PART: os.environ.get(PART, "0.05")},
            timeout=JOB_TIMEOUT_S,
            check=False,
        )
        return dict(json.loads(done.stdout.splitlines()[-1])["report"])
    except (subprocess.TimeoutExpired, IndexError, ValueError, KeyError) as error:
        return {"verdict": "none", "message": f"{type(error).__name__}: no report", "duration_s": 0.0}


def described() -> dict[str, Any]:
    """Return what the harness says of its sandbox."""
    command = [sys.executable, "-m", "kernelcup_harness", "--describe"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return dict(json.loads(done.stdout)["sandbox"])


if __name__ == "__main__":
    sys.exit(main())
