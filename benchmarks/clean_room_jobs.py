"""Whole jobs in the clean room, on a GPU: what is replayed, what is called and why, times and how long it takes.

    python benchmarks/clean_room_jobs.py FOLDER [--seconds 470] [--runs 1] [--only triton,item] [--cold 1]

Writes one JSON line a job, with raw samples, to ``FOLDER/clean-room-jobs.jsonl``, and goes on where it stopped: what
the file or ``benchmarks/results`` has of the same modules on the timing path is not measured again, so an edit
elsewhere voids nothing. ``merge`` in the place of FOLDER, and files behind it, adds lines of these and the other
``clean-room-*.jsonl`` to ``benchmarks/results``.
``benchmarks/show.py`` computes figures from them. Needs torch and one NVIDIA GPU; kinds whose libraries are not
there fail, and are noted as such.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import timing_path
from clean_room_cases import MORE, TASKS
from time_common import (
    ROOT,
    STORED,
    Warm,
    about,
    compact,
    facts,
    note_canary,
    now,
    options,
    read,
    rounded,
    run_cold,
)

from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, MeasureRules, Mode, SourceTree

NAME = "clean-room-jobs.jsonl"
REPLAYED = (
    *TASKS,
    *(
        "triton",
        "small",
        "aten",
        "matmul",
        "splitk",
        "constants",
        "attention",
        "autotune",
        "compile",
        "overhead",
    ),
    *("own_graph", "fork", "cupy", "copy", "inline", "more_0"),
    *(name for name in MORE if name != "jax"),
)
"""Each of these that goes another way is a failure, unless its libraries are not there."""
CALLED = {
    "item": ("waits",),
    "noise": ("random",),
    "elsewhere": ("elsewhere",),
    "cupy_pool": (),
    "jax": ("runtime",),
}
"""These cannot be replayed, and the reasons that may be given; none where any will do."""
WALL = "wall_"
WALLS = tuple(
    WALL + name
    for name in ("small", "splitk", "triton", "matmul", "aten", "attention", "constants", *TASKS)
    if name != "histogram"
)
"""Kinds that could be replayed, but wait for the device at the end of each call: so they go by the wall clock."""
TIMED = ("vectoradd", "grayscale", "histogram")
"""Tasks whose warm tests are timed as well."""
REFERENCE = """\
import torch
from clean_room_cases import CASES

CASE = CASES[{name!r}]


def generate_input(seed):
    chance = torch.Generator("cuda").manual_seed(seed)
    made = []
    for shape, name in CASE.inputs:
        dtype = getattr(torch, name)
        if dtype.is_floating_point:
            made.append(torch.randn(shape, generator=chance, device="cuda").to(dtype))
        else:
            made.append(torch.randint(0, 256, shape, generator=chance, device="cuda").to(dtype))
    return tuple(made)


def ref_kernel(data):
    return CASE.right(*data)


def check_implementation(data, output):
    right = ref_kernel(data)
    error = ((output.float() - right.float()).abs() / (1 + right.float().abs())).max().item()
    return "" if error <= CASE.tolerance else f"off by {{error:.3g}}, {{CASE.tolerance}} is allowed"
"""
SUBMISSION = """\
from clean_room_cases import CASES

call = CASES[{name!r}].build()


def custom_kernel(data):
    return call(*data)
"""
WAITING = """\
import torch
from clean_room_cases import CASES

call = CASES[{name!r}].build()


def custom_kernel(data):
    answer = call(*data)
    torch.cuda.synchronize()
    return answer
