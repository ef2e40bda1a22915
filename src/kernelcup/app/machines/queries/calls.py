"""The calls of agents: jobs on their way to a machine, and their reports on their way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from kernelcup.domain import split_count
from kernelcup.engine.rows import made_of
from kernelcup.tables import MachineCallRow
from kernelcup_harness.protocol import MOST_EVENTS


class CallState(StrEnum):
    """The state of a call."""

    WAITING = "waiting"
    """Its agent has not fetched it."""
    RUNNING = "running"
    CANCELLED = "cancelled"
    """Its agent still has to end it."""
    ENDED = "ended"


BUSY = (CallState.WAITING, CallState.RUNNING, CallState.CANCELLED)
"""The states in which a call takes a slot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCall:
    """A call of an agent."""

    id: str
    machine: str
    device: str
    order: dict[str, Any]
    limit_s: float
    state: CallState
    outcome: dict[str, Any] | None
    outcome_file: str | None = None
    """The hash of a large outcome in the file store."""
    uploaded_bytes: int = 0
    """For how many bytes it was given addresses."""
    created_at: datetime


def add(session: Session, call: AgentCall) -> None:
    """Store a new call."""
    values = {name: getattr(call, name) for name in AgentCall.__slots__}
    session.add(MachineCallRow(**values | {"state": call.state.value, "events": []}))


def busy(session: Session) -> dict[tuple[str, str], int]:
    """Return how many slots are taken, by machine and model: a job on ``H200x2`` takes two slots of ``H200``."""
    query = (
        select(MachineCallRow.machine, MachineCallRow.device, func.count())
        .where(MachineCallRow.state.in_([each.value for each in BUSY]))
        .group_by(MachineCallRow.machine, MachineCallRow.device)
    )
    taken: Counter[tuple[str, str]] = Counter()
    for machine, device, count in session.execute(query):
        model, gpus = split_count(device)
        taken[machine, model] += gpus * count
    return taken


def of_machine(session: Session, machine: str) -> list[AgentCall]:
    """Return the calls of a machine that have not ended, oldest first."""
    query = (
        select(MachineCallRow)
        .where(MachineCallRow.machine == machine, MachineCallRow.state != CallState.ENDED.value)
        .order_by(MachineCallRow.created_at, MachineCallRow.id)
    )
    return [_call(row) for row in session.scalars(query)]


def machines_to_tell(session: Session) -> set[str]:
    """Return the machines whose agents have a call to fetch or to end."""
    states = [CallState.WAITING.value, CallState.CANCELLED.value]
    return set(session.scalars(select(MachineCallRow.machine).where(MachineCallRow.state.in_(states))))


def ended(session: Session) -> set[str]:
    """Return the calls that have an outcome."""
    query = select(MachineCallRow.id).where(MachineCallRow.state == CallState.ENDED.value)
    return set(session.scalars(query))


def find(session: Session, call_id: str) -> AgentCall | None:
    row = session.get(MachineCallRow, call_id, populate_existing=True)
    return None if row is None else _call(row)


def find_of(session: Session, call_id: str, *, machine: str) -> AgentCall | None:
    """Return a machine's call that has not ended; None if it has none of this id."""
    call = find(session, call_id)
    mine = call is not None and call.machine == machine and call.state is not CallState.ENDED
    return call if mine else None


def uploaded_bytes(session: Session, machine: str) -> int:
    """Return for how many bytes the calls of a machine were given addresses."""
    query = select(func.sum(MachineCallRow.uploaded_bytes)).where(MachineCallRow.machine == machine)
    return int(session.scalar(query) or 0)


def add_upload(session: Session, call_id: str, nbytes: int) -> None:
    """Count bytes for which a call was given addresses."""
    more = MachineCallRow.uploaded_bytes + nbytes
    session.execute(update(MachineCallRow).where(MachineCallRow.id == call_id).values(uploaded_bytes=more))


def some(session: Session, call_ids: Collection[str]) -> list[AgentCall]:
    """Return those of the calls that exist."""
    return [
        _call(row) for row in session.scalars(select(MachineCallRow).where(MachineCallRow.id.in_(call_ids)))
    ]


def move(session: Session, call_id: str, *, to: CallState, among: Collection[CallState]) -> bool:
    """Change a call's state if it is one of the given ones; return whether it was."""
    return _change(session, call_id, among, state=to.value)


def end(session: Session, call_id: str, outcome: dict[str, Any] | None, file: str | None = None) -> bool:
    """Store the outcome of a call that waits or runs, or the hash of its file; return whether it did."""
    going_on = (CallState.WAITING, CallState.RUNNING)
    values = {"outcome": outcome, "outcome_file": file}
    return _change(session, call_id, going_on, state=CallState.ENDED.value, **values)


def add_events(session: Session, call_id: str, events: Sequence[Any], *, machine: str) -> None:
    """Append events of a machine's running call; those of others are dropped, and the oldest of very many."""
    query = select(MachineCallRow).where(
        MachineCallRow.id == call_id,
        MachineCallRow.machine == machine,
        MachineCallRow.state == CallState.RUNNING.value,
    )
    row = session.scalar(query.with_for_update())
    if row is not None:
        row.events = [*row.events, *events][-MOST_EVENTS:]


def take_events(session: Session, call_ids: Collection[str]) -> dict[str, list[Any]]:
    """Return the events of calls, and remove them."""
    query = select(MachineCallRow).where(MachineCallRow.id.in_(call_ids)).with_for_update()
    found = {}
    for row in session.scalars(query.execution_options(populate_existing=True)):
        if row.events:
            found[row.id], row.events = row.events, []
    return found


def with_events(session: Session, call_ids: Collection[str]) -> bool:
    query = select(MachineCallRow.events).where(MachineCallRow.id.in_(call_ids))
    return any(session.scalars(query))


def remove(session: Session, call_id: str) -> None:
    """Delete a call."""
    session.execute(delete(MachineCallRow).where(MachineCallRow.id == call_id))


def _change(session: Session, call_id: str, among: Collection[CallState], **values: object) -> bool:
    states = [each.value for each in among]
    statement = (
        update(MachineCallRow)
        .where(MachineCallRow.id == call_id, MachineCallRow.state.in_(states))
        .values(**values)
        .returning(MachineCallRow.id)
    )
    return session.execute(statement).first() is not None


def _call(row: MachineCallRow) -> AgentCall:
    return made_of(row, AgentCall)
