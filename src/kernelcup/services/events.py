"""What happened to submissions, told in order and resumable.

The kinds:

- ``accepted``: it was taken in (``devices``, ``mode``).
- ``started``, ``progress``, ``finished``: an attempt at a job begins (``attempt``), gets on (``stage``,
  ``case``, ``cases``), has its result (``verdict``, ``score_s``).
- ``queued``: a job waits again (``reason``).
- ``quarantined``, ``released``, ``rejected``: its result waits for a person (``reason``), who then decided.
- ``cancelled``, ``rejudging``: somebody asked for that.
- ``done``: no job of the submission waits or runs any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from kernelcup.storage import events
from kernelcup.storage.database import Database
from kernelcup.storage.events import Event

__all__ = ["Event", "changes", "newest_id", "record", "since"]


def record(
    session: Session,
    submission_id: int,
    kind: str,
    data: Mapping[str, Any],
    job_id: int | None,
    now: datetime,
) -> None:
    """Note inside a transaction that something happened to a submission."""
    events.record(session, submission_id, kind, data, job_id, now)


def since(db: Database, submission_id: int, after_id: int, limit: int = 200) -> list[Event]:
    """Return what happened to a submission after an event, the oldest first. None is ever missed."""
    with db.read() as session:
        return events.of_submission(session, submission_id, after_id=after_id, limit=limit)


def newest_id(db: Database) -> int:
    """Return the number of the newest event, 0 if there is none."""
    with db.read() as session:
        return events.newest_id(session)


def changes(db: Database, after_id: int, limit: int = 500, also: Collection[int] = ()) -> list[Event]:
    """Return what happened to any submission after an event, the oldest first.

    Events of different submissions may become visible in another order than that of their numbers: who
    follows them all asks ``also`` for the numbers that were left out.
    """
    with db.read() as session:
        return events.of_all(session, after_id=after_id, limit=limit, also=also)
