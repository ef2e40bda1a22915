"""Database engines that share what SQLAlchemy has compiled; what they ask of a database is the same."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import URL, Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from kernelcup.engine import database

STATEMENTS = 5000
"""More than all tests of a process have."""


def share_statements(patch: pytest.MonkeyPatch) -> None:
    """Let engines of one kind of database have one cache of compiled statements.

    Tests make thousands of engines, each of which would compile every statement again, and that takes longer
    than running it. An engine looks a statement up by its dialect, which is an object of that engine alone.
    """
    make = database._engine
    caches: dict[str, Any] = {}

    def make_sharing(url: URL, patience_s: float) -> Engine:
        engine = make(url, patience_s)
        engine._compiled_cache = caches.setdefault(engine.dialect.name, LRUCache(STATEMENTS))
        return engine

    def same_kind(self: DefaultDialect, other: object) -> bool:
        return type(self) is type(other)

    patch.setattr(database, "_engine", make_sharing)
    patch.setattr(DefaultDialect, "__eq__", same_kind)
    patch.setattr(DefaultDialect, "__hash__", lambda self: hash(type(self)))
