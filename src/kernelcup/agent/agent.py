"""The loop of an agent: fetch jobs for the machine's slots, send their events and outcomes.

It schedules nothing. One question is always on its way, which the service answers once there is a job. While the
service does not answer, jobs go on, and their outcomes wait.
"""

from __future__ import annotations

import base64
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from kernelcup.agent.connection import Connection, Errand, Job
from kernelcup.agent.harnesses import Harnesses
from kernelcup.app.machines.agent_launcher import utc_now
from kernelcup.app.machines.calibrations import Calibrations, Known
from kernelcup.client.core import pauses
from kernelcup.client.transport import Client
from kernelcup.config.settings import Config
from kernelcup.domain import Device, split_count
from kernelcup.errors import (
    BadReport,
    Conflict,
    FileTooLarge,
    InvalidValue,
    LaunchError,
    RateLimited,
    ServerUnavailable,
    UnfitDevice,
    UserError,
)
from kernelcup.launchers import outcomes
from kernelcup.launchers.base import Event, Launcher, Order
from kernelcup.launchers.bundle import harness_hash
from kernelcup.launchers.gpu_health.probe import facts_here
from kernelcup.launchers.local.calibrate import Place
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup.launchers.local.launcher import make as make_local
from kernelcup_harness.protocol import MOST_EVENTS, JobSpec, ProtocolError, from_json
from kernelcup_harness.protocol.calibration import DeviceCalibration

PUBLISH_EVERY = timedelta(minutes=5)
"""How often an agent asks for the figures of its jobs, which follow the canaries of the jobs before."""


class ServiceBook:
    """A :class:`kernelcup.app.machines.calibrations.Book` at the service."""

    def __init__(self, connection: Connection, harnesses: Harnesses) -> None:
        self._connection = connection
        self._harnesses = harnesses

    def look(self, places: Collection[Place]) -> Mapping[Place, Known]:
        """Return what is known of devices."""
        return self._connection.calibrations(places)[0] if places else {}

    def keep(self, found: DeviceCalibration, place: Place) -> UnfitDevice | None:
        """Send a calibration; if its GPU is not fit, note it, so that the machine takes no jobs until it is."""
        _, text = self._connection.calibrations([], (place, found))
        if not text:
            return None
        unfit = UnfitDevice(text, gpus=[place[1]])
        self._harnesses.note(unfit)
        return unfit


