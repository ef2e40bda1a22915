"""Tables of events: leaderboards that belong together, registrations, teams and announcements."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class BoardEventRow(Base):
    """An event of leaderboards, for example a hackathon."""

    __tablename__ = "board_events"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    creator_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    created_at: Mapped[datetime]
    title: Mapped[str] = mapped_column(default="", server_default="")
    text: Mapped[str] = mapped_column(default="", server_default="")
    """Markdown."""
    opens_at: Mapped[datetime | None]
    qualifier_at: Mapped[datetime | None]
    """When the qualifier ends."""
    ends_at: Mapped[datetime | None]
    registration: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether only who has registered may submit to its leaderboards."""
    register_by: Mapped[datetime | None]
    terms: Mapped[str] = mapped_column(default="", server_default="")
    licence: Mapped[str] = mapped_column(default="", server_default="")
    fields: Mapped[list[Any]]
    """Eligibility questions, as their texts."""
    team_size: Mapped[int] = mapped_column(default=1, server_default="1")
    """The most members of a team; 1 for an event without teams."""
    teams_until: Mapped[datetime | None]
    points_by: Mapped[str] = mapped_column(default="place", server_default="place")
    """``place``, ``leader``, ``floor`` or ``baseline``."""
    place_points: Mapped[str]
    """The points of the places, separated by commas."""
    full_points: Mapped[float] = mapped_column(default=100.0, server_default="100")
    """What a ratio of 1 gives."""
    ties: Mapped[str] = mapped_column(default="shared", server_default="shared")
    """``shared`` or ``places``."""
    prizes: Mapped[list[Any]]
    """A text for each place, the first place first."""


class TeamRow(Base):
    """A team of an event. Its places on the leaderboards are stored under its captain."""

    __tablename__ = "teams"
    __table_args__ = (UniqueConstraint("event_id", "name_key"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    event_id: Mapped[int] = mapped_column(ForeignKey("board_events.id", ondelete="CASCADE"))
    name: Mapped[str]
    name_key: Mapped[str]
    captain_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    code: Mapped[str] = mapped_column(unique=True)
    """Who knows it may join."""


class RegistrationRow(Base):
    """A user who takes part in an event."""

    __tablename__ = "registrations"

    event_id: Mapped[int] = mapped_column(ForeignKey("board_events.id", ondelete="CASCADE"), primary_key=True)
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    accepted_at: Mapped[datetime]
    """When they agreed to the terms and the licence."""
    answers: Mapped[dict[str, Any]]
    """To the eligibility questions, by name."""
    team_id: Mapped[int | None] = mapped_column(ForeignKey("teams.id", ondelete="SET NULL"), index=True)


class AnnouncementRow(Base):
    """What an event's organiser said, a participant's question, or the answer to one."""

    __tablename__ = "announcements"
    __table_args__ = (Index(None, "event_id", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    event_id: Mapped[int] = mapped_column(ForeignKey("board_events.id", ondelete="CASCADE"))
    author_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), index=True)
    """None for the operator."""
    at: Mapped[datetime]
    kind: Mapped[str]
    """``announcement``, ``question`` or ``answer``."""
    text: Mapped[str]
    answer_to: Mapped[int | None] = mapped_column(
        ForeignKey("announcements.id", ondelete="CASCADE"), index=True
    )
    recipient_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """The only reader of an answer; None for all."""
