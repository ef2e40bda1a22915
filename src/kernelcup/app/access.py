"""Who may do what: every entry point checks here, so all follow the same rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kernelcup.app.boards.queries import boards
from kernelcup.app.courses.queries import members
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Role, Scope, Visibility
from kernelcup.domain.events import Event
from kernelcup.engine import Session
from kernelcup.errors import Forbidden, NotFound, ScopeMissing, SignInNeeded

ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """How an actor came in."""

    by: Literal["session", "token", "acting", "none", "machine"]
    """A browser's session, a token, a bot that acts for a user, nothing, or this machine's database."""
    secret: str = field(default="", repr=False)
    """The token of the request."""


HERE = Entry(by="machine")

_ORDER = list(Role)


def has_role(actor: Actor, role: Role) -> bool:
    """Return whether the actor has the role or a higher one."""
    return _ORDER.index(actor.role) >= _ORDER.index(role)


def require(actor: Actor, scope: Scope, *, role: Role = Role.PARTICIPANT) -> None:
    """Raise unless the actor has the role and their token has the scope.

    Raises:
        SignInNeeded: The actor is not signed in.
        Forbidden: Their role is too low.
        ScopeMissing: Their token lacks the scope.
    """
    if actor.role is Role.NOBODY:
        raise SignInNeeded("Sign in first: this needs an account.")
    if not has_role(actor, role):
        raise Forbidden(f"This needs the role {role.value}; {actor.name} is {actor.role.value}.")
    if scope not in actor.scopes:
        raise ScopeMissing(
            f"This token lacks the scope {scope.value!r}; make one that has it, if your role allows it: "
            f"kernelcup login SERVER --scope {scope.value}"
        )


def account(actor: Actor, scope: Scope = Scope.SUBMIT) -> int:
    """Return the user who acts for themselves. Raise as :func:`require`, and ``SignInNeeded`` for the operator."""
    require(actor, scope)
    if actor.user_id is None:
        raise SignInNeeded("Name the user: the operator has no account for this.")
    return actor.user_id


def check_settings(actor: Actor, entry: Entry) -> None:
    """Raise unless the actor may change how their account is accessed.

    A stolen token must not create tokens that outlive it. This needs a browser session, or an
    admin's token with the scope ``admin``; never a bot that acts for a user.
    """
    require(actor, Scope.SUBMIT)
    by_admin = entry.by == "token" and actor.role is Role.ADMIN and Scope.ADMIN in actor.scopes
    if not by_admin and entry.by not in ("session", "machine"):
        raise ScopeMissing("A token cannot do this; sign in with a browser, or ask an admin.")


def manages_board(actor: Actor, board: Leaderboard | boards.Door) -> bool:
    """Return whether the actor may change a leaderboard: its creator and admins may."""
    if actor.role is Role.ADMIN:
        return True
    return has_role(actor, Role.CREATOR) and actor.user_id == board.creator_id


def manages_event(actor: Actor, event: Event) -> bool:
    """Return whether the actor may change an event: its creator and admins may."""
    if actor.role is Role.ADMIN:
        return True
    return has_role(actor, Role.CREATOR) and actor.user_id == event.creator_id


def inspects_board(actor: Actor, board: Leaderboard | boards.Door) -> bool:
    """Return whether the actor may see all of a leaderboard: they manage it, and their token allows it."""
    return Scope.INSPECT in actor.scopes and manages_board(actor, board)


def sees_board(session: Session, actor: Actor, board: Leaderboard) -> bool:
    """Return whether a leaderboard exists for the actor."""
    if board.visibility is Visibility.PUBLIC or manages_board(actor, board):
        return True
    return actor.user_id is not None and members.is_member(session, board.course_id, actor.user_id)


def visible_boards(
    session: Session, actor: Actor, *, after_id: int | None = None, limit: int | None = None
) -> list[Leaderboard]:
    """Return the leaderboards that exist for the actor, oldest first."""
    if actor.role is Role.ADMIN:
        return boards.every(session, after_id=after_id, limit=limit)
    creates = has_role(actor, Role.CREATOR)
    return boards.seen_by(session, actor.user_id, manages_own=creates, after_id=after_id, limit=limit)


def check_sees_board(session: Session, actor: Actor, board: Leaderboard) -> None:
    """Raise ``NotFound`` if a leaderboard does not exist for the actor."""
    if not sees_board(session, actor, board):
        raise no_board(board.name)


def check_manages_board(session: Session, actor: Actor, board: Leaderboard) -> None:
    """Raise unless the actor may change a leaderboard.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it but may not change it.
    """
    _check_rights(session, actor, board, Scope.MANAGE)


def check_inspects_board(session: Session, actor: Actor, board: Leaderboard) -> None:
    """Raise unless the actor may see all of a leaderboard.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it but may not see all of it.
    """
    _check_rights(session, actor, board, Scope.INSPECT)


def _check_rights(session: Session, actor: Actor, board: Leaderboard, scope: Scope) -> None:
    check_sees_board(session, actor, board)
    # Check the person before the token: a missing scope is only worth reporting to those who manage the board.
    if actor.role is not Role.NOBODY and not manages_board(actor, board):
        raise Forbidden(f"Leaderboard {board.name!r} is managed by {board.creator} and admins.")
    require(actor, scope)


def no_board(name: str) -> NotFound:
    """Return the error for a missing leaderboard; a hidden one gives the same error."""
    return NotFound(f"There is no leaderboard {name!r}.")


def is_operator(actor: Actor) -> bool:
    """Return whether this is the command line on the machine of the database."""
    return actor is OPERATOR
