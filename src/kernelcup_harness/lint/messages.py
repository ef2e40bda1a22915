"""What the process that tests a task says to the runner. The task's code runs beside it: nothing of it is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kernelcup_harness.protocol import JobSpec
from kernelcup_harness.protocol.codec import Most
from kernelcup_harness.protocol.lint import CaseList, Null
from kernelcup_harness.wire.messages import End, Message

MAX_TEXT = 2000
MOST_NOTES = 20
Line = Annotated[str, Most(MAX_TEXT)]


@dataclass(frozen=True, kw_only=True, slots=True)
class LintJob(Message):
    """From the runner: try this task."""

    type: ClassVar[str] = "lint"
    spec: JobSpec
    nulls: bool
    """Whether to try null submissions; else the checker gets the reference's own answers only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePlace:
    """A case of the task."""

    list: CaseList
    index: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault(Message):
    """The task's own code has failed."""

    type: ClassVar[str] = "fault"
    text: Line
    at: CasePlace | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PoorSeeds(Message):
    """Large seeds make poorer inputs."""

    type: ClassVar[str] = "seeds"
    below: int
    poor: bool
    why: Line


@dataclass(frozen=True, kw_only=True, slots=True)
class NullAccepted(Message):
    """A case accepts a null."""

    type: ClassVar[str] = "accepted"
    at: CasePlace
    null: Null
    how: Line
    part: Line
    right: bool
    """Whether the answer is the right one."""
    suggestion: Line


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTried(Message):
    """All nulls of a case were tried."""

    type: ClassVar[str] = "case"
    at: CasePlace
    asked: list[Null]
    tried: int
    notes: Annotated[list[Line], Most(MOST_NOTES)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceTimed(Message):
    """What a call of the reference takes, with its input and its check."""

    type: ClassVar[str] = "reference"
    at: CasePlace
    seconds: float


FROM_LINT: tuple[type[Message], ...] = (CaseTried, NullAccepted, PoorSeeds, ReferenceTimed, Fault, End)
