"""Alembic's migrations. A released one is never edited; add the next."""

from __future__ import annotations
