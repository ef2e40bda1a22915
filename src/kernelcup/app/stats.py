"""Figures about submissions and judging."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import find_managed
from kernelcup.app.news.queries import webhooks
from kernelcup.app.operation import BOARD, Given, operation
from kernelcup.app.submissions.queries import stats as figures
from kernelcup.domain import Actor, JobState, Role, Scope
from kernelcup.domain.answers import DeviceStats, UserTime
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue

TOP_USERS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """Figures for the service or for one leaderboard."""

    board: str | None
    since: datetime | None
    until: datetime
    submissions: int
    users: int
    """The number of users who submitted something."""
    unique_codes: int
    waiting: int
    """The number of jobs that wait now, whenever they were submitted."""
    running: int
    devices: tuple[DeviceStats, ...]
    top_users: tuple[UserTime, ...]
    """The users with the most time on devices; for admins only, else empty."""


@operation("GET", "/stats", subject="administration")
def stats(
    db: Database,
    actor: Actor,
    *,
    now: datetime,
    board: Annotated[str | None, Given(key=BOARD, help="Only for this leaderboard.")] = None,
    since: Annotated[datetime | None, Given(help="Only submissions since then.")] = None,
) -> Stats:
    """Count submissions, runs, waiting times and GPU time: of one leaderboard, or, for admins, of all.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor is not an admin and does not manage the
            leaderboard.
        InvalidValue: The time is in the future.
    """
    if board is None:
        access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if since is not None and since > now:
        raise InvalidValue(f"{since:%Y-%m-%d %H:%M:%S} UTC is in the future; expected a past time.")
    with db.read() as session:
        found = None if board is None else find_managed(session, board, actor)
        board_id = None if found is None else found.id
        conditions = figures.chosen(board_id, since)
        submissions, users, codes = figures.count_submissions(session, conditions)
        top = []
        if access.has_role(actor, Role.ADMIN) and Scope.ADMIN in actor.scopes:
            top = figures.top_users(session, conditions, limit=TOP_USERS)
        return Stats(
            board=None if found is None else found.name,
            since=since,
            until=now,
            submissions=submissions,
            users=users,
            unique_codes=codes,
            waiting=figures.count_jobs(session, board_id, JobState.QUEUED),
            running=figures.count_jobs(session, board_id, JobState.RUNNING),
            devices=tuple(figures.of_devices(session, conditions)),
            top_users=tuple(top),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Figures for monitoring."""

    newest_run: int
    verdicts: dict[str, int]
    """How many runs had each verdict."""
    retried_webhooks: int
    disabled_webhooks: int
    database_bytes: int


def health(db: Database, after_run: int | None) -> Health:
    """Return figures for monitoring, with the verdicts of runs after a given one; None means the newest."""
    with db.read() as session:
        after = figures.newest_run(session) if after_run is None else after_run
        newest, verdicts = figures.verdicts_after(session, after)
        retried, disabled = webhooks.count_failing(session)
        return Health(
            newest_run=newest,
            verdicts=verdicts,
            retried_webhooks=retried,
            disabled_webhooks=disabled,
            database_bytes=db.size_bytes(session),
        )
