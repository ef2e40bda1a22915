"""The machines that judge: those that launchers report, and those whose agents connect to us."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from kernelcup.app import access
from kernelcup.app.boards.queries import boards
from kernelcup.app.machines.queries import machines
from kernelcup.app.operation import Given, operation
from kernelcup.app.people import secret_values
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue.queries import jobs
from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.engine import Database, Session
from kernelcup.engine.rows import made_of
from kernelcup.errors import Conflict, InvalidValue, NotFound
from kernelcup.launchers.base import MachineReading

SILENT = timedelta(seconds=60)
"""A machine without a sign of life for this long is down."""
LONGEST_NAME = 100
AGENT = "agent"
"""The launcher of machines that connect to us."""
RAY = "ray"
"""The launcher of machines whose agents Ray starts, and which connect as well."""
CONNECTING = frozenset({AGENT, RAY})


logger = logging.getLogger(__name__)


class MachineState(StrEnum):
    """Whether a machine takes jobs."""

    UP = "up"
    DRAINING = "draining"
    """It ends its jobs and takes no more."""
    DOWN = "down"
    """It gives no sign of life."""
    OUT_OF_SERVICE = "out of service"


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineView:
    """A machine with its state, for operators."""

    name: str
    launcher: str
    state: MachineState
    host_class: str
    slots: dict[str, int]
    is_own: bool
    is_draining: bool
    """Also while it is down, when its state does not show it."""
    running: list[int]
    """The jobs that it judges now."""
    trouble: str
    busy_s: float
    cost: float
    """In the currency of its prices; it is not converted."""
    ranks: list[str]
    """The leaderboards that name it."""
    seen_at: datetime | None


def state_of(machine: machines.Machine, now: datetime) -> MachineState:
    """Return whether a machine takes jobs."""
    has_left = machine.launcher in CONNECTING and machine.agent is None
    if machine.seen_at is None or has_left or now - machine.seen_at > SILENT:
        return MachineState.DOWN
    if machine.trouble:
        return MachineState.OUT_OF_SERVICE
    return MachineState.DRAINING if machine.is_draining else MachineState.UP


def host_class(machine: machines.Machine) -> str:
    """Return what machines of equal hardware and drivers share; the launcher, where they are not known."""
    facts = machine.facts
    gpus = facts.get("gpus") or []
    kinds = ", ".join(f"{gpus.count(kind)} x {kind}" for kind in sorted(set(gpus)))
    driver = f"driver {facts['driver']}" if facts.get("driver") else ""
    host = f"{facts.get('cores', '?')} cores, {facts.get('memory_gib', '?')} GiB" if facts else ""
    return "; ".join(part for part in (kinds, driver, host) if part) or machine.launcher


class RunFacts(NamedTuple):
    """What a run keeps of its machine."""

    lent: bool = False
    host_class: str = ""
    price_per_hour: float = 0.0


def run_facts(session: Session, name: str, *, worked_s: float = 0.0) -> RunFacts:
    """Return what a run keeps of a machine, which need not be known, and add to the time that its GPUs worked."""
    found = machines.add_work(session, name, worked_s) if name else None
    return (
        RunFacts() if found is None else RunFacts(not found.is_own, host_class(found), found.price_per_hour)
    )


def log_changes(
    session: Session,
    before: machines.Machine | None,
    *,
    facts: Mapping[str, Any],
    trouble: str,
    now: datetime,
) -> None:
    """Note in a machine's log that its class has drifted, or that it has another trouble, before that is stored.

    A new driver or other clocks change times: what was compared with the machine before no longer says anything.
    """
    if before is None:
        return
    name = before.name
    itself = Actor(user_id=None, name=f"machine {name}", role=Role.NOBODY, scopes=frozenset())
    was, is_now = host_class(before), host_class(dataclasses.replace(before, facts=facts))
    if before.facts and is_now != was:
        logger.warning("machine %s was %r and is now %r", name, was, is_now)
        _record(session, itself, "machine.class", name, {"was": was, "is": is_now}, now)
    if trouble != before.trouble:
        _record(session, itself, "machine.trouble", name, {"trouble": trouble}, now)


def note_seen(
    db: Database, readings: Iterable[MachineReading], *, launcher: str, is_own: bool, now: datetime
) -> None:
    """Store which machines a launcher reaches."""
    with db.write() as session:
        known = {each.name: each for each in machines.every(session)}
        for each in readings:
            before = known.get(each.name)
            log_changes(session, before, facts=each.facts, trouble=each.trouble, now=now)
            machines.saw(
                session,
                each.name,
                launcher=launcher,
                slots=each.slots,
                facts=each.facts,
                trouble=each.trouble,
                is_own=is_own,
                now=now,
            )


def draining(db: Database) -> frozenset[str]:
    """Return the machines that take no more jobs."""
    with db.read() as session:
        return frozenset(each.name for each in machines.every(session) if each.is_draining)


@operation("GET", "/machines", "admin machines list", subject="machines")
def list_machines(db: Database, actor: Actor = OPERATOR, *, now: datetime) -> list[MachineView]:
    """List the machines: state, class, running jobs, last trouble, time and cost. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.read() as session:
        names = {board.id: board.name for board in boards.every(session)}
        ranks = machines.ranking(session)
        running = jobs.running_on(session)
        return [
            made_of(
                each,
                MachineView,
                state=state_of(each, now),
                host_class=host_class(each),
                slots=dict(each.slots),
                running=running.get(each.name, []),
                ranks=sorted(names[board] for board, some in ranks.items() if each.name in some),
            )
            for each in machines.every(session)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMachine:
    """A new machine, with its agent's token, which is shown only once."""

    name: str
    token: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """What was changed."""

    name: str


Name = Annotated[str, Given(metavar="MACHINE", help="Name of the machine.")]


@operation("POST", "/machines", "admin machines add", subject="machines", status=201)
def add_agent(
    db: Database,
    name: Name,
    *,
    is_own: Annotated[
        bool,
        Given(
            options=("--own",), help="You vouch for it: it may get hidden cases, and its reports are trusted."
        ),
    ] = False,
    actor: Actor = OPERATOR,
    now: datetime,
) -> NewMachine:
    """Register a machine whose agent will connect, and print the agent's token. It is shown only once.

    Raises:
        Conflict: There is a machine of this name.
        InvalidValue: The name is empty, too long or not printable.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    # Clients take the names of folders out of an address.
    if not name.strip(" .") or len(name) > LONGEST_NAME or not name.isprintable() or "/" in name:
        raise InvalidValue(
            f"A machine's name has 1 to {LONGEST_NAME} printable characters, not only dots, and no slash."
        )
    secret = secret_values.new_secret()
    with db.write(durable=True) as session:
        if machines.find(session, name) is not None:
            raise Conflict(f"There is a machine {name!r}; remove it first, or choose another name.")
        hidden = secret_values.hash_of(secret)
        machines.add(session, name=name, launcher=AGENT, is_own=is_own, token_hash=hidden, now=now)
        _record(session, actor, "machine.add", name, {"is_own": is_own}, now)
    return NewMachine(name=name, token=secret)


@operation("PATCH", "/machines/{name}", subject="machines")
def change(
    db: Database,
    name: Name,
    *,
    is_own: Annotated[bool | None, Given(help="Whether the operator vouches for it.")] = None,
    is_draining: Annotated[bool | None, Given(help="Whether it ends its jobs and takes no more.")] = None,
    price_per_hour: Annotated[float | None, Given(help="What an hour of a busy GPU costs.")] = None,
    actor: Actor = OPERATOR,
    now: datetime,
) -> Changed:
    """Drain or resume a machine, vouch for it, or set its price.

    Raises:
        NotFound: There is no such machine.
        InvalidValue: The price is not a number from 0.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if price_per_hour is not None and not 0 <= price_per_hour < 1e6:
        raise InvalidValue("A price is a number from 0 and below 1,000,000.")
    given = {"is_own": is_own, "is_draining": is_draining, "price_per_hour": price_per_hour}
    values = {key: value for key, value in given.items() if value is not None}
    with db.write(durable=True) as session:
        if machines.find(session, name) is None:
            raise NotFound(f"There is no machine {name!r}.")
        if values:
            machines.change(session, name, **values)
            _record(session, actor, "machine.change", name, values, now)
    return Changed(name=name)


@operation("DELETE", "/machines/{name}", "admin machines remove", subject="machines")
def remove(db: Database, name: Name, *, actor: Actor = OPERATOR, now: datetime) -> Changed:
    """Forget a machine; its agent's token is void, and its jobs run again elsewhere.

    Raises:
        NotFound: There is no such machine.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write(durable=True) as session:
        if not machines.remove(session, name):
            raise NotFound(f"There is no machine {name!r}.")
        _record(session, actor, "machine.remove", name, {}, now)
    return Changed(name=name)


@operation("PUT", "/leaderboards/{name}/machines", subject="machines")
def set_ranking(
    db: Database,
    board: Annotated[str, Given(metavar="BOARD", help="Name of the leaderboard.")],
    names: Annotated[list[str], Given(key="machines", most=1000, help="The machines; none for all.")],
    *,
    actor: Actor = OPERATOR,
    now: datetime,
) -> Changed:
    """Let only these machines rank a leaderboard.

    Raises:
        NotFound: There is no such leaderboard or machine.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write(durable=True) as session:
        found = boards.find(session, board)
        if found is None:
            raise NotFound(f"There is no leaderboard {board!r}.")
        for name in names:
            if machines.find(session, name) is None:
                raise NotFound(f"There is no machine {name!r}.")
        machines.set_ranking(session, found.id, names)
        audit_log.record(session, actor, "board.machines", f"board:{board}", {"machines": sorted(names)}, now)
    return Changed(name=board)


def _record(
    session: Session, actor: Actor, action: str, name: str, detail: Mapping[str, object], now: datetime
) -> None:
    audit_log.record(session, actor, action, f"machine:{name}", detail, now)
