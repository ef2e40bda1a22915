"""Usage: fill_database.py URL [--submissions N] [--queued N] [--boards N] [--users N]

Fills an empty database with a competition of many years: boards, users, submissions that were judged,
and a long queue. One statement a table, so that a million rows take a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select, text
from sqlalchemy.orm import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from builders import make_board, make_report, make_task
from kernelcup.app.results.queries import runs
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.tables import LeaderboardRow
from kernelcup_harness.protocol import to_json

BOARDS = 20
USERS = 5_000
DEVICES = ("H100", "MI300")
SCORE = "1e-6 * (1 + (CAST(i AS bigint) * 7919) % 100003)"


def main() -> None:
    """Fill the database that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--submissions", type=int, default=1_000_000)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--boards", type=int, default=BOARDS)
    parser.add_argument("--users", type=int, default=USERS)
    given = parser.parse_args()
    begun = time.monotonic()
    with Database.open(given.url) as db:
        fill(
            db,
            submissions=given.submissions,
            queued=given.queued,
            boards=given.boards,
            users=given.users,
        )
    print(
        f"{given.submissions:,} submissions, {given.queued:,} of them queued: {time.monotonic() - begun:.0f} s"
    )


def fill(db: Database, *, submissions: int, queued: int, boards: int = BOARDS, users: int = USERS) -> None:
    """Fill an empty database."""
    migrate.upgrade(db)
    now = datetime.now(UTC).replace(microsecond=0)
    for number in range(boards):
        make_board(db, name=f"board-{number}", task=make_task(), devices=list(DEVICES), now=now)
    with db.write() as session:
        _fill(session, submissions, submissions - queued, boards, users, now)
        if session.get_bind().dialect.name == "postgresql":
            for table in ("users", "submissions", "jobs", "runs"):
                session.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
                    )
                )
    if db.engine.dialect.name == "postgresql":
        _analyze(db)  # as its own service does; on SQLite nobody does


def _fill(session: Session, count: int, done: int, boards: int, users: int, now: datetime) -> None:
    values = {
        "done": done,
        "last": count,
        "now": now,
        "report": json.dumps(to_json(make_report([1000.0] * 5))),
    }
    first = session.scalars(select(LeaderboardRow)).first()
    values |= {"task": first.task_hash, "judging": first.judging}
    _run(
        session,
        2,
        users,
        "users(id, name, name_key, role, created_at)",
        "i, 'user-' || i, 'user-' || i, 'participant', :now",
        values,
    )
    session.execute(text("INSERT INTO code(hash, files) VALUES ('c', '{\"\": \"\"}')"))
    user, board, device = f"2 + i % {users - 1}", f"1 + (i / 7) % {boards}", _device()
    _run(
        session,
        1,
        count,
        "submissions(id, leaderboard_id, user_id, code_hash, file_name, mode, created_at, client)",
        f"i, {board}, {user}, 'c', 'kernel.py', 'leaderboard', :now, 'api'",
        values,
    )
    _run(
        session,
        1,
        count,
        "jobs(id, submission_id, user_id, leaderboard_id, task_hash, device, mode, state, priority, turn, attempt, "
        "first_attempt, reason, created_at, queued_at)",
        f"i, i, {user}, {board}, :task, {device}, 'leaderboard', CASE WHEN i <= :done THEN 'done' ELSE 'queued' END, "
        f"0, CASE WHEN i <= :done THEN 0 ELSE (i - :done) / {users} END, 1, 1, '', :now, :now",
        values,
    )
    _run(
        session,
        1,
        done,
        "runs(id, job_id, attempt, task_hash, counted, verdict, score_s, trust, backend, lent, started_at, "
        "finished_at, harness_hash, machine, report, low_s, high_s, judging)",
        f"i, i, 1, :task, true, 'accepted', {SCORE}, 'witnessed', 'cuda', false, "
        f":now, :now, 'f', 'm', :report, 0.995 * {SCORE}, 1.005 * {SCORE}, :judging",
        values,
    )
    for board in session.scalars(select(LeaderboardRow.id)):
        runs.choose_all(session, board_id=board, now=now)


def _device() -> str:
    first, second = DEVICES
    return f"CASE i % 2 WHEN 0 THEN '{first}' ELSE '{second}' END"


def _run(session: Session, first: int, last: int, into: str, what: str, values: dict[str, object]) -> None:
    if session.get_bind().dialect.name == "postgresql":
        what = what.replace(":report", "CAST(:report AS json)")
        for name in ("done",):
            what = what.replace(f":{name}", f"CAST(:{name} AS integer)")
        what = what.replace(":now", "CAST(:now AS timestamptz)").replace(":task", "CAST(:task AS varchar)")
        what = what.replace(":judging", "CAST(:judging AS varchar)")
        numbers = f"generate_series({first}, {last}) AS n(i)"
        statement = f"INSERT INTO {into} SELECT {what} FROM {numbers}"
    else:
        values = {**values, "now": str(values["now"])[:19] + ".000000"}
        statement = (
            f"WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last}) "
            f"INSERT INTO {into} SELECT {what} FROM n"
        )
    session.execute(
        text(statement), {name: value for name, value in values.items() if f":{name}" in statement}
    )


def _analyze(db: Database) -> None:
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


if __name__ == "__main__":
    main()
