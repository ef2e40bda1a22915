"""A queue of mixed submissions on one GPU: jobs a minute, and how much of that time the GPU was measuring.

    python benchmarks/time_throughput.py FOLDER [--backend cuda] [--jobs 30] [--ready 2]

As a service does, --ready runners wait all the time and are replaced in the background while jobs run.
Two jobs of three are ranked, one is a test; the submissions are the honest ones that need no build.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import time_tasks as tasks
from time_common import Log, compact, job, options, warm

from kernelcup_harness.protocol import Backend, JobSpec, Mode

KINDS = ("torch", "several", "sync", "triton")
SIZES = {"add": (512, 1024, 2048, 3072, 4096), "matmul": (256, 512, 1024, 2048, 3072)}
SIZES["softmax"] = (512, 1024, 2048, 3072, 4096)
SIZES_ON_HOST = (32, 64, 96, 128, 160)


def main() -> int:
    """Run a queue, unless there is one."""
    chosen = options(__doc__, jobs=30, ready=2)
    log = Log(chosen, "throughput")
    if log.count(jobs=chosen.jobs):
        return 0
    specs = [made(number, log.backend) for number in range(chosen.jobs)]
    with warm(log.backend, while_busy=chosen.ready) as runners:
        runners.wait()
        began = time.monotonic()
        found = []
        for spec in specs:
            waited = time.monotonic()
            while not runners.left:
                time.sleep(0.005)
            waited = time.monotonic() - waited
            begin = time.monotonic() - began
            seconds, report = runners.run(spec)
            found.append(summary(spec, begin, waited, seconds, report))
            log.say(f"{spec.job_id}: waited {waited:.2f} s, {seconds:.2f} s {report['verdict']}")
        wall = time.monotonic() - began
    log.add(jobs=chosen.jobs, ready=chosen.ready, wall_s=wall, runs=found)
    return 0


def summary(
    spec: JobSpec, begin: float, waited: float, seconds: float, report: dict[str, Any]
) -> dict[str, Any]:
    """Return what counts here."""
    kept = compact(report)
    return {
        "job": spec.job_id,
        "mode": spec.mode.value,
        "began_s": begin,
        "waited_s": waited,
        "seconds": seconds,
        **{name: kept[name] for name in ("verdict", "trust", "quarantine", "phases", "message")},
    }


def made(number: int, backend: Backend) -> JobSpec:
    """Return one of the queue."""
    possible = [each for each in tasks.HONEST if each.kind in KINDS and tasks.possible(each, backend)]
    each = possible[number % len(possible)]
    sizes = SIZES[each.task] if backend is Backend.CUDA else SIZES_ON_HOST
    mode = Mode.LEADERBOARD if number % 3 else Mode.TEST
    return job(f"{number}-{each.name}", tasks.TASKS[each.task], each.text, sizes, backend=backend, mode=mode)


if __name__ == "__main__":
    sys.exit(main())
