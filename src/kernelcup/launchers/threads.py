"""Launchers that judge in this process's own children: a blocking run in a thread for each busy slot."""

from __future__ import annotations

import secrets
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kernelcup.domain import Device
from kernelcup.errors import LaunchLost
from kernelcup.launchers.base import Event, LaunchResult, MachineReading, Order, Polled
from kernelcup.launchers.gpu_health.probe import facts_here
from kernelcup_harness.protocol import JobSpec


@dataclass(kw_only=True, slots=True)
class _Call:
    cancelled: threading.Event = field(default_factory=threading.Event)
    events: list[Event] = field(default_factory=list)
    outcome: LaunchResult | Exception | None = None


class RunsInThreads(ABC):
    """The calls of a launcher that has a blocking :meth:`run`.

    The slots of one machine bound the number of threads. The threads are no daemons: the interpreter ends after
    the processes that they watch.
    """

    durable = False

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._unfinished: dict[str, str] = {}
        """The device of each."""
        self._calls_lock = threading.Lock()

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        slots = {device.name: device.slots for device in devices}
        return [MachineReading(name=socket.gethostname(), slots=slots, facts=facts_here())]

    @abstractmethod
    def run(
        self,
        spec: JobSpec,
        device: Device,
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> LaunchResult:
        """Judge once, and return when the machine is free again. Called from several threads.

        Raises:
            LaunchCancelled: ``cancelled`` was set; nothing of the run is left.
            LaunchError: As for the outcomes of a call.
        """

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:
        """Begin a job in a thread."""
        call, name = _Call(), secrets.token_hex(8)

        def take(event: Event) -> None:
            with self._calls_lock:
                call.events.append(event)
            wake()

        def work() -> None:
            try:
                outcome: LaunchResult | Exception = self.run(
                    order.spec, order.device, on_event=take, cancelled=call.cancelled
                )
            except Exception as error:
                outcome = error
            call.outcome = outcome
            self._unfinished.pop(name, None)
            wake()

        with self._calls_lock:
            self._calls[name] = call
        self._unfinished[name] = order.device.name
        try:
            threading.Thread(target=work, name=f"job-{order.spec.job_id}").start()
        except RuntimeError:  # the machine cannot start another thread
            self._unfinished.pop(name, None)
            self.cancel(name)
            raise
        return name

    def has_ended(self, call: str) -> bool:
        """Return whether nothing of a call runs any more, which takes a moment after :meth:`cancel`."""
        return call not in self._unfinished

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls."""
        return {name: self._news(name) for name in calls}

    def cancel(self, call: str) -> None:
        """Begin to end a call, and forget it."""
        with self._calls_lock:
            found = self._calls.pop(call, None)
        if found is not None:
            found.cancelled.set()

    def _news(self, name: str) -> Polled:
        with self._calls_lock:
            call = self._calls.get(name)
            if call is None:
                return Polled(outcome=LaunchLost("the process that judged it has ended"))
            outcome = call.outcome  # read first: no event follows it
            events, call.events = call.events, []
        machine = outcome.machine if isinstance(outcome, LaunchResult) else ""
        return Polled(events=events, outcome=outcome, machine=machine)
