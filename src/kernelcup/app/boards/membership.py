"""Membership of closed leaderboards: invite codes, members, class lists."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

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
from kernelcup.app.operation import BOARDS, Board, Given, User, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.app.people.user_names import check_account_name
from kernelcup.app.submissions.admission import check_author
from kernelcup.domain import Actor, Leaderboard, Role, Scope
from kernelcup.domain.answers import Invite, Member
from kernelcup.engine import Database, Session
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


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCodes:
    """New invite codes."""

    codes: list[str]
    leaderboards: list[str]
    """Those that each code opens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revoked:
    """A revoked code."""

    code: str
    was_claimed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The leaderboards that a code opened."""

    leaderboards: list[str]


Code = Annotated[str, Given(metavar="CODE", help="The code, in any spelling.")]


@operation("POST", "/invites", "admin invite create", subject="rules", status=201)
def make_invites(
    db: Database,
    actor: Actor,
    boards: Annotated[
        list[str],
        Given(metavar="BOARD...", key=BOARDS, least=1, most=100, help="Leaderboards that each code opens."),
    ],
    *,
    count: Annotated[
        int, Given(options=("--count", "-n"), least=1, most=MOST_INVITES, help="Number of codes.")
    ] = 1,
    now: datetime,
    label: Annotated[
        str, Given(options=("--label",), help="A label, for example the people that the codes are for.")
    ] = "",
    pseudonym: str | None = None,
) -> NewCodes:
    """Create codes, each of which lets one user into the leaderboards.

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
    new = [invites.NewInvite(code=new_code(), label=label, pseudonym=pseudonym) for _ in range(count)]
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
    return NewCodes(codes=[invite.code for invite in new], leaderboards=[target.name for target in targets])


@operation("GET", "/leaderboards/{name}/invites", "admin invite list", subject="rules")
def list_invites(
    db: Database, actor: Actor, board: Board, *, after: str | None = None, limit: int | None = None
) -> list[Invite]:
    """List a leaderboard's codes and their users, sorted by code.

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


@operation("DELETE", "/invites/{code}", "admin invite revoke", subject="rules")
def revoke_invite(db: Database, actor: Actor, code: Code, *, now: datetime) -> Revoked:
    """Revoke a code. A user who joined with it stays a member.

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
    return Revoked(code=code, was_claimed=found.claimed_at is not None)


@operation("POST", "/join", subject="rules", personal=True)
def join(db: Database, actor: Actor, code: Code, *, now: datetime) -> Joined:
    """Join the leaderboards that an invite code opens.

    With a code that the actor used before, it names those leaderboards where they are still a member.

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
                _add(session, target, actor.user_id, found.pseudonym, found.label, now=now)
            return Joined(leaderboards=[target.name for target in targets])
        owner = invites.find(session, found.code)
        joined = [each.name for each in targets if stored.is_member(session, each.id, actor.user_id)]
        if owner is None or owner.claimed_by_id != actor.user_id or not joined:
            raise Conflict("This invite code was used already.")
        return Joined(leaderboards=joined)


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
                _add(session, target, user_id, found.pseudonym, found.label, now=now)
        itself = Actor(user_id=user_id, name=checked, role=Role.PARTICIPANT, scopes=frozenset())
        detail = {"invite": found.label, "boards": list(found.boards)}
        audit_log.record(session, itself, "user.create", f"user:{checked}", detail, now)
    return user_id, list(found.boards)


@operation("GET", "/leaderboards/{name}/members", "admin members list", subject="rules")
def members(db: Database, actor: Actor, board: Board) -> list[Member]:
    """List the members of a leaderboard, sorted by name. Only its managers may see them."""
    with db.read() as session:
        return stored.of_board(session, find_managed(session, board, actor).id)


@operation("PUT", "/leaderboards/{name}/members/{user}", "admin members add", subject="rules")
def add_member(
    db: Database,
    actor: Actor,
    board: Board,
    user: User,
    *,
    now: datetime,
    pseudonym: Annotated[
        str | None,
        Given(
            options=("--pseudonym",),
            longest=64,
            help="The member's name for others on a pseudonymous leaderboard.",
        ),
    ] = None,
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


@operation("DELETE", "/leaderboards/{name}/members/{user}", "admin members remove", subject="rules")
def remove_member(db: Database, actor: Actor, board: Board, user: User, *, now: datetime) -> None:
    """End a membership; the user's submissions stay.

    Raises:
        NotFound: The user is not a member.
    """
    with db.write(durable=True) as session:
        found = find_managed(session, board, actor)
        user_id, name = find_user(session, user)
        if not stored.remove(session, board_id=found.id, user_id=user_id):
            raise NotFound(f"{name} is not a member of leaderboard {found.name!r}.")
        audit_log.record(session, actor, "members.remove", f"board:{found.name}", {"user": name}, now)


def _add(
    session: Session,
    board: Leaderboard,
    user_id: int,
    pseudonym: str | None,
    label: str = "",
    *,
    now: datetime,
) -> None:
    check_free(session, board, pseudonym, besides=user_id)
    stored.add(session, board_id=board.id, user_id=user_id, pseudonym=pseudonym, label=label, now=now)


def _manages(session: Session, actor: Actor, name: str) -> bool:
    board = all_boards.find(session, name)
    return board is not None and access.manages_board(actor, board)


def _no_invite() -> NotFound:
    return NotFound("There is no such invite code.")
