"""The launcher for machines whose agents connect to us: calls wait in the database until their agent asks."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from kernelcup.app.machines.agents import without_content
from kernelcup.app.machines.call_watch import CallWatch
from kernelcup.app.machines.machines import AGENT, MachineState, state_of
from kernelcup.app.machines.queries import calls, machines
from kernelcup.app.machines.queries.calls import AgentCall, CallState
from kernelcup.app.machines.queries.machines import Machine
from kernelcup.domain import Device
from kernelcup.engine import Session, blobs
from kernelcup.engine.database import Database
from kernelcup.errors import LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers import outcomes
from kernelcup.launchers.base import LauncherSettings, LaunchResult, MachineReading, Order, Polled, limit_s
from kernelcup_harness.protocol import to_json

FETCH_S = 60.0
"""Time for an agent to fetch its job, to fetch a harness, and to send its report, beyond the limit of a job."""


def utc_now() -> datetime:
    """Return the current time, timezone-aware and in UTC."""
    return datetime.now(UTC)


class AgentLauncher:
    """Gives each job to a machine with a free slot, for its agent to fetch."""

    durable = True
    launcher = AGENT

    def __init__(self, db: Database, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._db = db
        self._clock = clock
        self._watch = CallWatch(db, self._ended)

    def capacity(self, device: Device) -> int:
        """Return the free slots of all machines that are up."""
        with self._db.read() as session:
            return sum(free for _, free in self._free(session, device))

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:
        """Put a job down for the machine with the most free slots. Raise ``NoRoom``."""
        name = secrets.token_hex(16)
        with self._db.write() as session:
            free = [
                (slots, machine.name)
                for machine, slots in self._free(session, order.device, order.spec.environment)
                if slots > 0 and (order.machines is None or machine.name in order.machines)
            ]
            if not free:
                raise NoRoom(f"no machine for {order.device.name} has a free slot")
            call = AgentCall(
                id=name,
                machine=max(free)[1],
                device=order.device.name,
                order={
                    "spec": without_content(to_json(order.spec)),
                    "harness_hash": order.harness_hash,
                },
                limit_s=limit_s(order.spec) + FETCH_S,
                state=CallState.WAITING,
                outcome=None,
                created_at=self._clock(),
            )
            calls.add(session, call)
        self._watch.add(name, wake)
        return name

    def poll(self, calls_: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls."""
        with self._db.read() as session:
            found = {each.id: each for each in calls.some(session, calls_)}
            known = {each.name: each for each in machines.every(session)}
            has_events = calls.with_events(session, calls_)
        events: Mapping[str, Sequence[dict[str, object]]] = {}
        if has_events:
            with self._db.write() as session:
                events = calls.take_events(session, calls_)
        news = {}
        for name in calls_:
            call = found.get(name)
            if call is None:
                news[name] = Polled(outcome=LaunchLost("its machine was removed, or the call is unknown"))
                continue
            call = self._ended_by_us(call, known[call.machine])
            outcome = self._outcome(call) if call.state is CallState.ENDED else None
            news[name] = Polled(events=events.get(name, []), outcome=outcome, machine=call.machine)
        return news

    def cancel(self, call: str) -> None:
        """Have the agent end a call; forget one that has ended or was not fetched."""
        self._watch.forget(call)
        found = None
        with self._db.write() as session:
            running = [CallState.RUNNING]
            if not calls.move(session, call, to=CallState.CANCELLED, among=running):
                found = calls.find(session, call)
                if found is not None and found.state is not CallState.CANCELLED:
                    calls.remove(session, call)
        if found is not None and found.outcome_file is not None:
            self._db.files.delete(found.outcome_file)

    def _outcome(self, call: AgentCall) -> LaunchResult | Exception:
        body: object = call.outcome
        if call.outcome_file is not None:
            whole = self._db.files.get(call.outcome_file)
            if whole is None:
                return LaunchLost(f"the report of {call.machine} was deleted")
            body = json.loads(whole)
        outcome = outcomes.decode(body, machine=call.machine)
        if isinstance(outcome, LaunchResult):
            return dataclasses.replace(outcome, uploads=call.id)
        return outcome

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return the machines that are up."""
        with self._db.read() as session:
            free: dict[str, dict[str, int]] = {}
            for device in devices:
                for machine, slots in self._free(session, device):
                    free.setdefault(machine.name, {})[device.name] = slots
            known = {each.name: each for each in self._machines(session)}
        return [
            MachineReading(name=name, slots=known[name].slots, free=free[name], facts=known[name].facts)
            for name in sorted(free)
        ]

    def close(self) -> None:
        """Look for no more news."""
        self._watch.close()

    def _ended(self, some: Collection[str]) -> set[str]:
        with self._db.read() as session:
            return calls.ended(session).intersection(some)

    def _machines(self, session: Session) -> list[Machine]:
        return [each for each in machines.every(session) if each.launcher == self.launcher]

    def _needed(self, device: str, environment: str) -> set[str]:  # noqa: ARG002
        """Return the labels of the machines that can judge on a device; agents have none."""
        return set()

    def _free(self, session: Session, device: Device, environment: str = "") -> Iterator[tuple[Machine, int]]:
        """Yield the machines that are up with their free slots. GPUs that two devices share count for both."""
        taken, needed = calls.busy(session), self._needed(device.name, environment)
        for machine in self._machines(session):
            if not needed <= set(machine.labels):
                continue
            if state_of(machine, self._clock()) is MachineState.UP and machine.slots_for(device.name) > 0:
                used = taken.get((machine.name, device.model), 0)
                yield machine, (machine.slots_of(device.model) - used) // device.gpus

    def _ended_by_us(self, call: AgentCall, machine: Machine) -> AgentCall:
        """Return the call, ended if its machine fell silent or its limit is over."""
        if call.state is CallState.ENDED:
            return call
        now = self._clock()
        error: Exception
        if state_of(machine, now) is MachineState.DOWN:
            error = LaunchLost(f"machine {machine.name} gives no sign of life")
        elif now - call.created_at > timedelta(seconds=call.limit_s):
            error = LaunchTimeout(f"{machine.name} made no report in time")
        else:
            return call
        with self._db.write() as session:
            calls.end(session, call.id, outcomes.encode(error))
            ended = dataclasses.replace(call, state=CallState.ENDED, outcome=outcomes.encode(error))
            return calls.find(session, call.id) or ended


def make(settings: LauncherSettings) -> AgentLauncher:
    files = blobs.opened(settings.files_url, settings.data_dir / "files")
    return AgentLauncher(Database.open(settings.database_url, files=files))
