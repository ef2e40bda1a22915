"""One leased job, from its claim until its end is stored.

The job's data is read in one transaction (:mod:`kernelcup.app.queue.assignment`), the call happens outside
of any, and its outcome is stored in another.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from kernelcup.app.machines import calibrations, outages
from kernelcup.app.queue import assignment, lifecycle
from kernelcup.app.queue.progress import (
    JobDropped,
    JobFinished,
    JobProgress,
    JobRetried,
    JobReturned,
    JobStarted,
    Progress,
    ProgressNotes,
)
from kernelcup.app.queue.queries import jobs
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.results import profile_files
from kernelcup.app.results.duels import Rival
from kernelcup.app.submissions.screening import Look, SecondOpinion
from kernelcup.domain import Device, Run
from kernelcup.engine import Database
from kernelcup.errors import (
    BadReport,
    LaunchCancelled,
    LaunchError,
    LaunchLost,
    LaunchTimeout,
    NoRoom,
    NotFound,
    RivalDeleted,
    StaleLease,
    StorageUnavailable,
    UnfitDevice,
    is_shortage,
)
from kernelcup.launchers.base import (
    COMPILED,
    COMPILING,
    Launcher,
    LaunchResult,
    Order,
    Polled,
    check_report,
    check_result,
    limit_s,
)
from kernelcup.launchers.bundle import harness_hash
from kernelcup_harness.protocol import JobSpec, Reason, RunReport, Verdict, for_participants

SHUTTING_DOWN = "its dispatcher was stopped"
SHORT = "its machine is short of something"
STORE_RETRY_S = (1.0, 5.0, 15.0)
LONGEST_START_S = 3600.0
"""How long an engine may take before it begins a call, before we give it up: it may have a queue of its own."""

logger = logging.getLogger(__name__)


class CallLimit:
    """How long a call may take.

    While it compiles, or waits for a device afterwards, a launcher of this process limits it. A machine that only
    says that it compiles is given no more time, and keeps its slot.
    """

    def __init__(self, spec: JobSpec | None = None, *, waits: bool = True) -> None:
        self._waits = waits
        self._most_s = math.inf if spec is None else limit_s(spec) + LONGEST_START_S
        self._until = time.monotonic() + self._most_s
        self.is_compiling = False

    @property
    def is_over(self) -> bool:
        """Whether the call has taken too long."""
        return time.monotonic() > self._until

    def take(self, event: dict[str, Any]) -> bool:
        """Take an event of the call; return whether it was about compiling."""
        is_about = event["event"] in (COMPILING, COMPILED)
        if is_about and self._waits:
            self.is_compiling = event["event"] == COMPILING
            self._until = math.inf
        elif self._until == math.inf:
            self._until = time.monotonic() + self._most_s
        return is_about


class Attempt:
    """Works on one job: begins a call of its launcher, takes its news, and stores its outcome.

    Nothing here waits: the dispatcher calls :meth:`take` until :attr:`is_over`. No method raises: whatever goes
    wrong, the lease ends.
    """

    def __init__(
        self,
        db: Database,
        lease: Lease,
        *,
        device: Device,
        launcher: Launcher,
        tell: Callable[[Progress], None],
        clock: Callable[[], datetime],
        max_attempts: int,
        without: frozenset[str] = frozenset(),
        look: Look | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.lease = lease
        self.call = lease.call
        self.is_over = False
        self.was_short = False
        """Whether the machine lacked something that a launch needs, for example file descriptors."""
        self.had_no_room = False
        self._db = db
        self._device = device
        self._launcher = launcher
        self._tell, self._clock = tell, clock
        self._max_attempts = max_attempts
        self._wake, self._without = wake, without
        self._notes = ProgressNotes(db, lease.job, clock=clock)
        self._rival: Rival | None = None
        self._look = look
        self._opinion: SecondOpinion | None = None
        self._spec: JobSpec | None = None
        self._order: Order | None = None
        self._machine = ""
        self._where: dict[str, Any] = {}
        self.limit = CallLimit()
        self._ended: Polled | None = None
        """The end of the call, until it is stored."""
        self._store_at, self._delays = 0.0, list(STORE_RETRY_S)

    def begin(self) -> None:
        """Start the call."""
        self._tell(JobStarted(job=self.lease.job))
        self._step(self._launch)

    def resume(self) -> None:
        """Go on with the call of a dispatcher that is gone."""
        self._step(self._prepare)

    def take(self, news: Polled) -> None:
        """Take the news of the call; store its outcome if there is one."""
        if self._ended is None:
            self._step(lambda: self._hear(news))
            if self.is_over:
                return
            late = news.outcome is None and self.limit.is_over
            overdue = LaunchTimeout("the launcher did not end the call in time")
            news = dataclasses.replace(news, outcome=overdue) if late else news
            self._ended = None if news.outcome is None else news
        if self._ended is not None:
            self._step(self._conclude)

    def drop(self, reason: str) -> None:
        """Leave the job alone, since its lease is gone; end the call unless another dispatcher has adopted it."""
        with suppress(StorageUnavailable), self._db.read() as session:
            if self._launcher.durable and jobs.is_adopted(session, self.lease):
                self.call = ""
        self._tell(JobDropped(job=self.lease.job, reason=reason))
        self._end_call()

    def hand_back(self) -> None:
        """Return the job to the queue, since the dispatcher ends, or leave the call to the next dispatcher."""
        if self._launcher.durable and self.call:
            self.is_over = True
            return
        self._end_call()
        self._step(lambda: self._returned(SHUTTING_DOWN))

    def _step(self, step: Callable[[], Progress | None]) -> None:
        """Take a step; one that returns a progress is the last one."""
        try:
            progress = self._guarded(step)
        except StaleLease as error:
            self.drop(str(error))
        except Exception as error:
            logger.exception("job %d: its end cannot be stored; it will be reclaimed", self.lease.job.id)
            is_passing = isinstance(error, StorageUnavailable)
            self._end_call(keep=is_passing and self._launcher.durable and self._ended is not None)
        else:
            if progress is not None:
                self._end_call()
                self._tell(progress)

    def _end_call(self, *, keep: bool = False) -> None:
        self.is_over = True
        call, self.call = self.call, ""
        if not call or keep:
            return
        try:
            self._launcher.cancel(call)
        except Exception as error:  # the call ends at its limit, and its report is not taken
            logger.warning("job %d: its call cannot be ended: %s", self.lease.job.id, error)

    def _guarded(self, step: Callable[[], Progress | None]) -> Progress | None:
        job = self.lease.job
        try:
            return step()
        except (StaleLease, StorageUnavailable):
            raise
        except UnfitDevice as error:
            return self._unfit(error)
        except NoRoom as error:
            self.had_no_room = True
            return self._returned(str(error))
        except RivalDeleted as error:
            with suppress(NotFound):  # it was deleted, too
                lifecycle.cancel(self._db, job.id, now=self._clock(), reason=str(error))
            return JobDropped(job=job, reason=str(error))
        except Exception as error:
            if is_shortage(error) or is_shortage(error.__cause__):
                self.was_short = True
                return self._returned(f"{SHORT}: {error}")
            if not isinstance(error, LaunchError):
                logger.exception("job %d: this should not happen", job.id)
            else:
                logger.warning("job %d: %s: %s", job.id, type(error).__name__, error)
            reason = for_participants(f"{type(error).__name__}: {error}")
            if not isinstance(error, LaunchLost | LaunchCancelled):
                return self._failed(reason)
            lifecycle.lose(self._db, self.lease, reason=reason, now=self._clock())
            return JobRetried(job=job, reason=reason)

    def _returned(self, reason: str) -> Progress:
        lifecycle.hand_back(self._db, self.lease, reason=reason, now=self._clock())
        return JobReturned(job=self.lease.job, reason=reason)

    def _launch(self) -> None:
        self._prepare()
        assert self._spec is not None
        self._order = Order(spec=self._spec, device=self._device, harness_hash=harness_hash(), **self._where)
        self.call = self._launcher.start(self._order, wake=self._wake)
        if self._launcher.durable:
            lifecycle.note_call(self._db, self.lease, self.call)

    def _conclude(self) -> Progress | None:
        """Store the outcome, and try again later while the database is locked: a run may have taken minutes."""
        assert self._ended is not None
        outcome = self._ended.outcome
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, LaunchResult)
        if time.monotonic() < self._store_at or not (self._opinion is None or self._opinion.is_done):
            return None
        try:
            return JobFinished(job=self.lease.job, run=self._judged(outcome))
        except StorageUnavailable as error:
            if not self._delays:
                raise
            logger.warning("job %d: not stored yet: %s", self.lease.job.id, error)
            self._store_at = time.monotonic() + self._delays.pop(0)
            return None

    def _judged(self, launched: LaunchResult) -> Run:
        assert self._spec is not None
        if self._order is None:  # another dispatcher's call, whose harness may be an older one
            check_report(self._spec, launched.report)
        else:
            check_result(self._order, launched)
        verdict, reason = launched.report.verdict, launched.report.reason
        lost = (verdict, reason) == (Verdict.INTERNAL_ERROR, Reason.KILLED)
        faulty = (verdict is Verdict.INTERNAL_ERROR and reason is not Reason.BUSY) or reason is Reason.KILLED
        is_first = lifecycle.attempts(self.lease.job) == 1 < self._max_attempts
        # Findings of a measurement must not be lost by trying again.
        again = (lost or (faulty and is_first)) and not launched.report.quarantine
        run = None if again else self._finish(launched)
        if run is not None:
            _note_calibration(self._db, run, launched, self._clock())
        if launched.unfit is not None:
            # The result is safe by now; should this fail, the next job on the GPU finds the same fault.
            try:
                self._take_out(launched.unfit)
            except StorageUnavailable as error:
                logger.warning("job %d: cannot store that a GPU is unfit: %s", self.lease.job.id, error)
        if run is None:
            raise _not_judged(launched.report, lost=lost)
        return run

    def _hear(self, news: Polled) -> None:
        if news.machine and news.machine != self._machine and self._launcher.durable:
            self._machine = news.machine
            lifecycle.note_call(self._db, self.lease, self.call, news.machine)
        for event in news.events:
            if not self.limit.take(event):
                self._notes.take(event)
                self._tell(JobProgress(job=self.lease.job, event=event))

    def _finish(self, launched: LaunchResult) -> Run:
        return lifecycle.finish(
            self._db,
            self.lease,
            report=profile_files.keep(self._db, launched.report, uploads=launched.uploads),
            harness_hash=launched.harness_hash,
            machine=launched.machine,
            now=self._clock(),
            rival=None if self._rival is None else self._rival.submission_id,
            screening=None if self._opinion is None else self._opinion.found(),
        )

    def _unfit(self, error: UnfitDevice) -> Progress:
        """Take the GPUs out of service; the job waits for others, or for these to be fit again."""
        self._take_out(error)
        if error.spoils:
            # This counts as an attempt, or a submission that breaks every GPU would be given all of them.
            return self._failed(f"{type(error).__name__}: {error}")
        return self._returned(str(error))

    def _take_out(self, error: UnfitDevice) -> None:
        logger.warning("out of service: %s", error)
        machine = "" if self._ended is None else self._ended.machine
        outages.take_out(self._db, error, device=self._device.name, now=self._clock(), machine=machine)

    def _failed(self, reason: str) -> Progress:
        job = self.lease.job
        run = lifecycle.fail_attempt(
            self._db,
            self.lease,
            reason=reason,
            now=self._clock(),
            backend=self._device.backend,
            max_attempts=self._max_attempts,
        )
        return JobRetried(job=job, reason=reason) if run is None else JobFinished(job=job, run=run)

    def _prepare(self) -> None:
        """Load the job's data and build its specification."""
        fleet = self._device.launcher if self._launcher.durable else None
        backend, now = self._device.backend, self._clock()
        prepared = assignment.prepare(self._db, self.lease, backend, launcher=fleet, now=now)
        self._rival, self._spec = prepared.rival, prepared.spec
        machines = None if prepared.machines is None else prepared.machines - self._without
        self._where = {"machines": machines, "provider_isolation": prepared.provider_isolation}
        if self._look is not None and not prepared.is_screened:
            self._opinion = SecondOpinion(self._look, prepared.code.text)
        self.limit = CallLimit(self._spec, waits=not self._launcher.durable)


def _not_judged(report: RunReport, *, lost: bool) -> LaunchError:
    """Return why a run is tried again, for its author: the report's message may be about a hidden case."""
    where = f" in its {report.stage.value} stage" if report.stage is not None else ""
    if lost:
        return LaunchLost(f"a process of the harness was killed{where}")
    return BadReport(f"the harness could not judge{where}")


def _note_calibration(db: Database, run: Run, launched: LaunchResult, now: datetime) -> None:
    """Store which calibration a run was measured under; the run is worth keeping without it."""
    try:
        calibrations.note_run(db, run.id, launched, now=now)
    except StorageUnavailable as error:
        logger.warning("job %d: cannot store its calibration: %s", run.job_id, error)
