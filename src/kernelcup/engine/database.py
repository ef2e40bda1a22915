"""Connections and transactions, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import URL, Connection, Engine, Row, Table, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql as postgresql_dialect
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Session

from kernelcup.clean_text import dump_json
from kernelcup.engine.blobs import Blobs, Folder
from kernelcup.engine.file_store import FileStore
from kernelcup.engine.sqlite_group_commit import WalSync
from kernelcup.engine.sqlite_write_queue import Turns
from kernelcup.engine.views import View, current, end_view, ends_view, viewing
from kernelcup.errors import ConfigError, StorageUnavailable

PATIENCE_S = 30.0
"""How long a transaction waits for others that block it."""
TROUBLE_S = 30.0
"""How long a failed write is reported, unless another write succeeds meanwhile."""
TRIED_BYTES = 64 << 10
"""Written to learn why SQLite could not."""
LOOK_S = 0.05
"""How often a thread looks for changes on PostgreSQL."""
IDLE_S = 1.0
"""A connection that was idle for longer than this is tested before it is used."""

POOL: dict[str, Any] = {"pool_size": 15, "max_overflow": 30}
"""Connections of a process: the web server has up to 40 threads that need one each."""


class Database:
    """Opens sessions, each of which is one transaction.

    SQLite allows one writer at a time, and a transaction that starts by reading cannot always become a writing
    one. So writers announce themselves at the start, and wait there for their turn.
    """

    def __init__(self, engine: Engine, *, patience_s: float = PATIENCE_S, files: Blobs | None = None) -> None:
        self.engine = engine
        self.files = FileStore(files or Folder(Path(f"{engine.url.database}-files")))
        """What is too large for a row."""
        self._info = {"files": self.files}
        self._trouble: tuple[float, str] | None = None
        self._writer = engine.execution_options(kernelcup_writes=True)
        self._hasty = engine.execution_options(kernelcup_writes=True, kernelcup_hasty=True)
        self._turns: Turns | None = None
        self._disk: WalSync | None = None
        if engine.dialect.name == "sqlite":
            self._turns = Turns(Path(f"{engine.url.database}-turn"), patience_s=patience_s)
            self._disk = WalSync(Path(f"{engine.url.database}-wal"))
        self._reader = self._viewer = engine
        if engine.dialect.name == "postgresql":
            # Each statement sees what is committed, as in a transaction; autocommit saves two round trips.
            self._reader = engine.execution_options(isolation_level="AUTOCOMMIT")
            self._viewer = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    @classmethod
    def open(cls, url: str, *, patience_s: float = PATIENCE_S, files: Blobs | None = None) -> Database:
        """Connect lazily to a database URL. Raise ``ConfigError`` if the URL cannot be used.

        Args:
            url: The database URL.
            patience_s: How long a transaction waits for others that block it.
            files: Where its files lie, by default in a folder beside a SQLite file.
        """
        return cls(make_engine(url, patience_s=patience_s), patience_s=patience_s, files=files)

    @property
    def write_trouble(self) -> str | None:
        """Why the last write failed; None if it succeeded, is too long ago, or there was none."""
        if self._trouble is None or time.monotonic() - self._trouble[0] > TROUBLE_S:
            return None
        return self._trouble[1]

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read-only session, or read in that of the page. On SQLite it sees one state of the database."""
        view = current()
        if view is None or view.database is not self:
            with self._translated(), Session(self._reader, info=self._info) as session:
                yield session
            return
        try:
            with self._translated():
                yield view.session
        except (StorageUnavailable, DBAPIError):
            view.close()  # PostgreSQL takes no statement after one that failed
            raise

    def view(self) -> AbstractContextManager[View]:
        """Have all reads of this context, a page's or an operation's, see one state of the database.

        A read that follows a write of the context sees a newer state.
        """
        return viewing(self, lambda: Session(self._viewer, info=self._info | {"known": {}}))

    ends_view = staticmethod(ends_view)

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[Session]:
        """Open a transaction that is committed at the end of the block, rolled back on an error.

        Args:
            durable: Make the commit survive a loss of power, not only of the process, before returning.
                PostgreSQL always does so.
        """
        with self._noted():
            with (
                self._turn(),
                self._translated(),
                Session(self._writer, info=self._info) as session,
                session.begin(),
            ):
                yield session
            if durable and self._disk is not None:
                self._disk.wait()
        end_view()

    @contextmanager
    def note(self) -> Iterator[Session]:
        """Open a transaction for an optional write, which does not wait for other writers.

        Raises:
        StorageUnavailable: Another writer is active, or nothing can be written.
        """
        turn = nullcontext() if self._turns is None else self._turns.take(patience_s=0)
        with turn, self._translated(), Session(self._hasty) as session, session.begin():
            if self._turns is None:
                session.execute(text("SET LOCAL lock_timeout = '100ms'"))
            yield session
        end_view()

    @contextmanager
    def changes(self) -> Iterator[Callable[[], bool]]:
        """Provide a function for one thread: whether something may have been committed since it was last called.

        On SQLite it costs microseconds. On PostgreSQL it only limits how often one looks.
        """
        if self.engine.dialect.name != "sqlite":
            yield _every(LOOK_S)
            return
        with self._translated(), self.engine.connect() as connection:
            database = connection.connection.driver_connection
            assert isinstance(database, sqlite3.Connection)
            before = None

            def has_changed() -> bool:
                nonlocal before
                last, before = before, database.execute("PRAGMA data_version").fetchone()
                return bool(last != before)

            yield has_changed

    def size_bytes(self, session: Session) -> int:
        """Return how large the database is."""
        if self.engine.dialect.name == "sqlite":
            pages, size = (
                session.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size")
            )
            return int(pages * size)
        return int(session.execute(text("SELECT pg_database_size(current_database())")).scalar_one())

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()
        if self._turns is not None:
            self._turns.close()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except StorageUnavailable as error:
            self._trouble = time.monotonic(), str(error)
            raise
        self._trouble = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn operational errors into ``StorageUnavailable``: locked, read-only, full or damaged databases.

        The remaining errors are our own mistakes: invalid statements and values.
        """
        try:
            yield
        except (IntegrityError, ProgrammingError, DataError):
            raise
        except DBAPIError as error:
            raise StorageUnavailable(
                f"{self.engine.url!r}: {trouble_of(self.engine.url, error.orig)}"
            ) from error
        except (PoolTimeout, sqlite3.Error) as error:
            raise StorageUnavailable(f"{self.engine.url!r}: {trouble_of(self.engine.url, error)}") from error

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.take()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_engine(url: str, *, patience_s: float = PATIENCE_S) -> Engine:
    """Return an engine with our settings; create the folder of a SQLite file."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"the database url has no known form; expected {_EXPECTED}") from error
    try:
        return _engine(parsed, patience_s)
    except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
        raise ConfigError(f"database url {parsed!r}: {error}") from error  # its repr hides the password


