from __future__ import annotations

import errno
import os
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import make_url, select, text
from sqlalchemy.exc import IntegrityError, StatementError

from builders import NOW
from database_kinds import POSTGRES, autocommitting
from kernelcup.app.people.queries import users
from kernelcup.engine.database import Database, make_engine
from kernelcup.engine.sqlite_write_queue import Turns
from kernelcup.errors import ConfigError, StorageUnavailable
from kernelcup.tables import JobRow, UserRow


def is_sqlite(db: Database) -> bool:
    return db.engine.dialect.name == "sqlite"


def test_a_write_that_fails_leaves_nothing(db) -> None:
    def fail_late() -> None:
        with db.write() as session:
            users.get_or_create(session, "ada", now=NOW)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_late()
    with db.read() as session:
        assert users.find_name(session, "ada") is None


def test_times_come_back_in_utc(db) -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    with db.write() as session:
        users.get_or_create(session, "ada", now=there)
    with db.read() as session:
        (found,) = session.scalars(select(UserRow.created_at))
    assert found == NOW
    assert found.tzinfo is UTC


def test_a_time_without_a_zone_is_refused(db) -> None:
    with pytest.raises(StatementError, match="no time zone"), db.write() as session:
        users.get_or_create(session, "ada", now=datetime(2026, 1, 1))  # noqa: DTZ001


def test_text_that_a_database_cannot_hold_is_replaced(db) -> None:
    with db.write() as session:
        users.get_or_create(session, "a\0b\ud800", now=NOW)
    with db.read() as session:
        assert session.scalars(select(UserRow.name)).all() == ["a\ufffdb\ufffd"]


def test_sqlite_keeps_a_journal_and_its_promises(db) -> None:
    if not is_sqlite(db):
        pytest.skip("about SQLite")
    with db.read() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert session.scalar(text("PRAGMA foreign_keys")) == 1
        assert session.scalar(text("PRAGMA busy_timeout")) == 30_000


@pytest.mark.parametrize("durable", [True, False])
def test_sqlite_waits_for_the_disk_where_it_matters(db, monkeypatch, durable: bool) -> None:
    if not is_sqlite(db):
        pytest.skip("about SQLite")
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with db.write(durable=durable) as session:
        users.get_or_create(session, "ada", now=NOW)
    assert bool(synced) is durable


def test_writers_take_turns_and_one_that_holds_on_is_told_of(db, tmp_path) -> None:
    turns = Turns(tmp_path / "turn", patience_s=0.0)
    other = Turns(tmp_path / "turn", patience_s=0.0)
    with (
        turns.take(),
        pytest.raises(StorageUnavailable, match="another writer has been active"),
        other.take(),
    ):
        pass
    with other.take():
        pass


def test_a_lock_file_that_cannot_be_made_is_an_error_of_the_storage(tmp_path) -> None:
    turns = Turns(tmp_path / "gone" / "turn", patience_s=1.0)
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="No such file"), turns.take():
            pass


def test_readers_are_not_held_up_by_a_writer(db) -> None:
    with db.write() as writer:
        users.get_or_create(writer, "ada", now=NOW)
        with db.read() as reader:
            assert users.find_name(reader, "ada") is None


def test_changes_are_seen_once_and_those_of_other_processes_too(db) -> None:
    if not is_sqlite(db):
        pytest.skip("about SQLite")
    with db.changes() as has_changed, Database.open(str(db.engine.url)) as other:
        assert has_changed()
        assert not has_changed()
        for writer in (db, other):
            with writer.write() as session:
                users.get_or_create(session, "ada" if writer is db else "bob", now=NOW)
                assert not has_changed()
            assert has_changed()
            assert not has_changed()


def test_foreign_keys_are_enforced(db) -> None:
    job = JobRow(submission_id=7, task_hash="x", device="H100", mode="test", state="queued", created_at=NOW)
    with pytest.raises(IntegrityError), db.write() as session:
        session.add(job)


def test_a_locked_database_is_unavailable_and_no_foreign_error(db) -> None:
    if not is_sqlite(db):
        pytest.skip("about SQLite")
    with Database.open(str(db.engine.url), patience_s=0.001) as impatient, db.write() as holder:
        users.get_or_create(holder, "ada", now=NOW)
        with pytest.raises(StorageUnavailable, match="locked"), impatient.write() as session:
            users.find_name(session, "ada")


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    pytest.importorskip("psycopg")
    with (
        Database.open("postgresql://nobody@127.0.0.1:1/none") as nowhere,
        pytest.raises(StorageUnavailable),
        nowhere.read() as session,
    ):
        session.execute(text("SELECT 1"))


@pytest.mark.parametrize(
    "url", ["nonsense", "sqlite://", "sqlite:///:memory:", "mysql://x/y", "postgresql+asyncpg:"]
)
def test_a_url_of_no_use_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="database url"):
        Database.open(url)


@pytest.mark.skipif(POSTGRES not in os.environ, reason="no PostgreSQL")
def test_a_database_of_another_encoding_is_refused_with_how_to_make_one() -> None:
    url = os.environ[POSTGRES]
    with autocommitting(url) as server:
        server.execute(text("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"))
        try:
            other = make_url(url).set(database="ascii").render_as_string(hide_password=False)
            with pytest.raises(ConfigError, match=r"'ascii'.* SQL_ASCII.*--encoding UTF8"):
                make_engine(other).connect()
        finally:
            server.execute(text("DROP DATABASE ascii"))


def test_the_folder_of_a_new_database_is_made(tmp_path) -> None:
    with Database.open(f"sqlite:///{tmp_path}/a/b/c.db") as database, database.read() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_a_database_that_turned_read_only_is_unavailable(db) -> None:
    statement = "PRAGMA query_only=ON" if is_sqlite(db) else "SET TRANSACTION READ ONLY"

    def write() -> None:
        with db.write() as session:
            session.execute(text(statement))
            users.get_or_create(session, "ada", now=NOW)

    with pytest.raises(StorageUnavailable):
        write()
    assert db.write_trouble is not None


def test_the_error_of_a_full_disk_names_the_file_and_the_reason(db, monkeypatch) -> None:
    if not is_sqlite(db):
        pytest.skip("PostgreSQL says by itself what it lacks")

    def full(**_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    pattern = rf"{db.engine.url.database}: unable to open database: .*: No space left on device"
    Path(f"{db.engine.url.database}-elsewhere").mkdir()
    with pytest.raises(StorageUnavailable, match=pattern), db.read() as session:
        session.execute(text(f"ATTACH '{db.engine.url.database}-elsewhere' AS other"))


def test_what_could_be_written_again_is_no_trouble_any_more(db) -> None:
    with pytest.raises(StorageUnavailable), db.write():
        raise StorageUnavailable("just now")
    assert db.write_trouble is not None
    with db.write() as session:
        users.get_or_create(session, "ada", now=NOW)
    assert db.write_trouble is None
