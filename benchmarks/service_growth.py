"""Usage: service_growth.py sqlite|postgresql [--entries 100000] [--deleted 36000]

What requests cost beside much that went before: an accept beside submissions that were deleted, the number of
entries of a ranking, a page far below its top, the same page once an entry has changed, and one's own place.
Milliseconds are of a clock on the wall; those named cpu are of this process. Ends with 1 where one grew beyond
its bound.
Writes benchmarks/results/service-growth-DATABASE.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from databases import database_url
from results import ROOT, machine_facts, percentile

from builders import make_actor, make_board, make_submission
from kernelcup.domain import NOBODY, OPERATOR
from kernelcup.http.popcorn.leaderboards import count
from kernelcup.services.results import standings
from kernelcup.services.rules import limits
from kernelcup.services.submissions.withdrawal import delete_submission
from kernelcup.storage.engine import migrate
from kernelcup.storage.engine.database import Database

REPEATS = 40
CHANGES = 10
FIRST = 10_000_000
"""The number of the first user of the ranking."""
RUN_COLUMNS = (
    "id, job_id, attempt, task_hash, counted, verdict, score_s, trust, comparable, started_at, finished_at, "
    "harness_hash, machine, report, judging"
)
RUN_VALUES = (
    "i, i, 1, {task}, true, 'accepted', SCORE, 'audited', true, {now}, {now}, '', '', '{{}}', {judging}"
)
BOUNDS = {
    "accept_ratio": 3.0,
    "count_p95_ms": 50.0,
    "far_page_p95_ms": 200.0,
    "changed_page_p50_cpu_ms": 300.0,
}
"""Limits: the ratio of an accept's time after growth to that before; milliseconds for the others."""


