"""Events of submissions, as an ordered stream that a reader can resume.

The kinds are:

- ``accepted``: it was taken in (``devices``, ``mode``).
- ``started``, ``progress``, ``finished``: an attempt at a job begins (``attempt``), advances (``stage``,
  ``case``, ``cases``), has its result (``verdict``, ``score_s``).
- ``queued``: a job waits again (``reason``).
- ``quarantined``, ``released``, ``rejected``: its result waits for a review (``reason``), or was decided on.
- ``cancelled``, ``rejudging``: a person asked for this.
- ``done``: no job of the submission is waiting or running any more.
"""

from __future__ import annotations

from collections.abc import Collection

from kernelcup.app.submissions.queries import events
from kernelcup.app.submissions.queries.events import Event, record
from kernelcup.engine import Database

__all__ = ["Event", "changes", "newest_id", "record", "since"]


def since(db: Database, submission_id: int, after_id: int, limit: int = 200) -> list[Event]:
    """Return a submission's events after a given one, oldest first. No event is ever missed."""
    with db.read() as session:
        return events.of_submission(session, submission_id, after_id=after_id, limit=limit)


def newest_id(db: Database) -> int:
    """Return the number of the newest event, 0 if there is none."""
    with db.read() as session:
        return events.newest_id(session)


def changes(db: Database, after_id: int, limit: int = 500, also: Collection[int] = ()) -> list[Event]:
    """Return the events of all submissions after a given one, oldest first.

    Events of different submissions may become visible out of order: a reader who follows them all passes the
    numbers that were missing so far as ``also``.
    """
    with db.read() as session:
        return events.of_all(session, after_id=after_id, limit=limit, also=also)
