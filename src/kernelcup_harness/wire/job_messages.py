"""What the judge is given and says beside the verdict: a job's parts, checks of answers, and facts for the report."""

from __future__ import annotations

from typing import Annotated, Any

from kernelcup_harness.protocol.codec import Most, Raw
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
    """The judge's share; its checker gets the same without the secret."""

    spec: JobSpec
    secret_seed: str
    """Hex digits."""
    roles: list[str]
    """By position the role behind each channel, empty for those that this job does not have."""
    environment: dict[str, str]
    """Variables to set; with the descriptor of an archive if the task's functions were compiled."""


# Between the judge and its checker, which says `fail` if a check failed, and ends, or if lent memory cannot be opened


class CheckerStarted(Message, name="checker_started"):
    """The checker has loaded the task; its process has this id."""

    process: int


class Check(Message, name="check"):
    """Asks for the check of an answer; with the descriptor of the memory on the host."""

    trees: Raw
    """Of what the answer is compared with, and of the answer."""
    table: Raw
    """A tensor that is `lent` has a handle of device memory and a place in it."""
    seed: int
    """Seeds the random generators."""
    where: str
    """The path of an answer that is to be described rather than checked; else empty."""


class Checked(Message, name="checked"):
    """What the checker says of an answer."""

    text: Text = ""
    """The fault, empty if there is none."""
    mismatch: Mismatch | None = None
    """How the answer differs, if that was asked for."""


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
