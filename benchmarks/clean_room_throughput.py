"""A queue of mixed submissions on one GPU: jobs a minute, and how much of that time the GPU was measuring.

    python benchmarks/clean_room_throughput.py FOLDER [--jobs 30] [--ready 2] [--seconds 200]

As a service does, --ready runners wait all the time and are replaced in the background while jobs run. Two jobs of
three are ranked, one is a test; the submissions are kinds of ``clean_room_jobs.py`` that are not compiled at length.
Writes one JSON line to ``FOLDER/clean-room-throughput.jsonl``.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

from clean_room_jobs import Lines, spec_of
from time_common import compact, facts, options, warm

from kernelcup_harness.protocol import Backend, Mode

NAME = "clean-room-throughput.jsonl"
KINDS = (
    "vectoradd",
    "triton",
    "aten",
    "item",
    "matmul",
    "grayscale",
    "small",
    "attention",
    "cupy",
    "histogram",
)


def main() -> int:
    """Run a queue, unless one is stored."""
    chosen = options(__doc__, jobs=30, ready=2)
    backend, until = Backend(chosen.backend), time.monotonic() + chosen.seconds
    lines = Lines(chosen.folder, backend, NAME)
    if lines.lines:
        return 0
    known, found = facts(backend), []
    with warm(backend, while_busy=chosen.ready) as runners:
        runners.wait()
        began = time.monotonic()
        for number in range(chosen.jobs):
            if time.monotonic() > until:
                break
            mode = Mode.LEADERBOARD if number % 3 else Mode.TEST
            spec = dataclasses.replace(spec_of(KINDS[number % len(KINDS)], mode, backend), device=known)
            waiting = time.monotonic()
            while not runners.left:
                time.sleep(0.005)
            waited = time.monotonic() - waiting
            begin = time.monotonic() - began
            seconds, report = runners.run(spec)
            found.append(summary(spec.job_id, mode, begin, waited, seconds, report))
            print(f"{spec.job_id}: waited {waited:.2f} s, {seconds:.2f} s {report['verdict']}", flush=True)
        wall = time.monotonic() - began
    lines.add(kind="queue", jobs=len(found), ready=chosen.ready, wall_s=wall, runs=found)
    return 0


def summary(
    job: str, mode: Mode, begin: float, waited: float, seconds: float, report: dict[str, Any]
) -> dict[str, Any]:
    """Return what counts here."""
    kept = compact(report)
    names = ("verdict", "trust", "phases", "message")
    about = {"job": job, "mode": mode.value, "began_s": begin, "waited_s": waited, "seconds": seconds}
    return {**about, **{name: kept[name] for name in names}}


if __name__ == "__main__":
    sys.exit(main())
