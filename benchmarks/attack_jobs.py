"""Write the jobs that try every attack and every honest twin on a real GPU.

    python benchmarks/attack_jobs.py FOLDER [BACKEND]

FOLDER gets one JSON file a job. BACKEND is ``cuda`` unless it says ``emulated``, which leaves out what
needs a GPU. ``benchmarks/run_attack_jobs.py`` runs them on a machine that has
nothing of ours but the harness. This half needs KernelCup installed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from gpu_jobs import start_folder

from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend, to_json

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/judged/attacks"))

import corpus  # noqa: E402 - it lies among the tests
from corpus import Attack  # noqa: E402


def main(folder: Path, backend: Backend) -> None:
    """Write all jobs into ``folder``."""
    start_folder(folder)
    attacks = [each for each in corpus.attacks() if each.needs == "cpu" or backend is Backend.CUDA]
    jobs = {job["key"]: job for attack in attacks for job in jobs_of(attack, backend)}
    for job in jobs.values():
        (folder / f"job-{job['key']}.json").write_text(json.dumps(job))
    print(f"{len(jobs)} jobs in {folder}")


def jobs_of(attack: Attack, backend: Backend) -> list[dict[str, Any]]:
    """Return the attack and its honest twin; equal twins of several attacks are one job."""
    expected = {"verdicts": list(attack.verdicts), "reasons": list(attack.reasons)}
    honest = {"verdicts": ["accepted"], "reasons": []}
    return [
        job(attack, attack.name, attack.file, "attack", expected, backend),
        job(attack, f"{attack.name}-{Path(attack.honest).stem}", attack.honest, "honest", honest, backend),
    ]


def job(
    attack: Attack, name: str, file: str, role: str, expected: dict[str, Any], backend: Backend
) -> dict[str, Any]:
    """Return one job with what must come of it, and the job that goes before it if there is one."""
    task = load_task(attack.task_folder)
    body = to_json(corpus.job(attack, task, file, backend, "attack"))
    first = None
    if attack.first is not None and role == "attack":
        first = to_json(corpus.job(attack, task, attack.first, backend, "first"))
    text = json.dumps(body, sort_keys=True)
    # Two attacks may be the same file under other limits; twins are the same job whoever's they are.
    key = f"{role}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return {
        "key": key if role == "honest" else f"{role}-{name}-{key[-12:]}",
        "name": name,
        "id": attack.id,
        "role": role,
        "needs": attack.needs,
        "alone": attack.alone and role == "attack",
        "group": attack.group and role == "attack",
        "expected": expected,
        "spec": body,
        "first": first,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Backend(sys.argv[2] if len(sys.argv) > 2 else "cuda"))
