"""Tables of machines: themselves, the calls of agents, faults and calibrations of devices."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class MachineRow(Base):
    """A host that judges, or a provider that does so for us."""

    __tablename__ = "machines"

    name: Mapped[str] = mapped_column(primary_key=True)
    launcher: Mapped[str]
    slots: Mapped[dict[str, Any]]
    """The number of slots by device."""
    facts: Mapped[dict[str, Any]]
    labels: Mapped[list[Any]] = mapped_column(default=list, server_default="[]")
    is_own: Mapped[bool]
    """Whether the operator vouches for it: others may forge reports and read the jobs that they get."""
    is_draining: Mapped[bool] = mapped_column(default=False)
    trouble: Mapped[str] = mapped_column(default="")
    token_hash: Mapped[str | None] = mapped_column(unique=True)
    """Of an agent's token."""
    agent: Mapped[str | None]
    """The session of the agent that is connected."""
    joined_at: Mapped[datetime]
    seen_at: Mapped[datetime | None]
    busy_s: Mapped[float] = mapped_column(default=0.0)
    """The time that its slots worked on jobs, in all."""
    price_per_hour: Mapped[float] = mapped_column(default=0.0)
    """Of one busy GPU."""
    cost: Mapped[float] = mapped_column(default=0.0)
    """Of that work, at the prices of its time."""


class BoardMachineRow(Base):
    """A machine that ranks a leaderboard."""

    __tablename__ = "board_machines"

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    machine: Mapped[str] = mapped_column(ForeignKey("machines.name", ondelete="CASCADE"), primary_key=True)


class ReservationRow(Base):
    """A time at which a machine judges for one leaderboard only, or for none."""

    __tablename__ = "reservations"
    __table_args__ = (NEVER_REUSE_IDS,)

    id: Mapped[int] = mapped_column(primary_key=True)
    machine: Mapped[str] = mapped_column(ForeignKey("machines.name", ondelete="CASCADE"), index=True)
    leaderboard_id: Mapped[int | None] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), index=True
    )
    """Null for maintenance."""
    begins_at: Mapped[datetime]
    ends_at: Mapped[datetime] = mapped_column(index=True)
    reason: Mapped[str]


class ClassAgreementRow(Base):
    """Whether two classes of machines were shown to give the same times."""

    __tablename__ = "class_agreements"

    device: Mapped[str] = mapped_column(primary_key=True)
    first: Mapped[str] = mapped_column(primary_key=True)
    second: Mapped[str] = mapped_column(primary_key=True)
    agrees: Mapped[bool]
    compared_at: Mapped[datetime]
    """When; nothing shows it. It tells an operator in the database which answers are older than a driver or clock."""


class MachineCallRow(Base):
    """A job that an agent is to judge, or judges, and its report."""

    __tablename__ = "machine_calls"

    id: Mapped[str] = mapped_column(primary_key=True)
    machine: Mapped[str] = mapped_column(ForeignKey("machines.name", ondelete="CASCADE"), index=True)
    device: Mapped[str]
    order: Mapped[dict[str, Any]]
    limit_s: Mapped[float]
    state: Mapped[str] = mapped_column(index=True)
    events: Mapped[list[Any]] = mapped_column(default=list)
    """Those that the dispatcher has not read."""
    outcome: Mapped[dict[str, Any] | None]
    outcome_file: Mapped[str | None]
    """The hash of a larger outcome in the file store."""
    uploaded_bytes: Mapped[int] = mapped_column(default=0)
    """For how many bytes its machine was given addresses."""
    created_at: Mapped[datetime]


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
