"""Databases for tests: a SQLite file, or one of a PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from kernelcup.storage.database import make_engine

POSTGRES = "KERNELCUP_TEST_POSTGRES"
"""Names a server whose role may create databases: ``postgresql://postgres@localhost:54329/postgres``."""

DATABASES = ["sqlite", "postgresql"] if POSTGRES in os.environ else ["sqlite"]
STRICTEST = DATABASES[-1]
"""PostgreSQL refuses more than SQLite, so it finds more; SQLite is quicker."""


def make_database(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a database with our tables."""
    if kind == "sqlite":
        path = folder / "test.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
    else:
        yield from postgres_database(template=request.getfixturevalue("postgres_template"))


def postgres_database(template: str = "template1") -> Iterator[str]:
    """Yield the URL of a new database of the server, and drop it afterwards."""
    server = make_url(os.environ[POSTGRES])
    name = f"kernelcup_{uuid.uuid4().hex}"
    engine = make_engine(os.environ[POSTGRES]).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()
