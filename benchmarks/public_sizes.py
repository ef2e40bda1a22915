"""Tasks of the sizes and habits of public ones: test and ranked, warm and cold, and what points 1, 3, 8 and 9 ask.

    python benchmarks/public_sizes.py jobs FOLDER                  where KernelCup is installed
    python benchmarks/public_sizes.py run FOLDER OUT [--backend cuda] [--warm 2] [--cold 1] [--seconds 200]
    python benchmarks/public_sizes.py show [FILE]                  figures of the stored lines

The tasks lie in ``benchmarks/public_sizes``: inputs up to 1 GB, deterministic algorithms, float64 references,
outputs that come with the input. Attacks are those of ``tests/judged`` that need no particular clock.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from clean_room_attacks import CASES
from time_common import ROOT, STORED, Log, Warm, compact, facts, options, read, run_cold, this_hash, warm

from kernelcup_harness.protocol import Backend, JobSpec, SourceTree, from_json, to_json

TASKS = ("add_in_place", "grayscale", "sort", "row_norm")
POINTS = {
    "v21_uncounted_nan": 1,
    "v22_half_of_the_work": 3,
    "v23_memory_hog": 8,
    "v24_unprovable": 9,
}
"""Attacks, and the point of the issue of first contact that each belongs to."""
SETTLED_S = 12.0
"""Runners that wait import more once they have waited for a while."""
TEST_S, OVER = 2.0, 1.5
"""Limits: seconds of a warm test, and of a ranked stage the multiple of its budget."""


def write_jobs(folder: Path) -> None:
    """Write a JSON file for each job."""
    sys.path.insert(0, str(ROOT / "tests/judged/attacks"))
    import corpus

    from kernelcup.tasks.job_spec import build_job_spec
    from kernelcup.tasks.loader import load_task
    from kernelcup_harness.protocol import HarnessKind, Mode

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("job-*.json"):
        old.unlink()
    jobs = []
    for name in TASKS:
        task = load_task(ROOT / "benchmarks/public_sizes" / name)
        text = (ROOT / "benchmarks/public_sizes" / name / "submission.py").read_text(encoding="utf-8")
        for mode in (Mode.TEST, Mode.LEADERBOARD):
            spec = build_job_spec(
                task,
                job_id=name,
                submission=SourceTree.of(text),
                mode=mode,
                backend=Backend.CUDA,
                harness=HarnessKind.STANDARD,
            )
            jobs.append({"name": name, "role": mode.value, "point": 10, "spec": to_json(spec)})
    for attack in corpus.everything():
        if attack.folder.name not in POINTS:
            continue
        task, point = load_task(attack.task_folder), POINTS[attack.folder.name]
        for role, file in (("attack", attack.file), ("twin", attack.honest)):
            spec = corpus.job(attack, task, file, Backend.CUDA, "attack")
            spec = dataclasses.replace(spec, benchmarks=CASES.get(attack.task, spec.benchmarks))
            jobs.append({"name": attack.name, "role": role, "point": point, "spec": to_json(spec)})
    for number, job in enumerate(jobs):
        (folder / f"job-{number:02}.json").write_text(json.dumps(job))
    print(f"{len(jobs)} jobs in {folder}")


def run_jobs(chosen: Any, jobs: list[dict[str, Any]]) -> None:
    """Run what is missing: each once warm, then cold ones, then the rest."""
    log = Log(chosen, "public-sizes")
    plan = [(job, "warm", 1) for job in jobs if job["role"] != "twin"]
    plan += [(job, "cold", chosen.cold) for job in jobs if job["point"] == 10 and chosen.cold]
    plan += [(job, "warm", 1) for job in jobs if job["role"] == "twin"]
    plan += [(job, "warm", chosen.warm) for job in jobs if job["point"] == 10]
    facts(log.backend)
    with warm(log.backend) as runners:
        for at, (job, start, wanted) in enumerate(plan):
            about = {"name": job["name"], "role": job["role"], "start": start}
            for _ in log.missing(wanted, **about):
                if start == "warm" and not runners.left:
                    left = sum(each == "warm" for _job, each, _wanted in plan[at:])
                    runners.fill(min(chosen.batch, left))
                    time.sleep(SETTLED_S if log.backend is Backend.CUDA else 0.0)
                one(log, runners if start == "warm" else None, job, about)


def one(log: Log, runners: Warm | None, job: dict[str, Any], about: dict[str, Any]) -> None:
    """Run one job and note it."""
    spec = from_json(JobSpec, job["spec"])
    spec = dataclasses.replace(spec, backend=log.backend, device=facts(log.backend))
    try:
        seconds, report = runners.run(spec) if runners is not None else run_cold(spec)
    except Exception as error:  # one job must not cost the others their time on the machine
        log.say(f"{about} failed: {error}")
        return
    log.add(
        **about,
        point=job["point"],
        budget_s=spec.rules.stage_budget_s,
        seconds=seconds,
        report=compact(report),
    )
    log.say(f"{about['start']} {about['name']} {about['role']}: {told(log.lines[-1])}")


def told(line: dict[str, Any]) -> str:
    """Return a line's figures in words."""
    report = line["report"]
    stages = ", ".join(f"{stage['name']} {stage['duration_s']:.2f}" for stage in report["stages"])
    phases = ", ".join(f"{name} {s:.2f}" for name, s in report["phases"].items() if s >= 0.3)
    end = f"{report['verdict']} {report['reason']} {report['trust']}".replace("  ", " ")
    return f"{line['seconds']:.2f} s; {end}; {stages} ({phases}) {report['message'][-160:]}"


def show(file: Path) -> int:
    """Print figures of what was stored by this harness, or the newest; return 1 if one misses its goal."""
    lines = [line for line in read(file) if line["backend"] == "cuda"]
    own = [line for line in lines if line["harness_hash"] == this_hash()]
    chosen = own or [line for line in lines if line["harness_hash"] == lines[-1]["harness_hash"]]
    failed = 0
    for key in dict.fromkeys((line["point"], line["name"], line["role"], line["start"]) for line in chosen):
        group = [line for line in chosen if (line["point"], line["name"], line["role"], line["start"]) == key]
        good = all(map(is_good, group))
        failed += not good
        middle = statistics.median(line["seconds"] for line in group)
        head = f"{'pass' if good else 'FAIL'}  {key[0]:2} {key[3]} {key[1]} {key[2]}"
        print(f"{head}: {middle:.2f} s of {len(group)}; {told(group[-1])}")
    return int(failed > 0)


def is_good(line: dict[str, Any]) -> bool:
    """Tell whether a line is as it should be."""
    report, role = line["report"], line["role"]
    if role == "attack":
        return report["verdict"] != "accepted" or report["trust"] == "wall clock"
    if report["verdict"] != "accepted":
        return False
    if role == "test":
        return line["start"] == "cold" or line["seconds"] <= TEST_S
    ranked = [stage["duration_s"] for stage in report["stages"] if stage["name"] == "ranked"]
    return all(s <= OVER * line["budget_s"] for s in ranked)


def main() -> int:
    """Do what the first word says."""
    command = sys.argv.pop(1)
    if command == "jobs":
        write_jobs(Path(sys.argv[1]))
        return 0
    if command == "show":
        return show(Path(sys.argv[1]) if len(sys.argv) > 1 else STORED / "time-public-sizes.jsonl")
    folder = Path(sys.argv.pop(1))
    chosen = options(__doc__, warm=2, cold=1, batch=14)
    run_jobs(chosen, [json.loads(path.read_text()) for path in sorted(folder.glob("job-*.json"))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
