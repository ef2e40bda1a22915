"""Schedule the calibration of a machine's devices, store the results and act on drift.

The history is in the database, which the agent of a machine reaches through the service. Launchers are given the
figures of each device; they pass them to jobs and compare canaries. A GPU whose canary has drifted goes out of service
like any other unfit GPU (see :mod:`kernelcup.app.machines.outages`); the drift of a processor is only marked.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from kernelcup.app.machines import outages
from kernelcup.app.machines.queries import calibrations
from kernelcup.app.machines.queries.calibrations import CalibrationRecord
from kernelcup.domain import Device
from kernelcup.engine import Database
from kernelcup.errors import (
    LaunchCancelled,
    LaunchError,
    ServerUnavailable,
    StorageUnavailable,
    UnfitDevice,
    UserError,
)
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.local.calibrate import Calibrates, Place, drift_text
from kernelcup_harness.protocol import Backend, DeviceFacts, calibration, peaks
from kernelcup_harness.protocol.calibration import DeviceCalibration

RESTED = timedelta(minutes=10)
"""When a dispatcher starts, it measures devices again whose calibration is older than this."""
PATIENCE = timedelta(minutes=10)
"""How long a calibration waits for a busy device; after that, no new job is started there."""
LONGEST_HOLD = timedelta(minutes=30)
"""How long a device is kept free for a calibration. It is longer than any job: if the device is still busy,
its job hangs, and waiting does not help."""
RETRY = timedelta(minutes=5)
"""The pause after a failed calibration."""
PUBLISH_EVERY = timedelta(seconds=30)

logger = logging.getLogger(__name__)


def facts_of(record: CalibrationRecord, canary_ns: float | None, *, noise_share: float = 0.0) -> DeviceFacts:
    """Return the figures for a job: the calibration in force, and the rolling median and spread of canaries.

    Rates are left out for a processor. Other processes share it, so a measured rate bounds nothing, and
    its caches are warm when timing begins: a floor from such rates would accuse honest kernels.
    """
    found = record.found
    bounds = found.backend is Backend.CUDA
    return DeviceFacts(
        copy_bytes_per_s=found.bandwidth if bounds else 0.0,
        matrix_flops_per_s=peaks.rates(found.device_name, found.matrix_flops_per_s) if bounds else {},
        l2_bytes=float(found.l2_bytes),
        launch_ns=found.launch_ns,
        empty_kernel_ns=found.profiled_empty_ns,
        canary_ns=canary_ns or 0.0,
        canary_tolerance=tolerance_of(found, noise_share),
        noise_share=noise_share if bounds else 0.0,
        calibration_id=str(record.id),
    )


def tolerance_of(found: DeviceCalibration, noise_share: float) -> float:
    """Return the share by which a canary may be slower: by the spread within the calibration, or between processes.

    A processor's spread between processes is left out: others use it too.
    """
    if found.backend is not Backend.CUDA:
        return found.tolerance
    return calibration.tolerance(found.backend, max(found.canary_spread, noise_share))


def store(
    db: Database, found: DeviceCalibration, *, machine: str, gpu: str, device: str, now: datetime
) -> tuple[CalibrationRecord, UnfitDevice | None]:
    """Store a calibration. Return it with the error for a canary that has drifted, or None."""
    place = {"machine": machine, "gpu": gpu, "device": device}
    with db.write() as session:
        before = calibrations.latest(session, **place)
        fresh = before is None or before.found.kind != found.kind
        expected = None if fresh else calibrations.rolling_median(session, **place)
        noise_share = 0.0 if fresh else calibrations.rolling_noise(session, **place)
        allowed = tolerance_of(found, noise_share)
        good = expected is None or calibration.fits(found.canary_ns, expected, allowed)
        record = calibrations.add(session, found, **place, at=now, fits=good, fresh=fresh)
    if good:
        return record, None
    text = drift_text(found.canary_ns, facts_of(record, expected, noise_share=noise_share))
    name = f"GPU {gpu}" if gpu else device
    return record, UnfitDevice(f"{name}: {text}", gpus=[gpu] if gpu else [])


def note_run(db: Database, run_id: int, launched: LaunchResult, *, now: datetime) -> None:
    """Store which calibration a run was measured under, and its canary."""
    facts, report = launched.facts, launched.report
    if facts is None or not facts.calibration_id:
        return
    number = int(facts.calibration_id)
    canary_ns = report.calibration.canary_ns if report.calibration is not None else 0.0
    with db.write() as session:
        record = calibrations.find(session, number)
        if record is None or record.machine != launched.machine:  # who owns a machine may report anything
            return
        calibrations.link(session, run_id, number)
        if canary_ns > 0:
            good = calibration.fits(canary_ns, facts.canary_ns, facts.canary_tolerance)
            calibrations.add_canary(session, number, canary_ns=canary_ns, fits=good, at=now)


def newest(db: Database) -> list[CalibrationRecord]:
    """Return the calibration in force for each device of all machines."""
    with db.read() as session:
        return calibrations.newest(session)


def history(db: Database, record: CalibrationRecord, *, limit: int = 20) -> list[CalibrationRecord]:
    """Return all calibrations of the GPU that a record belongs to, newest first."""
    with db.read() as session:
        return calibrations.history(
            session, machine=record.machine, gpu=record.gpu, device=record.device, limit=limit
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is known of a device."""

    age: timedelta
    """Since its latest calibration."""
    facts: DeviceFacts
    """The figures for jobs."""


