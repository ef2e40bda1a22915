"""What runner and judge say to each other beside the verdict: a job's parts, and facts for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from kernelcup_harness.protocol.codec import Most
from kernelcup_harness.protocol.profiles import RanKernel
from kernelcup_harness.protocol.report import Calibration, DuelResult
from kernelcup_harness.protocol.spec import JobSpec
from kernelcup_harness.wire.messages import (
    CaseEnds,
    Dismiss,
    End,
    Found,
    Message,
    Phases,
    SampleTaken,
    StageBegins,
    StageEnds,
    Text,
)

MOST_BINARY = 6 << 20
"""Largest binary that is kept, packed, as text."""

# Between the runner and the processes that it starts


@dataclass(frozen=True, kw_only=True, slots=True)
class Started(Message):
    """A process has imported what it needs, and waits for its job; times of ``time.monotonic`` in seconds."""

    type: ClassVar[str] = "started"
    began: float
    imported: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ContestantJob(Message):
    """A contestant's share of a job; with the descriptor of an archive if something was built for it."""

    type: ClassVar[str] = "job"
    memory_bytes: int
    """The limit that the process sets for itself; 0 for none."""
    built: bool
    files: dict[str, str]
    """File name to text."""
    environment: dict[str, str]
    """Variables to set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeJob(Message):
    """The judge's share."""

    type: ClassVar[str] = "judge"
    spec: JobSpec
    secret_seed: str
    """Hex digits."""
    roles: list[str]
    """By position the role behind each channel, empty for those that this job does not have."""
    environment: dict[str, str]
    """Variables to set; with the descriptor of an archive if the task's functions were compiled."""


# From the judge to the runner, for the report alone


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineFacts(Message):
    """Facts about device, libraries and machine for the report."""

    type: ClassVar[str] = "environment"
    environment: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated(Message):
    """The state of the device in this job."""

    type: ClassVar[str] = "calibration"
    calibration: Calibration


@dataclass(frozen=True, kw_only=True, slots=True)
class Dueled(Message):
    """The outcome of a duel."""

    type: ClassVar[str] = "duel"
    duel: DuelResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran(Message):
    """The kernels of a replayed call."""

    type: ClassVar[str] = "ran"
    case: int | None = None
    """Index of the case whose kernels were timed; None if they were not."""
    hidden: bool = False
    kernels: Annotated[list[RanKernel], Most(64)]
    why: Text = ""
    """Why they have no shares."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Binary(Message):
    """What the timer has replayed of the contestant of public cases, gzip and base64."""

    type: ClassVar[str] = "binary"
    gz64: Annotated[str, Most(MOST_BINARY)]


FROM_JUDGE: tuple[type[Message], ...] = (
    SampleTaken,
    CaseEnds,
    StageBegins,
    StageEnds,
    MachineFacts,
    Phases,
    Calibrated,
    Dueled,
    Ran,
    Binary,
    Found,
    Dismiss,
    End,
)
"""All that a judge may send."""
