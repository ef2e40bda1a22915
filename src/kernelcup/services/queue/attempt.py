"""One leased job, from its claim until its end is stored.

Load, work, apply: the job's data is read in one transaction, the launch happens outside of any, and
the result is stored in another.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelcup.domain import Device, Leaderboard, Run, Submission, Task
from kernelcup.errors import (
    BadReport,
    LaunchCancelled,
    LaunchError,
    NotFound,
    RivalDeleted,
    StaleLease,
    StorageUnavailable,
    UnfitDevice,
    is_shortage,
)
from kernelcup.launchers.base import Launcher, LaunchResult, check_report
from kernelcup.services.boards.boards import find_board
from kernelcup.services.machines import calibrations, outages
from kernelcup.services.queue import lifecycle
from kernelcup.services.queue.progress import (
    JobDropped,
    JobFinished,
    JobProgress,
    JobRetried,
    JobReturned,
    JobStarted,
    Progress,
    ProgressNotes,
)
from kernelcup.services.results import duels
from kernelcup.services.results.duels import Rival
from kernelcup.services.submissions.screening import Look, SecondOpinion
from kernelcup.storage.boards import task_versions
from kernelcup.storage.engine.database import Database
from kernelcup.storage.queue.jobs import Lease
from kernelcup.storage.submissions import screenings, submissions
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup_harness.protocol import JobSpec, Mode, Verdict

SHUTTING_DOWN = "its dispatcher was stopped"
SHORT = "its machine is short of something"
STORE_RETRY_S = (1.0, 5.0, 15.0)

logger = logging.getLogger(__name__)


class Attempt:
    """Works on one job. Set ``cancelled`` to end it early."""

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
        look: Look | None = None,
    ) -> None:
        self.lease = lease
        self.cancelled = threading.Event()
        self.was_short = False
        """Whether the machine lacked something that a launch needs, for example file descriptors."""
        self._db = db
        self._device = device
        self._launcher = launcher
        self._tell = tell
        self._clock = clock
        self._max_attempts = max_attempts
        self._notes = ProgressNotes(db, lease.job, clock=clock)
        self._rival: Rival | None = None
        self._look = look
        self._opinion: SecondOpinion | None = None

    def run(self) -> None:
        """Work on the job and report how it ended. Raise nothing: whatever goes wrong, the lease ends."""
        job = self.lease.job
        try:
            self._tell(JobStarted(job=job))
            self._tell(self._outcome())
        except StaleLease as error:
            self._tell(JobDropped(job=job, reason=str(error)))
        except StorageUnavailable:
            logger.exception("job %d: its end cannot be stored; it will be reclaimed", job.id)

    def _outcome(self) -> Progress:
        job = self.lease.job
        try:
            return JobFinished(job=job, run=self._judge())
        except (StaleLease, StorageUnavailable):
            raise
        except UnfitDevice as error:
            return self._unfit(error)
        except RivalDeleted as error:
            with suppress(NotFound):  # it was deleted, too
                lifecycle.cancel(self._db, job.id, now=self._clock(), reason=str(error))
            return JobDropped(job=job, reason=str(error))
        except Exception as error:
            if is_shortage(error) or is_shortage(error.__cause__):
                self.was_short = True
                lifecycle.hand_back(self._db, self.lease, reason=f"{SHORT}: {error}", now=self._clock())
                return JobReturned(job=job, reason=f"{SHORT}: {error}")
            if isinstance(error, LaunchCancelled) or self.cancelled.is_set():
                lifecycle.hand_back(self._db, self.lease, reason=SHUTTING_DOWN, now=self._clock())
                return JobReturned(job=job, reason=SHUTTING_DOWN)
            if not isinstance(error, LaunchError):
                logger.exception("job %d: this should not happen", job.id)
            return self._failed(f"{type(error).__name__}: {error}")

    def _judge(self) -> Run:
        spec = self._spec()
        launched = self._launcher.run(
            spec,
            self._device,
            on_event=self._take,
            cancelled=self.cancelled,
        )
        check_report(spec, launched.report)
        # Findings of a measurement must not be lost by trying again.
        faulty = launched.report.verdict is Verdict.INTERNAL_ERROR and not launched.report.quarantine
        again = faulty and self._is_first()
        run = None if again else self._store(launched)
        if run is not None:
            self._note_calibration(run, launched)
        if launched.unfit is not None:
            # The result is safe by now; should this fail, the next job on the GPU finds the same fault.
            try:
                self._take_out(launched.unfit)
            except StorageUnavailable as error:
                logger.warning("job %d: cannot store that a GPU is unfit: %s", self.lease.job.id, error)
        if run is None:
            # Either one of our processes died or the task is broken: only a second attempt can tell them apart.
            # The message may be about a hidden case, and the author sees the reason of a retry.
            where = f" in its {stage.value} stage" if (stage := launched.report.stage) is not None else ""
            raise BadReport(f"the harness could not judge{where}")
        return run

    def _note_calibration(self, run: Run, launched: LaunchResult) -> None:
        """Store which calibration a run was measured under; the run is worth keeping without it."""
        try:
            calibrations.note_run(self._db, run.id, launched, now=self._clock())
        except StorageUnavailable as error:
            logger.warning("job %d: cannot store its calibration: %s", self.lease.job.id, error)

    def _is_first(self) -> bool:
        job = self.lease.job
        return job.attempt == job.first_attempt and self._max_attempts > 1

    def _take(self, event: dict[str, Any]) -> None:
        self._notes.take(event)
        self._tell(JobProgress(job=self.lease.job, event=event))

    def _store(self, launched: LaunchResult) -> Run:
        """Store a result, and retry while the database is locked: a run may have taken minutes."""
        for delay_s in STORE_RETRY_S:
            try:
                return self._finish(launched)
            except StorageUnavailable as error:
                logger.warning("job %d: not stored yet: %s", self.lease.job.id, error)
                self.cancelled.wait(delay_s)
        return self._finish(launched)

    def _finish(self, launched: LaunchResult) -> Run:
        return lifecycle.finish(
            self._db,
            self.lease,
            report=launched.report,
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
        lifecycle.hand_back(self._db, self.lease, reason=str(error), now=self._clock())
        return JobReturned(job=self.lease.job, reason=str(error))

    def _take_out(self, error: UnfitDevice) -> None:
        logger.warning("out of service: %s", error)
        outages.take_out(self._db, error, device=self._device.name, now=self._clock())

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

    def _spec(self) -> JobSpec:
        load = self._load()
        self._rival = load.rival
        if self._look is not None and not load.is_screened:
            self._opinion = SecondOpinion(self._look, load.code)
        spec = build_job_spec(
            load.task,
            job_id=lifecycle.job_name(self.lease),
            submission=load.code,
            # A comparison is queued as practice but measured like a ranked run.
            mode=Mode.LEADERBOARD if load.rival is not None else self.lease.job.mode,
            backend=self._device.backend,
            harness=load.board.harness,
            build_scope=build_scope(load.submission.user),
            seeds_below=load.board.seeds_below,
        )
        # A leaderboard that ranks replayed times only does not affect the measurement: other results are stored
        # too, and rank if the rule changes.
        if load.rival is None:
            return spec
        if load.rival.error is not None:
            spec = dataclasses.replace(spec, rival_error=load.rival.error)
        elif self.lease.job.mode is not Mode.LEADERBOARD:
            # A comparison, which anybody may ask for with any code.
            spec = dataclasses.replace(spec, hidden_tests=[], hidden_benchmarks=[], hidden_work=[])
        return dataclasses.replace(spec, rival=load.rival.code, rival_name=spec.submission_name)

    def _load(self) -> _Load:
        job = self.lease.job
        with self._db.read() as session:
            submission = submissions.find(session, job.submission_id)
            code = submissions.find_code(session, job.submission_id)
            if submission is None or code is None:
                raise StaleLease(f"submission {job.submission_id} was deleted")
            board = find_board(session, submission.leaderboard)
            return _Load(
                task=task_versions.load(session, job.task_hash),
                submission=submission,
                code=code,
                board=board,
                rival=duels.find_rival(session, job, submission, board),
                is_screened=screenings.find(session, submission.id) is not None,
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """The data read before a launch."""

    task: Task
    submission: Submission
    code: str
    board: Leaderboard
    rival: Rival | None
    is_screened: bool


def build_scope(user: str) -> str:
    """Return the name under which a machine keeps this user's builds, without revealing the user."""
    return hashlib.sha256(user.encode()).hexdigest()