class Book(Protocol):
    """Where a machine's calibrations are kept. All methods may raise ``StorageUnavailable``, ``ServerUnavailable``."""

    def look(self, places: Collection[Place]) -> Mapping[Place, Known]:
        """Return what is known of devices, as far as they were calibrated."""
        ...

    def keep(self, found: DeviceCalibration, place: Place) -> UnfitDevice | None:
        """Keep a calibration. If the canary of a GPU has drifted, take the GPU out of service, and return why."""
        ...


class DatabaseBook:
    """Calibrations in the database.

    Args:
        machine: By default this host.
    """

    def __init__(self, db: Database, *, clock: Callable[[], datetime], machine: str | None = None) -> None:
        self._db = db
        self._clock = clock
        self._machine = machine or socket.gethostname()

    def look(self, places: Collection[Place]) -> Mapping[Place, Known]:
        """Return what is known of devices."""
        found, now = {}, self._clock()
        with self._db.read() as session:
            for device, gpu in places:
                place = {"machine": self._machine, "gpu": gpu, "device": device}
                last = calibrations.latest(session, **place)
                record = calibrations.in_force(session, **place)
                if last is None or record is None:
                    continue
                noise_share = calibrations.rolling_noise(session, **place)
                median_ns = calibrations.rolling_median(session, **place)
                facts = facts_of(record, median_ns, noise_share=noise_share)
                found[device, gpu] = Known(age=now - last.at, facts=facts)
        return found

    def keep(self, found: DeviceCalibration, place: Place) -> UnfitDevice | None:
        """Keep a calibration; return why its GPU was taken out of service, None if it was not."""
        device, gpu = place
        now = self._clock()
        _, unfit = store(self._db, found, machine=self._machine, gpu=gpu, device=device, now=now)
        if unfit is None:
            return None
        logger.warning("%s: %s", self._machine, unfit)
        if not unfit.gpus:
            return None
        outages.take_out(self._db, unfit, device=device, now=now, machine=self._machine)
        return unfit


