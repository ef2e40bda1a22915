"""Databases with results of a clock that is out of use."""

from __future__ import annotations

import gzip
import importlib
import sqlite3
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import make_url

from builders import NOW
from kernelcup.clocks import Clock
from kernelcup.storage.engine.database import Database
from kernelcup.storage.tables import RunRow

FOLDER = Path(__file__).parent / "old_database"
MIGRATION = importlib.import_module("kernelcup.storage.migrations.versions.0017_replayed")


def load_old_database(url: str) -> None:
    """Fill an empty database with what the code of 7def2fc has stored; see ``old_database/make.py``."""
    kind = make_url(url).get_backend_name()
    script = gzip.decompress((FOLDER / f"{kind}.sql.gz").read_bytes()).decode()
    if kind == "sqlite":
        connection = sqlite3.connect(str(make_url(url).database))
        connection.executescript(script)
        connection.close()
        return
    engine = sa.create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(script.replace("%", "%%"))
    engine.dispose()


def set_apart(db: Database) -> None:
    """Let all results so far be those of an older clock, as an upgrade does it."""
    with db.write() as session:
        session.execute(sa.update(RunRow).values(clock=Clock.GPU_1.value))
        MIGRATION.change(session.connection(), NOW)
