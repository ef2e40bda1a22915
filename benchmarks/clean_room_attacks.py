"""Attacks on the clock and their honest twins in the clean room, on a GPU: does any gain, and did it act at all?

    python benchmarks/clean_room_attacks.py FOLDER [--seconds 470] [--runs 1] [--only v28,v29_memo-ahead] [--long 1]

Writes one JSON line a job, with raw samples, to ``FOLDER/clean-room-attacks.jsonl``, and goes on where it stopped, as
``clean_room_jobs.py`` does. The attacks are those of ``tests/judged/attacks`` that have ``clock: true``. Attack and
twin have the same inputs in each run. An attack says that it acted by a line of its standard output that begins with
``acted``, or by marks beside its answers, which the task's checker prints. ``--long 1`` adds a case of 0.4 ms.
``KERNELCUP_SOURCE`` names other sources to judge with, see ``attack_walls.py``. Needs torch, CuPy, a YAML reader and
one NVIDIA GPU.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clean_room_jobs import Lines
from time_common import ROOT, SOURCE, Warm, compact, facts, note_canary, options

from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Limits, MeasureRules, Mode, SourceTree

NAME = "clean-room-attacks.jsonl"
ATTACKS = ROOT / "tests/judged/attacks"
UTILS = SOURCE / "kernelcup/tasks/shared/utils.py"
TESTS = {
    "timed_fma": [{"size": 4096, "rounds": 1, "seed": 11}],
    "timed_product": [{"size": 64, "steps": 1, "seed": 11}],
    "timed_sum": [{"size": 64, "seed": 11}],
    "timed_out": [{"size": 64, "seed": 11}],
}
CASES = {
    "timed_fma": [
        {"size": 4 << 20, "rounds": 1, "seed": 12},
        {"size": 1 << 16, "rounds": 1, "seed": 13},
        {"size": 1 << 20, "rounds": 1024, "seed": 14},
    ],
    "timed_product": [{"size": 1024, "steps": 1, "seed": 12}, {"size": 1536, "steps": 1, "seed": 13}],
    "timed_sum": [{"size": 2048, "seed": 12}, {"size": 3072, "seed": 13}],
    "timed_out": [{"size": 1024, "seed": 12}, {"size": 2048, "seed": 13}, {"size": 4096, "seed": 14}],
}
"""Bound by memory, small, and bound by arithmetic; the other tasks have two sizes of 10 us and more."""
LONG = {"timed_fma": {"size": 64 << 20, "rounds": 1, "seed": 15}}
"""Cases of 0.4 ms, which not all attacks are written for."""
LIMITS = {"import_s": 60.0, "test_s": 20.0, "ranked_s": 40.0}
"""An attack that hangs is not to cost the others their time on the machine."""
FAULT = "failed on the device"
"""Part of the message of a run that ended so: marks are lost with it."""
LEAST_RATIO = 0.97
"""An attack that takes at least this share of its twin's time has gained nothing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that is judged: an attack, or the twin of some."""

    name: str
    role: str
    task: str
    text: str
    limits: tuple[tuple[str, Any], ...] = ()
    twin: str = ""
    """Name of an attack's twin."""
    attack: str = ""
    """Its number."""
    rival: str = ""
    """The text that it meets in a duel, empty for none."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Return a file's mapping, by the reader that is there."""
    text = path.read_text(encoding="utf-8")
    try:
        from ruamel.yaml import YAML
    except ImportError:
        import yaml

        return dict(yaml.safe_load(text))
    return dict(YAML(typ="safe").load(text))


def entries() -> list[Entry]:
    """Return twins and attacks, each twin before the first attack that needs it, the newest attacks first."""
    found: dict[str, Entry] = {}
    for listing in sorted(ATTACKS.glob("*/attack.yml"), key=order):
        for each in of_listing(listing):
            found.setdefault(each.name, each)
    return list(found.values())


def order(listing: Path) -> tuple[bool, str]:
    """Return what attacks are sorted by: those written for the clean room come first."""
    name = listing.parent.name
    return not (name.startswith("v") and int(name[1:3]) >= 25), name


