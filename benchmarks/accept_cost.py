"""Usage: accept_cost.py OUT.json [--count 500]

How much processor time it takes to accept a file of two lines and one of 8 kB, on SQLite and without HTTP,
and to look at each with the static screen. Unlike a rate, that says something on a machine that has other
work: a core accepts at most one submission in that time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from results import ROOT, machine_facts, percentile

from builders import make_board, make_submission
from kernelcup.screen.run import screen
from kernelcup.storage.engine import migrate
from kernelcup.storage.engine.database import Database

FILES = {
    "two lines": "def custom_kernel(data):\n    return data * 2\n",
    "8 kB": (ROOT / "src/kernelcup_harness/judge/schedule.py").read_text()[:8000],
    "20 kB": (ROOT / "src/kernelcup_harness/judge/replay/clean_room.py").read_text()[:20_000],
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=500)
    given = parser.parse_args()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, Database.open(f"sqlite:///{folder}/cup.db") as db:
        migrate.upgrade(db)
        make_board(db)
        for name, text in FILES.items():
            accepts = [cost(lambda text=text, n=n: accept(db, text, n)) for n in range(given.count)]
            screens = [cost(lambda text=text: screen(text)) for _ in range(given.count // 10)]
            found[name] = {"accept_ms": figures(accepts), "screen_ms": figures(screens)}
    result = {"files": found, "count": given.count} | machine_facts()
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def accept(db: Database, text: str, number: int) -> None:
    """Submit a new file."""
    make_submission(db, content=f"# {number}\n{text}".encode())


def cost(work: Callable[[], object]) -> float:
    """Return the processor time of a call, in ms."""
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000


def figures(values: list[float]) -> dict[str, float]:
    """Return median and 95th percentile."""
    return {"p50": round(percentile(values, 50), 3), "p95": round(percentile(values, 95), 3)}


if __name__ == "__main__":
    main()
