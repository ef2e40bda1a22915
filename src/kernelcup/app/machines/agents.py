"""What agents ask of the service: they fetch the jobs of their machine, and send events and reports.

An agent connects out and asks for jobs; the answer waits until there is one. A call is given again until the
agent lists it as running, so that an answer may get lost. Only the clock of the service counts.

Orders hold the hashes of kept binaries; an agent gets their content.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kernelcup.app.machines.calibrations import DatabaseBook, Known
from kernelcup.app.machines.machines import RAY, SILENT, log_changes
from kernelcup.app.machines.queries import calls, machines
from kernelcup.app.machines.queries.calls import CallState
from kernelcup.app.machines.queries.machines import Machine as Machine  # for doors, which know no queries
from kernelcup.app.people import secret_values
from kernelcup.domain import Device
from kernelcup.engine import Database, Session
from kernelcup.engine.file_store import LARGEST_UPLOAD_BYTES, large_json
from kernelcup.errors import Conflict, FileTooLarge, InvalidValue, LaunchLost, NotFound, SignInNeeded
from kernelcup.launchers import outcomes
from kernelcup.launchers.local.calibrate import Place
from kernelcup_harness.protocol.calibration import DeviceCalibration


def without_content(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a job as JSON without the content of its kept binaries, for the database."""
    return _with_files(spec, lambda _digest: "")


def filled(db: Database, spec: dict[str, Any]) -> dict[str, Any]:
    """Return such a job with the content again; a file that is gone meanwhile, or cannot be reached, stays empty."""
    return _with_files(spec, db.files.gz64)


def _with_files(spec: dict[str, Any], content: Callable[[str], str]) -> dict[str, Any]:
    changed = {
        side: {**kept, "files": [{**each, "gz64": content(each["sha256"])} for each in kept["files"]]}
        for side in ("binary", "rival_binary")
        if (kept := spec.get(side)) is not None
    }
    return {**spec, **changed}


EVERYWHERE = {"cpu", "emulated"}
"""Devices that every machine has beside its GPUs."""
VOID = (
    "This agent's token is not valid; its machine may have been removed. On the server, `kernelcup admin machines add "
    "NAME` prints one."
)
UPLOAD_WITHIN = timedelta(minutes=10)
"""How long an address for an upload holds."""
MOST_MACHINE_BYTES = 8 * LARGEST_UPLOAD_BYTES
"""Of the uploads for all calls that a machine has at one time."""
NOTED_EVERY = timedelta(seconds=5)
"""How often an agent's sign of life is stored at most."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """An agent that waits for something to do."""

    machine: str
    agent: str
    """Its session."""
    number: int
    """Two of one agent differ: one whose connection was cut may still wait."""


def authenticate(db: Database, secret: str | None) -> Machine:
    """Return the machine of an agent's token. Raise ``SignInNeeded`` for an unknown one, or a removed machine."""
    with db.read() as session:
        found = None if secret is None else machines.of_token(session, secret_values.hash_of(secret))
    if found is None:
        raise SignInNeeded(VOID)
    return found


def check_offer(slots: Mapping[str, int], known: Collection[Device]) -> None:
    """Raise ``InvalidValue`` if the server lacks a device that a machine offers: it would never get a job for it.

    Those of :data:`EVERYWHERE` are refused only where it offers no other that is known.
    """
    useful = {name for each in known for name in (each.name, each.model)}
    unknown = set(slots) - useful
    if unknown - EVERYWHERE or (unknown and unknown == set(slots)):
        raise InvalidValue(
            f"This server has no device {', '.join(sorted(unknown))}; it has {', '.join(sorted(useful))}. "
            "Name the machine's devices as the server does, under [[devices]] in the machine's kernelcup.toml."
        )


def connect(
    db: Database,
    name: str,
    *,
    agent: str,
    slots: Mapping[str, int],
    facts: Mapping[str, Any],
    now: datetime,
    follows: str | None = None,
) -> None:
    """Begin the session of an agent that has just started: calls of an earlier one are lost.

    ``follows`` is an earlier session that the agent knows to have ended. Raise ``Conflict`` while another agent is
    connected as this machine.
    """
    with db.write(durable=True) as session:
        machine = machines.find(session, name)
        before = machines.agent_of(session, name)
        is_alive = machine is not None and machine.seen_at is not None and now - machine.seen_at < SILENT
        if before not in (None, agent, follows) and is_alive:
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


def place(db: Database, name: str, *, labels: Sequence[str], now: datetime) -> str:
    """Register a machine whose agent Ray starts, as the one that had this name, and return the token for the agent.

    Earlier tokens are void, and calls of an earlier agent are lost.
    """
    secret = secret_values.new_secret()
    token = secret_values.hash_of(secret)
    with db.write(durable=True) as session:
        if machines.find(session, name) is None:
            machines.add(session, name=name, launcher=RAY, is_own=False, token_hash=token, now=now)
        machines.change(session, name, launcher=RAY, labels=list(labels), token_hash=token, agent=None)
    return secret


def disconnect(db: Database, name: str, *, agent: str | None, trouble: str = "", now: datetime) -> None:
    """End an agent's session, any without ``agent``, so that its machine is down at once."""
    with db.write() as session:
        machine = machines.find(session, name)
        if machine is not None and agent in (None, machine.agent):
            log_changes(session, machine, facts=machine.facts, trouble=trouble, now=now)
            machines.change(session, name, agent=None, trouble=trouble, seen_at=now)


