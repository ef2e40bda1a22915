"""KernelBot's tables beside a running KernelBot: what the week side by side and the way back read and write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from kernelcup.engine.database import make_engine, trouble_of
from kernelcup.errors import InvalidValue, StorageUnavailable

SCHEMA = "leaderboard"
NAMES = ("user_info", "leaderboard", "code_files", "submission", "runs", "submission_job_status")
SHORTEST_DISCORD = 17
"""Digits of an id; those of GitHub have at most ten."""


class OldTables:
    """The tables by name, in one transaction."""

    def __init__(self, connection: sa.Connection, schema: str) -> None:
        self.connection = connection
        self._meta, self._schema = sa.MetaData(), schema
        known = sa.inspect(connection).get_table_names(schema=schema)
        if missing := [name for name in NAMES if name not in known]:
            raise InvalidValue(
                f"{connection.engine.url!r}: schema {schema!r} has no table {missing[0]!r}; name the database of "
                "KernelBot, and its schema with --schema if it was renamed."
            )
        self._meta.reflect(connection, schema=schema, only=list(NAMES), resolve_fks=False)

    def __getitem__(self, name: str) -> sa.Table:
        return self._meta.tables[f"{self._schema}.{name}"]


@contextmanager
def opened(url: str, schema: str = SCHEMA) -> Iterator[OldTables]:
    """Open KernelBot's database; what is written is stored at the end, unless there is an error.

    Raises:
        InvalidValue: It is no PostgreSQL database, or not KernelBot's.
        StorageUnavailable: It cannot be reached.
    """
    engine = make_engine(url)
    if engine.dialect.name != "postgresql":
        raise InvalidValue(f"{engine.url!r}: KernelBot's database is PostgreSQL: postgresql://USER@HOST/NAME")
    try:
        with engine.begin() as connection:
            yield OldTables(connection, schema)
    except OperationalError as error:
        raise StorageUnavailable(f"{engine.url!r}: {trouble_of(engine.url, error.orig)}") from error
    finally:
        engine.dispose()


def provider_of(user_id: str, stored: str | None) -> str:
    """Return the sign-in provider of a user: what the client stored, else by the length of the id."""
    if stored in ("discord", "github"):
        return stored
    return "discord" if len(user_id) >= SHORTEST_DISCORD else "github"


def aware(moment: datetime) -> datetime:
    """Return a stored time in UTC; some columns have no zone."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
