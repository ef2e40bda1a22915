"""Who takes part in an event, and in which team.

A team competes as one: its places are stored under its captain. ``COMPETITOR`` says this of the submissions of a
query, :func:`competitor` of one user.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, bindparam, delete, func, select, union, update
from sqlalchemy.orm import Session, aliased

from kernelcup.app.people.queries.users import SHOWN_NAME, name_key
from kernelcup.domain.events import Registered, Team
from kernelcup.engine.database import insert_or_none, upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import LeaderboardRow, RegistrationRow, SubmissionRow, TeamRow, UserRow

_CAPTAIN = (
    select(TeamRow.captain_id)
    .join(RegistrationRow, RegistrationRow.team_id == TeamRow.id)
    .where(RegistrationRow.event_id == LeaderboardRow.event_id)
)
COMPETITOR: ColumnElement[int] = func.coalesce(
    _CAPTAIN.where(RegistrationRow.user_id == SubmissionRow.user_id)
    .correlate(LeaderboardRow, SubmissionRow)
    .scalar_subquery(),
    SubmissionRow.user_id,
)
"""Under whom the results of a submission stand, in a query that joins submissions and leaderboards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTeam:
    """A team as it is stored."""

    id: int
    name: str
    captain_id: int
    """Under whom its places are stored: its captain, who may be banned or have deleted the account."""
    code: str


def competitor(session: Session, board_id: int, user_id: int) -> int:
    """Return under whom a user's results on a leaderboard stand: their team's captain, or they themselves."""
    found = session.execute(_ONE, {"board_id": board_id, "user_id": user_id}).scalar_one_or_none()
    return user_id if found is None else found


def captains(session: Session, user_id: int) -> set[int]:
    """Return the captains of all teams of a user."""
    return set(session.scalars(_CAPTAIN.where(RegistrationRow.user_id == user_id)))


_ONE = (
    _CAPTAIN.join(LeaderboardRow, LeaderboardRow.event_id == RegistrationRow.event_id)
    .where(LeaderboardRow.id == bindparam("board_id"), RegistrationRow.user_id == bindparam("user_id"))
    .limit(1)
)


def owners_of(*submission_ids: Any) -> CompoundSelect[Any]:
    """Return the query of those under whom submissions may stand: their authors, and the captains of these."""
    board = LeaderboardRow.id == SubmissionRow.leaderboard_id
    whose: tuple[Any, ...] = (SubmissionRow.user_id, COMPETITOR)
    each = (select(who).select_from(SubmissionRow).join(LeaderboardRow, board) for who in whose)
    return union(*(query.where(SubmissionRow.id.in_(submission_ids)) for query in each))


def mates(session: Session, board_id: int, user_id: int) -> set[int]:
    """Return the users of a user's team on a leaderboard; a user without one stands alone."""
    other = aliased(RegistrationRow)
    query = (
        select(other.user_id)
        .join(RegistrationRow, RegistrationRow.team_id == other.team_id)
        .join(LeaderboardRow, LeaderboardRow.event_id == RegistrationRow.event_id)
        .where(LeaderboardRow.id == board_id, RegistrationRow.user_id == user_id)
    )
    return {user_id, *session.scalars(query)}


def names(session: Session, board_id: int, user_ids: Collection[int]) -> dict[int, str]:
    """Return the names of the teams of users on a leaderboard, by user."""
    query = (
        select(RegistrationRow.user_id, TeamRow.name)
        .join(TeamRow, TeamRow.id == RegistrationRow.team_id)
        .join(LeaderboardRow, LeaderboardRow.event_id == RegistrationRow.event_id)
        .where(LeaderboardRow.id == board_id, RegistrationRow.user_id.in_(user_ids))
    )
    return dict(session.execute(query).all())


def register(
    session: Session, event_id: int, user_id: int, *, answers: dict[str, str], now: datetime
) -> None:
    """Store a registration, or other answers of one."""
    values = {"event_id": event_id, "user_id": user_id, "accepted_at": now, "answers": answers}
    row = upsert(session, RegistrationRow).values(values)
    kept = {"answers": row.excluded.answers, "accepted_at": row.excluded.accepted_at}
    session.execute(row.on_conflict_do_update(index_elements=["event_id", "user_id"], set_=kept))


def withdraw(session: Session, event_id: int, user_id: int) -> None:
    """Delete a registration."""
    session.execute(
        delete(RegistrationRow).where(
            RegistrationRow.event_id == event_id, RegistrationRow.user_id == user_id
        )
    )


