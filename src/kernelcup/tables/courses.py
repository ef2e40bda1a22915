"""Tables of courses: members, invites."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class CourseRow(Base):
    """A course: leaderboards with one register of people."""

    __tablename__ = "courses"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    creator_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    created_at: Mapped[datetime]
    of_board: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether it was made for one leaderboard, with which it is renamed and deleted."""
    rules: Mapped[dict[str, Any]]
    """Rules of grading as they were written, by the number of the leaderboard; under an empty key those of all."""


class _Person:
    """The columns of a line of the register."""

    label: Mapped[str] = mapped_column(default="", server_default="")
    """What the register calls the person, for example the student number."""
    name: Mapped[str] = mapped_column(default="", server_default="")
    group: Mapped[str] = mapped_column(default="", server_default="")
    pseudonym: Mapped[str | None]
    position: Mapped[int | None]
    """The place in the register; None for those who stand in none."""


class MemberRow(_Person, Base):
    """A user who belongs to a course and so sees its members-only leaderboards."""

    __tablename__ = "members"
    __table_args__ = (UniqueConstraint("course_id", "pseudonym"),)

    course_id: Mapped[int] = mapped_column(ForeignKey("courses.id", ondelete="CASCADE"), primary_key=True)
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    joined_at: Mapped[datetime]


class InviteRow(_Person, Base):
    """A code that makes one user a member of some courses; with a position, a line of the register without a user."""

    __tablename__ = "invites"

    code: Mapped[str] = mapped_column(primary_key=True)
    created_by: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), index=True)
    created_at: Mapped[datetime]
    claimed_by: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), index=True)
    claimed_at: Mapped[datetime | None]


class InviteCourseRow(Base):
    """A course that an invite opens."""

    __tablename__ = "invite_courses"

    code: Mapped[str] = mapped_column(ForeignKey("invites.code", ondelete="CASCADE"), primary_key=True)
    course_id: Mapped[int] = mapped_column(
        ForeignKey("courses.id", ondelete="CASCADE"), primary_key=True, index=True
    )
