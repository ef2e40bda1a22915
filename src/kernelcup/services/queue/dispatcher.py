"""The loop that claims jobs and hands them to launchers.

All state is in the database: a dispatcher may die at any point, and another takes over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from kernelcup.domain import Device
from kernelcup.errors import ConfigError, LaunchError, StaleLease, StorageUnavailable, is_shortage
from kernelcup.launchers.base import Launcher
from kernelcup.services.machines import dispatchers
from kernelcup.services.machines.calibrations import Calibrations
from kernelcup.services.machines.outages import Fitness
from kernelcup.services.machines.process_identity import current_owner
from kernelcup.services.queue import lifecycle
from kernelcup.services.queue.attempt import Attempt
from kernelcup.services.queue.progress import Progress
from kernelcup.services.submissions.screening import Look
from kernelcup.services.submissions.submissions import has_ended, show_submission
from kernelcup.storage.engine.database import Database
from kernelcup.storage.queue import jobs
from kernelcup.storage.queue.jobs import Lease

REST_S = 2.0
"""How long no job is started after a problem with the machine or the database."""

logger = logging.getLogger(__name__)


def utc_now() -> datetime:
    """Return the current time, timezone-aware and in UTC."""
    return datetime.now(UTC)


def _ignore(_: Progress) -> None:
    """Ignore progress."""


class Dispatcher:
    """Claims the jobs that a launcher can start now, and makes sure that each job ends exactly once.

    Args:
        launchers: By the name that devices refer to.
        on_progress: Called from the threads of the jobs, one call at a time.
        lease_s: How long a job stays ours without a heartbeat.
        heartbeat_s: How often we send one, and so how soon a cancellation is noticed.
        tick_s: How often we look for waiting jobs and for jobs of dead dispatchers.
        look: A second opinion on each submission, for reviewers.
        calibrate_every: How often :meth:`run_forever` calibrates the devices; None for never.
    """

    def __init__(
        self,
        db: Database,
        *,
        devices: Sequence[Device],
        launchers: Mapping[str, Launcher],
        on_progress: Callable[[Progress], None] = _ignore,
        clock: Callable[[], datetime] = utc_now,
        owner: str | None = None,
        lease_s: float = 60.0,
        heartbeat_s: float = 2.0,
        tick_s: float = 0.5,
        max_attempts: int = lifecycle.MAX_ATTEMPTS,
        calibrate_every: timedelta | None = None,
        look: Look | None = None,
    ) -> None:
        _check_launchers(devices, launchers)
        self._db = db
        self._look_at = look
        self._devices = {device.name: device for device in devices}
        self._launchers = dict(launchers)
        self._on_progress = on_progress
        self._clock = clock
        self._owner = owner or current_owner()
        self._lease_s, self._heartbeat_s, self._tick_s = lease_s, heartbeat_s, tick_s
        self._max_attempts = max_attempts
        self._started_at = self._clock()
        self._draining = threading.Event()
        self._active: dict[Attempt, threading.Thread] = {}
        self._lock = threading.Lock()
        self._progress_lock = threading.Lock()
        self._wake = threading.Event()
        self._next_heartbeat = 0.0
        self._rests_until = 0.0
        self._trouble = ""
        self._fitness = Fitness(db, self._launchers, tell=self._tell, clock=clock)
        self._calibrations = Calibrations(db, devices, self._launchers, clock=clock, every=calibrate_every)

    def run_until_idle(self) -> None:
        """Work until no job waits for those of our devices that are not paused, and none of our jobs runs."""
        names = list(self._devices)
        self._loop(lambda: not self._current() and _is_idle(self._db, names), devices=names)

    def run_until(self, submission_id: int) -> None:
        """Work until a submission has ended, including the jobs that wait before it on its devices.

        If another dispatcher takes one of its jobs, wait for that one. Raise ``ConfigError`` if the submission
        needs a device that we do not have.
        """
        wanted = list(show_submission(self._db, submission_id).submission.devices)
        missing = [name for name in wanted if name not in self._devices]
        if missing:
            raise ConfigError(f"submission {submission_id} needs {', '.join(missing)}, not configured here")
        self._loop(
            lambda: not self._current() and has_ended(self._db, submission_id),
            devices=wanted,
            up_to_submission=submission_id,
        )

    def run_forever(self, stop: threading.Event, drain: threading.Event | None = None) -> None:
        """Work until ``stop`` is set; jobs that are running then go back into the queue.

        Args:
            stop: Set it to end at once.
            drain: Set it to claim nothing new, and to end once the running jobs have ended.
        """
        self._draining = drain or self._draining
        self._calibrations.start()
        self._loop(
            lambda: stop.is_set() or (self._draining.is_set() and not self._current()),
            devices=list(self._devices),
            patient=True,
        )

    def _loop(
        self,
        finished: Callable[[], bool],
        *,
        devices: Sequence[str],
        up_to_submission: int | None = None,
        patient: bool = False,
    ) -> None:
        try:
            # Look once before the first check: jobs of dispatchers that died before us must be found.
            self._look(devices, up_to_submission, patient=patient)
            while not finished():
                self._wake.wait(self._tick_s)
                self._wake.clear()
                self._look(devices, up_to_submission, patient=patient)
        finally:
            self._shut_down()

    def _look(self, devices: Sequence[str], up_to_submission: int | None, *, patient: bool) -> None:
        try:
            self._keep_alive()
            if not self._draining.is_set() and time.monotonic() >= self._rests_until:
                self._start_jobs(devices, up_to_submission)
        except Exception as error:  # a service survives any temporary problem of its machine or database
            if not patient:
                raise
            self._note_trouble(error)
        else:
            self._trouble = ""

    def _note_trouble(self, error: Exception) -> None:
        """Log a problem once instead of at every look, and start nothing for a while."""
        self._rests_until = time.monotonic() + REST_S
        is_passing = isinstance(error, StorageUnavailable) or is_shortage(error)
        if str(error) != self._trouble:
            self._trouble = str(error)
            logger.warning("not ready: %s; going on", error, exc_info=None if is_passing else error)

    def _keep_alive(self) -> None:
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + self._heartbeat_s
            for attempt in self._current():
                self._renew(attempt)
            self._check_in()
            self._fitness.refresh()
            self._calibrations.refresh()
        backends = {device.name: device.backend for device in self._devices.values()}
        lifecycle.reclaim(self._db, now=self._clock(), backends=backends)

    def _check_in(self) -> None:
        dispatchers.check_in(
            self._db,
            owner=self._owner,
            devices=self._devices.values(),
            started_at=self._started_at,
            draining=self._draining.is_set(),
            now=self._clock(),
            in_use={name: self._in_use(device) for name, device in self._devices.items()},
        )

    def _in_use(self, device: Device) -> int:
        """Return how many slots of a device are neither running our jobs nor free."""
        if self._calibrations.holds(device):
            return device.slots - self._running(device)
        try:
            free = self._launchers[device.launcher].capacity(device)
        except (LaunchError, OSError):  # reported when a job is to start; the heartbeat must go on
            return 0
        return device.slots - self._running(device) - free

    def _running(self, device: Device) -> int:
        return sum(attempt.lease.job.device == device.name for attempt in self._current())

    def _renew(self, attempt: Attempt) -> None:
        try:
            lifecycle.renew(self._db, attempt.lease, lease_s=self._lease_s, now=self._clock())
        except StaleLease:
            attempt.cancelled.set()

    def _start_jobs(self, devices: Sequence[str], up_to_submission: int | None) -> None:
        for name in devices:
            for _ in range(self._room(self._devices[name])):
                lease = lifecycle.claim_next(
                    self._db,
                    owner=self._owner,
                    lease_s=self._lease_s,
                    devices=[name],
                    now=self._clock(),
                    up_to_submission=up_to_submission,
                )
                if lease is None:
                    break
                self._start(lease)

    def _room(self, device: Device) -> int:
        if self._calibrations.holds(device):
            return 0
        # The launcher's figure may not include a run that was started just now.
        return min(device.slots - self._running(device), self._launchers[device.launcher].capacity(device))

    def _start(self, lease: Lease) -> None:
        device = self._devices[lease.job.device]
        attempt = Attempt(
            self._db,
            lease,
            device=device,
            launcher=self._launchers[device.launcher],
            tell=self._tell,
            clock=self._clock,
            max_attempts=self._max_attempts,
            look=self._look_at,
        )
        name = f"job-{lease.job.id}"
        thread = threading.Thread(target=self._work, args=[attempt], name=name, daemon=True)
        with self._lock:
            self._active[attempt] = thread
        try:
            thread.start()
        except RuntimeError as error:  # the machine cannot start another thread
            with self._lock:
                del self._active[attempt]
            lifecycle.hand_back(self._db, lease, reason=str(error), now=self._clock())
            raise

    def _work(self, attempt: Attempt) -> None:
        try:
            attempt.run()
            if attempt.was_short:
                self._rests_until = time.monotonic() + REST_S
        finally:
            with self._lock:
                del self._active[attempt]
            self._wake.set()

    def _tell(self, progress: Progress) -> None:
        try:
            with self._progress_lock:
                self._on_progress(progress)
        except Exception:  # a failing listener must not lose the run
            logger.exception("a listener failed at %r", progress)

    def _current(self) -> list[Attempt]:
        with self._lock:
            return list(self._active)

    def _shut_down(self) -> None:
        with self._lock:
            active = dict(self._active)
        for attempt in active:
            attempt.cancelled.set()
        self._calibrations.stop()
        for thread in active.values():
            thread.join()
        try:
            dispatchers.check_out(self._db, self._owner)
        except StorageUnavailable as error:  # other processes will notice a little later that we are gone
            logger.warning("not checked out: %s", error)


def _check_launchers(devices: Sequence[Device], launchers: Mapping[str, Launcher]) -> None:
    known = ", ".join(sorted(launchers)) or "none"
    for device in devices:
        if device.launcher not in launchers:
            raise ConfigError(f"device {device.name}: no launcher {device.launcher!r}, only {known}")


def _is_idle(db: Database, devices: Sequence[str]) -> bool:
    """Return whether no job waits for those of the devices that are not paused."""
    with db.read() as session:
        stopped = lifecycle.paused_devices(session)
        some = [device for device in devices if device.lower() not in stopped]
        return not any(jobs.has_waiting(session, device=device) for device in some)
