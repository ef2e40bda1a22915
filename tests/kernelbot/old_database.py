"""A KernelBot database with odd rows, made from the facts by `kernelbot_schema.sql`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from builders import NOW, REFERENCE
from database_kinds import autocommitting, postgres_database

SCHEMA = Path(__file__).with_name("kernelbot_schema.sql").read_text(encoding="utf-8")
THEN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
"""When its submissions came: a month before the tests' clock."""
PENDING = 70
"""The submission that is not done yet."""

TASK = {
    "lang": "py",
    "files": {"submission.py": "@SUBMISSION@", "reference.py": REFERENCE, "eval.py": "print('own')\n"},
    "config": {"main": "eval.py"},
    "libraries": [],
    "tests": [{"size": 16, "seed": 1}],
    "benchmarks": [{"size": 1024, "seed": 2}],
    "test_timeout": 180,
    "benchmark_timeout": 180,
    "ranked_timeout": 300,
    "ranking_by": "geom",
    "seed": None,
    "multi_gpu": False,
}
BROKEN = TASK | {"files": {"submission.py": "@SUBMISSION@"}}
"""Its `main` is not among its files."""

ADA, BOB, EVE, NIX, OLD, OPEN = "123456789012345678", "4711", "223456789012345678", "9", "8", "temp_a1"
ODD = "odd"
"""The leaderboard of the rows to which KernelBot itself gave places."""
USERS = [
    (ADA, "Ada 🚀 Lovelace", "cli-ada", True, "discord", "web-ada", False),
    (BOB, "bob", "cli-bob", True, "github", None, False),
    (EVE, "bob", None, False, None, "web-eve", True),
    (NIX, None, "cli-nix", False, None, None, False),
    (OLD, "🚀🚀", None, False, None, None, False),
    (OPEN, None, "cli-temp", False, "discord", None, False),
    ("temp_b2", None, "cli-temp-2", False, "github", None, False),
]
BOARDS = [
    ("vectoradd", THEN + timedelta(days=300), TASK, int(ADA), "public"),
    ("class", THEN + timedelta(days=300), TASK, 0, "closed"),
    ("over", THEN + timedelta(days=28), TASK, int(ADA), "public"),
    ("broken", THEN + timedelta(days=300), BROKEN, 0, "public"),
    (ODD, THEN + timedelta(days=300), TASK, 0, "public"),
]
LEADERBOARD = (("leaderboard", True),)
ODD_ROWS: dict[str, list[tuple[str, float | None, bool, tuple[tuple[str, bool | None], ...], str, str]]] = {
    "u01": [("leaderboard", 10, True, LEADERBOARD, "active", "succeeded")],
    "u02": [("leaderboard", 1, True, LEADERBOARD, "hacked", "succeeded")],
    "u03": [("leaderboard", 2, True, LEADERBOARD, "active", "hacked")],
    "u04": [("leaderboard", 3, True, (("leaderboard", False),), "active", "succeeded")],
    "u05": [("leaderboard", 4, True, (), "active", "succeeded")],
    "u06": [("leaderboard", 5, True, (("test", False), *LEADERBOARD), "active", "succeeded")],
    "u07": [("leaderboard", 6, True, (*LEADERBOARD, ("leaderboard", False)), "active", "succeeded")],
    "u08": [("leaderboard", 7, False, LEADERBOARD, "active", "succeeded")],
    "u09": [("leaderboard", None, True, LEADERBOARD, "active", "succeeded")],
    "u10": [("leaderboard", 8, True, LEADERBOARD, "inactive", "succeeded")],
    "u11": [("leaderboard", 9, True, LEADERBOARD, "active", "failed")],
    "u12": [("benchmark", 0.5, True, LEADERBOARD, "active", "succeeded")],
    "u13": [("leaderboard", 12, True, (("leaderboard", None),), "active", "succeeded")],
    "u14": [("leaderboard", 10, True, LEADERBOARD, "active", "succeeded")],
    "u15": [
        ("leaderboard", 2.5, True, LEADERBOARD, "active", "hacked"),
        ("leaderboard", 11, True, LEADERBOARD, "active", "succeeded"),
    ],
    "u16": [("leaderboard", 13, True, (*LEADERBOARD, ("elsewhere", False)), "active", "succeeded")],
}
"""Mode, score and whether it passed of the public run; mode and whether they passed of the secret ones; status of the
submission and of its job. The secret run ``elsewhere`` is one of another runner."""
ODD_PLACES = {"u12": (1, 0.5), "u10": (2, 8), "u11": (3, 9), "u01": (4, 10), "u14": (4, 10), "u15": (6, 11)}
ODD_PLACES |= {"u16": (7, 13)}
"""Place and score that KernelBot gave them; the others have none."""

