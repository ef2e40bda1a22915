"""What is told to be done survives a loss of power."""

from __future__ import annotations

import pytest
from sqlalchemy import event, text

from builders import NOW, make_board, make_report, make_submission
from kernelcup.services import queue

FULL = "2"
ON = "on"


@pytest.fixture
def commits(db):
    """How patient each writing commit was with the disk, as the database names it."""
    found: list[str] = []
    setting = "PRAGMA synchronous" if db.engine.dialect.name == "sqlite" else "SHOW synchronous_commit"

    def note(connection) -> None:
        if connection.get_execution_options().get("kernelcup_writes"):
            found.append(str(connection.execute(text(setting)).scalar_one()))

    event.listen(db.engine, "commit", note)
    return found


def test_an_accepted_submission_waits_for_the_disk(db, commits) -> None:
    make_board(db)
    commits.clear()
    make_submission(db)
    assert commits == [FULL if db.engine.dialect.name == "sqlite" else ON]


def test_a_stored_result_waits_for_the_disk(db, commits) -> None:
    make_board(db)
    make_submission(db)
    lease = queue.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)
    commits.clear()
    queue.finish(db, lease, report=make_report(), harness_hash="f", machine="m", now=NOW)
    assert commits == [FULL if db.engine.dialect.name == "sqlite" else ON]
