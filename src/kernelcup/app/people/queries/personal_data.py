"""What belongs to one user alone, and a pseudonym in place of the name in what stays."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Text, cast, delete, exists, select, update
from sqlalchemy.orm import Session

from kernelcup import tables as t
from kernelcup.app.people.queries import users
from kernelcup.clean_text import dump_json
from kernelcup.domain import OPEN, Role
from kernelcup.domain.answers import User

DELETED = "deleted-"
"""Begins each pseudonym of a deleted account, and no other name."""
OWN = (
    *(each.user_id for each in (t.IdentityRow, t.TokenRow, t.OneTimeCodeRow, t.MemberRow)),
    *(t.DeadlineExceptionRow.user_id, t.LimitRow.user_id, t.NewsRow.recipient_id),
)
"""The owners of rows that belong to one user alone: they are exported, and deleted with the account."""
WITHHELD = {"hash", "user_code", "user_id", "other_id", "recipient_id"}
SIGNED = (
    (t.ReviewRow.opened_by, t.ReviewRow.opened_at),
    (t.ReviewRow.decided_by, t.ReviewRow.decided_at),
    (t.DeletedReviewRow.opened_by, t.DeletedReviewRow.opened_at),
    (t.FinalRow.started_by, t.FinalRow.started_at),
    (t.PauseRow.by, t.PauseRow.since),
    (t.WebhookRow.created_by, t.WebhookRow.created_at),
)
"""Names of users who did something, and when that was."""


def own_rows(session: Session, user_id: int) -> dict[str, list[dict[str, Any]]]:
    """Return what belongs to a user alone, by table, without secrets."""
    found = {}
    for owner in (*OWN, t.RegistrationRow.user_id):
        table = owner.class_.__table__
        columns: list[Any] = [each for each in table.c if each.name not in WITHHELD]
        for row, key in ((t.LeaderboardRow, "leaderboard"), (t.CourseRow, "course")):
            if f"{key}_id" in table.c:
                name = select(row.name).where(row.id == table.c[f"{key}_id"])
                columns.append(name.scalar_subquery().label(key))
        rows = session.execute(select(*columns).where(owner == user_id)).mappings()
        found[table.name] = [dict(row) for row in rows]
    return found


def submission_ids(session: Session, user_id: int) -> list[int]:
    """Return the numbers of a user's submissions."""
    return list(session.scalars(select(t.SubmissionRow.id).where(t.SubmissionRow.user_id == user_id)))


def open_jobs(session: Session, user_id: int) -> list[tuple[int, int]]:
    """Return what waits or runs for a user, as submissions and jobs: no rejudge, no duel of a final."""
    is_duel = exists().where(t.FinalDuelRow.job_id == t.JobRow.id)
    mine = (t.JobRow.user_id == user_id, t.JobRow.state.in_(OPEN), t.JobRow.first_attempt == 1, ~is_duel)
    found = session.execute(select(t.JobRow.submission_id, t.JobRow.id).where(*mine).order_by(t.JobRow.id))
    return [(row.submission_id, row.id) for row in found]


def forget(session: Session, user: User, now: datetime) -> str:
    """Delete what belongs to a user alone, put a random pseudonym in place of the name, and return it."""
    names = list(_names(session, user, now))
    while not users.rename(session, user.id, pseudonym := f"{DELETED}{secrets.token_hex(4)}"):
        pass
    users.show_as(session, user.id, "")
    for owner in OWN:
        session.execute(delete(owner.class_).where(owner == user.id))
    users.set_role(session, user.id, Role.PARTICIPANT)
    # The team stays: its place is made of the results of all its members.
    session.execute(update(t.RegistrationRow).where(t.RegistrationRow.user_id == user.id).values(answers={}))
    claimed = update(t.InviteRow).where(t.InviteRow.claimed_by == user.id)
    session.execute(claimed.values(label="", name="", group="", pseudonym=None))
    session.execute(update(t.AuditRow).where(t.AuditRow.actor_id == user.id).values(actor=pseudonym))
    for name, since, until in names:
        _replace(session, name, pseudonym, since, until)
    return pseudonym


def _names(session: Session, user: User, now: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield a user's names with their times, newest first: at other times they may have been others' names."""
    name, until = user.name, now
    renames = select(t.AuditRow).where(t.AuditRow.action == "user.rename", t.AuditRow.at >= user.created_at)
    for entry in session.scalars(renames.order_by(t.AuditRow.id.desc())):
        if entry.target == f"user:{name}":
            yield name, entry.at, until
            name, until = entry.detail["before"], entry.at
    yield name, user.created_at, until


def _replace(session: Session, name: str, pseudonym: str, since: datetime, until: datetime) -> None:
    for by, at in SIGNED:
        session.execute(update(by.class_).where(by == name, at.between(since, until)).values({by: pseudonym}))
    told, instead = f"cancelled by {name}", f"cancelled by {pseudonym}"
    reason = t.EventRow.data["reason"].as_string() == told
    cancelled = (t.EventRow.kind == "cancelled", t.EventRow.at.between(since, until), reason)
    jobs = t.JobRow.id.in_(select(t.EventRow.job_id).where(*cancelled))
    session.execute(update(t.JobRow).where(jobs, t.JobRow.reason == told).values(reason=instead))
    session.execute(update(t.EventRow).where(*cancelled).values(data={"reason": instead}))
    then = t.AuditRow.at.between(since, until)
    about = update(t.AuditRow).where(then, t.AuditRow.target == f"user:{name}")
    session.execute(about.values(target=f"user:{pseudonym}", detail={}))
    naming = cast(t.AuditRow.detail, Text).contains(dump_json(name), autoescape=True)
    for entry in session.scalars(select(t.AuditRow).where(then, naming)):
        entry.detail = {key: pseudonym if value == name else value for key, value in entry.detail.items()}
