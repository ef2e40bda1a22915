"""Join courses by an invite code, with an account or to get one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.courses import courses
from kernelcup.app.courses.invite_codes import Code, check_free, no_invite, normal_code
from kernelcup.app.courses.queries import courses as all_courses
from kernelcup.app.courses.queries import invites
from kernelcup.app.courses.queries import members as stored
from kernelcup.app.operation import operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.app.people.user_names import check_account_name
from kernelcup.app.submissions.admission import check_author
from kernelcup.domain import Actor, Role
from kernelcup.domain.answers import Course, Invite
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The courses that a code opened, and their leaderboards."""

    leaderboards: list[str]
    courses: list[str]


@operation("POST", "/join", subject="rules", personal=True)
def join(db: Database, actor: Actor, code: Code, *, now: datetime) -> Joined:
    """Join the courses that an invite code opens, and so all their leaderboards.

    With a code that the actor used before, it names those where they are still a member.

    Raises:
        NotFound: The code does not exist.
        Conflict: Another user has used it, or its user was removed since.
    """
    user_id = access.account(actor)
    with db.write(durable=True) as session:
        check_author(session, actor, lock=True)
        found, targets = _opened(session, code)
        if invites.claim(session, found.code, user_id=user_id, now=now):
            return _enter(session, found, targets, user_id, now)
        owner = invites.find(session, found.code)
        left = [each for each in targets if stored.is_member(session, each.id, user_id)]
        if owner is None or owner.claimed_by_id != user_id or not left:
            raise Conflict("This invite code was used already.")
        return _joined(session, left)


def join_as_new(db: Database, code: str, name: str, *, now: datetime) -> tuple[int, Joined]:
    """Make an account by an unused code; return its user's id and what the code opens.

    Raises:
        InvalidValue: The name is invalid.
        NotFound: The code does not exist.
        Conflict: The code was used, or the name is taken.
    """
    checked = check_account_name(name.strip())
    with db.write(durable=True) as session:
        found, targets = _opened(session, code)
        user_id = users.create(session, checked, role=Role.PARTICIPANT, now=now)
        if user_id is None:
            raise Conflict(f"The name {checked!r} is taken; choose another.")
        if not invites.claim(session, found.code, user_id=user_id, now=now):
            raise Conflict("This invite code was used already.")
        joined = _enter(session, found, targets, user_id, now)
        itself = Actor(user_id=user_id, name=checked, role=Role.PARTICIPANT, scopes=frozenset())
        detail = {"invite": found.label, "courses": joined.courses}
        audit_log.record(session, itself, "user.create", f"user:{checked}", detail, now)
    return user_id, joined


def _opened(session: Session, code: str) -> tuple[Invite, list[Course]]:
    found = invites.find(session, normal_code(code))
    targets = [] if found is None else [all_courses.find(session, name) for name in found.courses]
    known = [each for each in targets if each is not None]
    if found is None or not known:
        raise no_invite()
    return found, known


def _enter(session: Session, invite: Invite, targets: list[Course], user_id: int, now: datetime) -> Joined:
    for target in targets:
        check_free(session, target, invite.pseudonym, besides=user_id)
        stored.add(
            session,
            course_id=target.id,
            user_id=user_id,
            now=now,
            pseudonym=invite.pseudonym,
            **{name: getattr(invite, name) for name in stored.PERSON},
        )
    return _joined(session, targets)


def _joined(session: Session, targets: list[Course]) -> Joined:
    boards = [board.name for target in targets for board in courses.boards_of(session, target)]
    return Joined(leaderboards=boards, courses=[target.name for target in targets])
