"""Column types that behave the same on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, String
from sqlalchemy.types import TypeDecorator

from kernelcup.clean_text import clean_text


class UtcDateTime(TypeDecorator[datetime]):
    """A timezone-aware time in UTC. SQLite alone would silently drop the offset."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC. Raise ``ValueError`` for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Restore the zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Line(TypeDecorator[str]):
    """Short text from outside, for example an error. PostgreSQL accepts no NUL, UTF-8 no lone surrogate."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Replace characters that cannot be stored."""
        if value is None:
            return None
        return clean_text(value)