"""
SHARED = ("clean_room_cases.py", "replay_cases.py", "replay_triton.py")


def spec_of(name: str, mode: Mode, backend: Backend) -> JobSpec:
    """Return a job whose submission is a kind of calls."""
    kind, text = name.removeprefix(WALL), WAITING if name.startswith(WALL) else SUBMISSION
    sources = {file: (ROOT / "benchmarks" / file).read_text(encoding="utf-8") for file in SHARED}
    return JobSpec(
        job_id=f"clean-room-{name}",
        mode=mode,
        backend=backend,
        harness=HarnessKind.STANDARD,
        sources={**sources, "reference.py": REFERENCE.format(name=kind)},
        private_files=["reference.py"],
        submission=SourceTree.of(text.format(name=kind)),
        tests=[{"seed": 11}],
        benchmarks=[{"seed": 12}],
        rules=MeasureRules(),
    )


class Lines:
    """The lines of these jobs, of modules as they are now.

    Args:
        folder: Where more are written.
        name: The name of their file.
    """

    def __init__(self, folder: Path, backend: Backend, name: str = NAME) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / name
        self._about = about(backend) | {"path_hash": timing_path.path_hash()}
        found = {line["id"]: line for path in (STORED / name, self._file) for line in read(path)}
        self.lines = [line for line in found.values() if line["path_hash"] == self._about["path_hash"]]

    def count(self, **wanted: Any) -> int:
        """Return how many lines have these values."""
        return sum(wanted.items() <= line.items() for line in self.lines)

    def add(self, **values: Any) -> None:
        """Write one line."""
        line = {"id": os.urandom(6).hex(), "date": now(), **self._about, **rounded(values)}
        self.lines.append(line)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def expected_of(name: str) -> str:
    """Return what is to become of a kind."""
    return "called" if name in CALLED or name.startswith(WALL) else "replayed"


def planned(chosen: Any) -> list[tuple[str, Mode, str]]:
    """Return name, mode and start of each job, the most telling first."""
    names = [*TIMED, *(each for each in REPLAYED if each not in TIMED), *CALLED, *WALLS]
    names = chosen.only.split(",") if chosen.only else names
    ranked = [(name, Mode.LEADERBOARD, "warm") for name in names]
    tests = [(name, Mode.TEST, "warm") for name in TIMED if name in names]
    cold = [(name, Mode.LEADERBOARD, "cold") for name in TIMED if name in names] if chosen.cold else []
    return [*ranked, *tests, *cold]


def run_jobs(chosen: Any) -> None:
    """Run what is missing, each once before any is run again."""
    backend, until = Backend(chosen.backend), time.monotonic() + chosen.seconds
    lines, plan = Lines(chosen.folder, backend), planned(chosen)
    known = facts(backend)
    warm = Warm(backend)
    try:
        for wanted in range(1, chosen.runs + 1):
            missing = [
                each for each in plan if lines.count(name=each[0], mode=each[1].value, start=each[2]) < wanted
            ]
            for number, (name, mode, start) in enumerate(missing):
                if time.monotonic() > until:
                    return
                if start == "warm" and not warm.left:
                    left = sum(each[2] == "warm" for each in missing[number:])
                    warm.fill(min(chosen.batch, left))
                spec = dataclasses.replace(spec_of(name, mode, backend), device=known)
                one(lines, warm if start == "warm" else None, spec, name, start)
    finally:
        warm.close()


def one(lines: Lines, warm: Warm | None, spec: JobSpec, name: str, start: str) -> None:
    """Run one job and note it."""
    try:
        seconds, report = warm.run(spec) if warm is not None else run_cold(spec)
    except Exception as error:  # one job must not cost the others their time on the machine
        print(f"{name}: {error}", flush=True)
        return
    note_canary(report)
    told = report["environment"].get("clean_room", {})
    lines.add(
        name=name,
        mode=spec.mode.value,
        start=start,
        expected=expected_of(name),
        seconds=seconds,
        clean_room=told,
        sandbox=report["environment"].get("sandbox", {}),
        report=compact(report),
    )
    cases = [case for stage in report["stages"] for case in stage["cases"] if case["timing"]]
    scores = [case["timing"]["audit"]["score_ns"] / 1e3 for case in cases if case["timing"]["audit"]]
    phases = ", ".join(f"{key} {s:.2f}" for key, s in report["phases"].items() if s >= 0.05)
    how = "replayed" if told.get("replayed") else told.get("reason", "-")
    print(
        f"{name} {spec.mode.value} {start}: {report['verdict']} {report['reason']} {how}"
        f" {[round(each, 3) for each in scores]} us, {seconds:.2f} s ({phases}) {report['message'][-300:]}",
        flush=True,
    )


def merge(paths: list[str]) -> None:
    """Add lines that are not there yet to the stored results of the same name."""
    for path in map(Path, paths):
        target = STORED / path.name
        known = {line["id"] for line in read(target)}
        new = [line for line in read(path) if line["id"] not in known]
        with target.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in new)
        print(f"{target.relative_to(ROOT)}: {len(new)} more")


if __name__ == "__main__":
    if sys.argv[1:2] == ["merge"]:
        merge(sys.argv[2:])
    else:
        run_jobs(options(__doc__, runs=1, batch=4, only="", cold=0))
