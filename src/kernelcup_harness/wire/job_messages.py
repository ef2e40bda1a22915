"""What runner and judge say to each other beside the verdict, a job's parts and facts for the report; and what the
judge and its checker say to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from kernelcup_harness.protocol.codec import Most, Raw
from kernelcup_harness.protocol.enums import CheckStyle
from kernelcup_harness.protocol.profiles import RanKernel
from kernelcup_harness.protocol.report import Calibration, DuelResult
from kernelcup_harness.protocol.results import Mismatch
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


class Started(Message, name="started"):
    """A process has imported what it needs, and waits for its job; times of ``time.monotonic`` in seconds."""

    began: float
    imported: float


class ContestantJob(Message, name="job"):
    """A contestant's share of a job; with the descriptor of an archive if something was built for it."""

    memory_bytes: int
    """The limit that the process sets for itself; 0 for none."""
    built: bool
    files: dict[str, str]
    """File name to text."""
    environment: dict[str, str]
    """Variables to set."""


class JudgeJob(Message, name="judge"):
    """The judge's share."""

    spec: JobSpec
    secret_seed: str
    """Hex digits."""
    roles: list[str]
    """By position the role behind each channel, empty for those that this job does not have."""
    environment: dict[str, str]
    """Variables to set; with the descriptor of an archive if the task's functions were compiled."""


# Between the judge, its fork server and its checker


@dataclass(frozen=True, kw_only=True, slots=True)
class Lent:
    """Device memory of the judge that a checker may open."""

    offset: int
    """The place of its tensor in the table."""
    handle: str
    """The driver's, of the allocation in which it lies; hex digits."""
    begin: int
    """Where in the allocation it begins, in bytes."""


class Fork(Message, name="fork"):
    """Asks the fork server for a process; with the descriptor of its channel."""

    environment: dict[str, str]
    path: list[str]
    """Where Python finds modules."""


class CheckerJob(Message, name="checker_job"):
    """A checker's share of a job."""

    module: str
    """Has the task's functions."""
    style: CheckStyle
    memory_bytes: int
    """The limit that the process sets for itself; 0 for none."""
    trial: Lent | None
    """One byte, to try whether the checker can open the judge's device memory."""


class CheckerStarted(Message, name="checker_started"):
    """The checker has loaded the task, and made its context on the device."""

    process: int
    borrows: bool
    """Whether it can open the judge's device memory."""


class Check(Message, name="check"):
    """Asks for the check of an answer, or for a description; with the descriptor of memory on the host."""

    tree: Raw
    """Two values: what the answer is compared with, and the answer."""
    table: Raw
    lent: list[Lent]
    seed: int
    """Seeds the random generators."""
    where: str
    """The path of the answer if it is to be described and not checked; else empty."""


class Checked(Message, name="checked"):
    """What the checker says."""

    text: Text = ""
    """The fault; empty if there is none."""
    mismatch: Mismatch | None = None
    """How the two values differ, if that was asked for."""


class CheckFailed(Message, name="check_failed"):
    """The checker failed; its process ends."""

    text: Text
    memory: bool
    """Whether it ran out of the device's memory."""


# From the judge to the runner, for the report alone


class MachineFacts(Message, name="environment"):
    """Facts about device, libraries and machine for the report."""

    environment: dict[str, Any]


class Calibrated(Message, name="calibration"):
    """The state of the device in this job."""

    calibration: Calibration


class Dueled(Message, name="duel"):
    """The outcome of a duel."""

    duel: DuelResult


class Ran(Message, name="ran"):
    """The kernels of a replayed call."""

    case: int | None = None
    """Index of the case whose kernels were timed; None if they were not."""
    hidden: bool = False
    kernels: Annotated[list[RanKernel], Most(64)]
    longer: float = 1.0
    """How many times as long they take in a row, as their shares are measured, as in the call that was timed."""
    why: Text = ""
    """Why they have no shares."""


class Binary(Message, name="binary"):
    """What the timer has replayed of the contestant of public cases, and the memory that it reads: gzip and base64."""

    gz64: Annotated[str, Most(MOST_BINARY)] = ""
    memory_gz64: Annotated[str, Most(MOST_BINARY)] = ""
    why: Text = ""
    """Why it cannot be replayed in later jobs."""


class BinaryRefused(Message, name="binary_refused"):
    """A kept binary cannot be replayed in this job, which ends here: the code has to be judged."""

    side: Annotated[str, Most(20)]
    why: Text
    wrong: bool = False
    """Whether it answered new inputs wrongly."""


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
    BinaryRefused,
    Found,
    Dismiss,
    End,
)
"""All that a judge may send."""
