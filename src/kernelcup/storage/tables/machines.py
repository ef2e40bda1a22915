"""Tables of devices: faults and calibrations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.storage.tables.base import NEVER_REUSE_IDS, Base


class DeviceFaultRow(Base):
    """A GPU that is out of service."""

    __tablename__ = "device_faults"

    machine: Mapped[str] = mapped_column(primary_key=True)
    gpu: Mapped[str] = mapped_column(primary_key=True)
    device: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]
    next_look_at: Mapped[datetime]


class DeviceCalibrationRow(Base):
    """The calibration of a device at one moment."""

    __tablename__ = "device_calibrations"
    __table_args__ = (Index(None, "machine", "gpu", "device", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    machine: Mapped[str]
    gpu: Mapped[str]
    """As in ``CUDA_VISIBLE_DEVICES``; empty for a device without GPUs."""
    device: Mapped[str]
    at: Mapped[datetime]
    fits: Mapped[bool]
    fresh: Mapped[bool]
    """Whether earlier canaries do not count."""
    vouched_at: Mapped[datetime | None]
    """When an operator last vouched for the device: earlier canaries do not count either."""
    found: Mapped[dict[str, Any]]


class CanaryRow(Base):
    """The time of the canary before a ranked job, or in a calibration, in nanoseconds."""

    __tablename__ = "canaries"
    __table_args__ = (NEVER_REUSE_IDS,)

    id: Mapped[int] = mapped_column(primary_key=True)
    calibration_id: Mapped[int] = mapped_column(
        ForeignKey("device_calibrations.id", ondelete="CASCADE"), index=True
    )
    """The calibration in force."""
    at: Mapped[datetime]
    canary_ns: Mapped[float]
    fits: Mapped[bool]