LATIN = b"# caf\xe9\nimport torch\n"


@contextmanager
def old_database() -> Iterator[str]:
    """Yield the URL of a KernelBot database."""
    with postgres_database() as url, autocommitting(url) as connection:
        fill(connection)
        yield url


def fill(connection: Connection) -> None:
    """Make KernelBot's tables and fill them."""
    connection.exec_driver_sql(SCHEMA)
    for number, each in enumerate(USERS):
        came = {"created_at": THEN.replace(tzinfo=None) + timedelta(minutes=number)}
        _insert(connection, "user_info", dict(zip(USER_COLUMNS, each, strict=True)) | came)
    for name, deadline, task, creator, visibility in BOARDS:
        values = {"name": name, "deadline": deadline, "task": json.dumps(task), "creator_id": creator}
        values |= {"visibility": visibility, "description": f"About {name}.", "forum_id": 77}
        _insert(connection, "leaderboard", values)
    for board_id in range(1, len(BOARDS) + 1):
        _insert(connection, "gpu_type", {"leaderboard_id": board_id, "gpu_type": "H100"})
    _insert(connection, "gpu_type", {"leaderboard_id": 1, "gpu_type": "B200_Nebius"})
    _insert(connection, "templates", {"leaderboard_id": 1, "lang": "Triton", "code": "# begin\n"})
    _insert(
        connection,
        "rate_limit",
        {"leaderboard_id": 1, "mode_category": "test", "max_submissions_per_hour": 9},
    )
    for content in (b"# one\n", b"# two\n", LATIN, b"# nul \x00\n"):
        _insert(connection, "code_files", {"code": content})
    for code, user, claimed in (("abcd-efil", None, None), ("used", ADA, THEN)):
        _insert(connection, "leaderboard_invite", {"code": code, "user_id": user, "claimed_at": claimed})
    for invite in (1, 2):
        _insert(connection, "leaderboard_invite_scope", {"invite_id": invite, "leaderboard_id": 2})
    _submissions(connection)


USER_COLUMNS = ("id", "user_name", "cli_id", "cli_valid", "cli_auth_provider", "web_auth_id", "is_banned")


def _submissions(connection: Connection) -> None:
    ranked(connection, 10, ADA, 2.0e-3, code=1)
    ranked(connection, 12, ADA, 1.5e-3, code=2, hour=1)
    ranked(connection, 15, ADA, 1.7e-3, code=1, hour=2)
    ranked(connection, 16, BOB, 1.2e-3, code=3, hour=3)
    ranked(connection, 17, BOB, 9.0e-3, code=3, hour=4, runner="B200_Nebius")
    ranked(connection, 18, EVE, 1.1e-3, code=4, hour=5, passed=False)
    ranked(connection, 19, OPEN, 3.0e-3, code=1, hour=6, name="../we ird\\s.py")
    ranked(connection, 20, BOB, 4.0e-3, code=1, board=2)
    ranked(connection, 21, ADA, 5.0e-3, code=1, board=3)
    ranked(connection, 22, OLD, 0.1 + 0.2, code=1, board=4)
    submission(connection, 23, OLD, job="pending", mode=None, done=False)
    submission(connection, 24, NIX, mode="test")
    run(
        connection,
        24,
        "test",
        result={"test-count": "1", "test.0.spec": "size: 16; seed: 1", "test.0.status": "pass"},
    )
    odd_rows(connection, len(BOARDS), 50)
    submission(connection, PENDING, ADA, board=5, done=False, job="running", at=NOW - timedelta(minutes=5))


