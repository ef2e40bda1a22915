"""Tables of news and webhooks."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, false
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class NewsRow(Base):
    """A news item of a leaderboard. Receivers recognise repeated deliveries by its number."""

    __tablename__ = "news"
    __table_args__ = (
        Index(None, "leaderboard_id", "id"),
        Index(None, "recipient_id", "id"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    """Identifies the fact, which is stored once however many processes notice it."""
    kind: Mapped[str]
    at: Mapped[datetime]
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    device: Mapped[str] = mapped_column(default="", server_default="")
    submission_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="CASCADE"), index=True
    )
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """The submission's author."""
    score_s: Mapped[float | None]
    speedup: Mapped[float | None]
    tied: Mapped[bool] = mapped_column(default=False, server_default=false())
    other_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """The previous holder of the place."""
    recipient_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    """The user it is addressed to; None for everyone."""
    moment: Mapped[datetime | None]
    """The deadline that it announces."""
    verdict: Mapped[str] = mapped_column(default="", server_default="")
    """Of a result that was judged."""
    text: Mapped[str] = mapped_column(default="", server_default="")
    """What was said, if it is something that somebody said."""


class WebhookRow(Base):
    """A URL that receives a leaderboard's news."""

    __tablename__ = "webhooks"
    __table_args__ = (NEVER_REUSE_IDS,)

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"), index=True)
    url: Mapped[str]
    secret: Mapped[str]
    """The key that signs each delivery, so it is stored unhashed."""
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    failures: Mapped[int] = mapped_column(default=0, server_default="0")
    """Failed attempts since the last success."""
    last_error: Mapped[str] = mapped_column(default="", server_default="")
    succeeded_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]


class WebhookDeliveryRow(Base):
    """A news item that is still to be delivered to a webhook."""

    __tablename__ = "webhook_deliveries"

    webhook_id: Mapped[int] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True)
    news_id: Mapped[int] = mapped_column(
        ForeignKey("news.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    next_at: Mapped[datetime]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]