def main() -> int:
    """Measure, print, write the result, and return 1 where a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("database", choices=["sqlite", "postgresql"])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--deleted", type=int, default=36_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kernelcup-growth-") as folder,
        Database.open(database_url(given.database, Path(folder))) as db,
    ):
        migrate.upgrade(db)
        found = measure(db, entries=given.entries, deleted=given.deleted)
    kept = {name: found[name] <= bound for name, bound in BOUNDS.items()}
    result = {"database": given.database, "entries": given.entries, "deleted": given.deleted}
    result |= found | {"bounds": BOUNDS, "kept": kept}
    print(json.dumps(result, indent=1))
    place = ROOT / f"benchmarks/results/service-growth-{given.database}.json"
    place.write_text(json.dumps(result | machine_facts(), indent=1) + "\n")
    return 0 if all(kept.values()) else 1


def measure(db: Database, *, entries: int, deleted: int) -> dict[str, Any]:
    """Return what each request takes."""
    now = datetime.now(UTC)
    make_board(db, now=now)
    ada = make_actor(db, "ada")
    limits.add_limit(db, OPERATOR, text="1000000/day", now=now)

    def accept() -> None:
        make_submission(db, user=ada, now=datetime.now(UTC))

    before = times_ms(accept)
    delete_many(db, ada, deleted)
    after = times_ms(accept)
    fill_ranking(db, entries, now)
    counts = times_ms(lambda: count("double", "H100", db, NOBODY))
    last = max(entries - 1000, 0)
    first_s = time.perf_counter()
    standings.standings(db, "double", "H100", viewer=NOBODY, limit=100, offset=last)
    first_ms = (time.perf_counter() - first_s) * 1000
    pages = times_ms(lambda: standings.standings(db, "double", "H100", viewer=NOBODY, limit=100, offset=last))
    own = times_ms(lambda: standings.personal_best(db, "double", "H100", f"u{FIRST + last}"))
    changed = [changed_page_ms(db, place, last) for place in range(10, last, max(last // CHANGES, 1))]
    return {
        "accept_before_p50_ms": round(percentile(before, 50), 2),
        "accept_after_p50_ms": round(percentile(after, 50), 2),
        "accept_ratio": round(percentile(after, 50) / percentile(before, 50), 2),
        "count_p95_ms": round(percentile(counts, 95), 2),
        "far_page_first_ms": round(first_ms, 1),
        "far_page_p95_ms": round(percentile(pages, 95), 2),
        "changed_page_p50_ms": round(percentile([wall for wall, _ in changed], 50), 1),
        "changed_page_p50_cpu_ms": round(percentile([cpu for _, cpu in changed], 50), 1),
        "changed_page_max_cpu_ms": round(max(cpu for _, cpu in changed), 1),
        "own_place_p95_ms": round(percentile(own, 95), 2),
        "load_of_1_5_15_min": [round(each, 1) for each in os.getloadavg()],
    }


def changed_page_ms(db: Database, place: int, offset: int) -> tuple[float, float]:
    """Return what a far page takes after the entry of a place got better, on the wall and of this process."""
    with db.write() as session:
        better = "UPDATE bests SET score_s = score_s * 0.99999, low_s = low_s * 0.9999 WHERE user_id = :user"
        session.execute(text(better), {"user": FIRST + place})
    begun, used = time.perf_counter(), time.process_time()
    standings.standings(db, "double", "H100", viewer=NOBODY, limit=100, offset=offset)
    return (time.perf_counter() - begun) * 1000, (time.process_time() - used) * 1000


def times_ms(what: Callable[[], object]) -> list[float]:
    """Return how long something takes, in milliseconds, a few times."""
    what()
    found = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        what()
        found.append((time.perf_counter() - begun) * 1000)
    return found


def delete_many(db: Database, ada: Any, wanted: int) -> None:
    """Delete one submission and copy what is kept of it ``wanted`` times: real rounds would take minutes."""
    now = datetime.now(UTC)
    sent = make_submission(db, user=ada, now=now)
    delete_submission(db, sent.id, by=ada, now=now)
    values = {"first": sent.id + 1_000_000, "last": sent.id + 1_000_000 + wanted - 1, "id": sent.id}
    same = "device, is_first, user_id, leaderboard_id, mode, created_at, used_at, seconds"
    copies = f"INSERT INTO deleted_uses(submission_id, {same}) SELECT i, {same} FROM deleted_uses, n "
    with db.write() as session:
        session.execute(text(f"{numbers(session)} {copies} WHERE submission_id = :id"), values)
    analyze(db)


def fill_ranking(db: Database, entries: int, now: datetime) -> None:
    """Give ``entries`` users a place, each with an interval of half a percent."""
    with db.read() as session:
        task = session.execute(text("SELECT task_hash FROM leaderboards")).scalar_one()
        judging = session.execute(text("SELECT judging FROM leaderboards")).scalar_one()
        with_numbers = numbers(session)
    base = FIRST
    values = {"first": base, "last": base + entries - 1, "task": task, "judging": judging}
    values["now"] = str((now - timedelta(days=2)).replace(tzinfo=None))
    score = f"1e-6 * (1 + (i - {base}) * 0.0001)"
    for table, columns, chosen in (
        ("users", "id, name, name_key, role, created_at", "i, 'u' || i, 'u' || i, 'participant', {now}"),
        ("code", "hash, text", "'c' || i, 'x'"),
        (
            "submissions",
            "id, leaderboard_id, user_id, code_hash, file_name, mode, created_at",
            "i, 1, i, 'c' || i, 'k.py', 'leaderboard', {now}",
        ),
        (
            "jobs",
            "id, submission_id, user_id, task_hash, device, mode, state, attempt, reason, created_at",
            "i, i, i, {task}, 'H100', 'leaderboard', 'done', 1, '', {now}",
        ),
        (
            "runs",
            RUN_COLUMNS,
            RUN_VALUES.replace("SCORE", score),
        ),
        (
            "bests",
            "leaderboard_id, device, user_id, run_id, submission_id, score_s, low_s, high_s",
            f"1, 'H100', i, i, i, {score}, 0.995 * {score}, 1.005 * {score}",
        ),
    ):
        select = chosen.format(
            now="CAST(:now AS timestamp)" if "generate" in with_numbers else ":now",
            task="CAST(:task AS varchar)",
            judging="CAST(:judging AS varchar)",
        )
        used = {key: each for key, each in values.items() if f":{key}" in f"{with_numbers} {select}"}
        with db.write() as session:
            session.execute(
                text(f"{with_numbers} INSERT INTO {table}({columns}) SELECT {select} FROM n"), used
            )
        # Else PostgreSQL looks up each foreign key in a table that it takes for an empty one, from end to end.
        analyze(db)


def numbers(session: Any) -> str:
    """Return the beginning of a statement in which ``n(i)`` has the numbers from ``:first`` to ``:last``."""
    if session.get_bind().dialect.name == "postgresql":
        return "WITH n(i) AS (SELECT generate_series(CAST(:first AS integer), CAST(:last AS integer)))"
    return "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last)"


def analyze(db: Database) -> None:
    """Let the database know what it holds now."""
    with db.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("ANALYZE"))


if __name__ == "__main__":
    sys.exit(main())
