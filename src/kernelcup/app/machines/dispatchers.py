"""The servers that are at work, as recorded in the database: those with devices are dispatchers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from kernelcup.app.machines.process_identity import is_gone
from kernelcup.app.machines.queries import dispatchers
from kernelcup.app.machines.queries.dispatchers import DispatcherInfo
from kernelcup.domain import Device
from kernelcup.engine import Database, Session

ALIVE_FOR = timedelta(seconds=60)
"""The length of a lease: a dispatcher that was silent for longer has lost its jobs as well."""

FORGOTTEN_AFTER = timedelta(days=1)


def check_in(
    db: Database,
    *,
    owner: str,
    devices: Iterable[Device],
    started_at: datetime,
    draining: bool,
    now: datetime,
    in_use: Mapping[str, int] | None = None,
) -> None:
    """Store a server's heartbeat; one that does not judge has no devices.

    ``in_use`` counts the slots of each device that other programs hold.
    """
    info = DispatcherInfo(
        owner=owner,
        machine=socket.gethostname(),
        devices={device.name: device.slots for device in devices},
        in_use={name: count for name, count in (in_use or {}).items() if count > 0},
        started_at=started_at,
        seen_at=now,
        draining=draining,
    )
    with db.write() as session:
        dispatchers.put(session, info)
        dispatchers.remove_silent(session, before=now - FORGOTTEN_AFTER)


def check_out(db: Database, owner: str) -> None:
    """Remove a server that ends."""
    with db.write() as session:
        dispatchers.remove(session, owner)


def forget_all(db: Database) -> None:
    """Remove all servers, of a database that none uses."""
    with db.write() as session:
        dispatchers.remove_silent(session, before=datetime.max.replace(tzinfo=UTC))


def alive(
    session: Session,
    now: datetime,
    *,
    alive_for: timedelta = ALIVE_FOR,
    gone: Callable[[str], bool] = is_gone,
) -> list[DispatcherInfo]:
    """Return the dispatchers with a recent heartbeat whose process is not known to have ended."""
    return [info for info in _servers(session, now - alive_for, gone) if info.devices]


def list_alive(db: Database, now: datetime) -> list[DispatcherInfo]:
    """Return the dispatchers that are at work."""
    with db.read() as session:
        return alive(session, now)


def list_servers(db: Database, now: datetime) -> list[DispatcherInfo]:
    """Return all servers that are at work, also those that do not judge."""
    with db.read() as session:
        return _servers(session, now - ALIVE_FOR, is_gone)


def _servers(session: Session, since: datetime, gone: Callable[[str], bool]) -> list[DispatcherInfo]:
    return [info for info in dispatchers.seen_since(session, since) if not gone(info.owner)]
