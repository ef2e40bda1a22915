"""Mean durations of recent jobs."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelcup.engine.database import upsert
from kernelcup.tables import PaceRow
from kernelcup_harness.protocol import Mode

WEIGHT = 0.2
"""The weight of the newest job in the mean, so that a change shows after a handful of jobs."""


def add(session: Session, *, device: str, mode: Mode, seconds: float) -> None:
    """Add a job's duration to the mean of its kind, unless the clock was set back meanwhile."""
    if seconds < 0:
        return
    offer = upsert(session, PaceRow).values(device=device, mode=mode.value, mean_s=seconds, count=1)
    moved = {
        "mean_s": PaceRow.mean_s + WEIGHT * (offer.excluded.mean_s - PaceRow.mean_s),
        "count": PaceRow.count + 1,
    }
    session.execute(offer.on_conflict_do_update(index_elements=["device", "mode"], set_=moved))


def of_device(session: Session, device: str) -> dict[Mode, float]:
    """Return the mean seconds of a device's jobs by mode, for the modes with past jobs."""
    query = select(PaceRow.mode, PaceRow.mean_s).where(PaceRow.device == device, PaceRow.mean_s >= 0)
    return {Mode(mode): mean_s for mode, mean_s in session.execute(query)}
