"""Standings as they were when their leaderboard froze."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, insert, select, union, update
from sqlalchemy.orm import Session

from kernelcup.app.events.queries import teams
from kernelcup.app.results.queries import ranking_query, standings
from kernelcup.app.results.queries.ruling import is_shown
from kernelcup.domain import Leaderboard, Submission
from kernelcup.engine.views import once
from kernelcup.tables import BestRow, FrozenBestRow, JobRow, LeaderboardRow, RunRow, SubmissionRow

_COLUMNS = (*ranking_query.KEY, *ranking_query.COLUMNS)


def keep(session: Session, board_id: int, now: datetime) -> bool:
    """Copy the standings of a leaderboard whose freeze has begun; return whether they were copied now.

    It must be called in each transaction that changes ``bests``, before the change and before any row of users or
    bests is locked: the first call after the freeze copies the standings before anything has changed.
    """
    due = (
        update(LeaderboardRow)
        .where(LeaderboardRow.id == board_id)
        .where(LeaderboardRow.freeze_at <= now, LeaderboardRow.frozen_at.is_(None))
        .values(frozen_at=now)
        .returning(LeaderboardRow.id)
    )
    if session.execute(due).first() is None:
        return False
    session.execute(delete(FrozenBestRow).where(FrozenBestRow.leaderboard_id == board_id))
    old = select(*(getattr(BestRow, name) for name in _COLUMNS)).where(BestRow.leaderboard_id == board_id)
    session.execute(insert(FrozenBestRow).from_select(list(_COLUMNS), old))
    standings.revise(session, board_id, frozen=True, copied=True)  # what readers see stays the same
    return True


def ranked_s(session: Session, run_id: int) -> float | None:
    """Return the time that a run was ranked by at the freeze, in seconds, None if it was not a user's best."""
    query = select(FrozenBestRow.score_s).where(FrozenBestRow.run_id == run_id)
    return session.execute(query).scalar_one_or_none()


def holds(session: Session, submission: Submission) -> bool:
    """Return whether a submission has a place in the standings of a freeze."""
    # Its user is a key, the submission is none.
    users = {submission.user_id, teams.competitor(session, submission.leaderboard_id, submission.user_id)}
    mine = (FrozenBestRow.user_id.in_(users), FrozenBestRow.submission_id == submission.id)
    return session.execute(select(FrozenBestRow.run_id).where(*mine).limit(1)).first() is not None


def places_of_user(session: Session, user_id: int) -> list[tuple[int, str]]:
    """Return each (leaderboard, device) where a user has a place, or had one at a freeze, newest boards first."""
    places = union(
        *(
            select(best.leaderboard_id, best.device).where(best.user_id == user_id)
            for best in (BestRow, FrozenBestRow)
        )
    ).subquery()
    found = session.execute(select(places).order_by(places.c.leaderboard_id.desc(), places.c.device))
    return [(row.leaderboard_id, row.device) for row in found]


@once
def is_kept(session: Session, board_id: int) -> bool:
    """Return whether a leaderboard's standings were copied for its freeze."""
    query = select(LeaderboardRow.frozen_at).where(LeaderboardRow.id == board_id)
    return session.execute(query).scalar_one_or_none() is not None


def set_freeze(session: Session, board_id: int, at: datetime | None) -> None:
    """Set or remove the freeze of a leaderboard, and drop the copy of its standings."""
    values = {"freeze_at": at, "frozen_at": None}
    session.execute(update(LeaderboardRow).where(LeaderboardRow.id == board_id).values(**values))
    session.execute(delete(FrozenBestRow).where(FrozenBestRow.leaderboard_id == board_id))


def choose_best(session: Session, board: Leaderboard, *, device: str, user_id: int) -> None:
    """Choose a user's frozen bests again, after a submission that had a place is gone."""
    assert board.freeze_at is not None
    mates = teams.mates(session, board.id, user_id)
    key = {
        "leaderboard_id": board.id,
        "device": device,
        "user_id": teams.competitor(session, board.id, user_id),
    }
    session.execute(delete(FrozenBestRow).filter_by(**key))
    is_seen = is_shown(RunRow.finished_at, board.freeze_at)
    kept = ranking_query.bests(
        session, board.id, SubmissionRow.user_id.in_(mates), JobRow.device == device, is_seen
    )
    session.execute(insert(FrozenBestRow).from_select(list(_COLUMNS), kept))
    standings.revise(session, board.id, device, frozen=True)
