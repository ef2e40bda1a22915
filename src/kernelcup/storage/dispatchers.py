"""Dispatchers and their signs of life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.storage.database import upsert
from kernelcup.storage.tables import DispatcherRow


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatcherInfo:
    """A dispatcher that gave a sign of life."""

    owner: str
    machine: str
    devices: Mapping[str, int]
    """Device to its slots."""
    in_use: Mapping[str, int]
    """Device to how many of these something else uses: another program of the machine, or a calibration."""
    started_at: datetime
    seen_at: datetime
    draining: bool
    """Whether it claims nothing new, and ends when its jobs have."""


def put(session: Session, info: DispatcherInfo) -> None:
    """Store a sign of life."""
    values = {name: getattr(info, name) for name in DispatcherInfo.__slots__}
    values |= {"devices": dict(info.devices), "in_use": dict(info.in_use)}
    offer = upsert(session, DispatcherRow).values(**values)
    later = {name: offer.excluded[name] for name in ("machine", "devices", "in_use", "seen_at", "draining")}
    session.execute(offer.on_conflict_do_update(index_elements=["owner"], set_=later))


def remove(session: Session, owner: str) -> None:
    """Forget a dispatcher that has ended."""
    session.execute(delete(DispatcherRow).where(DispatcherRow.owner == owner))


def remove_silent(session: Session, *, before: datetime) -> None:
    """Forget dispatchers that gave no sign of life since."""
    session.execute(delete(DispatcherRow).where(DispatcherRow.seen_at < before))


def seen_since(session: Session, moment: datetime) -> list[DispatcherInfo]:
    """Return the dispatchers that gave a sign of life since a moment."""
    query = select(DispatcherRow).where(DispatcherRow.seen_at >= moment).order_by(DispatcherRow.owner)
    names = DispatcherInfo.__slots__
    return [DispatcherInfo(**{name: getattr(row, name) for name in names}) for row in session.scalars(query)]
