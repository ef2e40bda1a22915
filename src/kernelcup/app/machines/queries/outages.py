"""GPUs that are out of service, and when they are checked again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.domain.answers import DeviceFault
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import DeviceFaultRow


def put(session: Session, fault: DeviceFault) -> None:
    """Take a GPU out of service; if it already is, update only the reason and the next check."""
    values = {name: getattr(fault, name) for name in DeviceFault.__slots__}
    later = {"reason": fault.reason, "next_look_at": fault.next_look_at}
    insert = upsert(session, DeviceFaultRow).values(**values)
    session.execute(insert.on_conflict_do_update(index_elements=["machine", "gpu"], set_=later))


def postpone(session: Session, fault: DeviceFault, *, reason: str, next_look_at: datetime) -> None:
    """Keep a GPU out of service for longer; one that an operator has put back stays in service."""
    row = session.get(DeviceFaultRow, (fault.machine, fault.gpu))
    if row is not None:
        row.reason, row.next_look_at = reason, next_look_at


def remove(session: Session, *, machine: str, gpu: str) -> None:
    """Put a GPU back into service."""
    session.execute(
        delete(DeviceFaultRow).where(DeviceFaultRow.machine == machine, DeviceFaultRow.gpu == gpu)
    )


def remove_overdue(session: Session, *, before: datetime) -> None:
    """Delete faults whose next check is long overdue: their server is gone."""
    session.execute(delete(DeviceFaultRow).where(DeviceFaultRow.next_look_at < before))


def all_faults(session: Session) -> list[DeviceFault]:
    """Return the GPUs that are out of service, sorted by machine and GPU."""
    rows = session.scalars(select(DeviceFaultRow).order_by(DeviceFaultRow.machine, DeviceFaultRow.gpu))
    return [made_of(row, DeviceFault) for row in rows]