def is_registered(session: Session, event_id: int, user_id: int) -> bool:
    """Return whether a user takes part in an event."""
    return session.get(RegistrationRow, (event_id, user_id)) is not None


def registrations(session: Session, event_id: int, user_id: int | None = None) -> list[Registered]:
    """Return who takes part in an event, sorted by name, or only one user."""
    query = (
        select(RegistrationRow, UserRow.name, SHOWN_NAME, TeamRow.name)
        .join(UserRow, UserRow.id == RegistrationRow.user_id)
        .outerjoin(TeamRow, TeamRow.id == RegistrationRow.team_id)
        .where(RegistrationRow.event_id == event_id)
        .order_by(UserRow.name_key)
    )
    if user_id is not None:
        query = query.where(RegistrationRow.user_id == user_id)
    return [
        made_of(row, Registered, user=name, shown_name=shown or "", team=team or "")
        for row, name, shown, team in session.execute(query)
    ]


def make(session: Session, event_id: int, *, name: str, captain_id: int, code: str) -> int | None:
    """Store a team and return its number, None if the name is taken."""
    values = {"event_id": event_id, "name": name, "name_key": name_key(name)}
    row = insert_or_none(session, TeamRow, **values, captain_id=captain_id, code=code)
    return None if row is None else int(row.id)


def change(session: Session, team_id: int, **values: Any) -> None:
    """Change a team's captain or code."""
    session.execute(update(TeamRow).where(TeamRow.id == team_id).values(**values))


def remove(session: Session, team_id: int) -> None:
    """Delete a team; its members stay registered."""
    session.execute(update(RegistrationRow).where(RegistrationRow.team_id == team_id).values(team_id=None))
    session.execute(delete(TeamRow).where(TeamRow.id == team_id))


def put(session: Session, event_id: int, user_id: int, team_id: int | None) -> None:
    """Put a registered user into a team, or out of one."""
    mine = (RegistrationRow.event_id == event_id, RegistrationRow.user_id == user_id)
    session.execute(update(RegistrationRow).where(*mine).values(team_id=team_id))


def of_user(session: Session, event_id: int, user_id: int) -> StoredTeam | None:
    """Return a user's team in an event, None without one."""
    mine = select(RegistrationRow.team_id).where(
        RegistrationRow.event_id == event_id, RegistrationRow.user_id == user_id
    )
    return _one(session, select(TeamRow).where(TeamRow.id == mine.scalar_subquery()))


def with_code(session: Session, event_id: int, code: str) -> StoredTeam | None:
    """Return the team of an event that a code opens, locked until the transaction ends; None without one."""
    mine = (TeamRow.event_id == event_id, TeamRow.code == code)
    return _one(session, select(TeamRow).where(*mine).with_for_update())


def members(session: Session, team_id: int) -> dict[int, str]:
    """Return the users of a team, by number: first the captain, then by the age of their registrations.

    Who is banned, or has deleted the account, stands behind the others: the captaincy passes on meanwhile.
    """
    query = (
        select(UserRow.id, UserRow.name)
        .join(RegistrationRow, RegistrationRow.user_id == UserRow.id)
        .join(TeamRow, TeamRow.id == RegistrationRow.team_id)
        .where(TeamRow.id == team_id)
        .order_by(UserRow.banned_at.is_not(None), UserRow.id != TeamRow.captain_id)
        .order_by(RegistrationRow.accepted_at, UserRow.id)
    )
    return dict(session.execute(query).all())


def reader(session: Session, board_id: int, user_id: int) -> int:
    """Return who is told what concerns a competitor of a leaderboard: the captain of their team, or they themselves."""
    mine = select(RegistrationRow.team_id).join(
        LeaderboardRow, LeaderboardRow.event_id == RegistrationRow.event_id
    )
    team_id = session.scalar(mine.where(LeaderboardRow.id == board_id, RegistrationRow.user_id == user_id))
    return user_id if team_id is None else next(iter(members(session, team_id)))


def shown(session: Session, team: StoredTeam, code: str = "") -> Team:
    """Return a team with the names of its members."""
    names = list(members(session, team.id).values())
    return Team(name=team.name, captain=names[0], members=names, code=code)


def every(session: Session, event_id: int) -> list[Team]:
    """Return the teams of an event, sorted by name, without their codes."""
    query = select(TeamRow).where(TeamRow.event_id == event_id).order_by(TeamRow.name_key)
    return [shown(session, made_of(row, StoredTeam)) for row in session.scalars(query)]


def _one(session: Session, query: Select[TeamRow]) -> StoredTeam | None:
    row = session.scalars(query).first()
    return None if row is None else made_of(row, StoredTeam)
