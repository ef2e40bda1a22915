"""Connections, transactions, migrations and backups of both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from sqlalchemy.orm import Session as Session

    from kernelcup.engine.database import Database as Database
else:
    # Operations name them as types only: a client that only names an operation loads no SQLAlchemy.
    Database = Session = Any

_DATABASES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def database_of(session: Session) -> str:
    """Return a name for the opened database, under which its values are cached.

    The URL would not do: a database that was emptied or restored counts its rows from one again.
    """
    return _DATABASES.setdefault(session.get_bind().engine, uuid4().hex)
