"""News that are too old for every reader are deleted, so that the table does not grow for ever."""

from __future__ import annotations

from datetime import datetime, timedelta

from kernelcup.storage import news
from kernelcup.storage.database import Database

KEPT_FOR = timedelta(days=90)
"""Longer than a bot or a webhook is away, and than a moment that has come could be noted again."""
KEPT_OF_BOARD = 100
"""The newest of each leaderboard stay however old they are: feeds and the API show them."""
AT_ONCE = 1000
"""So many are deleted in one transaction: others wait for it."""


def prune(db: Database, now: datetime) -> int:
    """Delete a portion of what is old; return how many, ``AT_ONCE`` if there may be more."""
    with db.read() as session:
        old = news.old_ids(session, before=now - KEPT_FOR, keep=KEPT_OF_BOARD, limit=AT_ONCE)
    if not old:
        return 0
    with db.write() as session:
        news.remove(session, old)
    return len(old)
