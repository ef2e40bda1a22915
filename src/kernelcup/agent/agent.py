"""The loop of an agent: fetch jobs for the machine's slots, send their events and outcomes.

It schedules nothing. While the service does not answer, its jobs go on, and their outcomes wait.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelcup.agent.connection import Connection, Errand, Job
from kernelcup.agent.harnesses import Harnesses
from kernelcup.client.core import pauses
from kernelcup.domain import Device, split_count
from kernelcup.errors import (
    BadReport,
    Conflict,
    FileTooLarge,
    LaunchError,
    RateLimited,
    ServerUnavailable,
)
from kernelcup.launchers import outcomes
from kernelcup.launchers.base import Event, Launcher, Order
from kernelcup_harness.protocol import JobSpec, ProtocolError, from_json

ASK_EVERY_S = 0.5
LONGEST_PAUSE_S = 8.0

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class _Running:
    launcher: Launcher | None
    """None if it could not be started."""
    local: str = ""
    events: list[Event] = field(default_factory=list)
    outcome: dict[str, Any] | None = None
    """Until the service has taken it."""


class Agent:
    """One machine of a service.

    Args:
        devices: This machine's devices, by name.
        facts: Its hardware.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        connection: Connection,
        harnesses: Harnesses,
        devices: Mapping[str, Device],
        *,
        facts: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._harnesses = harnesses
        self._devices = devices
        self._facts = facts
        self._clock = clock
        self._calls: dict[str, _Running] = {}
        self._wake = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Judge until ``stop`` is set; then end the jobs, which run again elsewhere.

        Raises:
            SignInNeeded: The token is void; the jobs are ended.
            Conflict: Another agent has connected as this machine.
        """
        try:
            self._connect(stop)
            delays, pause_s, ask_at = pauses(ASK_EVERY_S, LONGEST_PAUSE_S), ASK_EVERY_S, self._clock()
            while not stop.is_set():
                ended = self.look()
                if not ended and self._clock() < ask_at:
                    self._wait(ask_at - self._clock())
                    continue
                try:
                    self.ask()
                except (ServerUnavailable, RateLimited) as error:
                    pause_s = next(delays)
                    logger.warning("%s; the agent asks again, running jobs: %d", error, len(self._calls))
                else:
                    delays, pause_s = pauses(ASK_EVERY_S, LONGEST_PAUSE_S), ASK_EVERY_S
                ask_at = self._clock() + pause_s
        finally:
            self._end()

    def look(self) -> bool:
        """Take the news of the running jobs; return whether one ended."""
        ended = False
        for running in self._calls.values():
            if running.launcher is None or running.outcome is not None:
                continue
            news = running.launcher.poll([running.local])[running.local]
            running.events += news.events
            if news.outcome is not None:
                self._harnesses.note(news.outcome)
                running.outcome, ended = outcomes.encode(news.outcome), True
                running.launcher.cancel(running.local)
        return ended

    def ask(self) -> None:
        """Send what there is, and do what the service wants.

        Raises:
            ServerUnavailable, RateLimited: It does not answer now.
            SignInNeeded, Conflict: It does not want this agent any more.
        """
        trouble = self._harnesses.look_again(is_idle=not self._calls)
        events = {call: running.events for call, running in self._calls.items() if running.events}
        told = {call: len(some) for call, some in events.items()}
        errand = self._connection.exchange(running=list(self._calls), events=events, trouble=trouble)
        for call, number in told.items():
            del self._calls[call].events[:number]
        for call, running in list(self._calls.items()):
            if running.outcome is not None:
                self._report(call, running.outcome)
                del self._calls[call]
        self._obey(errand)

    def _obey(self, errand: Errand) -> None:
        for call in errand.cancel:
            running = self._calls.pop(call, None)
            if running is not None and running.launcher is not None:
                logger.info("%s: ended on the service's wish", call)
                running.launcher.cancel(running.local)
        for job in errand.jobs:
            if job.call not in self._calls:
                self._calls[job.call] = self._started(job)

    def _started(self, job: Job) -> _Running:
        try:
            spec = from_json(JobSpec, job.spec)
            device = self._device(job.device)
            launcher = self._harnesses.launcher(job.harness_hash)
            order = Order(spec=spec, device=device, harness_hash=job.harness_hash)
            return _Running(launcher=launcher, local=launcher.start(order, wake=self._wake.set))
        except ProtocolError as error:
            failed: LaunchError = BadReport(f"this agent has another version than the service: {error}")
        except LaunchError as error:
            failed = error
        except Exception as error:
            logger.exception("%s cannot be started", job.call)
            failed = LaunchError(f"{type(error).__name__}: {error}")
        self._wake.set()
        return _Running(launcher=None, outcome=outcomes.encode(failed))

    def _device(self, name: str) -> Device:
        """Return a device of this machine, which has ``H200x2`` if it has ``H200``. Raise ``LaunchError``."""
        model, gpus = split_count(name)
        found = self._devices.get(name) or self._devices.get(model)
        if found is None or found.slots < gpus:
            raise LaunchError(f"this machine has no {name}")
        if found.name == name:
            return found
        return dataclasses.replace(found, name=name, slots=found.slots // gpus)

    def _report(self, call: str, outcome: dict[str, Any]) -> None:
        try:
            taken = self._connection.report(call, outcome)
        except FileTooLarge as error:
            taken = self._connection.report(call, outcomes.encode(BadReport(f"too large: {error}")))
        if not taken:
            logger.info("%s: the service did not want its report any more", call)

    def _connect(self, stop: threading.Event) -> None:
        slots = {name: device.slots for name, device in self._devices.items()}
        for pause_s in pauses(ASK_EVERY_S, LONGEST_PAUSE_S):
            try:
                machine = self._connection.hello(slots=slots, facts=self._facts)
            except (ServerUnavailable, RateLimited, Conflict) as error:
                logger.warning("not connected: %s; trying again", error)
                if stop.wait(pause_s):
                    return
                continue
            logger.info("connected as %s", machine)
            return

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _end(self) -> None:
        for running in self._calls.values():
            if running.launcher is not None:
                running.launcher.cancel(running.local)
        self._calls.clear()
        try:
            self._connection.bye()
        except Exception as error:  # the service notices our silence
            logger.info("not signed off: %s", error)
        self._harnesses.close()