def of_listing(listing: Path) -> Iterator[Entry]:
    """Yield the entries of one folder, none if its attacks are not on the clock."""
    about = read_yaml(listing)
    if not about.get("clock"):
        return
    for variant in about.get("variants", ["attack.py"]):
        own = {**about, **({"file": variant} if isinstance(variant, str) else dict(variant))}
        file, task = own.get("file", "attack.py"), own["task"]
        honest = (listing.parent / own.get("honest", "honest.py")).read_text(encoding="utf-8")
        twin = f"{task}-{hashlib.sha256(honest.encode()).hexdigest()[:6]}"
        limits = tuple(own.get("limits", {}).items())
        yield Entry(twin, "honest", task, honest)
        text = (listing.parent / file).read_text(encoding="utf-8")
        extra = file.removesuffix(".py").removeprefix("attack").strip("_")
        name = "-".join(filter(None, [listing.parent.name, extra]))
        yield Entry(name, "attack", task, text, limits, twin, own["id"], honest if own.get("duel") else "")


def spec_of(entry: Entry, run: int, backend: Backend) -> JobSpec:
    """Return the job of an entry: in one run, all entries of a task have the same inputs."""
    folder = ATTACKS / "tasks" / entry.task
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    known = {each.name for each in dataclasses.fields(MeasureRules)}
    return JobSpec(
        job_id=entry.name,
        mode=Mode.LEADERBOARD,
        backend=backend,
        harness=HarnessKind.STANDARD,
        sources={**sources, "utils.py": UTILS.read_text(encoding="utf-8")},
        private_files=["reference.py"],
        submission=SourceTree.of(entry.text),
        tests=TESTS[entry.task],
        benchmarks=CASES[entry.task],
        limits=Limits(**{**LIMITS, **dict(entry.limits)}),
        rival=SourceTree.of(entry.rival) if entry.rival else None,
        rules=MeasureRules(**({"clean_room": True} if "clean_room" in known else {})),
        secret_seed=hashlib.sha256(f"{entry.task} {run}".encode()).hexdigest(),
    )


def times_of(report: dict[str, Any]) -> list[float]:
    """Return the ranked time of each case in nanoseconds."""
    return [
        case["timing"]["audit"]["score_ns"]
        for stage in report["stages"]
        if stage["name"] == "ranked"
        for case in stage["cases"]
        if case["timing"] and case["timing"]["audit"]
    ]


def findings_of(report: dict[str, Any]) -> list[str]:
    """Return the codes of what was found on times, a star behind those for which a person has to look at the run."""
    found = [
        each
        for stage in report["stages"]
        for case in stage["cases"]
        if case["timing"] and case["timing"]["audit"]
        for each in case["timing"]["audit"]["findings"]
    ]
    codes = [f"{each['code']}{'*' if each.get('quarantines') else ''}" for each in found]
    return sorted({*codes, *("held" for _ in report.get("quarantine") or [])})


def said(report: dict[str, Any], log: str) -> list[str]:
    """Return what an attack says of itself: its own lines, and its marks by the size of the input."""
    lines = [line[:200] for line in report["stdout"]["text"].splitlines() if line.startswith("acted")]
    if FAULT in report["message"]:
        lines.append("acted: its replay ended in a fault of the device")
    # The last line of a size has the largest marks.
    marks = dict(re.findall(r"^marks (\d+) (\[.*\])$", log, re.MULTILINE))
    return [*dict.fromkeys(lines), *(f"marks at {size}: {numbers}" for size, numbers in marks.items())]


def acted(found: list[str]) -> bool:
    """Return whether an attack says that it acted, in calls that count."""
    sizes = {case["size"] for case in CASES["timed_fma"]} | {case["size"] ** 2 for case in CASES["timed_out"]}
    marked = [re.match(r"marks at (\d+):", each) for each in found]
    return any(each.startswith("acted") for each in found) or any(m and int(m[1]) in sizes for m in marked)


def ratios_of(times: list[float], twins: list[list[float]]) -> list[float]:
    """Return each case's time as a share of the twin's median, nothing where one of them has no times."""
    full = [each for each in twins if len(each) == len(times)]
    if not times or not full:
        return []
    return [mine / statistics.median(each[at] for each in full) for at, mine in enumerate(times)]


