"""Connections and transactions, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql as postgresql_dialect
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.exc import (
    ArgumentError,
    DisconnectionError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.orm import DeclarativeBase, Session

from kernelcup.errors import ConfigError, StorageUnavailable
from kernelcup.storage.turns import Turns
from kernelcup.storage.wal import WalSync

BUSY_TIMEOUT_MS = 30_000
IDLE_S = 1.0
"""After so long in the pool a connection is tried before it is used."""

POOL: dict[str, Any] = {"pool_size": 15, "max_overflow": 30}
"""Connections of a process: the web server has up to 40 threads that want one each."""


class Database:
    """Hands out sessions, each of which is one transaction.

    SQLite knows one writer at a time, and a transaction that starts by reading cannot always
    become a writing one. So writers say so at the start, and wait for their turn there.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writer = engine.execution_options(kernelcup_writes=True)
        self._turns: Turns | None = None
        self._disk: WalSync | None = None
        if engine.dialect.name == "sqlite":
            self._turns = Turns(Path(f"{engine.url.database}-turn"), patience_s=BUSY_TIMEOUT_MS / 1000)
            self._disk = WalSync(Path(f"{engine.url.database}-wal"))
        self._reader = engine
        if engine.dialect.name == "postgresql":
            # Each statement sees what is committed, as in its transactions: without them two trips less.
            self._reader = engine.execution_options(isolation_level="AUTOCOMMIT")

    @classmethod
    def open(cls, url: str) -> Database:
        """Connect lazily to a database URL. Raise ``ConfigError`` if the URL is of no use."""
        return cls(make_engine(url))

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session that changes nothing. On SQLite it sees one state of the database."""
        with _translated(), Session(self._reader) as session:
            yield session

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[Session]:
        """Open a transaction that is committed at the end of the block, rolled back on an error.

        Args:
            durable: When the block is over, the commit survives a loss of power and not only of the
                process. PostgreSQL sees to that itself.
        """
        with self._turn(), _translated(), Session(self._writer) as session, session.begin():
            yield session
        if durable and self._disk is not None:
            self._disk.wait()

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()
        if self._turns is not None:
            self._turns.close()

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.take()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_engine(url: str) -> Engine:
    """Build an engine with our settings; a SQLite file's folder is made."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"the database url has no known form; expected {_EXPECTED}") from error
    try:
        return _engine(parsed)
    except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
        raise ConfigError(f"database url {parsed!r}: {error}") from error  # its repr hides the password


_EXPECTED = "sqlite:///FILE or postgresql://USER@HOST/NAME"


def _engine(url: URL) -> Engine:
    kind = url.get_backend_name()
    if kind == "postgresql":
        if find_spec("psycopg") is None:
            raise ConfigError("PostgreSQL needs another package: pip install 'kernelcup[postgres]'")
        engine = create_engine(url.set(drivername="postgresql+psycopg"), **POOL)
        event.listen(engine, "checkin", _note_use)
        event.listen(engine, "checkout", _ping_if_idle)
        return engine
    if kind != "sqlite" or not url.database or url.database == ":memory:":
        raise ConfigError(f"database url {url!r}: expected {_EXPECTED}")
    file = Path(url.database).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.touch(mode=0o600)  # it holds hidden cases and everybody's code; SQLite's other files follow it
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}, **POOL)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def insert_if_absent(session: Session, row: type[DeclarativeBase], **values: object) -> None:
    """Insert a row unless one with the same key is there, also when others do so at once."""
    session.execute(_insert_if_absent(row, session.get_bind().dialect.name), values)


@cache
def _insert_if_absent(row: type[DeclarativeBase], dialect: str) -> Any:
    # Building a statement takes longer than SQLite needs to run it.
    table = row.__table__  # the mapped class would go through the unit of work
    assert isinstance(table, Table)
    insert = sqlite_dialect.insert(table) if dialect == "sqlite" else postgresql_dialect.insert(table)
    return insert.on_conflict_do_nothing()


def upsert(session: Session, row: type[DeclarativeBase]) -> Any:
    """Return the dialect's INSERT, which has ``on_conflict_do_nothing`` and ``..._update``."""
    on_sqlite = session.get_bind().dialect.name == "sqlite"
    return sqlite_dialect.insert(row) if on_sqlite else postgresql_dialect.insert(row)


def _note_use(_connection: Any, record: Any) -> None:
    record.info["used_at"] = time.monotonic()


def _ping_if_idle(connection: Any, record: Any, _proxy: Any) -> None:
    """Replace a connection that its server has closed; one that was used just now is not asked."""
    used_at = record.info.get("used_at")
    if used_at is None or time.monotonic() - used_at < IDLE_S:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.rollback()
    except connection.Error as error:
        raise DisconnectionError from error


def _set_up_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, see _begin_sqlite
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")  # Database.write sees to what has to be on the disk
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("kernelcup_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StorageUnavailable(f"database: {error.orig}") from error
