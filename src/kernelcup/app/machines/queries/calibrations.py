"""The history of devices' calibrations and canaries."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.orm import Session

from kernelcup.engine.rows import made_of
from kernelcup.tables import CanaryRow, DeviceCalibrationRow, RunRow
from kernelcup_harness.protocol import calibration, from_json, to_json
from kernelcup_harness.protocol.calibration import DeviceCalibration

WINDOW = 50
"""The rolling median is that of this many of the latest fitting canaries."""
FEWEST_FOR_NOISE = 8
"""With fewer canaries the noise between runs cannot be estimated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationRecord:
    """A stored calibration."""

    id: int
    machine: str
    gpu: str
    """As in ``CUDA_VISIBLE_DEVICES``; empty for a device without GPUs."""
    device: str
    at: datetime
    fits: bool
    """Whether its canary was within the tolerance of the earlier ones."""
    fresh: bool
    """Whether earlier calibrations do not count, because the kind of device or driver changed."""
    found: DeviceCalibration


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """The median canary of a machine's device."""

    median_ns: float
    tolerance: float
    """The share by which another may differ."""

    def agrees_with(self, other: Canary) -> bool:
        """Return whether two machines are equally fast."""
        allowed = max(self.tolerance, other.tolerance) * min(self.median_ns, other.median_ns)
        return abs(self.median_ns - other.median_ns) <= allowed


def add(
    session: Session,
    found: DeviceCalibration,
    *,
    machine: str,
    gpu: str,
    device: str,
    at: datetime,
    fits: bool,
    fresh: bool,
) -> CalibrationRecord:
    """Store a calibration and its canary."""
    row = DeviceCalibrationRow(
        machine=machine, gpu=gpu, device=device, at=at, fits=fits, fresh=fresh, found=to_json(found)
    )
    session.add(row)
    session.flush()
    add_canary(session, row.id, canary_ns=found.canary_ns, fits=fits, at=at)
    return _record(row)


def add_canary(session: Session, calibration_id: int, *, canary_ns: float, fits: bool, at: datetime) -> None:
    """Store a canary, taken while a calibration was in force."""
    session.add(CanaryRow(calibration_id=calibration_id, at=at, canary_ns=canary_ns, fits=fits))


def link(session: Session, run_id: int, calibration_id: int) -> None:
    """Store which calibration a run was measured under."""
    session.execute(update(RunRow).where(RunRow.id == run_id).values(calibration_id=calibration_id))


def vouch(session: Session, *, machine: str, gpu: str, now: datetime) -> None:
    """Ignore the earlier canaries of a GPU from now on, because an operator vouches for it."""
    table = DeviceCalibrationRow
    last = select(func.max(table.id)).where(table.machine == machine, table.gpu == gpu).group_by(table.device)
    session.execute(update(table).where(table.id.in_(last)).values(vouched_at=now))


def find(session: Session, calibration_id: int) -> CalibrationRecord | None:
    row = session.get(DeviceCalibrationRow, calibration_id)
    return None if row is None else _record(row)


def latest(session: Session, *, machine: str, gpu: str, device: str) -> CalibrationRecord | None:
    """Return the newest calibration of a GPU, or of a device without GPUs."""
    row = session.scalar(_of_place(machine, gpu, device).limit(1))
    return None if row is None else _record(row)


def in_force(session: Session, *, machine: str, gpu: str, device: str) -> CalibrationRecord | None:
    """Return the calibration to pass to jobs on a GPU: the newest one that was taken while the GPU was fit.

    Jobs do not run while a GPU has drifted, so a calibration from that time does not count, unless an operator
    vouched for the GPU.
    """
    table = DeviceCalibrationRow
    good = or_(table.fits, table.fresh, table.vouched_at.is_not(None))
    row = session.scalar(_of_place(machine, gpu, device).where(good).limit(1)) if gpu else None
    return latest(session, machine=machine, gpu=gpu, device=device) if row is None else _record(row)


def newest(session: Session) -> list[CalibrationRecord]:
    """Return the newest calibration of each GPU and device, of all machines."""
    table = DeviceCalibrationRow
    place = (table.machine, table.device, table.gpu)
    last = select(func.max(table.id)).group_by(*place)
    rows = session.scalars(select(table).where(table.id.in_(last)).order_by(*place))
    return [_record(row) for row in rows]


def canary_of(session: Session, *, machine: str, device: str) -> Canary | None:
    """Return the median over a machine's GPUs of a device; None if they were not calibrated."""
    mine = [each for each in newest(session) if (each.machine, each.device) == (machine, device)]
    medians = [rolling_median(session, machine=machine, gpu=each.gpu, device=device) for each in mine]
    known = [each for each in medians if each is not None]
    if not known:
        return None
    return Canary(median_ns=statistics.median(known), tolerance=max(each.found.tolerance for each in mine))


def history(session: Session, *, machine: str, gpu: str, device: str, limit: int) -> list[CalibrationRecord]:
    """Return the calibrations of a GPU, newest first."""
    return [_record(row) for row in session.scalars(_of_place(machine, gpu, device).limit(limit))]


def rolling_median(session: Session, *, machine: str, gpu: str, device: str) -> float | None:
    """Return the median of the latest fitting canaries of a GPU, in nanoseconds.

    Only canaries since the last fresh calibration count; None if there are none.
    """
    samples = _window(session, machine=machine, gpu=gpu, device=device)
    return statistics.median(samples) if samples else None


def rolling_noise(session: Session, *, machine: str, gpu: str, device: str) -> float:
    """Return the relative standard deviation of the same canaries; 0 while there are too few."""
    samples = _window(session, machine=machine, gpu=gpu, device=device)
    return calibration.relative_spread(samples) if len(samples) >= FEWEST_FOR_NOISE else 0.0


def _window(session: Session, *, machine: str, gpu: str, device: str) -> Sequence[float]:
    table = DeviceCalibrationRow
    place = (table.machine == machine, table.gpu == gpu, table.device == device)
    start = session.scalar(select(func.max(table.id)).where(*place, table.fresh)) or 0
    vouched_at = session.scalar(select(func.max(table.vouched_at)).where(*place))
    since = [] if vouched_at is None else [CanaryRow.at > vouched_at]
    query = (
        select(CanaryRow.canary_ns)
        .join(table, table.id == CanaryRow.calibration_id)
        .where(*place, table.id >= start, CanaryRow.fits, *since)
        .order_by(CanaryRow.id.desc())
        .limit(WINDOW)
    )
    return session.scalars(query).all()


def _of_place(machine: str, gpu: str, device: str) -> Select[DeviceCalibrationRow]:
    table = DeviceCalibrationRow
    return (
        select(table)
        .where(table.machine == machine, table.gpu == gpu, table.device == device)
        .order_by(table.id.desc())
    )


def _record(row: DeviceCalibrationRow) -> CalibrationRecord:
    return made_of(row, CalibrationRecord, found=from_json(DeviceCalibration, row.found))
