"""What machines say of a job: its events while it runs, and its outcome. A machine may lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from kernelcup_harness.protocol.codec import Most
from kernelcup_harness.protocol.enums import Reason, StageName, Verdict
from kernelcup_harness.protocol.report import RunReport
from kernelcup_harness.protocol.spec import DeviceFacts

LONGEST_MESSAGE = 16 << 10
"""Of an event or an error, in characters."""
MOST_EVENTS = 1000
"""Of one call, that wait for the dispatcher: the oldest go first."""

Count = Annotated[int, Most(1 << 31)]
Message = Annotated[str, Most(LONGEST_MESSAGE)]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageBegan:
    """A stage begins."""

    event: str = "stage"
    stage: StageName
    limit_s: float
    cases: Count
    done: Count = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseGoesOn:
    """A case goes on."""

    event: str = "sample"
    stage: StageName
    case: Count
    samples: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseEnded:
    """A case is done."""

    event: str = "case"
    stage: StageName
    case: Count
    verdict: Verdict
    hidden: bool = False
    score_ns: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEnded:
    """A stage is over."""

    event: str = "stage_end"
    stage: StageName
    verdict: Verdict
    reason: Reason = Reason.NONE
    message: Message = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiling:
    """A launcher compiles the job before it has a device."""

    event: str = "compiling"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """It has compiled the job, which waits for a device."""

    event: str = "compiled"


JobEvent = StageBegan | CaseGoesOn | CaseEnded | StageEnded | Compiling | Compiled


class Failure(StrEnum):
    """Why a job was not judged; the names are those of the service's errors."""

    LOST = "LaunchLost"
    TIMEOUT = "LaunchTimeout"
    CANCELLED = "LaunchCancelled"
    BAD_REPORT = "BadReport"
    OTHER = "LaunchError"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The outcome of a job that was not judged."""

    error: Failure
    text: Message = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    """The GPUs were not fit for the job, or are no more after it."""

    unfit: Message
    gpus: Annotated[list[Annotated[str, Most(100)]], Most(64)]
    spoils: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The outcome of a job that was judged."""

    report: RunReport
    harness: Annotated[str, Most(64)]
    unfit: Unfit | None = None
    facts: DeviceFacts | None = None
    events: list[JobEvent] = field(default_factory=list)
    """From machines that can say nothing before."""
