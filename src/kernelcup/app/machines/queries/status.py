"""Recent events of the service and its devices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelcup.tables import AuditRow, DeviceCalibrationRow

ACTIONS = ("service.pause", "service.unpause", "device.pause", "device.unpause", "device.up")
MOST = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """An action of an operator."""

    at: datetime
    action: str
    target: str
    """``service``, or ``device:`` and the name as it was given."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A calibration, without its figures."""

    device: str
    at: datetime
    good: bool
    """Whether its canary fitted the earlier ones, or it was a fresh start."""


def steps(session: Session, *, devices: Collection[str], since: datetime) -> list[Step]:
    """Return the actions on the service and on some devices, oldest first."""
    names = {name for device in devices for name in (device, device.lower())}
    targets = ["service", *(f"device:{name}" for name in sorted(names))]
    query = (
        select(AuditRow)
        .where(AuditRow.target.in_(targets), AuditRow.action.in_(ACTIONS), AuditRow.at >= since)
        .order_by(AuditRow.id.desc())
        .limit(MOST)
    )
    return [
        Step(at=row.at, action=row.action, target=row.target, reason=str(row.detail.get("reason") or ""))
        for row in reversed(session.scalars(query).all())
    ]


def measured(session: Session, *, since: datetime) -> list[Measured]:
    """Return the calibrations since a given time, oldest first."""
    table = DeviceCalibrationRow
    query = (
        select(table.device, table.at, table.fits, table.fresh)
        .where(table.at >= since)
        .order_by(table.id.desc())
        .limit(10 * MOST)
    )
    return [
        Measured(device=row.device, at=row.at, good=row.fits or row.fresh)
        for row in reversed(session.execute(query).all())
    ]
