"""Progress that a dispatcher reports while it works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelcup.app.submissions.queries import events
from kernelcup.domain import Job, Run
from kernelcup.domain.answers import DeviceFault
from kernelcup.engine import Database
from kernelcup.errors import StorageUnavailable

NOTE_EVERY_S = 0.5
"""The least interval between cases of a job that are recorded in the database."""

MOST_STAGES = 100
"""How often an attempt's stages are recorded as beginning or ending: a machine may repeat itself."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStarted:
    """An attempt has begun."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProgress:
    """An event from the harness, for example a finished case."""

    job: Job
    event: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFinished:
    """The run is stored; after too many failed attempts its verdict is ``internal_error``."""

    job: Job
    run: Run


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRetried:
    """The machine failed and the job waits for another attempt."""

    job: Job
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JobReturned:
    """The job waits again, and the attempt does not count: the dispatcher ends, or the GPU was not fit."""

    job: Job
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDropped:
    """The job was cancelled, deleted, or belongs to another dispatcher now."""

    job: Job
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuOut:
    """A GPU of this machine is out of service."""

    fault: DeviceFault


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuBack:
    """A GPU of this machine is in service again."""

    fault: DeviceFault


JobStep = JobStarted | JobProgress | JobFinished | JobRetried | JobReturned | JobDropped
Progress = JobStep | GpuOut | GpuBack


class ProgressNotes:
    """Records in the database how far an attempt is, for viewers elsewhere.

    Stages are recorded when they begin and end, public cases from time to time. Only the number of a case is recorded:
    viewers may not be allowed to know more, nor how long each hidden case takes. If an event cannot be stored it is
    dropped, and the run goes on.
    """

    def __init__(
        self,
        db: Database,
        job: Job,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db, self._job, self._clock, self._monotonic = db, job, clock, monotonic
        self._cases: int | None = None
        self._next_case = float("-inf")
        self._stages = 0

    def take(self, event: dict[str, Any]) -> None:
        """Record an event of the harness, if one is due."""
        is_stage = event["event"] in ("stage", "stage_end")
        self._stages += is_stage
        if is_stage and self._stages > MOST_STAGES:
            return
        match event:
            case {"event": "stage", "stage": str(stage), "cases": int(cases)}:
                self._cases = cases
                self._note({"stage": stage, "cases": cases})
            case {"event": "stage_end", "stage": str(stage), "verdict": str(verdict)}:
                self._note({"stage": stage, "cases": self._cases, "verdict": verdict})
            case {"event": "case", "stage": str(stage), "case": int(number)} if not event.get("hidden"):
                if self._monotonic() >= self._next_case:
                    self._next_case = self._monotonic() + NOTE_EVERY_S
                    self._note({"stage": stage, "case": number, "cases": self._cases})

    def _note(self, data: dict[str, Any]) -> None:
        told = data | {"attempt": self._job.attempt}
        try:
            with self._db.write() as session:
                events.record(session, self._job.submission_id, "progress", told, self._job.id, self._clock())
        except StorageUnavailable as error:
            logger.warning("job %d: cannot store its progress: %s", self._job.id, error)
