"""Copy a database to an empty one, of the same kind or the other, and compare each row."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from kernelcup.engine import migrate
from kernelcup.engine.columns import Line
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue

BATCH = 500
LAST_NUMBER = {
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = :table",
    "postgresql": "SELECT pg_sequence_last_value(pg_get_serial_sequence(:table, 'id')::regclass)",
}
SET_LAST_NUMBER = {
    "sqlite": "INSERT OR REPLACE INTO sqlite_sequence (rowid, name, seq) "
    "SELECT max(rowid), :table, :last FROM sqlite_sequence WHERE name = :table",
    "postgresql": "SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedTable:
    """A table whose rows are equal on both sides."""

    table: str
    rows: int
    sha256: str
    """Of its rows, in the order of their keys."""


def copy(source: Database, target: Database, tables: Sequence[sa.Table]) -> list[CopiedTable]:
    """Copy one state of a database of this version in one transaction, which is undone unless all rows are equal.

    Raises:
        Conflict: The target is not empty, or a row differs.
        InvalidValue: The target cannot hold a value.
    """
    with target.read() as session:
        for name in sa.inspect(session.connection()).get_table_names():
            query = sa.select(sa.literal(1)).select_from(sa.table(name)).limit(1)
            if name != "alembic_version" and session.scalar(query):
                raise Conflict(f"{target.engine.url!r} is not empty: table {name} has rows.")
    migrate.upgrade(target)
    with source.view(), source.read() as origin, target.write() as session:
        for table in tables:  # each stands behind those that it refers to
            try:
                _fill(origin, session, table)
            except (DataError, IntegrityError) as error:
                raise InvalidValue(f"Table {table.name}: {error.orig}; nothing was copied.") from error
        return [_compared(origin, session, table) for table in tables]


def _fill(origin: Session, session: Session, table: sa.Table) -> None:
    """Insert all rows; the next number follows the highest that was given, also to a row that was deleted."""
    to = session.get_bind().dialect.name
    values = {}
    for column in table.c:
        value: Any = sa.bindparam(f"_{column.name}", type_=_read(column).type)
        # SQLite would take this cast for one to a number.
        is_cast = to == "postgresql" and isinstance(column.type, sa.JSON)
        values[column.name] = sa.cast(value, sa.JSON) if is_cast else value
    known = sa.text(LAST_NUMBER[origin.get_bind().dialect.name])
    if table.autoincrement_column is not None and (last := origin.scalar(known, {"table": table.name})):
        session.execute(sa.text(SET_LAST_NUMBER[to]), {"table": table.name, "last": last})
    insert = table.insert().values(values)
    with _in_order(origin, table) as rows:
        for part in rows.partitions():
            session.execute(insert, [{f"_{k}": v for k, v in row._mapping.items()} for row in part])


def _compared(origin: Session, session: Session, table: sa.Table) -> CopiedTable:
    digest, count = hashlib.sha256(), 0
    with _in_order(origin, table) as rows, _in_order(session, table) as copies:
        for row, copied in zip_longest(rows, copies):
            text = repr(row and tuple(row))  # a row's own repr is cut
            if text != repr(copied and tuple(copied)):
                key = {column.name: (row or copied)._mapping[column.name] for column in table.primary_key}
                raise Conflict(f"Table {table.name}: the row with {key} differs; nothing was copied.")
            digest.update(text.encode())
            count += 1
    return CopiedTable(table=table.name, rows=count, sha256=digest.hexdigest())


def _in_order(session: Session, table: sa.Table) -> sa.Result[Any]:
    """Return all rows, in an order of keys that does not depend on the database's language."""
    collation = {"postgresql": "C", "sqlite": "BINARY"}[session.get_bind().dialect.name]
    keys = [sa.collate(key, collation) if isinstance(key.type, Line) else key for key in table.primary_key]
    query = sa.select(*map(_read, table.c)).order_by(*keys)
    return session.execute(query, execution_options={"yield_per": BATCH})


def _read(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return a column; JSON as it is written, since null and no value are read alike."""
    return sa.cast(column, sa.Text).label(column.name) if isinstance(column.type, sa.JSON) else column
