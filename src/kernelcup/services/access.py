"""Who may do what. Every door asks here, so that all have the same rules."""

from __future__ import annotations

from sqlalchemy.orm import Session

from kernelcup.domain import OPERATOR, Actor, Leaderboard, Role, Scope, Visibility
from kernelcup.errors import Forbidden, NotFound, ScopeMissing, SignInNeeded
from kernelcup.storage import boards, members
from kernelcup.storage.boards import Door

ALL_SCOPES = frozenset(Scope)

_ORDER = list(Role)


def has_role(actor: Actor, role: Role) -> bool:
    """Tell whether somebody has a role or a higher one."""
    return _ORDER.index(actor.role) >= _ORDER.index(role)


def require(actor: Actor, scope: Scope, *, role: Role = Role.PARTICIPANT) -> None:
    """Raise unless somebody has the role and their token the scope.

    Raises:
        SignInNeeded: Nobody is signed in.
        Forbidden: Their role is too low.
        ScopeMissing: Their token was not made for that.
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


def manages_board(actor: Actor, board: Leaderboard | Door) -> bool:
    """Tell whether a leaderboard is somebody's to change: its creator's, and admins'."""
    if actor.role is Role.ADMIN:
        return True
    return has_role(actor, Role.CREATOR) and actor.user_id == board.creator_id


def inspects_board(actor: Actor, board: Leaderboard | Door) -> bool:
    """Tell whether somebody may see all of a leaderboard: who manages it, with a token for that."""
    return Scope.INSPECT in actor.scopes and manages_board(actor, board)


def sees_board(session: Session, actor: Actor, board: Leaderboard) -> bool:
    """Tell whether a leaderboard exists for somebody."""
    if board.visibility is Visibility.PUBLIC or manages_board(actor, board):
        return True
    return actor.user_id is not None and members.is_member(session, board.id, actor.user_id)


def visible_boards(
    session: Session, actor: Actor, *, after_id: int | None = None, limit: int | None = None
) -> list[Leaderboard]:
    """Return the leaderboards that exist for somebody, the oldest first."""
    if actor.role is Role.ADMIN:
        return boards.every(session, after_id=after_id, limit=limit)
    creates = has_role(actor, Role.CREATOR)
    return boards.seen_by(session, actor.user_id, manages_own=creates, after_id=after_id, limit=limit)


def check_sees_board(session: Session, actor: Actor, board: Leaderboard) -> None:
    """Raise ``NotFound`` where a leaderboard does not exist for somebody."""
    if not sees_board(session, actor, board):
        raise no_board(board.name)


def check_manages_board(session: Session, actor: Actor, board: Leaderboard) -> None:
    """Raise unless somebody may change a leaderboard.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it, and may not.
    """
    _check_rights(session, actor, board, Scope.MANAGE)


def check_inspects_board(session: Session, actor: Actor, board: Leaderboard) -> None:
    """Raise unless somebody may see all of a leaderboard.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it, and may not see all of it.
    """
    _check_rights(session, actor, board, Scope.INSPECT)


def _check_rights(session: Session, actor: Actor, board: Leaderboard, scope: Scope) -> None:
    check_sees_board(session, actor, board)
    # The person before the token: a scope helps only those whose leaderboard it is.
    if actor.role is not Role.NOBODY and not manages_board(actor, board):
        raise Forbidden(f"Leaderboard {board.name!r} is managed by {board.creator} and admins.")
    require(actor, scope)


def no_board(name: str) -> NotFound:
    """Return the one error for leaderboards that are not there and those that one may not know of."""
    return NotFound(f"There is no leaderboard {name!r}.")


def is_operator(actor: Actor) -> bool:
    """Tell whether this is the command line on the machine of the database."""
    return actor is OPERATOR
