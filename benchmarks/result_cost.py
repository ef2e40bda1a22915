"""Usage: result_cost.py OUT.json [--count 40] [--submissions 300000]

How much processor time it takes to claim a job and to store its result, on SQLite. Results are stored by the one
writer that SQLite has, so submissions wait as long. Unlike a rate that says something on a machine that has
other work. All submissions that are stored have the same text, as those of a template have.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fill_database import DEVICES, fill
from results import machine_facts, percentile

from builders import make_report
from kernelcup.services.queue import lifecycle
from kernelcup.storage.engine.database import Database


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--submissions", type=int, default=300_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Database.open(f"sqlite:///{folder}/cup.db") as db:
        fill(db, submissions=given.submissions, queued=given.submissions // 10)
        costs = [cost(db) for _ in range(given.count + 5)][5:]
    found = {name: figures([each[at] for each in costs]) for at, name in enumerate(("claim", "finish"))}
    result = {"processor_ms": found, "count": given.count, "submissions": given.submissions}
    result |= {"load_average": round(os.getloadavg()[0], 1)} | machine_facts()
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def cost(db: Database) -> tuple[float, float]:
    """Return the processor time of claiming a job and of storing its result, in ms."""
    before = time.thread_time()
    lease = lifecycle.claim_next(db, owner="cost", lease_s=60, devices=DEVICES[:1], now=datetime.now(UTC))
    claimed = time.thread_time()
    assert lease is not None
    report = make_report([1000.0] * 5)
    lifecycle.finish(db, lease, report=report, harness_hash="f", machine="m", now=datetime.now(UTC))
    return (claimed - before) * 1000, (time.thread_time() - claimed) * 1000


def figures(values: list[float]) -> dict[str, float]:
    """Return median and 95th percentile."""
    return {"p50": round(percentile(values, 50), 2), "p95": round(percentile(values, 95), 2)}


if __name__ == "__main__":
    main()