def run_all(chosen: Any) -> None:
    """Run what is missing, each once before any is run again."""
    backend, until = Backend(chosen.backend), time.monotonic() + chosen.seconds
    lines, plan = Lines(chosen.folder, backend, NAME), wanted(entries(), chosen.only)
    known, warm = facts(backend), Warm(backend)
    try:
        for run in range(chosen.runs):
            missing = [each for each in plan if lines.count(name=each.name) <= run]
            for number, entry in enumerate(missing):
                if time.monotonic() > until:
                    return
                if not warm.left:
                    warm.fill(min(chosen.batch, len(missing) - number))
                one(lines, warm, dataclasses.replace(spec_of(entry, run, backend), device=known), entry)
    finally:
        warm.close()


def wanted(found: list[Entry], only: str) -> list[Entry]:
    """Return the entries to run: those whose names begin with one of ``only``, and their twins."""
    if not only:
        return found
    chosen = [
        each for each in found if each.role == "attack" and each.name.startswith(tuple(only.split(",")))
    ]
    twins = {each.twin for each in chosen}
    return [each for each in found if each in chosen or each.name in twins]


def one(lines: Lines, warm: Warm, spec: JobSpec, entry: Entry) -> None:
    """Run one job, and note and say what became of it."""
    try:
        seconds, report = warm.run(spec)
    except Exception as error:  # one job must not cost the others their time on the machine
        print(f"{entry.name}: {error}", flush=True)
        lines.add(
            name=entry.name,
            role=entry.role,
            twin=entry.twin,
            task=entry.task,
            verdict="none",
            error=str(error),
        )
        return
    note_canary(report)
    times, observed = times_of(report), said(report, warm.log)
    twins = [line["times_ns"] for line in lines.lines if line["name"] == entry.twin and "times_ns" in line]
    ratios = ratios_of(times, twins) if report["verdict"] == "accepted" else []
    room = report["environment"].get("clean_room", {})
    lines.add(
        name=entry.name,
        role=entry.role,
        task=entry.task,
        twin=entry.twin,
        attack=entry.attack,
        seconds=seconds,
        verdict=report["verdict"],
        reason=report["reason"],
        trust=report["trust"],
        clean_room=room,
        times_ns=times,
        honest_ns=[statistics.median(each) for each in zip(*twins, strict=True)] if ratios else [],
        ratios=ratios,
        findings=findings_of(report),
        acted=acted(observed),
        duel=(report["duel"]["verdict"] or "rival_failed") if report["duel"] else "",
        says=observed,
        report=compact(report),
    )
    outcome = (
        f"{entry.role} {report['verdict']} {report['reason']}, {report['trust']} {room.get('reason', '')}"
    )
    shown = " ".join(f"{each / 1e3:.2f}" for each in times)
    found = " ".join(findings_of(report)) or "nothing found"
    print(
        f"{entry.name}: {outcome}, {shown} us, {judged(entry, ratios)}, {found}, {seconds:.1f} s", flush=True
    )
    if report["duel"]:
        print(
            f"    duel: {report['duel']['verdict']} {report['duel']['ratio']} {report['duel']['rival_message'][:200]}"
        )
    for line in [*observed, report["message"][-300:]]:
        print(f"    {line}" if line else "", end="\n" if line else "", flush=True)


def judged(entry: Entry, ratios: list[float]) -> str:
    """Say what an attack has gained."""
    if entry.role == "honest":
        return "twin"
    if not ratios:
        return "no times"
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    cases = " ".join(f"{each:.3f}" for each in ratios)
    return f"{'no gain' if min(ratios) >= LEAST_RATIO else 'GAIN'}: {mean:.3f} ({cases})"


def main() -> None:
    """Read the command line and run what is missing."""
    chosen = options(__doc__, runs=1, batch=6, only="", show=0, long=0)
    for task, case in LONG.items() if chosen.long else ():
        CASES[task].append(case)
    if chosen.show:
        print(json.dumps([(each.name, each.twin) for each in wanted(entries(), chosen.only)], indent=1))
        return
    run_all(chosen)


if __name__ == "__main__":
    main()