_EXPECTED = "sqlite:///FILE or postgresql://USER@HOST/NAME"


def _engine(url: URL, patience_s: float) -> Engine:
    kind = url.get_backend_name()
    if kind == "postgresql":
        if find_spec("psycopg") is None:
            text = "PostgreSQL needs another package: pip install '.[postgres]' in a copy of the project"
            raise ConfigError(text)
        engine = create_engine(url.set(drivername="postgresql+psycopg"), json_serializer=dump_json, **POOL)
        # First: what SQLAlchemy asks of a new connection it reads as UTF-8.
        event.listen(engine, "connect", _check_encoding, insert=True)
        event.listen(engine, "connect", partial(_set_up_postgresql, patience_s))
        event.listen(engine, "checkin", _note_use)
        event.listen(engine, "checkout", _ping_if_idle)
        return engine
    if kind != "sqlite" or not url.database or url.database == ":memory:":
        raise ConfigError(f"database url {url!r}: expected {_EXPECTED}")
    file = Path(url.database).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.touch(mode=0o600)  # it holds hidden cases and all code; SQLite's other files get the same mode
    patience = {"timeout": patience_s}
    engine = create_engine(url, connect_args=patience, json_serializer=dump_json, **POOL)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def files_of(session: Session) -> FileStore:
    """Return the files beside a session's database."""
    files: FileStore = session.info["files"]
    return files


