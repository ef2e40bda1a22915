"""Attacks on the clock and their honest twins on a real GPU: what does each gain?

    python benchmarks/time_attacks.py jobs FOLDER                  where KernelCup is installed
    python benchmarks/time_attacks.py run FOLDER OUT [--backend cuda] [--rounds 1] [--batch 12]
        [--share 0/1]                    of so many equal parts of the attacks and twins
        [--only NAME,NAME]               none but these, beside plain ones

The jobs are those of ``tests/judged/attacks``, with cases of 20 us and more on an H100. Each runs alone,
in a runner of its own that waited; a plain submission of the same task, ``plain``, runs in turns with
them, and what an attack gains is said against its median.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from time_common import AGAIN, ROOT, TRIES, Log, compact, facts, options, warm
from time_figures import is_machines

from kernelcup_harness.protocol import Backend, JobSpec, from_json, to_json

CASES = {
    name: [{"size": size, "seed": 7 + size, **more} for size in sizes]
    for name, sizes, more in (("timed_product", (1024, 1536), {"steps": 1}), ("timed_sum", (2048, 3072), {}))
}
PLAIN = {
    "timed_product": "from task import product\n\n\ndef custom_kernel(data):\n    return product(*data)\n",
    "timed_sum": "def custom_kernel(data):\n    a, b = data\n    return a + b\n",
}
PLAIN_EVERY = 16
"""So many attacks between two plain ones."""


def write_jobs(folder: Path) -> None:
    """Write a JSON file for each attack, twin and plain submission."""
    sys.path.insert(0, str(ROOT / "tests/judged/attacks"))
    import corpus

    from kernelcup.tasks.loader import load_task

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("job-*.json"):
        old.unlink()
    attacks = corpus.clock_attacks()
    jobs: dict[str, dict[str, Any]] = {}
    for attack in attacks:
        task = load_task(attack.task_folder)
        expected = {"verdicts": list(attack.verdicts), "reasons": list(attack.reasons)}
        more = {
            "task": attack.task,
            "taxonomy": list(attack.taxonomy),
            "attack": attack.id,
            "needs": attack.needs,
        }
        texts = (
            ("attack", attack.name, attack.text()),
            ("twin", f"{attack.folder.name}-{Path(attack.honest).stem}", attack.text(attack.honest)),
            ("plain", f"plain-{attack.task}", PLAIN[attack.task]),
        )
        for role, name, text in texts:
            spec = to_json(corpus.job(attack, task, text, Backend.CUDA, name))
            jobs[name] = {"name": name, "role": role, **more, "expected": expected, "spec": spec}
    for name, each in jobs.items():
        (folder / f"job-{name}.json").write_text(json.dumps(each))
    print(f"{len(attacks)} attacks, {len(jobs)} jobs in {folder}")


def run_jobs(chosen: Any, jobs: list[dict[str, Any]]) -> None:
    """Run what is missing."""
    log = Log(chosen, "attacks")
    gpu = log.backend is Backend.CUDA
    plan = ordered([each for each in jobs if gpu or each["needs"] == "cpu"])
    with warm(log.backend) as runners:
        for number in range(chosen.rounds):
            for at, each in enumerate(plan):
                times = sum(other["name"] == each["name"] for other in plan[:at])
                wanted = number * sum(other["name"] == each["name"] for other in plan) + times
                if log.count(name=each["name"], role=each["role"]) > wanted or log.is_over:
                    continue
                for _ in range(TRIES):
                    if not runners.left:
                        runners.fill(min(chosen.batch, len(plan) - at))
                    seconds, report = runners.run(made(each, log.backend))
                    failed = is_machines({"report": report})
                    note(log, each | {"role": each["role"] + AGAIN * failed}, seconds, report)
                    if not failed:
                        break


def ordered(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return attacks and twins with plain ones between them."""
    plain = [each for each in jobs if each["role"] == "plain"]
    found = list(plain)
    others = [each for each in jobs if each["role"] != "plain"]
    for at in range(0, len(others), PLAIN_EVERY):
        found += [*others[at : at + PLAIN_EVERY], *plain]
    return found


def made(each: dict[str, Any], backend: Backend) -> JobSpec:
    """Return the job for this machine."""
    spec = from_json(JobSpec, each["spec"])
    spec = dataclasses.replace(spec, backend=backend, device=facts(backend))
    if backend is not Backend.CUDA:
        return spec
    return dataclasses.replace(spec, benchmarks=CASES[each["task"]])


def note(log: Log, each: dict[str, Any], seconds: float, report: dict[str, Any]) -> None:
    """Write down one run."""
    names = ("name", "role", "task", "taxonomy", "attack", "expected")
    log.add(**{name: each[name] for name in names}, seconds=seconds, report=compact(report))
    codes = [finding["code"] for finding in report["quarantine"]]
    log.say(f"{each['name']}: {seconds:.1f} s {report['verdict']} {codes} {report['message'][-160:]}")


def main() -> int:
    """Do what was asked for."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "jobs":
        write_jobs(folder)
        return 0
    del sys.argv[1:3]
    chosen = options(__doc__, rounds=1, batch=12, share="0/1", only="")
    jobs = [json.loads(path.read_text()) for path in sorted(folder.glob("job-*.json"))]
    number, parts = map(int, chosen.share.split("/"))
    plain = [each for each in jobs if each["role"] == "plain"]
    names = chosen.only.split(",") if chosen.only else [each["name"] for each in jobs]
    others = [each for each in jobs if each["role"] != "plain" and each["name"] in names]
    run_jobs(chosen, plain + others[number::parts])
    return 0


if __name__ == "__main__":
    sys.exit(main())
