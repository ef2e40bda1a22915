"""Users: their names, roles, bans and identities."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import delete, exists, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from kernelcup.app.people.queries import identities
from kernelcup.domain import Actor, Role, Scope
from kernelcup.domain.answers import User
from kernelcup.engine.database import insert_if_absent, upsert
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.tables import UserRow

MOST_IDS = 1000
"""Of more users, for whom a database has no room in a statement, the names of all are read."""


def name_key(name: str) -> str:
    """Return the folded name of a user or leaderboard: names with equal keys are the same name."""
    return unicodedata.normalize("NFKC", name).casefold()


def shown_key(name: str) -> str | None:
    """Return the folded shown name, None for none: names that differ by marks of emoji alone look alike."""
    return name_key(name.replace("\ufe0f", "").replace("\u200d", "")) or None


def find(session: Session, name: str) -> User | None:
    """Return the user with this name, ignoring case, None if there is none."""
    return _one(session, session.scalar(select(UserRow).where(UserRow.name_key == name_key(name))))


def get(session: Session, user_id: int) -> User | None:
    """Return a user by number, None if there is none."""
    return _one(session, session.get(UserRow, user_id))


def page(session: Session, *, after_id: int | None, limit: int, query: str | None) -> list[User]:
    """Return users by number, or only those whose names contain ``query``."""
    wanted = select(UserRow).order_by(UserRow.id).limit(limit)
    if after_id is not None:
        wanted = wanted.where(UserRow.id > after_id)
    if query:
        wanted = wanted.where(UserRow.name_key.contains(name_key(query), autoescape=True))
    return _users(session, session.scalars(wanted).all())


def create(session: Session, name: str, *, role: Role, now: datetime) -> int | None:
    """Create a user and return its id, None if the name is taken."""
    if _is_shown(session, name):
        return None
    insert = upsert(session, UserRow).values(
        name=name, name_key=name_key(name), role=role.value, created_at=now
    )
    made: int | None = session.scalar(insert.on_conflict_do_nothing().returning(UserRow.id))
    return made


def delete_unused(session: Session, user_id: int) -> None:
    """Delete a user that was created in this transaction and is not needed after all."""
    session.execute(delete(UserRow).where(UserRow.id == user_id))


def set_role(session: Session, user_id: int, role: Role) -> None:
    """Give a user a role."""
    session.execute(update(UserRow).where(UserRow.id == user_id).values(role=role.value))


def has_other_admin(session: Session, user_id: int) -> bool:
    """Return whether another user is an admin and not banned.

    All admins stay locked until the transaction ends: of the last two, each could else rely on the other.
    """
    admins = select(UserRow.id).where(UserRow.role == Role.ADMIN.value, UserRow.banned_at.is_(None))
    found = session.scalars(admins.order_by(UserRow.id).with_for_update()).all()
    return any(each != user_id for each in found)


def set_ban(session: Session, user_id: int, *, at: datetime | None, reason: str) -> None:
    """Ban a user, or lift the ban if ``at`` is None."""
    values = {"banned_at": at, "ban_reason": reason}
    session.execute(update(UserRow).where(UserRow.id == user_id).values(**values))


def set_direct_messages(session: Session, user_id: int, wanted: bool) -> None:
    """Store whether bots may message a user about their results."""
    session.execute(update(UserRow).where(UserRow.id == user_id).values(direct_messages=wanted))


def without_direct_messages(session: Session, user_ids: Collection[int]) -> set[int]:
    """Return those of the given users who want no direct messages."""
    quiet = select(UserRow.id).where(UserRow.id.in_(user_ids), UserRow.direct_messages.is_(False))
    return set(session.scalars(quiet))


def rename(session: Session, user_id: int, name: str) -> bool:
    """Rename a user. Return False if another user has the name."""
    if _is_shown(session, name, but=user_id):
        return False
    return _update(session, user_id, name=name, name_key=name_key(name))


def show_as(session: Session, user_id: int, name: str) -> bool:
    """Give a user a shown name, or with an empty one none. Return False if another user has or shows it."""
    key = shown_key(name)
    taken = select(UserRow.id).where(UserRow.name_key == key, UserRow.id != user_id)
    if session.scalar(taken) is not None:
        return False
    return _update(session, user_id, shown_name=name, shown_key=key)


def shown_names(session: Session, ids: Collection[int]) -> dict[int, str]:
    """Return the shown names of those users who have one.

    A name that became an account's since, be it at the same moment, is shown no more.
    """
    account = aliased(UserRow)
    is_taken = exists().where(account.name_key == UserRow.shown_key, account.id != UserRow.id)
    known: dict[int, str] = session.info.get("known", {}).setdefault("shown names", {})
    if missing := [each for each in ids if each not in known]:
        query = select(UserRow.id, UserRow.shown_name).where(UserRow.shown_key.is_not(None), ~is_taken)
        if len(missing) <= MOST_IDS:
            query = query.where(UserRow.id.in_(missing))
        known |= dict.fromkeys(missing, "") | {row.id: row.shown_name for row in session.execute(query)}
    return {each: known[each] for each in ids if known[each]}


def get_or_create(session: Session, name: str, *, now: datetime) -> int:
    """Return the id of the user with this name, and create the user if needed."""
    insert_if_absent(session, UserRow, name=name, name_key=name_key(name), created_at=now)
    return session.execute(select(UserRow.id).where(UserRow.name_key == name_key(name))).scalar_one()


def find_actor(session: Session, name: str) -> Actor | None:
    """Return the user with this name as an actor with all scopes, None if the user does not exist."""
    row = session.scalar(select(UserRow).where(UserRow.name_key == name_key(name)))
    if row is None:
        return None
    return Actor(user_id=row.id, name=row.name, role=Role(row.role), scopes=frozenset(Scope))


def only_admin(session: Session) -> str | None:
    """Return the name of the only admin who is not banned, None if there is none or more than one."""
    admins = (UserRow.role == Role.ADMIN.value, UserRow.banned_at.is_(None))
    found = session.scalars(select(UserRow.name).where(*admins).limit(2)).all()
    return found[0] if len(found) == 1 else None


def raise_to_creator(session: Session, user_id: int) -> None:
    """Make a participant a creator; others keep their role."""
    participant = (UserRow.id == user_id, UserRow.role == Role.PARTICIPANT.value)
    session.execute(update(UserRow).where(*participant).values(role=Role.CREATOR.value))


@once
def find_name(session: Session, name: str) -> tuple[int, str] | None:
    """Return a user's id and the stored spelling of the name, None if the user does not exist."""
    found = session.execute(
        select(UserRow.id, UserRow.name).where(UserRow.name_key == name_key(name))
    ).first()
    return None if found is None else (found.id, found.name)


def names(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """Return the names of users by id."""
    query = select(UserRow.id, UserRow.name).where(UserRow.id.in_(ids))
    return {row.id: row.name for row in session.execute(query)}


def _one(session: Session, row: UserRow | None) -> User | None:
    return None if row is None else _users(session, [row])[0]


def _users(session: Session, rows: Sequence[UserRow]) -> list[User]:
    known = identities.of_users(session, [row.id for row in rows])
    shown = shown_names(session, [row.id for row in rows if row.shown_key])
    return [
        made_of(row, User, identities=known.get(row.id, ()), shown_name=shown.get(row.id, "")) for row in rows
    ]


def _update(session: Session, user_id: int, **values: str | None) -> bool:
    """Return False where a unique name is taken."""
    try:
        with session.begin_nested():
            session.execute(update(UserRow).where(UserRow.id == user_id).values(**values))
    except IntegrityError:
        return False
    return True


def _is_shown(session: Session, name: str, *, but: int = 0) -> bool:
    """Return whether another user is shown under an account's name."""
    mine = (UserRow.shown_key == name_key(name), UserRow.id != but)
    return session.scalar(select(UserRow.id).where(*mine)) is not None
