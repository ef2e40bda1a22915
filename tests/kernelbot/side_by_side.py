"""A small running KernelBot: the tables that the follower, the comparison and the way back use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from database_kinds import autocommitting, postgres_database

BEGAN = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
ADA, BOB = "123456789012345678", "4711"

TABLES = """\
CREATE SCHEMA leaderboard;
CREATE TABLE leaderboard.user_info (
    id text PRIMARY KEY, user_name text, cli_id text, cli_valid boolean NOT NULL DEFAULT false,
    cli_auth_provider text, web_auth_id text, created_at timestamp DEFAULT now(),
    is_banned boolean NOT NULL DEFAULT false);
CREATE TABLE leaderboard.leaderboard (
    id serial PRIMARY KEY, name text NOT NULL UNIQUE, deadline timestamptz NOT NULL DEFAULT now());
CREATE TABLE leaderboard.code_files (
    id serial PRIMARY KEY, code bytea NOT NULL,
    hash text GENERATED ALWAYS AS (encode(sha256(code), 'hex')) STORED NOT NULL UNIQUE);
CREATE TABLE leaderboard.submission (
    id serial PRIMARY KEY, leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id),
    user_id text NOT NULL REFERENCES leaderboard.user_info (id),
    code_id integer NOT NULL REFERENCES leaderboard.code_files (id), file_name text,
    submission_time timestamptz NOT NULL, done boolean NOT NULL DEFAULT false, status text, mode_category text);
CREATE TABLE leaderboard.runs (
    id serial PRIMARY KEY, submission_id integer NOT NULL REFERENCES leaderboard.submission (id),
    start_time timestamptz NOT NULL, end_time timestamptz NOT NULL, mode text NOT NULL,
    secret boolean NOT NULL DEFAULT false, runner text, score numeric, passed boolean NOT NULL,
    compilation jsonb, meta jsonb, result jsonb, system_info jsonb);
CREATE TABLE leaderboard.submission_job_status (
    id serial PRIMARY KEY, submission_id integer NOT NULL UNIQUE REFERENCES leaderboard.submission (id),
    status text, error text, created_at timestamptz NOT NULL DEFAULT now(), last_heartbeat timestamptz);
INSERT INTO leaderboard.leaderboard (name) VALUES ('double'), ('other');
"""


@contextmanager
def running_kernelbot() -> Iterator[tuple[str, Connection]]:
    """Yield the URL of a KernelBot's database and a connection that does what KernelBot does."""
    with postgres_database() as url, autocommitting(url) as connection:
        connection.exec_driver_sql(TABLES)
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
