"""Dispatchers and their heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import DispatcherRow


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatcherInfo:
    """A dispatcher's latest heartbeat."""

    owner: str
    machine: str
    devices: Mapping[str, int]
    """The number of slots by device."""
    in_use: Mapping[str, int]
    """The number of those slots that another program of the machine or a calibration uses, by device."""
    started_at: datetime
    seen_at: datetime
    draining: bool
    """Whether it claims nothing new, and ends when its jobs have ended."""


def put(session: Session, info: DispatcherInfo) -> None:
    """Store a heartbeat."""
    values = {name: getattr(info, name) for name in DispatcherInfo.__slots__}
    values |= {"devices": dict(info.devices), "in_use": dict(info.in_use)}
    offer = upsert(session, DispatcherRow).values(**values)
    later = {name: offer.excluded[name] for name in ("machine", "devices", "in_use", "seen_at", "draining")}
    session.execute(offer.on_conflict_do_update(index_elements=["owner"], set_=later))


def remove(session: Session, owner: str) -> None:
    """Delete a dispatcher that has ended."""
    session.execute(delete(DispatcherRow).where(DispatcherRow.owner == owner))


def remove_silent(session: Session, *, before: datetime) -> None:
    """Delete dispatchers without a heartbeat since a given time."""
    session.execute(delete(DispatcherRow).where(DispatcherRow.seen_at < before))


def seen_since(session: Session, moment: datetime) -> list[DispatcherInfo]:
    """Return the dispatchers with a heartbeat since a given time."""
    query = select(DispatcherRow).where(DispatcherRow.seen_at >= moment).order_by(DispatcherRow.owner)
    return [made_of(row, DispatcherInfo) for row in session.scalars(query)]
