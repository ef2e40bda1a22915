"""From the start of a job to its verdict: warm and cold, test mode and ranked, by phase.

    python benchmarks/time_verdicts.py FOLDER [--backend cuda] [--repeats 10] [--ranked 20] [--cold 10]
        [--batch 10]

Three tasks with five small tests each in PyTorch; vector add is also ranked, with five benchmarks of
about 2 to 40 us. Warm runners are started together and then used one after the other, so nothing is
being imported while a job is measured. The ranked runs are in processes of their own each: their raw
samples also show how far scores scatter.
"""

from __future__ import annotations

import sys
from typing import Any

import time_tasks as tasks
from time_common import Log, Warm, compact, job, options, run_cold, warm

from kernelcup_harness.protocol import Backend, JobSpec, Mode

TEST = {
    "vectoradd": (tasks.ADD, tasks.TORCH_ADD),
    "grayscale": (tasks.GRAYSCALE, tasks.TORCH_GRAYSCALE),
    "histogram": (tasks.HISTOGRAM, tasks.TORCH_HISTOGRAM),
}
RANKED_SIZES = (512, 1024, 2048, 3072, 4096)
RANKED_SIZES_ON_HOST = (16, 32, 64, 128, 256)


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, repeats=10, ranked=20, cold=10, batch=10)
    log = Log(chosen, "verdicts")
    plan = [(name, "test", chosen.repeats) for name in TEST] + [("vectoradd", "ranked", chosen.ranked)]
    with warm(log.backend) as runners:
        for name, stage, wanted in plan:
            for number in log.missing(wanted, task=name, stage=stage, start="warm"):
                if not runners.left:
                    runners.fill(min(chosen.batch, wanted - number))
                one(log, runners, name, stage)
    for name, stage in (("vectoradd", "test"), ("vectoradd", "ranked")):
        for _ in log.missing(chosen.cold, task=name, stage=stage, start="cold"):
            one(log, None, name, stage)
    return 0


def one(log: Log, runners: Warm | None, name: str, stage: str) -> None:
    """Run one job and note it."""
    spec = made(name, stage, log.backend)
    seconds, report = runners.run(spec) if runners is not None else run_cold(spec)
    start = "warm" if runners is not None else "cold"
    found: dict[str, Any] = {"task": name, "stage": stage, "start": start, "seconds": seconds}
    log.add(**found, report=compact(report))
    log.say(f"{start} {name} {stage}: {seconds:.2f} s {report['verdict']} {report['message'][-200:]}")


def made(name: str, stage: str, backend: Backend) -> JobSpec:
    """Return a job of one task."""
    reference, submission = TEST[name]
    sizes = RANKED_SIZES if backend is Backend.CUDA else RANKED_SIZES_ON_HOST
    mode = Mode.TEST if stage == "test" else Mode.LEADERBOARD
    return job(f"{name}-{stage}", reference, submission, sizes, backend=backend, mode=mode)


if __name__ == "__main__":
    sys.exit(main())
