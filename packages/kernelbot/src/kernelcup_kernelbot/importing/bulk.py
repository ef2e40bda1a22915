"""Write many rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.engine.copying import LAST_NUMBER, SET_LAST_NUMBER
from kernelcup.tables import Base, table_of

Values = dict[str, Any]


def insert(session: Session, row: type[Base], values: Sequence[Values]) -> None:
    """Insert rows."""
    if values:
        session.execute(table_of(row).insert(), values)


def reserve(session: Session, row: type[Base], count: int) -> list[int]:
    """Return numbers for new rows here that a server which runs meanwhile does not give to others."""
    name = {"table": table_of(row).name}
    if session.get_bind().dialect.name == "postgresql":
        numbers = "SELECT nextval(pg_get_serial_sequence(:table, 'id')) FROM generate_series(1, :count)"
        return list(session.scalars(sa.text(numbers), name | {"count": count}))
    last = session.scalar(sa.text(LAST_NUMBER["sqlite"]), name) or 0
    return list(range(last + 1, last + 1 + count))


def continue_after(session: Session, row: type[Base], number: int) -> None:
    """Have the numbers of new rows continue after this one, unless they are beyond it."""
    dialect, name = session.get_bind().dialect.name, {"table": table_of(row).name}
    if (session.scalar(sa.text(LAST_NUMBER[dialect]), name) or 0) < number:
        session.execute(sa.text(SET_LAST_NUMBER[dialect]), name | {"last": number})
