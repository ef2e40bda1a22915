"""Membership of closed leaderboards: invite codes, members, class lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup.app import access
from kernelcup.app.boards.boards import find_managed
from kernelcup.app.boards.class_list import ImportResult, class_of, import_members, names_in
from kernelcup.app.boards.invite_codes import (
    MOST_INVITES,
    check_free,
    check_label,
    check_pseudonym,
    new_code,
    normal_code,
)
from kernelcup.app.boards.late_exceptions import find_user
from kernelcup.app.boards.queries import boards as all_boards
from kernelcup.app.boards.queries import invites
from kernelcup.app.boards.queries import members as stored
from kernelcup.app.boards.queries.invites import Invite, NewInvite
from kernelcup.app.boards.queries.members import Member
from kernelcup.app.people.queries import audit_log, users
from kernelcup.app.people.user_names import check_account_name
from kernelcup.app.submissions.admission import check_author
from kernelcup.domain import Actor, Leaderboard, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue, NotFound, SignInNeeded

__all__ = [
    "HIDDEN_CODE",
    "ImportResult",
    "Invite",
    "Member",
    "add_member",
    "class_of",
    "import_members",
    "join",
    "join_as_new",
    "list_invites",
    "make_invites",
    "members",
    "names_in",
    "remove_member",
    "revoke_invite",
]

HIDDEN_CODE = "?"
"""Shown instead of a code that also opens leaderboards that the reader does not manage."""


def make_invites(
    db: Database,
    actor: Actor,
    boards: Sequence[str],
    *,
    count: int = 1,
    now: datetime,
    label: str = "",
    pseudonym: str | None = None,
) -> list[str]:
    """Create codes, each of which makes one user a member of all the given leaderboards.

    Args:
        db: The database.
        actor: A manager of all the leaderboards.
        boards: Names of the leaderboards.
        count: How many codes.
        now: The time.
        label: The person or group that they are meant for.
        pseudonym: The name that others see for the user; only with a single code.

    Raises:
        InvalidValue: There is no leaderboard, there are too many codes, or the label or pseudonym is invalid.
        Conflict: The pseudonym is taken.
    """
    if not boards or not 1 <= count <= MOST_INVITES:
        raise InvalidValue(f"Invites: expected at least one leaderboard and 1 to {MOST_INVITES:,} codes.")
    check_label(label)
    if pseudonym is not None:
        check_pseudonym(pseudonym)
        if count > 1:
            raise InvalidValue("A pseudonym belongs to one person: make a single code for it.")
    new = [NewInvite(code=new_code(), label=label, pseudonym=pseudonym) for _ in range(count)]
    with db.write(durable=True) as session:
        targets = list(
            {found.id: found for found in (find_managed(session, name, actor) for name in boards)}.values()
        )
        for target in targets if pseudonym is not None else ():
            check_free(session, target, pseudonym)
        ids = [target.id for target in targets]
        invites.insert_all(session, new, board_ids=ids, created_by=actor.user_id, now=now)
        for target in targets:
            detail = {"count": count, "label": label}
            audit_log.record(session, actor, "invites.make", f"board:{target.name}", detail, now)
    return [each.code for each in new]


def list_invites(
    db: Database, actor: Actor, board: str, *, after: str | None = None, limit: int | None = None
) -> list[Invite]:
    """Return a page of the invites to a leaderboard, sorted by code.

    A code that also opens leaderboards that the actor does not manage is hidden.
    """
    with db.read() as session:
        found = find_managed(session, board, actor)
        page = invites.of_board(session, found.id, after=after, limit=limit)
        managed = {name: _manages(session, actor, name) for each in page for name in each.boards}
    return [
        dataclasses.replace(
            each,
            code=each.code if all(managed[name] for name in each.boards) else HIDDEN_CODE,
            boards=tuple(name for name in each.boards if managed[name]),
        )
        for each in page
    ]


def revoke_invite(db: Database, actor: Actor, code: str, *, now: datetime) -> bool:
    """Delete a code and return whether it had been used; its user stays a member.

    Raises:
        NotFound: The code does not exist, or opens leaderboards that the actor does not manage.
    """
    with db.write(durable=True) as session:
        found = invites.find(session, normal_code(code))
        if found is None or not all(_manages(session, actor, name) for name in found.boards):
            raise _no_invite()
        access.require(actor, Scope.MANAGE)
        invites.remove(session, found.code)
        for name in found.boards:
            detail = {"label": found.label, "claimed_by": found.claimed_by}
            audit_log.record(session, actor, "invites.revoke", f"board:{name}", detail, now)
    return found.claimed_at is not None


def join(db: Database, actor: Actor, code: str, *, now: datetime) -> list[str]:
    """Become a member of the leaderboards that a code opens, and return their names.

    If the actor used the code before, return the names of those leaderboards where they are still a member.

    Raises:
        NotFound: The code does not exist.
        Conflict: Another user has used it, or its user was removed since.
    """
    access.require(actor, Scope.SUBMIT)
    if actor.user_id is None:
        raise SignInNeeded("Name the user: the operator has no account to join with.")
    with db.write(durable=True) as session:
        check_author(session, actor, lock=True)
        found = invites.find(session, normal_code(code))
        if found is None or not found.boards:
            raise _no_invite()
        targets = [board for board in (all_boards.find(session, name) for name in found.boards) if board]
        if invites.claim(session, found.code, user_id=actor.user_id, now=now):
            for target in targets:
                _add(session, target, actor.user_id, found.pseudonym, now=now)
            return [target.name for target in targets]
        owner = invites.find(session, found.code)
        joined = [each.name for each in targets if stored.is_member(session, each.id, actor.user_id)]
        if owner is None or owner.claimed_by_id != actor.user_id or not joined:
            raise Conflict("This invite code was used already.")
        return joined


def join_as_new(db: Database, code: str, name: str, *, now: datetime) -> tuple[int, list[str]]:
    """Make an account by an unused code; return its user's id and the names of the leaderboards that it opens.

    Raises:
        InvalidValue: The name is invalid.
        NotFound: The code does not exist.
        Conflict: The code was used, or the name is taken.
    """
    checked = check_account_name(name.strip())
    with db.write(durable=True) as session:
        found = invites.find(session, normal_code(code))
        if found is None or not found.boards:
            raise _no_invite()
        user_id = users.create(session, checked, role=Role.PARTICIPANT, now=now)
        if user_id is None:
            raise Conflict(f"The name {checked!r} is taken; choose another.")
        if not invites.claim(session, found.code, user_id=user_id, now=now):
            raise Conflict("This invite code was used already.")
        for target in (all_boards.find(session, each) for each in found.boards):
            if target is not None:
                _add(session, target, user_id, found.pseudonym, now=now)
        itself = Actor(user_id=user_id, name=checked, role=Role.PARTICIPANT, scopes=frozenset())
        detail = {"invite": found.label, "boards": list(found.boards)}
        audit_log.record(session, itself, "user.create", f"user:{checked}", detail, now)
    return user_id, list(found.boards)


def members(db: Database, actor: Actor, board: str) -> list[Member]:
    """Return the members of a leaderboard, sorted by name. Only its managers may see them."""
    with db.read() as session:
        return stored.of_board(session, find_managed(session, board, actor).id)


def add_member(
    db: Database, actor: Actor, board: str, user: str, *, now: datetime, pseudonym: str | None = None
) -> None:
    """Make a user a member of a leaderboard, or give a member another pseudonym."""
    if pseudonym is not None:
        check_pseudonym(pseudonym)
    with db.write(durable=True) as session:
        found = find_managed(session, board, actor)
        user_id, name = find_user(session, user)
        _add(session, found, user_id, pseudonym, now=now)
        detail = {"user": name, "pseudonym": pseudonym}
        audit_log.record(session, actor, "members.add", f"board:{found.name}", detail, now)


def remove_member(db: Database, actor: Actor, board: str, user: str, *, now: datetime) -> None:
    """End a membership; the user's submissions stay. Raise ``NotFound`` if the user is not a member."""
    with db.write(durable=True) as session:
        found = find_managed(session, board, actor)
        user_id, name = find_user(session, user)
        if not stored.remove(session, board_id=found.id, user_id=user_id):
            raise NotFound(f"{name} is not a member of leaderboard {found.name!r}.")
        audit_log.record(session, actor, "members.remove", f"board:{found.name}", {"user": name}, now)


def _add(session: Session, board: Leaderboard, user_id: int, pseudonym: str | None, *, now: datetime) -> None:
    check_free(session, board, pseudonym, besides=user_id)
    stored.add(session, board_id=board.id, user_id=user_id, pseudonym=pseudonym, now=now)


def _manages(session: Session, actor: Actor, name: str) -> bool:
    board = all_boards.find(session, name)
    return board is not None and access.manages_board(actor, board)


def _no_invite() -> NotFound:
    return NotFound("There is no such invite code.")
