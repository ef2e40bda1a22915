"""Announcements, questions and answers of events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from kernelcup.app.people.queries.users import SHOWN_NAME
from kernelcup.domain.events import Remark, Said
from kernelcup.tables import AnnouncementRow, UserRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question and who asked it."""

    id: int
    author_id: int | None
    text: str


def insert(
    session: Session,
    event_id: int,
    kind: Remark,
    text: str,
    *,
    author_id: int | None,
    answer_to: int | None = None,
    recipient_id: int | None = None,
    now: datetime,
) -> int:
    """Store what was said and return its number."""
    row = AnnouncementRow(
        event_id=event_id,
        author_id=author_id,
        at=now,
        kind=kind.value,
        text=text,
        answer_to=answer_to,
        recipient_id=recipient_id,
    )
    session.add(row)
    session.flush()
    return row.id


def find_question(session: Session, event_id: int, number: int) -> Question | None:
    """Return a question of an event, None if there is none of this number."""
    row = session.get(AnnouncementRow, number)
    if row is None or row.event_id != event_id or row.kind != Remark.QUESTION.value:
        return None
    return Question(id=row.id, author_id=row.author_id, text=row.text)


def every(
    session: Session, event_id: int, *, reader_id: int | None, sees_all: bool, limit: int
) -> list[Said]:
    """Return what was said in an event, newest first, without what others asked or were answered in private.

    A question is public once it was answered to all; others do not see who asked.
    """
    answered = select(AnnouncementRow.answer_to).where(
        AnnouncementRow.event_id == event_id,
        AnnouncementRow.recipient_id.is_(None),
        AnnouncementRow.answer_to.is_not(None),
    )
    is_question = AnnouncementRow.kind == Remark.QUESTION.value
    is_public = or_(~is_question & AnnouncementRow.recipient_id.is_(None), AnnouncementRow.id.in_(answered))
    own = or_(
        AnnouncementRow.recipient_id == reader_id, is_question & (AnnouncementRow.author_id == reader_id)
    )
    query = (
        select(AnnouncementRow, UserRow.name, SHOWN_NAME, is_public)
        .outerjoin(UserRow, UserRow.id == AnnouncementRow.author_id)
        .where(AnnouncementRow.event_id == event_id)
        .order_by(AnnouncementRow.id.desc())
        .limit(limit)
    )
    if not sees_all:
        query = query.where(is_public if reader_id is None else or_(is_public, own))
    return [
        Said(
            id=row.id,
            kind=Remark(row.kind),
            at=row.at,
            user=(name or "") if _names_author(row, reader_id, sees_all) else "",
            shown_name=(shown or "") if _names_author(row, reader_id, sees_all) else "",
            text=row.text,
            answer_to=row.answer_to,
            private=not public,
        )
        for row, name, shown, public in session.execute(query)
    ]


def _names_author(row: AnnouncementRow, reader_id: int | None, sees_all: bool) -> bool:
    return (
        row.kind != Remark.QUESTION.value
        or sees_all
        or (reader_id is not None and row.author_id == reader_id)
    )