def insert_if_absent(session: Session, row: type[DeclarativeBase], **values: object) -> bool:
    """Insert a row unless its key exists, even with concurrent inserts; return whether it was inserted."""
    return insert_or_none(session, row, **values) is not None


def insert_or_none(session: Session, row: type[DeclarativeBase], **values: object) -> Row[Any] | None:
    """Insert a row unless its key exists, and return its primary key, None if it existed."""
    # Not by the row count, which PostgreSQL does not report for this statement.
    return session.execute(_insert_if_absent(row, session.get_bind().dialect.name), values).first()


@cache
def _insert_if_absent(row: type[DeclarativeBase], dialect: str) -> Any:
    # Building a statement takes longer than SQLite needs to run it.
    table = row.__table__  # the mapped class would go through the unit of work
    assert isinstance(table, Table)
    insert = sqlite_dialect.insert(table) if dialect == "sqlite" else postgresql_dialect.insert(table)
    return insert.on_conflict_do_nothing().returning(*table.primary_key)


def upsert(session: Session, row: type[DeclarativeBase]) -> Any:
    """Return the dialect's INSERT, which has ``on_conflict_do_nothing`` and ``..._update``."""
    on_sqlite = session.get_bind().dialect.name == "sqlite"
    return sqlite_dialect.insert(row) if on_sqlite else postgresql_dialect.insert(row)


def _note_use(_connection: Any, record: Any) -> None:
    record.info["used_at"] = time.monotonic()


def _ping_if_idle(connection: Any, record: Any, _proxy: Any) -> None:
    """Replace a connection that its server has closed; a connection that was used just now is not tested."""
    used_at = record.info.get("used_at")
    if used_at is None or time.monotonic() - used_at < IDLE_S:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.rollback()
    except connection.Error as error:
        raise DisconnectionError from error


def _check_encoding(connection: Any, _record: Any) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        text = f"the database's encoding is {encoding}; make one with createdb --encoding UTF8 --template template0"
        name = connection.info.dbname
        connection.close()
        raise ConfigError(f"database {name!r}: {text}")


def _set_up_postgresql(patience_s: float, connection: Any, _record: Any) -> None:
    """Read times in UTC: east of it, the end of the year 9999 would be beyond Python's range."""
    connection.execute("SET TIME ZONE 'UTC'")
    # Not as an option of the connection, which connection poolers refuse.
    connection.execute(f"SET lock_timeout = {round(patience_s * 1000)}")
    connection.commit()


def _set_up_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we issue BEGIN ourselves, see _begin_sqlite
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")  # Database.write syncs durable commits
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("kernelcup_hasty"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("kernelcup_writes") else "BEGIN")
        return
    patience_ms = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
    connection.exec_driver_sql("PRAGMA busy_timeout=0")
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={patience_ms}")


def _every(pause_s: float) -> Callable[[], bool]:
    """Return a function that returns True at most once within a pause."""
    last = 0.0

    def is_time() -> bool:
        nonlocal last
        now = time.monotonic()
        is_over = now - last >= pause_s
        last = now if is_over else last
        return is_over

    return is_time


def trouble_of(url: URL, error: BaseException | None) -> str:
    """Return what a database said, with the cause where SQLite hides it.

    SQLite says "disk I/O error" and "unable to open database file" of a disk that is full or read-only.
    """
    kind = getattr(error, "sqlite_errorname", "")
    if not kind.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_READONLY")):
        return str(error).strip()
    try:
        with tempfile.TemporaryFile(dir=Path(str(url.database)).absolute().parent) as file:
            file.write(bytes(TRIED_BYTES))
    except OSError as cause:
        return f"{error}: {cause.strerror}"
    return str(error)