class Calibrations:
    """Calibrates the devices of a machine.

    Args:
        book: Where its calibrations are kept.
        launchers: By the name that devices refer to; launchers that cannot calibrate are ignored.
        every: How often to measure; None measures nothing and only passes stored figures to jobs.
        publish_every: How often the figures of jobs follow the book.
        beside: Runs a function in the background; tests run it at once.
    """

    def __init__(
        self,
        book: Book,
        devices: Sequence[Device],
        launchers: Mapping[str, object],
        *,
        clock: Callable[[], datetime],
        every: timedelta | None = None,
        publish_every: timedelta = PUBLISH_EVERY,
        beside: Callable[[Callable[[], None]], None] = outages.in_thread,
    ) -> None:
        self._book = book
        self._launchers = {
            name: launcher for name, launcher in launchers.items() if isinstance(launcher, Calibrates)
        }
        # An emulated device has no times.
        self._devices = [device for device in devices if device.backend is not Backend.EMULATED]
        self._clock, self._every, self._publish_every = clock, every, publish_every
        self._beside = beside
        self._due: dict[Place, datetime] = {}
        self._next_publish: datetime | None = None
        self._busy = threading.Lock()
        self._cancelled = threading.Event()
        self._measures = False
        self._planned = False

    def start(self) -> None:
        """Measure from the next refresh on: devices without a recent calibration at once, then all on a schedule."""
        self._measures = self._every is not None

    def refresh(self) -> None:
        """Give the launchers the current figures, and begin one calibration if one is due."""
        now = self._clock()
        if self._next_publish is None or now >= self._next_publish:
            self._publish()
        if self._measures and not self._planned:
            self._plan()
        if self._measures and self._due_now() and self._busy.acquire(blocking=False):
            self._beside(self._measure_one)

    def holds(self, device: Device) -> bool:
        """Return whether no job may start on a device, because its calibration has waited too long."""
        if not self._measures:
            return False
        now, launcher = self._clock(), self._launchers.get(device.launcher)
        late = [place for place, due in self._due.items() if PATIENCE <= now - due <= PATIENCE + LONGEST_HOLD]
        # Two devices may share a GPU, and the jobs of either keep it busy.
        gpus = set(launcher.places(device)) - {""} if late and launcher is not None else set()
        return any(name == device.name or gpu in gpus for name, gpu in late)

    def stop(self) -> None:
        """Cancel a running calibration, and wait until it has ended."""
        self._measures = False
        self._cancelled.set()
        with self._busy:
            pass

    def _plan(self) -> None:
        known = self._book.look(self._places())
        for place in self._places():
            lately = place in known and known[place].age < RESTED
            wait = self._every if lately and self._every is not None else timedelta()
            self._due[place] = self._clock() + wait
        self._planned = True

    def _places(self) -> list[Place]:
        return [
            (device.name, gpu)
            for device in self._devices
            if (launcher := self._launchers.get(device.launcher)) is not None
            for gpu in launcher.places(device)
        ]

    def _due_now(self) -> list[Place]:
        now = self._clock()
        return sorted((place for place, due in self._due.items() if due <= now), key=self._due.__getitem__)

    def _measure_one(self) -> None:
        """Calibrate the first device that is due and free."""
        try:
            for place in self._due_now():
                if self._cancelled.is_set() or self._measure(place):
                    return
        except LaunchCancelled:
            return
        except (StorageUnavailable, ServerUnavailable, UserError) as error:
            logger.warning("cannot store a calibration: %s", error)
        finally:
            self._busy.release()

    def _measure(self, place: Place) -> bool:
        """Calibrate one device; return whether it was free."""
        name, gpu = place
        device = next(each for each in self._devices if each.name == name)
        launcher = self._launchers[device.launcher]
        try:
            found = launcher.calibrate(device, gpu, cancelled=self._cancelled)
        except LaunchCancelled:
            raise
        except LaunchError as error:
            logger.warning("%s %s cannot be calibrated: %s", name, gpu, error)
            self._due[place] = self._clock() + RETRY
            return True
        if found is None:
            return False
        assert self._every is not None
        self._due[place] = self._clock() + RETRY  # if it cannot be kept
        self._book.keep(found, place)
        self._due[place] = self._clock() + self._every
        self._next_publish = None
        return True

    def _publish(self) -> None:
        self._next_publish = self._clock() + self._publish_every
        launcher_of = {device.name: device.launcher for device in self._devices}
        known: dict[str, dict[Place, DeviceFacts]] = {}
        for place, each in self._book.look(self._places()).items():
            known.setdefault(launcher_of[place[0]], {})[place] = each.facts
        for name, launcher in self._launchers.items():
            launcher.use_facts(known.get(name, {}))