LOOK_EVERY_S = 0.5
"""The longest pause between two looks at the running jobs, which wake the agent when they have news."""
TELL_AFTER_S = 0.2
"""How long events wait for others, so that a job of a second does not send ten messages."""
WAIT_S = 25.0
"""How long the service may keep a question that it has no job for."""
UPLOADED_ABOVE = 1 << 20
"""Files that are larger together, in characters, are sent beside their report."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
"""While it does not answer."""

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
        calibrations: Calibrates its devices; None leaves them as they are.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        connection: Connection,
        harnesses: Harnesses,
        devices: Mapping[str, Device],
        *,
        facts: Mapping[str, Any],
        calibrations: Calibrations | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._harnesses = harnesses
        self._devices = devices
        self._facts = facts
        self._calibrations = calibrations
        self._clock = clock
        self._calls: dict[str, _Running] = {}
        self._wake = threading.Event()
        self._told = ""
        """The trouble that the service knows of."""
        self._tell_at = 0.0

    def run(self, stop: threading.Event, connected: Callable[[], None] = lambda: None) -> None:
        """Judge until ``stop`` is set; then end the jobs, which run again elsewhere.

        ``connected`` is called once the service has let the machine in.

        Raises:
            InvalidValue: The service lacks a device of this machine.
            SignInNeeded: The token is void; the jobs are ended.
            Conflict: Another agent has connected as this machine.
        """
        try:
            self._connect(stop, connected)
            if self._calibrations is not None:
                self._calibrations.start()
            delays, rest_until = _delays(), 0.0
            asking: Future[Errand] | None = None
            while not stop.is_set():
                self.look()
                try:
                    if self._clock() >= rest_until:
                        if self._calibrations is not None:
                            self._calibrations.refresh()
                        self.send()
                        if asking is not None and asking.done():
                            answered, asking = asking, None
                            self.obey(answered.result())
                            delays = _delays()
                        asking = asking or self._asked()
                except (ServerUnavailable, RateLimited) as error:
                    rest_until = self._clock() + next(delays)
                    logger.warning("%s; the agent asks again, running jobs: %d", error, len(self._calls))
                self._wait(rest_until - self._clock())
        finally:
            self._end()

    def look(self) -> bool:
        """Take the news of the running jobs; return whether one ended."""
        ended = False
        for running in self._calls.values():
            if running.launcher is None or running.outcome is not None:
                continue
            news = running.launcher.poll([running.local])[running.local]
            if news.events and not self._untold():
                self._tell_at = self._clock() + TELL_AFTER_S
            outcome = news.outcome
            try:
                running.events = [*running.events, *outcomes.check_events(news.events)][-MOST_EVENTS:]
            except ProtocolError as error:  # the service would refuse those of all jobs
                outcome = BadReport(f"the harness sent what is no event: {error}")
            if outcome is not None:
                self._harnesses.note(outcome)
                running.outcome, ended = outcomes.encode(outcome), True
                running.launcher.cancel(running.local)
        return ended

    def send(self) -> None:
        """Send what there is: events soon, outcomes at once.

        Raises:
            ServerUnavailable, RateLimited: It does not answer now.
            SignInNeeded, Conflict: It does not want this agent any more.
        """
        trouble = self._harnesses.look_again(is_idle=not self._calls) or self._overdue()
        events = self._untold() if self._clock() >= self._tell_at else {}
        if events or trouble != self._told:
            sent = {call: len(some) for call, some in events.items()}
            self._connection.tell(events=events, trouble=trouble)
            self._told = trouble
            for call, number in sent.items():
                del self._calls[call].events[:number]
        for call, running in list(self._calls.items()):
            if running.outcome is not None:
                self._report(call, running.outcome, running.events)
                del self._calls[call]

    def ask(self, *, wait_s: float = 0.0) -> Errand:
        """Return what the service wants. Raise like :meth:`send`."""
        return self._connection.ask(running=list(self._calls), wait_s=wait_s)

    def obey(self, errand: Errand) -> None:
        """Do what the service wants."""
        for call in errand.cancel:
            running = self._calls.pop(call, None)
            if running is not None and running.launcher is not None:
                logger.info("%s: ended on the service's wish", call)
                running.launcher.cancel(running.local)
        for job in errand.jobs:
            if job.call not in self._calls:
                self._calls[job.call] = self._started(job)

    def _asked(self) -> Future[Errand]:
        """Ask in a thread of its own. It is a daemon: the agent does not wait for it when it ends."""
        asking: Future[Errand] = Future()
        asking.add_done_callback(lambda _: self._wake.set())
        question = partial(self._connection.ask, running=list(self._calls), wait_s=WAIT_S)

        def work() -> None:
            try:
                asking.set_result(question())
            except Exception as error:  # the loop raises it
                asking.set_exception(error)

        threading.Thread(target=work, name="ask", daemon=True).start()
        return asking

    def _overdue(self) -> str:
        """Return that the machine has been too busy to be calibrated, empty if it has not: then it takes no jobs."""
        held = self._calibrations is not None and any(map(self._calibrations.holds, self._devices.values()))
        return "waits until its devices are free, to calibrate them" if held else ""

    def _untold(self) -> dict[str, list[Event]]:
        return {
            call: running.events
            for call, running in self._calls.items()
            if running.events and running.outcome is None
        }

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
        if name in self._devices:
            return self._devices[name]
        model, gpus = split_count(name)
        found = self._devices.get(model)
        if found is None or found.slots < gpus:
            raise LaunchError(f"this machine has no {name}")
        return dataclasses.replace(found, name=name, slots=found.slots // gpus)

    def _report(self, call: str, outcome: dict[str, Any], events: list[Event]) -> None:
        self._upload(call, outcome)
        try:
            taken = self._connection.report(call, outcome, events)
        except (FileTooLarge, InvalidValue) as error:  # of one job, and no reason to end the others
            bad = BadReport(f"the service does not take the report: {error}")
            taken = self._connection.report(call, outcomes.encode(bad), [])
        if not taken:
            logger.info("%s: the service did not want its report any more", call)

    def _upload(self, call: str, outcome: dict[str, Any]) -> None:
        """Send large files of a report beside it, and leave out of it what was taken."""
        files = {each["sha256"]: each for each in outcomes.files_of(outcome) if each["gz64"]}
        if sum(len(each["gz64"]) for each in files.values()) <= UPLOADED_ABOVE:
            return
        try:
            packed = {digest: base64.b64decode(each["gz64"]) for digest, each in files.items()}
            for digest in self._connection.upload(call, packed):
                files[digest]["gz64"] = ""
        except RateLimited:
            raise
        except (UserError, ValueError) as error:  # an address that has expired among them: not our token
            logger.info("%s: its files are not taken: %s", call, error)

    def _connect(self, stop: threading.Event, connected: Callable[[], None]) -> None:
        slots = {name: device.slots for name, device in self._devices.items()}
        for pause_s in _delays():
            try:
                machine = self._connection.hello(slots=slots, facts=self._facts)
            except (ServerUnavailable, RateLimited, Conflict) as error:
                logger.warning("not connected: %s; trying again", error)
                if stop.wait(pause_s):
                    return
                continue
            logger.info("connected as %s", machine)
            connected()
            return

    def _wait(self, rest_s: float) -> None:
        """Wait for news; to the end of a rest, if events wait for that."""
        pause_s = max(self._tell_at - self._clock(), rest_s, 0.0) if self._untold() else LOOK_EVERY_S
        self._wake.wait(min(pause_s, LOOK_EVERY_S))
        self._wake.clear()

    def _end(self) -> None:
        if self._calibrations is not None:
            self._calibrations.stop()
        for running in self._calls.values():
            if running.launcher is not None:
                running.launcher.cancel(running.local)
        self._calls.clear()
        try:
            self._connection.bye()
        except Exception as error:  # the service notices our silence
            logger.info("not signed off: %s", error)
        self._harnesses.close()


def agent_here(settings: Config, client: Client, note: Path | None = None) -> Agent:
    """Return the agent of this machine, whose warm processes wait for the first job. ``note`` keeps its session."""

    def make(package: Path) -> LocalLauncher:
        launcher = make_local(settings, package=package)
        launcher.keep_ready(settings.devices_here)
        return launcher

    connection = Connection(client, note)
    harnesses = Harnesses(settings.data_dir / "harness", make, connection.fetch_harness)
    harnesses.launcher(harness_hash())
    calibrations = Calibrations(
        ServiceBook(connection, harnesses),
        settings.devices_here,
        {device.launcher: harnesses for device in settings.devices_here},
        clock=utc_now,
        every=settings.calibrate_every,
        publish_every=PUBLISH_EVERY,
    )
    devices = {device.name: device for device in settings.devices_here}
    return Agent(connection, harnesses, devices, facts=facts_here(), calibrations=calibrations)


def _delays() -> Iterator[float]:
    return pauses(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