def ask(
    db: Database, machine: Machine, *, agent: str, running: Sequence[str], now: datetime | None
) -> Errand:
    """Return what an agent shall do. Raise ``Conflict`` if its session has ended.

    Args:
        machine: The agent's machine.
        agent: Its session.
        running: The calls that it works on.
        now: When it asked; None to look again for one that waits, which is no sign of life.
    """
    with db.read() as session:
        _check_session(session, machine, agent)
        known = calls.of_machine(session, machine.name)
    new = [each for each in known if each.state is CallState.WAITING]
    mine = [each.id for each in known if each.state is CallState.RUNNING]
    gone = [each.id for each in known if each.state is CallState.CANCELLED and each.id not in running]
    was_seen = now is None or (machine.seen_at is not None and now - machine.seen_at < NOTED_EVERY)
    if new or gone or not was_seen:
        with db.write() as session:
            if not was_seen:
                machines.change(session, machine.name, seen_at=now)
            for call in new:
                calls.move(session, call.id, to=CallState.RUNNING, among=[CallState.WAITING])
            for call_id in gone:
                calls.remove(session, call_id)
    given = [each for each in known if each.id not in running and each.state is not CallState.CANCELLED]
    return Errand(
        jobs=[
            AgentJob(
                call=each.id,
                device=each.device,
                spec=filled(db, each.order["spec"]),
                harness_hash=each.order["harness_hash"],
            )
            for each in given
        ],
        cancel=[call_id for call_id in running if call_id not in mine],
    )


def to_wake(db: Database, waiting: Collection[Waiting]) -> list[Waiting]:
    """Return the agents that have something to do, or whose sessions have ended."""
    with db.read() as session:
        told, sessions = calls.machines_to_tell(session), machines.agents(session)
    return [each for each in waiting if each.machine in told or sessions.get(each.machine) != each.agent]


def take_news(
    db: Database,
    machine: Machine,
    *,
    agent: str,
    events: Mapping[str, Sequence[Any]],
    trouble: str,
    now: datetime,
) -> None:
    """Store the events of running calls, and why a machine takes no jobs, if it takes none.

    Raise ``Conflict`` if the agent's session has ended.
    """
    with db.write() as session:
        _check_session(session, machine, agent)
        log_changes(session, machine, facts=machine.facts, trouble=trouble, now=now)
        machines.change(session, machine.name, seen_at=now, trouble=trouble)
        for call_id, some in events.items():
            calls.add_events(session, call_id, some, machine=machine.name)


def take_report(
    db: Database, machine: Machine, call_id: str, outcome: dict[str, Any], events: Sequence[Any]
) -> bool:
    """Store the outcome of a call with its last events.

    Return False for one that is not this machine's, or has ended; nothing is stored of it.
    """
    with db.read() as session:
        if calls.find_of(session, call_id, machine=machine.name) is None:
            return False
    whole = large_json(outcome)
    file = None if whole is None else db.files.put(gzip.compress(whole))
    with db.write(durable=True) as session:
        call = calls.find_of(session, call_id, machine=machine.name)
        if call is None:
            return False
        if call.state is CallState.CANCELLED:
            calls.remove(session, call_id)
            return False
        if events:
            calls.add_events(session, call_id, events, machine=machine.name)
        return calls.end(session, call_id, None if file else outcome, file)


def calibrated(
    db: Database,
    machine: Machine,
    *,
    agent: str,
    places: Collection[Place],
    found: tuple[Place, DeviceCalibration] | None,
    now: datetime,
) -> tuple[Mapping[Place, Known], str]:
    """Keep a calibration of a machine, if there is one, and return what is known of its devices.

    Return also why the GPU was taken out of service, empty if it was not. Raise ``Conflict`` if the agent's session
    has ended, ``InvalidValue`` for a device that the machine does not have.
    """
    with db.read() as session:
        _check_session(session, machine, agent)
    book, unfit = DatabaseBook(db, clock=lambda: now, machine=machine.name), None
    if found is not None:
        place, figures = found
        if place[0] not in machine.slots:
            raise InvalidValue(f"This machine has no {place[0]}.")
        unfit = book.keep(figures, place)
    return book.look(places), "" if unfit is None else str(unfit)


def upload_urls(
    db: Database, machine: Machine, call_id: str, files: Mapping[str, int]
) -> dict[str, str | None]:
    """Return where an agent may put files of a call by itself, None for the server itself; by their hashes.

    Args:
        machine: The agent's machine.
        call_id: The call.
        files: The sizes in bytes of gzip files, by the SHA-256 of their content.

    Raises:
        NotFound: The machine has no such call.
        FileTooLarge: Their sizes are beyond what a machine may send.
    """
    nbytes = sum(files.values())
    with db.write() as session:
        call = calls.find_of(session, call_id, machine=machine.name)
        if call is None or call.state is not CallState.RUNNING:
            raise NotFound("This machine has no such call.")
        if call.uploaded_bytes + nbytes > LARGEST_UPLOAD_BYTES:
            raise FileTooLarge(f"The files of a report may have {LARGEST_UPLOAD_BYTES:,} bytes.")
        if calls.uploaded_bytes(session, machine.name) + nbytes > MOST_MACHINE_BYTES:
            raise FileTooLarge(
                f"The files of a machine's jobs may have {MOST_MACHINE_BYTES:,} bytes together."
            )
        calls.add_upload(session, call_id, nbytes)
    return {each: db.files.upload_url(call_id, each, UPLOAD_WITHIN) for each in files}


def _check_session(session: Session, machine: Machine, agent: str) -> None:
    found = machines.find(session, machine.name)
    if found is None:
        raise SignInNeeded(VOID)
    if found.agent != agent:
        raise Conflict(f"Another agent has connected as {machine.name!r}.")


def _lose(session: Session, call_id: str, state: CallState, why: str) -> None:
    if state is CallState.CANCELLED:
        calls.remove(session, call_id)
    elif state is CallState.RUNNING:
        calls.end(session, call_id, outcomes.encode(LaunchLost(why)))
