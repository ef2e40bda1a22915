"""The loop that claims jobs and hands them to launchers.

All state is in the database: a dispatcher may die at any point, and another takes over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from kernelcup.app.machines import dispatchers
from kernelcup.app.machines.calibrations import Calibrations, DatabaseBook
from kernelcup.app.machines.outages import Fitness
from kernelcup.app.machines.process_identity import current_owner
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.attempt import Attempt
from kernelcup.app.queue.progress import Progress
from kernelcup.app.queue.queries import claims
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.queue.rooms import Rooms
from kernelcup.app.queue.starts import Starts
from kernelcup.app.queue.under_way import UnderWay
from kernelcup.app.submissions.screening import Look
from kernelcup.app.submissions.submissions import has_ended, show_submission
from kernelcup.domain import Device
from kernelcup.engine import Database
from kernelcup.errors import ConfigError, LaunchError, StorageUnavailable, is_shortage
from kernelcup.launchers.base import Launcher

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
        on_progress: Called from the loop and from the checks of GPUs, one call at a time.
        lease_s: How long a job stays ours without a heartbeat.
        heartbeat_s: How often we send one, and so how soon a cancellation is noticed.
        tick_s: How often we look for waiting jobs and for jobs of dead dispatchers.
        profile_share: The share of each device's jobs that are profiles, while others wait too.
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
        profile_share: float = 0.0,
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
        self._progress_lock = threading.Lock()
        self._wake = threading.Event()
        self._under_way = UnderWay(self._launchers, wake=self._wake.set)
        self._next_heartbeat = 0.0
        self._next_look = 0.0
        self._rests_until = 0.0
        self._trouble = ""
        self._fitness = Fitness(db, self._launchers, tell=self._tell, clock=clock)
        book = DatabaseBook(db, clock=clock)
        self._calibrations = Calibrations(book, devices, self._launchers, clock=clock, every=calibrate_every)
        self._rooms = Rooms(
            db,
            devices,
            self._launchers,
            calibrations=self._calibrations,
            under_way=self._under_way,
            clock=clock,
        )
        self._starts = Starts(
            db,
            devices,
            self._rooms,
            begin=self._start,
            owner=self._owner,
            lease_s=lease_s,
            clock=clock,
            profile_share=profile_share,
        )

    def run_until_idle(self) -> None:
        """Work until no job waits for those of our devices that are not paused, and none of our jobs runs."""
        names = list(self._devices)
        self._loop(lambda: not self._under_way and _is_idle(self._db, names), devices=names)

    def run_until(self, submission_id: int) -> None:
        """Work until a submission has ended or is halted, including the jobs that wait before it on its devices.

        If another dispatcher takes one of its jobs, wait for that one. Raise ``ConfigError`` if the submission
        needs a device that we do not have.
        """
        wanted = list(show_submission(self._db, submission_id).devices)
        missing = [name for name in wanted if name not in self._devices]
        if missing:
            raise ConfigError(f"submission {submission_id} needs {', '.join(missing)}, not configured here")
        self._loop(
            lambda: not self._under_way and has_ended(self._db, submission_id, or_halted=True),
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
            lambda: stop.is_set() or (self._draining.is_set() and not self._under_way),
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
                self._wake.wait(max(self._next_look - time.monotonic(), 0.0))
                self._wake.clear()
                is_due = time.monotonic() >= self._next_look
                if self._poll(every=is_due) or is_due:
                    self._look(devices, up_to_submission, patient=patient, is_due=is_due)
        finally:
            self._shut_down()

    def _poll(self, *, every: bool) -> bool:
        """Take the news of running jobs; return whether one ended."""
        ended = self._under_way.poll(every=every)
        if any(attempt.was_short for attempt in ended):
            self._rests_until = time.monotonic() + REST_S
        return bool(ended)

    def _look(
        self, devices: Sequence[str], up_to_submission: int | None, *, patient: bool, is_due: bool = True
    ) -> None:
        try:
            if is_due:
                self._next_look = time.monotonic() + self._tick_s
                self._keep_alive()
            if not self._draining.is_set() and time.monotonic() >= self._rests_until:
                self._starts.look(devices, up_to_submission, is_due=is_due)
                self._trouble = ""
        except Exception as error:  # a service survives any temporary problem of its machine or database
            if not patient:
                raise
            self._note_trouble(error)

    def _note_trouble(self, error: Exception) -> None:
        """Log a problem once instead of at every look, and start nothing for a while."""
        self._rests_until = time.monotonic() + REST_S
        is_passing = isinstance(error, StorageUnavailable | LaunchError) or is_shortage(error)
        if str(error) != self._trouble:
            self._trouble = str(error)
            logger.warning("not ready: %s; going on", error, exc_info=None if is_passing else error)

    def _keep_alive(self) -> None:
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + self._heartbeat_s
            self._renew()
            self._under_way.remove_ended()
            self._check_in()
            self._fitness.refresh()
            self._calibrations.refresh()
            self._rooms.note_machines()
        self._adopt()
        lifecycle.reclaim(self._db, now=self._clock(), owner=self._owner)

    def _check_in(self) -> None:
        dispatchers.check_in(
            self._db,
            owner=self._owner,
            devices=self._devices.values(),
            started_at=self._started_at,
            draining=self._draining.is_set(),
            now=self._clock(),
            in_use={name: self._rooms.in_use(device) for name, device in self._devices.items()},
        )

    def _renew(self) -> None:
        if not self._under_way:
            return
        # No other lease of ours: one whose end could not be stored has to lapse, or its job would wait for ever.
        tokens = [attempt.lease.token for attempt in self._under_way]
        kept = lifecycle.renew_all(self._db, tokens, lease_s=self._lease_s, now=self._clock())
        for attempt in self._under_way:
            if attempt.lease.token not in kept:
                attempt.drop(
                    f"job {attempt.lease.job.id}, attempt {attempt.lease.job.attempt}, is no longer ours"
                )

    def _adopt(self) -> None:
        """Go on with the calls of dispatchers that are gone, if their launchers kept them."""
        if self._draining.is_set():
            return
        durable = [name for name, each in self._devices.items() if self._launchers[each.launcher].durable]
        owner, lease_s, now = self._owner, self._lease_s, self._clock()
        for lease in lifecycle.adopt(self._db, owner=owner, devices=durable, now=now, lease_s=lease_s):
            attempt = self._attempt(lease)
            attempt.resume()
            self._under_way.add(attempt, self._devices[lease.job.device].launcher)

    def _start(self, lease: Lease, without: frozenset[str] = frozenset()) -> bool:
        """Begin a job; return whether its launcher could take another one now."""
        attempt = self._attempt(lease, without)
        attempt.begin()
        if attempt.was_short:
            self._rests_until = time.monotonic() + REST_S
        self._under_way.add(attempt, self._devices[lease.job.device].launcher)
        return not attempt.was_short and not attempt.had_no_room

    def _attempt(self, lease: Lease, without: frozenset[str] = frozenset()) -> Attempt:
        device = self._devices[lease.job.device]
        return Attempt(
            self._db,
            lease,
            device=device,
            without=without,
            launcher=self._launchers[device.launcher],
            tell=self._tell,
            clock=self._clock,
            max_attempts=self._max_attempts,
            look=self._look_at,
            wake=self._under_way.waker(device.launcher),
        )

    def _tell(self, progress: Progress) -> None:
        try:
            with self._progress_lock:
                self._on_progress(progress)
        except Exception:  # a failing listener must not lose the run
            logger.exception("a listener failed at %r", progress)

    def _shut_down(self) -> None:
        self._under_way.poll(every=True)
        for attempt in self._under_way:
            attempt.hand_back()
        self._under_way.remove_ended()
        self._calibrations.stop()
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
        return not any(claims.has_waiting(session, device=device) for device in some)
