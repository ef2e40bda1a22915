"""The relational database, behind functions that take a session and return domain objects."""

from __future__ import annotations
