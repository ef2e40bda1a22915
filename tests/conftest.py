"""Fixtures for all tests."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).parent))  # builders and fakes

import homes
import properties  # noqa: F401  (its profiles)
from database_kinds import (
    ALL_KINDS,
    DATABASES,
    POSTGRES,
    PostgresDatabase,
    autocommitting,
    make_database,
    postgres_database,
    quick_folder,
)
from fakes import FakeClock
from kernelcup.engine import migrate
from kernelcup.engine.blobs import Folder
from kernelcup.engine.database import Database
from quick_engines import share_statements
from warm_harness import Run, waiting

homes.move_out()
pytest_plugins = ["parts", "processor_time"]
# Looking for garbage takes a quarter of the time in which tests are collected, and finds nothing.
gc.set_threshold(100_000, 50, 50)

PATIENCE_S = 30.0
"""How long a thread may take to end once its test has ended."""


def pytest_collection_finish() -> None:
    """Leave out of later looks for garbage what stays to the end: thousands of tests, and what they import."""
    gc.freeze()


def pytest_report_header() -> str:
    """Say what is left out."""
    hint = "" if POSTGRES in os.environ else f" (no PostgreSQL: {POSTGRES} names no server)"
    return f"databases: {', '.join(ALL_KINDS)}{hint}"


@pytest.fixture(autouse=True)
def _logs_go_nowhere_afterwards() -> Iterator[None]:
    """Take away the handlers that commands set up: they write to streams that end with their test."""
    yield
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if type(each).__module__.startswith("_pytest")]
    root.setLevel(logging.WARNING)


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    """Wait for the threads that a test started, and fail it if one goes on: it would disturb the tests that follow."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + PATIENCE_S
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            pytest.fail(f"{thread} goes on after its test", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def _engines_are_quick() -> Iterator[None]:
    """Have SQLAlchemy compile each statement once for all tests of a process."""
    with pytest.MonkeyPatch.context() as patch:
        share_statements(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def _servers_are_quick() -> Iterator[None]:
    """Have servers start and end sooner, if there are tests of them at all: this imports FastAPI."""
    with pytest.MonkeyPatch.context() as patch:
        if "kernelcup.http.app" in sys.modules:
            from quick_clients import answer_at_once
            from quick_servers import end_soon

            answer_at_once(patch)
            end_soon(patch)
        yield


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock()


@pytest.fixture(params=DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables, on each kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.db'}"
    else:
        with postgres_database() as url:
            yield url


@pytest.fixture(params=DATABASES)
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database with our tables, on each kind of database."""
    yield from make_database(request, request.param, tmp_path)


@pytest.fixture
def db(db_url: str, tmp_path: Path) -> Iterator[Database]:
    """A database with our tables."""
    with quick_folder(tmp_path) as folder, Database.open(db_url, files=Folder(folder / "files")) as database:
        yield database


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy: quicker than migrating each time."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    with Database.open(f"sqlite:///{path}") as database:
        migrate.upgrade(database)
        with database.engine.connect() as connection:
            connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    return path


@pytest.fixture(scope="session")
def postgres_with_tables() -> Iterator[PostgresDatabase]:
    """A migrated database of this worker, emptied after each test that had it."""
    with postgres_database() as url, autocommitting(url) as connection:
        with Database.open(url) as database:
            migrate.upgrade(database)
        yield PostgresDatabase(url, connection)


@pytest.fixture(scope="session")
def warm() -> Iterator[Run]:
    """Return what runs a job of the harness with torch imported already, outside of any sandbox."""
    with waiting() as run:
        yield run
