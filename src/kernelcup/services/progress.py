"""What a dispatcher tells while it works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelcup.domain import Job, Run
from kernelcup.errors import StorageUnavailable
from kernelcup.storage import events
from kernelcup.storage.database import Database
from kernelcup.storage.faults import DeviceFault

NOTE_EVERY_S = 0.5
"""So often at most the cases of a job are noted in the database."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStarted:
    """An attempt begins."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProgress:
    """The harness says something, such as a case that is done."""

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
    """The job waits again, unharmed: the dispatcher ends, or the GPU was not fit."""

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
    """It is in service again."""

    fault: DeviceFault


JobStep = JobStarted | JobProgress | JobFinished | JobRetried | JobReturned | JobDropped
Progress = JobStep | GpuOut | GpuBack


class ProgressNotes:
    """Notes in the database how far an attempt is, for those who watch from elsewhere.

    Stages are noted when they begin and end, cases now and then. Of a case only its number is noted:
    who watches may not be allowed to know more. What cannot be stored is left out, at no cost to the run.
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

    def take(self, event: dict[str, Any]) -> None:
        """Note what the harness says, if it is time."""
        match event:
            case {"event": "stage", "stage": str(stage), "cases": int(cases)}:
                self._cases = cases
                self._note({"stage": stage, "cases": cases})
            case {"event": "stage_end", "stage": str(stage), "verdict": str(verdict)}:
                self._note({"stage": stage, "cases": self._cases, "verdict": verdict})
            case {"event": "case", "stage": str(stage), "case": int(number)}:
                if self._monotonic() >= self._next_case:
                    self._next_case = self._monotonic() + NOTE_EVERY_S
                    self._note({"stage": stage, "case": number, "cases": self._cases})

    def _note(self, data: dict[str, Any]) -> None:
        told = data | {"attempt": self._job.attempt}
        try:
            with self._db.write() as session:
                events.record(session, self._job.submission_id, "progress", told, self._job.id, self._clock())
        except StorageUnavailable as error:
            logger.warning("job %d: its progress is not noted: %s", self._job.id, error)
