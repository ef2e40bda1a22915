"""Delete news that are too old for every reader, so that the table does not grow for ever."""

from __future__ import annotations

from datetime import datetime, timedelta

from kernelcup.app.news.queries import news
from kernelcup.engine import Database

KEPT_FOR = timedelta(days=90)
"""Longer than a bot or a webhook is away, and than a time could be recorded a second time."""
KEPT_OF_BOARD = 100
"""The newest of each leaderboard are kept however old they are, for feeds and the API."""
AT_ONCE = 1000
"""How many are deleted in one transaction, since other writers wait for it."""


def prune(db: Database, now: datetime) -> int:
    """Delete some of the old news; return how many, ``AT_ONCE`` if there may be more."""
    with db.read() as session:
        old = news.old_ids(session, before=now - KEPT_FOR, keep=KEPT_OF_BOARD, limit=AT_ONCE)
    if not old:
        return 0
    with db.write() as session:
        news.remove(session, old)
    return len(old)
