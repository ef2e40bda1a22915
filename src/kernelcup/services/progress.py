"""What a dispatcher tells while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelcup.domain import Job, Run
from kernelcup.storage.faults import DeviceFault


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
