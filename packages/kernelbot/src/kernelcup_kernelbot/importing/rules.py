"""Limits, invites and members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.courses.invite_codes import normal_code
from kernelcup.app.courses.queries import courses, members
from kernelcup.domain import Leaderboard, ModeGroup
from kernelcup.domain.answers import Quantity
from kernelcup.tables import InviteCourseRow, InviteRow, LimitRow
from kernelcup_kernelbot.importing import bulk
from kernelcup_kernelbot.importing.source import Source, moment

GROUPS = {"test": ModeGroup.PRACTICE, "leaderboard": ModeGroup.RANKED}
HOUR_S = 3600
LABEL = "from KernelBot"


@dataclass(kw_only=True, slots=True)
class Rules:
    """What became of limits and invites."""

    limits: int = 0
    invites: int = 0
    members: int = 0
    alike: list[str] = field(default_factory=list)
    """Codes that are the same as another one once they are typed."""


def bring(
    source: Source,
    session: Session,
    people: Mapping[str, int],
    boards: Mapping[int, Leaderboard],
    now: datetime,
) -> Rules:
    """Write the limits, invites and members that are not here yet."""
    found = Rules(limits=_limits(source, session, boards))
    opened = _opened(source)
    stored = dict(session.execute(sa.select(InviteRow.code, InviteRow.claimed_by)).all())
    seen: set[str] = set()
    for row in source.rows("leaderboard_invite", "id", "code", "user_id", "claimed_at", order="code"):
        code, user_id = normal_code(row.code), people.get(row.user_id or "")
        if code in seen:
            found.alike.append(row.code)
            continue
        seen.add(code)
        targets = [boards[each] for each in opened.get(row.code, opened.get(row.id, [])) if each in boards]
        ids = list(dict.fromkeys(courses.of_board(session, each, now).id for each in targets))
        at = moment(row.claimed_at, now)
        claim = {"claimed_by": user_id, "claimed_at": None if user_id is None else at}
        if code not in stored:
            bulk.insert(session, InviteRow, [{"code": code, "label": LABEL, "created_at": at} | claim])
            bulk.insert(session, InviteCourseRow, [{"code": code, "course_id": each} for each in ids])
            found.invites += 1
        elif stored[code] is None and user_id is not None:
            session.execute(sa.update(InviteRow).where(InviteRow.code == code).values(**claim))
        if user_id is not None:
            found.members += sum(
                members.add(session, course_id=each, user_id=user_id, now=at) for each in ids
            )
    return found


def _opened(source: Source) -> dict[object, list[int]]:
    """Return the leaderboards that each invite opens, by its code or number, whichever their table has."""
    table = source.tables.get("leaderboard_invite_scope")
    if table is None:
        return {}
    key = next(name for name in ("invite_id", "code", "invite_code") if name in table.c)
    found: dict[object, list[int]] = {}
    for invite, board_id in source.rows("leaderboard_invite_scope", key, "leaderboard_id"):
        found.setdefault(invite, []).append(board_id)
    return found


def _limits(source: Source, session: Session, boards: Mapping[int, Leaderboard]) -> int:
    """Write the limits that a leaderboard has none of yet, and return how many."""
    changed = 0
    for board_id, category, amount in source.rows(
        "rate_limit", "leaderboard_id", "mode_category", "max_submissions_per_hour"
    ):
        if category not in GROUPS or board_id not in boards:
            continue
        values = {
            "leaderboard_id": boards[board_id].id,
            "mode_group": GROUPS[category].value,
            "per_user": True,
            "quantity": Quantity.SUBMISSIONS.value,
            "window_s": HOUR_S,
        }
        same = sa.select(LimitRow.id).filter_by(**values, user_id=None, device=None, launcher=None)
        stored = session.scalars(same).first()
        if stored is None:
            bulk.insert(session, LimitRow, [values | {"amount": float(amount)}])
            changed += 1
    return changed
