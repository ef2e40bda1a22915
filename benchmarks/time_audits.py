"""False alarms and forged claims: what the audits say of honest submissions and of halved clocks.

    python benchmarks/time_audits.py FOLDER [--backend cuda] [--part line|honest|forged|all]
        [--tree torch|cupy|jax|all] [--lines 5] [--repeats 10] [--forged 100] [--stage-budget 1.8]

Twenty honest submissions are run ten times each, forged ones a hundred times, on three cases of about
4, 10 and more than 20 us, in warm process trees (one for PyTorch and Triton, one for CuPy, one for each run
of JAX).
The timed stage of a job takes --stage-budget seconds here, as much for a case as a ranked job of ten
cases has; slack comes from each run's own calibration. ``line`` has the trusted contestant make a hundred
handshakes of each kind, of which all raw times are kept.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import time_tasks as tasks
from time_common import AGAIN, TRIES, Log, compact, facts, job, options
from time_figures import is_machines
from time_lab import Lab, lab, with_budget

TREES = {"cupy": "cupy", "jax": "jax"}
"""Kinds that have a process tree of their own."""
SAMPLES = 100
FORGED = ("add-torch", "matmul-torch", "add-triton", "add-several")


def main() -> int:
    """Measure what is missing, a tree at a time."""
    chosen = options(__doc__, part="all", tree="all", lines=5, repeats=10, forged=100, stage_budget=1.8)
    log = Log(chosen, "audits")
    if chosen.part in ("all", "line"):
        lines(log, chosen.lines)
    possible = [each for each in tasks.HONEST if tasks.possible(each, log.backend)]
    if chosen.part in ("all", "honest"):
        for tree in ("torch", "cupy", "jax") if chosen.tree == "all" else (chosen.tree,):
            here = [each for each in possible if TREES.get(each.kind, "torch") == tree]
            # Each in a process of its own, as in a job: what a call of JAX leaves behind is seen.
            for wanted in range(1, chosen.repeats + 1) if tree == "jax" else (chosen.repeats,):
                run_all(log, here, "honest", wanted, chosen.stage_budget)
    if chosen.part in ("all", "forged"):
        # In a tree of their own: what they patch stays patched.
        forgers = [each for each in possible if each.name in FORGED]
        run_all(log, forgers, "forged", -(-chosen.forged // len(forgers)), chosen.stage_budget)
    return 0


def lines(log: Log, wanted: int) -> None:
    """Calibrate with a hundred samples of each kind."""
    if log.count(role="line") >= wanted:
        return
    known = facts(log.backend)
    with lab(log.backend, "trusted") as here:
        for number in log.missing(wanted, role="line"):
            found = here.calibrate(SAMPLES, known.empty_kernel_ns if known is not None else None)
            log.add(role="line", samples=SAMPLES, **found)
            log.say(f"line {number + 1}: residual {found['residual_ns'] / 1e3:.2f} us")


def run_all(log: Log, chosen: list[tasks.Honest], role: str, wanted: int, budget_s: float) -> None:
    """Run what is missing in one tree, in turns."""
    left = [each for each in chosen if log.count(name=each.name, role=role) < wanted]
    if not left or log.is_over:
        return
    with lab(log.backend, "submission", "trusted") as here:
        for number in range(wanted):
            for each in left:
                if log.count(name=each.name, role=role) <= number and not log.is_over:
                    one(log, here, each, role, budget_s)


def one(log: Log, here: Lab, each: tasks.Honest, role: str, budget_s: float) -> None:
    """Run one submission once."""
    text = each.text if role == "honest" else tasks.FORGED + each.text
    sizes = tasks.sizes(each.task, log.backend)
    spec = job(
        f"{role}-{each.name}", tasks.TASKS[each.task], text, sizes, backend=log.backend, tests=sizes[:1]
    )
    for _ in range(TRIES):
        began = time.monotonic()
        report: dict[str, Any] = here.judge(with_budget(spec, budget_s))
        failed = is_machines({"report": report})
        log.add(
            name=each.name,
            kind=each.kind,
            role=role + AGAIN * failed,
            budget_s=budget_s,
            report=compact(report),
        )
        codes = [finding["code"] for finding in report["quarantine"]]
        log.say(
            f"{role} {each.name}: {report['verdict']} {report['trust']} {codes} "
            f"{time.monotonic() - began:.1f} s {report['message'][-200:]}"
        )
        if report["reason"] == "exited":
            log.say(here.last_words())
        if not failed:
            break


if __name__ == "__main__":
    sys.exit(main())
