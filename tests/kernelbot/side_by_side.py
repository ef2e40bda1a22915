"""A small running KernelBot, which does what the follower, the comparison and the way back look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from old_database import SCHEMA
from sqlalchemy import Connection, text

from database_kinds import autocommitting, postgres_database

BEGAN = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
ADA, BOB = "123456789012345678", "4711"

BOARDS = """\
INSERT INTO leaderboard.leaderboard (name, deadline, task) VALUES ('double', now(), '{}'), ('other', now(), '{}')
"""


@contextmanager
def running_kernelbot() -> Iterator[tuple[str, Connection]]:
    """Yield the URL of a KernelBot's database and a connection that does what KernelBot does."""
    with postgres_database() as url, autocommitting(url) as connection:
        connection.exec_driver_sql(SCHEMA)
        connection.exec_driver_sql(BOARDS)
        for number, name in ((ADA, "Ada"), (BOB, "bob")):
            add(connection, "user_info", id=number, user_name=name)
        yield url, connection


def add(connection: Connection, table: str, **values: Any) -> int:
    """Insert a row and return its number, 0 for one without."""
    names, given = ", ".join(values), ", ".join(f":{name}" for name in values)
    statement = f"INSERT INTO leaderboard.{table} ({names}) VALUES ({given}) RETURNING id"
    found = connection.scalar(text(statement), values)
    return found if isinstance(found, int) else 0


def submit(
    connection: Connection,
    code: bytes,
    *,
    user: str = ADA,
    board: int = 1,
    runner: str | None = "h100",
    score: float | None = 2e-6,
    done: bool = True,
    failed: str | None = None,
) -> int:
    """Have a user submit a ranked file, which KernelBot judges in five seconds."""
    find = text("SELECT id FROM leaderboard.code_files WHERE code = :code")
    known = connection.scalar(find, {"code": code}) or add(connection, "code_files", code=code)
    row = {"leaderboard_id": board, "user_id": user, "code_id": known, "file_name": "kernel.py"}
    number = add(
        connection, "submission", **row, submission_time=BEGAN, done=done, mode_category="leaderboard"
    )
    common = {"submission_id": number, "runner": runner, "start_time": BEGAN}
    common["end_time"] = BEGAN + timedelta(seconds=5)
    if runner is not None:
        add(connection, "runs", **common, mode="test", passed=failed is None)
        if failed is None:
            add(connection, "runs", **common, mode="leaderboard", passed=True, score=score)
            add(connection, "runs", **common, mode="leaderboard", passed=True, score=score, secret=True)
    return number
