"""Back up and restore a whole database, by SQLite's own backup or PostgreSQL's ``pg_dump`` and ``pg_restore``."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import URL, inspect

from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError, Conflict, InvalidValue, NotFound, StorageUnavailable

OURS = {"alembic_version", "jobs", "submissions", "users"}
"""Tables that a copy of ours has."""
SQLITE_HEAD = b"SQLite format 3\0"
POSTGRES_HEAD = b"PGDMP"
DATED = re.compile(r"(\.)?kernelcup-(\d{8}T\d{6}Z)\.backup(?(1)-\w+)")
"""The name of a copy with its date; that of one that was cut off has a dot before and a random part behind it."""


def back_up(db: Database, file: Path) -> int:
    """Write a consistent copy to a new file, and return its size in bytes. Others may read and write meanwhile.

    Raises:
        Conflict: The file exists.
        NotFound: Its folder does not.
        ConfigError: PostgreSQL's programs are not installed.
        StorageUnavailable: The copy failed; no partial file is left behind.
    """
    if file.exists():
        raise Conflict(f"{file} is there already; nothing was written.")
    if not file.absolute().parent.is_dir():
        raise NotFound(f"There is no folder {file.absolute().parent}. Make it, or name another one.")
    # A temporary file that only its owner can read, with a unique name: two concurrent backups do not share a file.
    handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.absolute().parent)
    os.close(handle)
    part = Path(name)
    try:
        if _is_sqlite(db):
            _copy_sqlite(_sqlite_path(db), part)
        else:
            _run(db, ["pg_dump", "--format=custom", "--no-owner", f"--file={part}"])
        with part.open("rb") as written:
            os.fsync(written.fileno())
        os.link(part, file)  # unlike a rename, this does not replace an existing file
    except FileExistsError as error:
        raise Conflict(f"{file} is there already; nothing was written.") from error
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


def dated(folder: Path, now: datetime) -> Path:
    """Return the name of a new copy in a folder, which is made if it is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"kernelcup-{now:%Y%m%dT%H%M%SZ}.backup"


def thin_out(newest: Path, keep: int) -> list[Path]:
    """Delete the dated copies beside a new one that are older than the newest ``keep``, and return them.

    Files with other names, links and folders stay.
    """
    files = (path for path in newest.parent.iterdir() if path.is_file() and not path.is_symlink())
    ours = {path: match for path in files if (match := DATED.fullmatch(path.name))}
    kept = sorted((match[2] for match in ours.values() if not match[1]), reverse=True)[:keep]
    old = sorted(path for path, match in ours.items() if match[2] < kept[-1] and path != newest)
    for path in old:
        path.unlink(missing_ok=True)
    return old


def restore(db: Database, file: Path, *, replace: bool, check: Callable[[str | None, str], None]) -> None:
    """Restore a database from a copy.

    Args:
        db: The database.
        file: The copy.
        replace: Whether a database that is not empty is replaced.
        check: Gets the copy's revision and its name before anything changes: ``migrate.check_revision``.

    Raises:
        NotFound: The file does not exist.
        InvalidValue: It is not a copy of this kind of database.
        OldDatabase, NewerDatabase: ``check`` finds that this version cannot upgrade it.
        Conflict: The database is not empty, and ``replace`` is False.
    """
    try:
        with file.open("rb") as copy:
            head = copy.read(16)
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from error
    kind, wanted = ("SQLite", SQLITE_HEAD) if _is_sqlite(db) else ("PostgreSQL", POSTGRES_HEAD)
    if not head.startswith(wanted):
        raise InvalidValue(f"{file} is not a copy of a {kind} database.")
    check(_revision_of(db, file), str(file))
    if not replace and _has_content(db):
        raise Conflict(f"{db.engine.url!r} is not empty; --yes replaces its content.")
    if _is_sqlite(db):
        db.close()
        _copy_sqlite(file, _sqlite_path(db))
    else:
        _run(db, ["pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", str(file)])


def _is_sqlite(db: Database) -> bool:
    return db.engine.dialect.name == "sqlite"


def _sqlite_path(db: Database) -> Path:
    return Path(str(db.engine.url.database))


def _has_content(db: Database) -> bool:
    with db.read() as session:
        return "submissions" in inspect(session.connection()).get_table_names()


def _copy_sqlite(source: Path, target: Path) -> None:
    try:
        # Not `with`: on these connections it would be a transaction and would not close them.
        origin = sqlite3.connect(source)
        copy = sqlite3.connect(target)
        try:
            origin.backup(copy)
        finally:
            copy.close()
            origin.close()
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{target}: {error}") from error


def _revision_of(db: Database, file: Path) -> str | None:
    """Return the revision of a copy. Raise ``InvalidValue`` if it is damaged, or of another program's database."""
    if _is_sqlite(db):
        tables, revision = _read_sqlite(file)
    else:
        listed = _run(db, ["pg_restore", "--list", str(file)], is_offline=True).splitlines()
        tables = {line.split()[5] for line in listed if " TABLE " in line and len(line.split()) > 5}
        only = ["--data-only", "--table=alembic_version", "--file=-"]
        rows = _run(db, ["pg_restore", *only, str(file)], is_offline=True)
        match = re.search(r"^COPY .*\n(\w+)$", rows, re.MULTILINE)
        revision = match[1] if match else None
    if not tables >= OURS:
        raise InvalidValue(f"{file} is a copy of another program's database: it has no tables of KernelCup.")
    return revision


def _read_sqlite(file: Path) -> tuple[set[str], str | None]:
    """Return the tables of a copy and its revision. Raise ``InvalidValue`` if it is damaged."""
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise InvalidValue(f"{file} is damaged: {found}")
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        named = "alembic_version" in tables
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if named else None
    except sqlite3.DatabaseError as error:
        raise InvalidValue(f"{file} is damaged: {error}") from error
    finally:
        connection.close()
    return tables, row[0] if row else None


def _run(db: Database, command: Sequence[str], *, is_offline: bool = False) -> str:
    """Run a program of PostgreSQL's on a database, or on a file alone. Return what it prints."""
    if shutil.which(command[0]) is None:
        raise ConfigError(f"this needs PostgreSQL's program {command[0]}: apt-get install postgresql-client")
    environ, name = _connection(db.engine.url)
    option = [] if is_offline else [f"--dbname={name}"]
    done = subprocess.run([*command, *option], env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StorageUnavailable(f"{command[0]}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def _connection(url: URL) -> tuple[dict[str, str], str]:
    """Return the environment with the password, which other users could see on a command line, and the name."""
    environ = dict(os.environ)
    if url.password is not None:
        environ["PGPASSWORD"] = str(url.password)
    plain = url.set(drivername="postgresql", password=None)
    return environ, plain.render_as_string(hide_password=False)
