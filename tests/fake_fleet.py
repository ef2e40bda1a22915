"""A fake engine with machines of its own, whose calls outlive a dispatcher."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.domain import Device
from kernelcup.engine.database import Database
from kernelcup.errors import BadReport, Conflict, LaunchError, LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers.base import Event, Launcher, LaunchResult, MachineReading, Order, Polled, limit_s
from kernelcup.launchers.bundle import harness_hash
from kernelcup_harness.protocol import JobSpec, ProtocolError, RunReport, from_json

LARGEST_REPORT_BYTES = 1 << 20


@dataclass(kw_only=True)
class FakeCall:
    """A call of the engine."""

    order: Order
    machine: str
    began_s: float
    events: list[Event] = field(default_factory=list)
    outcome: LaunchResult | Exception | None = None
    wake: Callable[[], None] = lambda: None


class FakeEngine:
    """Machines with slots, and the calls that run there. It refuses what no engine would do."""

    def __init__(self, machines: Mapping[str, int] = {"m1": 2, "m2": 2}) -> None:
        self.machines = dict(machines)
        self.calls: dict[str, FakeCall] = {}
        self.now_s = 0.0
        self.harness = harness_hash()
        self.down = False
        """Whether it cannot be asked now."""
        self._names = itertools.count(1)

    def join(self, name: str, slots: int = 1) -> str:
        """Add a machine. Raise ``Conflict`` if there is one of this name."""
        if name in self.machines:
            raise Conflict(f"there is a machine {name!r}")
        self.machines[name] = slots
        return name

    def busy(self, machine: str) -> int:
        """Return how many GPUs of a machine are in use."""
        running = [each for each in self.calls.values() if each.outcome is None]
        return sum(each.order.device.gpus for each in running if each.machine == machine)

    def room(self, machine: str, device: Device) -> int:
        """Return how many more calls fit on a machine."""
        return (self.machines[machine] - self.busy(machine)) // device.gpus

    def begin(self, order: Order, wake: Callable[[], None]) -> str:
        """Run a call on the first machine with room. Raise ``NoRoom`` if there is none."""
        wanted = self.machines if order.machines is None else order.machines
        free = [name for name in self.machines if name in wanted and self.room(name, order.device) > 0]
        if not free:
            raise NoRoom("no machine has room")
        name = f"call-{next(self._names)}"
        self.calls[name] = FakeCall(order=order, machine=free[0], began_s=self.now_s, wake=wake)
        return name

    def tell(self, call: str, event: Event) -> None:
        """Report an event of a running call."""
        found = self.calls.get(call)
        if found is not None and found.outcome is None:
            found.events.append(event)
            found.wake()

    def report(self, call: str, body: Any) -> None:
        """Report the end of a call; one that has ended, or is unknown, is not changed."""
        found = self.calls.get(call)
        if found is None or found.outcome is not None:
            return
        found.outcome = self._read(found, body)
        found.wake()

    def lose(self, call: str) -> None:
        """Lose the machine of a call, with all its calls."""
        machine = self.calls[call].machine
        del self.machines[machine]
        for each in self.calls.values():
            if each.machine == machine and each.outcome is None:
                each.outcome = LaunchLost(f"machine {machine} was lost")

    def end_overdue(self) -> None:
        """End the calls whose limit is over."""
        for each in self.calls.values():
            if each.outcome is None and self.now_s - each.began_s > limit_s(each.order.spec):
                each.outcome = LaunchTimeout("no report in time")

    def _read(self, call: FakeCall, body: Any) -> LaunchResult | BadReport:
        if len(json.dumps(body)) > LARGEST_REPORT_BYTES:
            return BadReport("the report is too large")
        try:
            report = from_json(RunReport, body)
        except ProtocolError as error:
            return BadReport(str(error))
        return LaunchResult(report=report, machine=call.machine, harness_hash=self.harness)


class FakeFleet:
    """The launcher of a :class:`FakeEngine`."""

    durable = True

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine

    def capacity(self, device: Device) -> int:
        """Return how many calls fit on all machines."""
        self._check()
        return sum(self.engine.room(name, device) for name in self.engine.machines)

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:
        """Begin a call."""
        self._check()
        return self.engine.begin(order, wake)

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls."""
        self._check()
        self.engine.end_overdue()
        return {name: self._news(name) for name in calls}

    def cancel(self, call: str) -> None:
        """Forget a call."""
        self._check()
        self.engine.calls.pop(call, None)

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return the machines."""
        self._check()
        return [
            MachineReading(
                name=name,
                slots=dict.fromkeys((each.model for each in devices), slots),
                free={each.name: self.engine.room(name, each) for each in devices},
            )
            for name, slots in self.engine.machines.items()
        ]

    def _check(self) -> None:
        if self.engine.down:
            raise LaunchError("the engine does not answer")

    def _news(self, name: str) -> Polled:
        call = self.engine.calls.get(name)
        if call is None:
            return Polled(outcome=LaunchLost("no such call"))
        events, call.events = call.events, []
        return Polled(events=events, outcome=call.outcome, machine=call.machine)


def dispatcher_of(
    db: Database, clock: Callable[[], datetime], launcher: Launcher, *devices: Device, **options: Any
) -> Dispatcher:
    """Return a dispatcher that sends a heartbeat at each look."""
    values = {"clock": clock, "heartbeat_s": 0.0} | options
    return Dispatcher(db, devices=devices, launchers={"fake": launcher}, **values)


def look(dispatcher: Dispatcher) -> None:
    """Have a dispatcher take the news and look at its queue once, as in its loop."""
    dispatcher._rooms._note_at = 0.0
    dispatcher._poll(every=True)
    dispatcher._look(list(dispatcher._devices), None, patient=False)


class FakeFleetBench:
    """The fake engine as the conformance suite wants it."""

    joins = True
    live = True

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.launcher = FakeFleet(self.engine)
        self.tell, self.report, self.join = self.engine.tell, self.engine.report, self.engine.join
        self.lose, self.come_back = self.engine.lose, self.engine.report

    def restarted(self) -> FakeFleet:
        """Return a new launcher on the engine."""
        self.launcher = FakeFleet(self.engine)
        return self.launcher

    def begun(self, call: str) -> None:
        """A call begins at once."""
        assert call in self.engine.calls

    def use_harness(self, harness: str) -> None:
        """Judge with another harness."""
        self.engine.harness = harness

    def report_too_much(self, call: str) -> None:
        """Report more than the launcher takes."""
        self.engine.report(call, {"message": "x" * LARGEST_REPORT_BYTES})

    def pass_time(self, seconds: float) -> None:
        """Let the engine's time pass."""
        self.engine.now_s += seconds

    def set_clock_off(self, seconds: float) -> None:
        """The machines report no times of the day."""

    def is_running(self, call: str) -> bool:
        """Return whether a call has not ended."""
        return call in self.engine.calls and self.engine.calls[call].outcome is None

    def engine_limit_s(self, spec: JobSpec) -> float:
        """The engine ends a call only at the launcher's own limit."""
        return math.inf
