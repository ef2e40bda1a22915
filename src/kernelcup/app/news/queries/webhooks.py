"""Webhooks of leaderboards, and their pending deliveries.

News are delivered to a webhook in order, one at a time: only the oldest pending delivery can be leased.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Webhook
from kernelcup.engine.rows import made_of
from kernelcup.tables import LeaderboardRow, WebhookDeliveryRow, WebhookRow

_Delivery = WebhookDeliveryRow


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryLease:
    """The right to deliver a news item to a webhook until a given time."""

    webhook_id: int
    news_id: int
    token: str
    url: str
    secret: str
    failures: int


def add(session: Session, *, board_id: int, url: str, secret: str, created_by: str, now: datetime) -> int:
    """Store a webhook and return its id."""
    row = WebhookRow(leaderboard_id=board_id, url=url, secret=secret, created_by=created_by, created_at=now)
    session.add(row)
    session.flush()
    return row.id


def of_board(session: Session, board_id: int) -> list[Webhook]:
    """Return the webhooks of a leaderboard, oldest first."""
    return _load(session, _webhooks().where(WebhookRow.leaderboard_id == board_id))


def find(session: Session, board_id: int, webhook_id: int) -> Webhook | None:
    """Return a webhook of a leaderboard, None if it does not exist."""
    of_board = (WebhookRow.leaderboard_id == board_id, WebhookRow.id == webhook_id)
    found = _load(session, _webhooks().where(*of_board))
    return found[0] if found else None


def remove(session: Session, webhook_id: int) -> None:
    """Delete a webhook and its pending deliveries."""
    session.execute(delete(WebhookRow).where(WebhookRow.id == webhook_id))


def enable(session: Session, webhook_id: int, now: datetime) -> None:
    """Enable a webhook, and make its pending deliveries due at once."""
    values = {"disabled_at": None, "failures": 0, "last_error": ""}
    session.execute(update(WebhookRow).where(WebhookRow.id == webhook_id).values(**values))
    session.execute(update(_Delivery).where(_Delivery.webhook_id == webhook_id).values(next_at=now))


def count_failing(session: Session) -> tuple[int, int]:
    """Return how many webhooks are retried after a failure, and how many are disabled."""
    disabled = WebhookRow.disabled_at.is_not(None)
    retried = and_(WebhookRow.failures > 0, WebhookRow.disabled_at.is_(None))
    query = select(func.count().filter(retried), func.count().filter(disabled)).select_from(WebhookRow)
    retried_count, disabled_count = session.execute(query).one()
    return retried_count, disabled_count


def has_due(session: Session, now: datetime) -> bool:
    """Return whether a delivery is due."""
    return session.execute(_heads(now).limit(1)).first() is not None


def claim(
    session: Session, *, now: datetime, until: datetime, limit: int, webhook_id: int | None = None
) -> list[DeliveryLease]:
    """Lease up to ``limit`` due deliveries, the oldest one of each webhook."""
    query = _heads(now).order_by(_Delivery.next_at, _Delivery.webhook_id).limit(limit)
    if webhook_id is not None:
        query = query.where(_Delivery.webhook_id == webhook_id)
    found = session.execute(query.with_for_update(of=_Delivery, skip_locked=True)).all()
    leases = [made_of(row, DeliveryLease, token=secrets.token_hex(16)) for row in found]
    for lease in leases:
        of_it = (_Delivery.webhook_id == lease.webhook_id, _Delivery.news_id == lease.news_id)
        values = {"lease_token": lease.token, "lease_until": until}
        session.execute(update(_Delivery).where(*of_it).values(**values))
    return leases


def succeed(session: Session, lease: DeliveryLease, now: datetime | None) -> None:
    """Remove a delivery that succeeded; if ``now`` is None, one that is no longer to be made."""
    if not drop(session, lease) or now is None:
        return
    values = {"failures": 0, "last_error": "", "succeeded_at": now}
    session.execute(update(WebhookRow).where(WebhookRow.id == lease.webhook_id).values(**values))


def drop(session: Session, lease: DeliveryLease) -> bool:
    """Delete a delivery; return whether its lease was still ours."""
    gone = delete(_Delivery).where(*_is_leased(lease)).returning(_Delivery.news_id)
    return session.execute(gone).first() is not None


def fail(
    session: Session, lease: DeliveryLease, *, error: str, next_at: datetime, disabled_at: datetime | None
) -> None:
    """Record a failed delivery and the time of the next attempt; with ``disabled_at``, disable the webhook."""
    values = {"next_at": next_at, "lease_token": None, "lease_until": None}
    changed = update(_Delivery).where(*_is_leased(lease)).values(**values).returning(_Delivery.news_id)
    if session.execute(changed).first() is None:
        return
    session.execute(
        update(WebhookRow)
        .where(WebhookRow.id == lease.webhook_id)
        .values(failures=lease.failures + 1, last_error=error, disabled_at=disabled_at)
    )


def _is_leased(lease: DeliveryLease) -> tuple[ColumnElement[bool], ...]:
    return (
        _Delivery.webhook_id == lease.webhook_id,
        _Delivery.news_id == lease.news_id,
        _Delivery.lease_token == lease.token,
    )


def _heads(now: datetime) -> Select[int, int, str, str, int]:
    older = select(func.min(_Delivery.news_id)).where(_Delivery.webhook_id == WebhookRow.id)
    return (
        select(
            _Delivery.webhook_id, _Delivery.news_id, WebhookRow.url, WebhookRow.secret, WebhookRow.failures
        )
        .join(
            WebhookRow,
            and_(
                WebhookRow.id == _Delivery.webhook_id,
                _Delivery.news_id == older.correlate(WebhookRow).scalar_subquery(),
            ),
        )
        .where(WebhookRow.disabled_at.is_(None), _Delivery.next_at <= now)
        .where(or_(_Delivery.lease_until.is_(None), _Delivery.lease_until < now))
    )


def _webhooks() -> Select[WebhookRow, str, int]:
    waiting = (
        select(func.count())
        .where(_Delivery.webhook_id == WebhookRow.id)
        .correlate(WebhookRow)
        .scalar_subquery()
    )
    return (
        select(WebhookRow, LeaderboardRow.name, waiting)
        .join(LeaderboardRow, LeaderboardRow.id == WebhookRow.leaderboard_id)
        .order_by(WebhookRow.id)
        .execution_options(populate_existing=True)
    )


def _load(session: Session, query: Select[WebhookRow, str, int]) -> list[Webhook]:
    return [
        made_of(row, Webhook, leaderboard=board, waiting=waiting)
        for row, board, waiting in session.execute(query)
    ]
