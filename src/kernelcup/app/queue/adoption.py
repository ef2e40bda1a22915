"""Calls that outlive their dispatcher: their names are stored, and another dispatcher goes on with them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta

from kernelcup.app.machines.process_identity import is_gone
from kernelcup.app.queue.queries import jobs
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.engine import Database
from kernelcup.errors import StaleLease

ADOPT_WITHIN = timedelta(minutes=10)
"""How long a call that outlives its dispatcher waits for the next one before the attempt counts as lost."""


def note_call(db: Database, lease: Lease, call: str, machine: str | None = None) -> None:
    """Store by which name the launcher knows an attempt, and where it runs. Raise ``StaleLease``."""
    with db.write() as session:
        jobs.note_call(session, lease, call, machine)


def adopt(
    db: Database,
    *,
    owner: str,
    devices: Collection[str],
    now: datetime,
    lease_s: float,
    gone: Callable[[str], bool] = is_gone,
) -> list[Lease]:
    """Take over the attempts on these devices whose dispatcher is gone but whose calls may go on."""
    if not devices:
        return []
    with db.read() as session:
        doubtful = jobs.doubtful(session, owner=owner, now=now)
    held = [each for each in doubtful if each.call and each.job.device in devices]
    ended = {each: gone(each) for each in {lease.owner for lease in held}}
    lapsed = [lease for lease in held if lease.until < now or ended[lease.owner]]
    until = now + timedelta(seconds=lease_s)
    adopted = []
    for lease in lapsed:
        with suppress(StaleLease), db.write() as session:
            adopted.append(jobs.adopt(session, lease, owner=owner, until=until))
    return adopted
