"""Limits, invites and members."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.courses.invite_codes import normal_code
from kernelcup.app.courses.queries import courses, invites, members
from kernelcup.domain import ModeGroup
from kernelcup.domain.answers import Quantity
from kernelcup.tables import InviteRow, LimitRow
from kernelcup_kernelbot.importing.imported import Imported
from kernelcup_kernelbot.importing.source import Source, moment

GROUPS = {"test": ModeGroup.PRACTICE, "leaderboard": ModeGroup.RANKED}
HOUR_S = 3600
LABEL = "from KernelBot"


def bring(source: Source, session: Session, found: Imported, now: datetime) -> None:
    """Write the limits, invites and members that are not here yet."""
    _bring_limits(source, session, found)
    opened = _opened(source)
    stored, seen = set(session.scalars(sa.select(InviteRow.code))), set()
    for row in source.rows("leaderboard_invite", "id", "code", "user_id", "claimed_at", order=["code"]):
        code, user_id, at = normal_code(row.code), found.users.get(row.user_id), moment(row.claimed_at, now)
        if code in seen:
            found.notes["invite left out, equal to another one once it is typed"].append(row.code)
            continue
        seen.add(code)
        targets = [found.boards[each] for each in opened[row.code] + opened[row.id]]
        ids = sorted({courses.of_board(session, each, now).id for each in targets})
        if code not in stored:
            new = [invites.NewInvite(code=code, label=LABEL)] if ids else []  # without one it opens nothing
            invites.insert_all(session, new, course_ids=ids, created_by=None, now=at)
            found.counts["invites"] += len(new)
        if user_id is not None:
            invites.claim(session, code, user_id=user_id, now=at)
            joined = (members.add(session, course_id=each, user_id=user_id, now=at) for each in ids)
            found.counts["members"] += sum(joined)


def _opened(source: Source) -> defaultdict[object, list[int]]:
    """Return the leaderboards that each invite opens, by its code or number, whichever their table has."""
    name, found = "leaderboard_invite_scope", defaultdict[object, list[int]](list)
    for row in source.rows(name, "invite_id", "code", "invite_code", "leaderboard_id"):
        found[row.invite_id or row.code or row.invite_code].append(row.leaderboard_id)
    return found


def _bring_limits(source: Source, session: Session, found: Imported) -> None:
    """Write the limits that a leaderboard has none of yet."""
    names = ("leaderboard_id", "mode_category", "max_submissions_per_hour")
    for board_id, category, amount in source.rows("rate_limit", *names):
        if category not in GROUPS:
            continue
        values = {
            "leaderboard_id": found.boards[board_id].id,
            "mode_group": GROUPS[category].value,
            "per_user": True,
            "quantity": Quantity.SUBMISSIONS.value,
            "window_s": HOUR_S,
        }
        same = sa.select(LimitRow.id).filter_by(**values, user_id=None, device=None, launcher=None)
        if session.scalars(same).first() is None:
            session.add(LimitRow(**values, amount=float(amount)))
            found.counts["limits"] += 1
