"""Databases for tests: a SQLite file, or one of a PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, make_url, text

from kernelcup.engine.database import make_engine

POSTGRES = "KERNELCUP_TEST_POSTGRES"
"""Names a server whose role may create databases: ``postgresql://postgres@localhost:54329/postgres``."""

ALL_KINDS = ["sqlite", "postgresql"] if POSTGRES in os.environ else ["sqlite"]
DATABASES = [ALL_KINDS[0], *(pytest.param(kind, marks=pytest.mark.jobs) for kind in ALL_KINDS[1:])]
"""As parameters: what runs on SQLite too waits on PostgreSQL for `make test-jobs`."""
STRICTEST = ALL_KINDS[-1]
"""PostgreSQL refuses more than SQLite, so it finds more; SQLite is quicker."""

MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30
"""What has to be free there: a container may have 64 MiB in all."""


def make_database(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a database with our tables and nothing in them."""
    if kind == "sqlite":
        with quick_folder(folder) as quick:
            path = quick / "test.db"
            shutil.copy(request.getfixturevalue("sqlite_template"), path)
            yield f"sqlite:///{path}"
    else:
        database: PostgresDatabase = request.getfixturevalue("postgres_with_tables")
        yield database.url
        database.empty()


@pytest.fixture(params=["sqlite"])
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a SQLite database, where what is below is tested on both kinds.

    A module that looks for what only PostgreSQL refuses says
    ``pytestmark = pytest.mark.parametrize("db_url", [STRICTEST], indirect=True)``, one about locks and queues
    says ``DATABASES``.
    """
    yield from make_database(request, request.param, tmp_path)


@contextmanager
def quick_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder in memory, else this one: on a disk all that is synchronised waits for it.

    So do PostgreSQL's commits, and its server in tests synchronises nothing.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="kernelcup-database-", dir=MEMORY) as quick:
        yield Path(quick)


class PostgresDatabase:
    """A database with our tables that one test after the other has: making one takes a quarter of a second."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self._connection = connection
        tables = connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        parts = [f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in sorted(tables)]
        self._filled = text(" UNION ALL ".join(parts))
        self._kept = frozenset(self._filled_tables())
        self._revision = connection.scalar(text("SELECT version_num FROM alembic_version"))

    def empty(self) -> None:
        """End what is still connected and bring the tables and their numbers back to how they were made."""
        self._connection.execute(END_OTHERS)
        if filled := self._filled_tables() - self._kept:
            self._connection.execute(
                text(DELETE.format("; ".join(f"DELETE FROM {each}" for each in sorted(filled))))
            )
        self._connection.execute(START_NUMBERS_AGAIN)
        self._connection.execute(SET_REVISION, {"revision": self._revision})
        assert self._filled_tables() == self._kept

    def _filled_tables(self) -> set[str]:
        return set(self._connection.scalars(self._filled))


END_OTHERS = text("""\
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
""")
# Without foreign keys the order of tables does not matter. TRUNCATE takes ten times as long for a few rows.
DELETE = "SET session_replication_role = replica; {}; SET session_replication_role = DEFAULT"
# Also those of tables that are empty again, or were never filled as what did it was rolled back.
START_NUMBERS_AGAIN = text("""\
SELECT setval(format('%I.%I', schemaname, sequencename), start_value, false) FROM pg_sequences
WHERE schemaname = 'public' AND last_value IS NOT NULL
""")

# A test may have named another, to see it refused.
SET_REVISION = text("UPDATE alembic_version SET version_num = :revision")


@contextmanager
def autocommitting(url: str) -> Iterator[Connection]:
    """Connect to a PostgreSQL database; each statement is a transaction."""
    engine = make_engine(url).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@contextmanager
def postgres_database() -> Iterator[str]:
    """Yield the URL of a new database of the server, and drop it afterwards."""
    name = f"kernelcup_{uuid.uuid4().hex}"
    with autocommitting(os.environ[POSTGRES]) as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(os.environ[POSTGRES]).set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


WAL = slice(18, 20)
"""The bytes of a SQLite file that say that it has a write-ahead log, which memory has not."""


def content_of(engine: Engine) -> bytes:
    """Return all that a SQLite database holds."""
    with closing(sqlite3.connect(":memory:")) as copy:
        with closing(sqlite3.connect(str(engine.url.database))) as database:
            database.backup(copy)
        content = bytearray(copy.serialize())
    content[WAL] = b"\x01\x01"
    return bytes(content)


def replace_content(engine: Engine, content: bytes) -> None:
    """Put what a SQLite database held into another, which may be in use."""
    with closing(sqlite3.connect(":memory:")) as copy:
        copy.deserialize(content)
        with closing(sqlite3.connect(str(engine.url.database))) as database:
            copy.backup(database)
