"""What all tables have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, MetaData, Table
from sqlalchemy.orm import DeclarativeBase

from kernelcup.engine.columns import Line, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# Otherwise SQLite would give a deleted submission's number to the next one.
NEVER_REUSE_IDS = {"sqlite_autoincrement": True}


class Base(DeclarativeBase):
    """Root of the mapped classes."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime, str: Line, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012


def table_of(row: type[Base]) -> Table:
    """Return the table behind a mapped class; inserting into it bypasses the unit of work."""
    assert isinstance(row.__table__, Table)
    return row.__table__