def odd_rows(connection: Connection, board: int, number: int, scale: float = 1.0) -> None:
    """Store the rows to which KernelBot gave places, from a number on; their users are new."""
    for user, sent in ODD_ROWS.items():
        _insert(connection, "user_info", {"id": user, "user_name": user})
        for mode, score, passed, secret, status, job in sent:
            submission(connection, number, user, board=board, status=status, job=job)
            given = None if score is None else score * scale
            run(connection, number, mode, score=given, passed=passed)
            for secret_mode, well in secret:
                is_elsewhere = secret_mode == "elsewhere"
                values = {"mode": "leaderboard", "runner": "B200"} if is_elsewhere else {"mode": secret_mode}
                run(connection, number, secret=True, passed=well, score=given, **values)
            number += 1


def submission(connection: Connection, number: int, user: str, **values: Any) -> None:
    """Store a submission without runs."""
    given = {
        "board": 1,
        "code": 1,
        "hour": 0,
        "name": "kernel.py",
        "status": "active",
        "job": "succeeded",
        "mode": "leaderboard",
    }
    given |= {"done": True} | values
    at = given.get("at") or THEN + timedelta(hours=given["hour"])
    row = {"id": number, "leaderboard_id": given["board"], "user_id": user, "code_id": given["code"]}
    row |= {
        "file_name": given["name"],
        "submission_time": at,
        "done": given["done"],
        "status": given["status"],
    }
    _insert(connection, "submission", row | {"mode_category": given["mode"]})
    _insert(connection, "submission_job_status", {"submission_id": number, "status": given["job"]})


def ranked(
    connection: Connection,
    number: int,
    user: str,
    score: float,
    *,
    runner: str = "H100",
    passed: bool = True,
    **values: Any,
) -> None:
    """Store a ranked submission with its public and its secret runs; the secret ones are a tenth faster."""
    submission(connection, number, user, **values)
    test = {"test-count": "1", "test.0.spec": "size: 16; seed: 1", "test.0.status": "pass"}
    if not passed:
        test |= {"test.0.status": "fail", "test.0.error": "mismatch\\nat 3", "check": "fail"}
    times = {"benchmark-count": "1", "benchmark.0.spec": "size: 1024; seed: 2"}
    times |= {"benchmark.0.mean": str(score * 1e9), "benchmark.0.best": str(score * 0.9e9)}
    for secret in (False, True):
        common = {"runner": runner, "secret": secret, "passed": passed}
        run(connection, number, "test", result=test, **common)
        if passed:
            run(connection, number, "benchmark", result=times, **common)
            best = score * (0.9 if secret else 1)
            run(connection, number, "leaderboard", result=times, score=best, **common)


def run(connection: Connection, number: int, mode: str, **values: Any) -> None:
    """Store a run."""
    at = connection.scalar(
        text("SELECT submission_time FROM leaderboard.submission WHERE id = :id"), {"id": number}
    )
    given = {"runner": "H100", "secret": False, "passed": True, "score": None, "result": {}} | values
    if given["score"] is not None:
        given["score"] = Decimal(str(given["score"]))  # with all digits, as KernelBot stores it
    told = {"stdout": "hello", "stderr": "", "exit_code": 0, "success": True}
    row = {"submission_id": number, "start_time": at, "end_time": at + timedelta(seconds=5), "mode": mode}
    row |= given | {"result": json.dumps(given["result"]), "meta": json.dumps(told)}
    _insert(connection, "runs", row | {"system_info": json.dumps({"gpu": "NVIDIA H100", "torch": "2.7"})})


def _insert(connection: Connection, table: str, values: dict[str, Any]) -> None:
    names = ", ".join(values)
    what = ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO leaderboard.{table} ({names}) VALUES ({what})"), values)
