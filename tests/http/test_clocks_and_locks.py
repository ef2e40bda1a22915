"""A clock that goes back, a database that takes no writes, and streams of what is gone."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import event

from builders import NOW, make_actor, make_board, make_submission
from database_kinds import DATABASES
from hand_judging import Judging
from kernelcup.app.queue.queries import jobs
from kernelcup.app.rules import limits
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR
from kernelcup.errors import RateLimited
from kernelcup.http.events import stream
from kernelcup.tables import PaceRow
from kernelcup_harness.protocol import Mode

both = pytest.mark.parametrize("db_url", DATABASES, indirect=True)


@both
def test_a_job_that_ends_before_it_began_has_no_pace(db, clock) -> None:
    make_board(db)
    judging = Judging(db, clock)
    judging.judge(user="ada")
    judging.submit()
    lease = judging.claim()
    clock.advance(-86_400)
    judging.finish(lease)
    with db.read() as session:
        assert jobs.mean_durations(session, "H100") == {Mode.LEADERBOARD: pytest.approx(3.0)}


@both
def test_gpu_seconds_stay_spent_when_the_clock_goes_back(db, clock) -> None:
    make_board(db)
    limits.add_limit(db, OPERATOR, text="20 gpu-seconds/day", now=NOW)
    with db.write() as session:  # as an earlier version left it behind
        session.add(PaceRow(device="H100", mode="leaderboard", mean_s=-9000.0, count=1))
    judging = Judging(db, clock)
    judging.submit()
    lease = judging.claim()
    clock.advance(-3600)
    judging.finish(lease)
    with pytest.raises(RateLimited):
        judging.submit()


def test_reading_works_on_a_locked_database(client, person, db) -> None:
    ada = person("ada")
    with closing(sqlite3.connect(str(db.engine.url.database), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        answer = client.get("/api/v1/me", headers=ada.headers)
        took_s = time.monotonic() - begun
    assert answer.status_code == 200
    assert took_s < 10
    (token,) = client.get("/api/v1/tokens", headers=ada.headers).json()
    assert token["last_used_at"] is not None  # noted as soon as it can be


@both
def test_reading_works_on_a_database_that_cannot_grow(client, person, db) -> None:
    ada = person("ada")
    sqlite = db.engine.dialect.name == "sqlite"
    forbid = "PRAGMA query_only=ON" if sqlite else "SET SESSION default_transaction_read_only = on"

    def refuse_writes(connection, _record) -> None:
        connection.execute(forbid)
        connection.commit()

    event.listen(db.engine, "connect", refuse_writes)
    db.engine.dispose()
    try:
        assert client.get("/api/v1/me", headers=ada.headers).status_code == 200
    finally:
        event.remove(db.engine, "connect", refuse_writes)
        db.engine.dispose()


def test_the_stream_of_a_deleted_submission_ends(http, person, db, monkeypatch) -> None:
    monkeypatch.setattr(stream, "WAITING_S", 0.05)
    ada = person("ada")
    make_board(db)
    sent = make_submission(db)
    path = f"/api/v1/submissions/{sent.id}/events"
    with http.stream("GET", path, headers=ada.headers, timeout=30) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id:")
        gone = threading.Thread(
            target=delete_submission, args=(db, sent.id), kwargs={"by": make_actor(db, "ada"), "now": NOW}
        )
        gone.start()
        assert "done" not in "".join(lines)  # it ends, and not by the time limit
        gone.join()
    assert http.get(path, headers=ada.headers).status_code == 404


def test_the_time_does_not_stand_in_the_way_of_a_token(client, person, clock) -> None:
    ada = person("ada")
    for step in (0, 120, -3600):
        clock.now = NOW + timedelta(seconds=step)
        assert client.get("/api/v1/me", headers=ada.headers).status_code == 200
