"""Whether 95 % intervals hold the value that 10,000 samples give.

    python benchmarks/time_coverage.py FOLDER [--backend cuda] [--runs 200] [--long 10000] [--size 2048]

One warm process tree makes runs as a ranked stage does, with the rule that ends sampling; between them
it takes parts of a long series, so that whatever drifts does so for both. All samples are stored.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import time_tasks as tasks
from time_common import Log, facts, job, options, ranked
from time_lab import Lab, lab

from kernelcup_harness.protocol import JobSpec

PARTS = 20


def main() -> int:
    """Measure what is missing: parts, each of some runs and a piece of the long series."""
    chosen = options(__doc__, runs=200, long=10_000, size=2048)
    log = Log(chosen, "coverage")
    spec = job("coverage", tasks.ADD, tasks.TORCH_ADD, [chosen.size], backend=log.backend, tests=[])
    spec = dataclasses.replace(spec, rules=dataclasses.replace(spec.rules, case_budget_s=1.2))
    piece = chosen.long // PARTS
    long_rules = dataclasses.replace(
        spec.rules,
        min_samples=piece,
        max_samples=piece,
        relative_error=0.0,
        stage_budget_s=1e3,
        case_budget_s=1e3,
    )
    long_spec = dataclasses.replace(spec, rules=long_rules)
    key = {"size": chosen.size, "long": chosen.long}
    with lab(log.backend, "submission") as here:
        offset_ns = here.offset_ns("submission", facts(log.backend))
        for number in log.missing(PARTS, **key):
            runs = [taken(here, spec) for _ in range(chosen.runs // PARTS)]
            series = taken(here, long_spec)
            log.add(**key, offset_ns=offset_ns, runs=runs, series=series)
            log.say(f"part {number + 1} of {PARTS}: {sum(map(len, runs))} and {len(series)} samples")
    return 0


def taken(here: Lab, spec: JobSpec) -> list[float]:
    """Return the samples of one run. Raise ``RuntimeError`` if it was not accepted."""
    report: dict[str, Any] = here.judge(spec)
    if report["verdict"] != "accepted":
        raise RuntimeError(report["message"])
    samples: list[float] = ranked(report)[0]["timing"]["samples_ns"]
    return samples


if __name__ == "__main__":
    sys.exit(main())
