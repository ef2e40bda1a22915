"""What agents ask of the service: they fetch the jobs of their machine, and send events and reports.

An agent connects out and asks often; between two questions it is not reachable. A call is given again until the
agent lists it as running, so that an answer may get lost. Only the clock of the service counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from kernelcup.errors import Conflict, LaunchLost, SignInNeeded
from kernelcup.launchers import outcomes
from kernelcup.services.machines.machines import SILENT, log_changes
from kernelcup.services.people import secret_values
from kernelcup.storage.engine.database import Database
from kernelcup.storage.machines import calls, machines
from kernelcup.storage.machines.calls import CallState
from kernelcup.storage.machines.machines import Machine

__all__ = [
    "AgentJob",
    "Errand",
    "Machine",
    "authenticate",
    "connect",
    "disconnect",
    "exchange",
    "take_report",
]

NOTED_EVERY = timedelta(seconds=5)
"""How often an idle agent's sign of life is stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentJob:
    """A job for an agent."""

    call: str
    device: str
    spec: dict[str, Any]
    harness_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Errand:
    """The answer to an agent."""

    jobs: Sequence[AgentJob]
    cancel: Sequence[str]
    """Calls that it shall end."""


def authenticate(db: Database, secret: str | None) -> Machine:
    """Return the machine of an agent's token. Raise ``SignInNeeded`` for an unknown one, or a removed machine."""
    with db.read() as session:
        found = None if secret is None else machines.of_token(session, secret_values.hash_of(secret))
    if found is None:
        raise SignInNeeded("This agent's token is not valid; its machine may have been removed.")
    return found


def connect(
    db: Database,
    name: str,
    *,
    agent: str,
    slots: Mapping[str, int],
    facts: Mapping[str, Any],
    now: datetime,
) -> None:
    """Begin the session of an agent that has just started: calls of an earlier one are lost.

    Raise ``Conflict`` while another agent is connected as this machine.
    """
    with db.write(durable=True) as session:
        machine = machines.find(session, name)
        before = machines.agent_of(session, name)
        is_alive = machine is not None and machine.seen_at is not None and now - machine.seen_at < SILENT
        if before not in (None, agent) and is_alive:
            raise Conflict(
                f"Another agent is connected as {name!r}. Give each machine a name and a token of its own; "
                f"an agent that was killed is forgotten after {SILENT.seconds} s."
            )
        offers = {"slots": dict(slots), "facts": dict(facts)}
        log_changes(session, machine, facts=facts, trouble="", now=now)
        machines.change(session, name, agent=agent, trouble="", seen_at=now, **offers)
        if before == agent:
            return
        for call in calls.of_machine(session, name):
            _lose(session, call.id, call.state, f"the agent of {name} was started again")


def disconnect(db: Database, name: str, *, agent: str, now: datetime) -> None:
    """End an agent's session, so that its machine is down at once."""
    with db.write() as session:
        if machines.agent_of(session, name) == agent:
            machines.change(session, name, agent=None, seen_at=now)


def exchange(
    db: Database,
    machine: Machine,
    *,
    agent: str,
    running: Sequence[str],
    events: Mapping[str, Sequence[Any]],
    trouble: str,
    now: datetime,
) -> Errand:
    """Take an agent's events and return what it shall do. Raise ``Conflict`` if its session has ended."""
    with db.read() as session:
        known = calls.of_machine(session, machine.name)
        if machines.agent_of(session, machine.name) != agent:
            raise Conflict(f"Another agent has connected as {machine.name!r}.")
    new = [each for each in known if each.state is CallState.WAITING]
    mine = [each.id for each in known if each.state is CallState.RUNNING]
    gone = [each.id for each in known if each.state is CallState.CANCELLED and each.id not in running]
    is_silent = machine.seen_at is None or now - machine.seen_at >= NOTED_EVERY
    if new or gone or events or is_silent or trouble != machine.trouble:
        with db.write() as session:
            log_changes(session, machine, facts=machine.facts, trouble=trouble, now=now)
            machines.change(session, machine.name, seen_at=now, trouble=trouble)
            for call in new:
                calls.move(session, call.id, to=CallState.RUNNING, among=[CallState.WAITING])
            for call_id in gone:
                calls.remove(session, call_id)
            for call_id, some in events.items():
                calls.add_events(session, call_id, some)
    given = [each for each in known if each.id not in running and each.state is not CallState.CANCELLED]
    return Errand(
        jobs=[
            AgentJob(
                call=each.id,
                device=each.device,
                spec=each.order["spec"],
                harness_hash=each.order["harness_hash"],
            )
            for each in given
        ],
        cancel=[call_id for call_id in running if call_id not in mine],
    )


def take_report(db: Database, machine: Machine, call_id: str, outcome: dict[str, Any]) -> bool:
    """Store the outcome of a call; return False for one that is not this machine's, or has ended."""
    with db.write(durable=True) as session:
        call = calls.find(session, call_id)
        if call is None or call.machine != machine.name:
            return False
        if call.state is CallState.CANCELLED:
            calls.remove(session, call_id)
            return False
        return calls.end(session, call_id, outcome)


def _lose(session: Session, call_id: str, state: CallState, why: str) -> None:
    if state is CallState.CANCELLED:
        calls.remove(session, call_id)
    elif state is CallState.RUNNING:
        calls.end(session, call_id, outcomes.encode(LaunchLost(why)))
