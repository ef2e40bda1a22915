"""Usage: page_times.py URL [--user user-77] [--board board-3] [--repeats 40]

What pages cost on a database that `fill_database.py` filled: milliseconds in this process from the request to the
whole answer, on the wall and of the processor, and compressed sizes. The page of a ranked submission is looked at
by its author (`/s/N`) and by others (`/s/N to others`); its report, the first place's and those of the author's other
submissions are first made as long as real ones in that database: 10 tests, and 5 cases of 60 samples.
Ends with 1 where the median of the first page of a leaderboard, or of the overview, takes 50 ms or more, or a page
has 100 kB. Prints its figures beside the stored ones, and writes benchmarks/results/page-times.json.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import select, update
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "web"))

import reports
from results import machine_facts, percentile, publish

from builders import make_device
from kernelcup.app.people import tokens
from kernelcup.app.people.user_names import actor_of
from kernelcup.config.settings import Config
from kernelcup.engine.database import Database
from kernelcup.http import auth
from kernelcup.http.app import create_app
from kernelcup.http.state import Platform
from kernelcup.tables import BestRow, JobRow, RunRow
from kernelcup_harness.protocol import to_json

MOST_MS = 50.0
LARGEST_BYTES = 100_000


def main() -> int:
    """Measure, print, write the result, and return 1 where a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--user", default="user-77")
    parser.add_argument("--board", default="board-3")
    parser.add_argument("--repeats", type=int, default=40)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as folder, Database.open(given.url) as db:
        app = create_app(Platform(db=db, config=_config(given.url, Path(folder)), secret="page-times" * 4))
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            user_id = actor_of(db, given.user).user_id or 0
            number = _with_real_reports(db, user_id)
            pages = {"/s/N to others": _measure(client, f"/s/{number}", given.repeats)}
            client.cookies.set(auth.COOKIE, tokens.make_session(db, user_id, datetime.now(UTC)))
            of_people = {"/s/N": f"/s/{number}", "/u/NAME": f"/u/{given.user}"}
            paths = {path: path for path in _paths(given.board)} | of_people
            pages |= {name: _measure(client, path, given.repeats) for name, path in paths.items()}
    publish("page-times.json", {**machine_facts(), "repeats": given.repeats, "pages": pages})
    firsts = [pages["/"], pages[f"/b/{given.board}"]]
    is_slow = any(each["wall_p50_ms"] >= MOST_MS for each in firsts)
    return int(is_slow or any(each["bytes"] >= LARGEST_BYTES for each in pages.values()))


def _paths(board: str) -> list[str]:
    of_board = ["", "?after=50", "?after=4000", "/history", "/statement", "/rules", "/code"]
    return ["/", *(f"/b/{board}{each}" for each in of_board), "/queue", "/status", "/docket"]


def _with_real_reports(db: Database, user_id: int) -> int:
    """Make the reports long that the page of one of a user's results reads; return its submission."""
    long = to_json(reports.ranked())
    with db.write() as session:
        bests = select(BestRow).where(BestRow.user_id == user_id).order_by(BestRow.submission_id.desc())
        mine = session.scalars(bests.limit(1)).one()
        of_board = (BestRow.leaderboard_id == mine.leaderboard_id, BestRow.device == mine.device)
        first = select(BestRow.run_id).where(*of_board).order_by(BestRow.score_s).limit(1)
        own = select(RunRow.id).join(JobRow, JobRow.id == RunRow.job_id).where(JobRow.user_id == user_id)
        wanted = {*session.scalars(first), *session.scalars(own)}
        session.execute(update(RunRow).where(RunRow.id.in_(wanted)).values(report=long))
        return mine.submission_id


def _measure(client: TestClient, path: str, repeats: int) -> dict[str, Any]:
    client.get(path)
    walls, cpus, size = [], [], 0
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = client.get(path)
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
        answer.raise_for_status()
        size = int(answer.headers["content-length"])
    found = {
        "wall_p50_ms": round(percentile(walls, 50), 1),
        "wall_p95_ms": round(percentile(walls, 95), 1),
        "cpu_p50_ms": round(percentile(cpus, 50), 1),
        "bytes": size,
    }
    print(f"{path}: {found}", flush=True)
    return found


def _config(url: str, folder: Path) -> Config:
    return Config(
        file=None,
        data_dir=folder / "data",
        runtime_dir=folder / "run",
        database_url=url,
        configured_devices=(make_device(), make_device(name="MI300")),
        environ={},
        sandbox_required=True,
        sandbox_environment=(),
    )


if __name__ == "__main__":
    sys.exit(main())
