"""Usage: queue_speed.py sqlite|postgresql [--submissions N] [--queued N] [--rounds N]

How long the questions to a full database take: claim, finish, standings, lists, waiting times, status.
PostgreSQL comes from scripts/with-postgres. The result goes to results/queue-speed-KIND.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from databases import database_url
from fill_database import DEVICES, fill
from results import ROOT, machine_facts, percentile
from sqlalchemy import select

from builders import make_report
from kernelcup.domain import OPERATOR, Device
from kernelcup.services.machines import dispatchers
from kernelcup.services.queue import lifecycle
from kernelcup.services.queue.estimates import queue_status, waiting_of
from kernelcup.services.results.rejudge import rejudge_board
from kernelcup.services.results.standings import standings
from kernelcup.services.submissions.submissions import list_submissions
from kernelcup.storage.engine.database import Database
from kernelcup.storage.queue import jobs
from kernelcup.storage.queue.jobs import Lease
from kernelcup.storage.tables import JobRow
from kernelcup_harness.protocol import Backend

BOARD = "board-3"


def main() -> None:
    """Fill a database, ask it, and write down how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=["sqlite", "postgresql"])
    parser.add_argument("--submissions", type=int, default=1_100_000)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Database.open(database_url(given.kind, Path(folder))) as db:
        begun = time.monotonic()
        fill(db, submissions=given.submissions, queued=given.queued)
        print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)
        measured = measure(db, given.rounds)
    result = machine_facts() | {
        "database": given.kind,
        "submissions": given.submissions,
        "queued": given.queued,
        "rounds": given.rounds,
        "milliseconds": measured,
    }
    path = ROOT / "benchmarks" / "results" / f"queue-speed-{given.kind}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")


def measure(db: Database, rounds: int) -> dict[str, dict[str, float]]:
    """Return p50 and p95 of each question, in milliseconds."""
    now = datetime.now(UTC)
    devices = [Device(name=name, backend=Backend.CUDA, slots=8) for name in DEVICES]
    dispatchers.check_in(db, owner="bench", devices=devices, started_at=now, draining=False, now=now)
    leases: list[Lease] = []

    def claim() -> None:
        lease = lifecycle.claim_next(db, owner="bench", lease_s=3600, devices=["H100"], now=now)
        assert lease is not None
        leases.append(lease)

    def finish() -> None:
        later = now + timedelta(seconds=3)
        report = make_report([1000.0] * 5)
        lifecycle.finish(db, leases.pop(), report=report, harness_hash="", machine="m", now=later)

    first, last = _ends(db)
    questions: dict[str, Callable[[], Any]] = {
        "claim": claim,
        "finish": finish,
        "standings": lambda: standings(db, BOARD, "H100", limit=100),
        "all standings": lambda: standings(db, BOARD, "H100"),
        "submissions": lambda: list_submissions(db, limit=50),
        "submissions of a board": lambda: list_submissions(db, board=BOARD, limit=50),
        "submissions of a user": lambda: list_submissions(db, user="user-77", limit=50),
        "waiting, near the front": lambda: waiting_of(db, first, now),
        "waiting, at the end": lambda: waiting_of(db, last, now),
        "queue status": lambda: queue_status(db, now),
        "reclaim": lambda: lifecycle.reclaim(db, now=now),
    }
    found = {name: _time(name, question, rounds) for name, question in questions.items()}
    begun = time.perf_counter()
    plan = rejudge_board(db, OPERATOR, BOARD, now=now)
    seconds = time.perf_counter() - begun
    print(f"rejudge of {plan.jobs:,} jobs: {seconds:.2f} s")
    return found | {f"rejudge of {plan.jobs} jobs": {"once": round(seconds * 1000, 1)}}


def _ends(db: Database) -> tuple[int, int]:
    with db.read() as session:
        query = select(JobRow.submission_id).where(jobs.QUEUED, JobRow.device == "H100")
        waiting = sorted(session.scalars(query))
    return waiting[len(waiting) // 20], waiting[-1]


def _time(name: str, question: Callable[[], Any], rounds: int) -> dict[str, float]:
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        question()
        taken.append((time.perf_counter() - begun) * 1000)
    found = {f"p{percent}": round(percentile(taken, percent), 2) for percent in (50, 95)}
    print(f"{name}: {found}", flush=True)
    return found


if __name__ == "__main__":
    main()
