"""What is told to be done survives a loss of power."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event, text

from builders import NOW, make_board, make_report, make_submission
from kernelcup.app.queue import lifecycle
from kernelcup.engine.sqlite_group_commit import WalSync
from kernelcup.errors import StorageUnavailable

COMMIT = "commit"


@pytest.fixture
def steps(db, monkeypatch):
    """Commits of writers, and on SQLite each time that the disk was waited for, in order."""
    found: list[str] = []
    on_sqlite = db.engine.dialect.name == "sqlite"
    fdatasync = os.fdatasync

    def note(connection) -> None:
        if not connection.get_execution_options().get("kernelcup_writes"):
            return
        setting = "" if on_sqlite else connection.execute(text("SHOW synchronous_commit")).scalar_one()
        found.append(COMMIT if on_sqlite else f"{COMMIT} {setting}")

    def note_sync(fd: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fdatasync(fd)

    event.listen(db.engine, "commit", note)
    monkeypatch.setattr(os, "fdatasync", note_sync)
    return found


def expected(db) -> list[str]:
    return [COMMIT, "test.db-wal"] if db.engine.dialect.name == "sqlite" else [f"{COMMIT} on"]


def test_an_accepted_submission_waits_for_the_disk(db, steps) -> None:
    make_board(db)
    steps.clear()
    make_submission(db)
    assert steps == expected(db)


def test_what_the_disk_does_not_take_is_not_accepted(db, monkeypatch) -> None:
    if db.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL waits for its own disk")
    make_board(db)

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageUnavailable, match="Input/output error"):
        make_submission(db)


def test_who_waits_for_the_disk_meanwhile_has_the_same_wait(tmp_path, monkeypatch) -> None:
    log = tmp_path / "log"
    log.touch()
    sync, begun, go_on, count = WalSync(log), threading.Event(), threading.Event(), []

    def slow(_fd: int) -> None:
        count.append(None)
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr(os, "fdatasync", slow)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(sync.wait)
        assert begun.wait(60)
        others = [pool.submit(sync.wait) for _ in range(8)]
        until = time.monotonic() + 60
        while sync.waiting < 8 and time.monotonic() < until:
            os.sched_yield()
        go_on.set()
        for each in [first, *others]:
            each.result(60)
    assert len(count) == 2


def test_a_disk_that_fails_once_fails_those_who_waited_and_nobody_later(tmp_path, monkeypatch) -> None:
    log = tmp_path / "log"
    log.touch()
    sync, faults = WalSync(log), [OSError(5, "Input/output error")]

    def fail_once(_fd: int) -> None:
        if faults:
            raise faults.pop()

    monkeypatch.setattr(os, "fdatasync", fail_once)
    with pytest.raises(StorageUnavailable, match="Input/output error"):
        sync.wait()
    sync.wait()


def test_a_stored_result_waits_for_the_disk(db, steps) -> None:
    make_board(db)
    make_submission(db)
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)
    steps.clear()
    lifecycle.finish(db, lease, report=make_report(), harness_hash="f", machine="m", now=NOW)
    assert steps == expected(db)
