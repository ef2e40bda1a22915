"""What the process that tests a task says to the runner. The task's code runs beside it: nothing of it is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kernelcup_harness.protocol import JobSpec
from kernelcup_harness.protocol.codec import Most
from kernelcup_harness.protocol.lint import CaseList, Null
from kernelcup_harness.wire.messages import End, Message

MAX_TEXT = 2000
MOST_NOTES = 20
Line = Annotated[str, Most(MAX_TEXT)]


class LintJob(Message, name="lint"):
    """From the runner: try this task."""

    spec: JobSpec
    nulls: bool
    """Whether to try null submissions; else the checker gets the reference's own answers only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePlace:
    """A case of the task."""

    list: CaseList
    index: int


class Fault(Message, name="fault"):
    """The task's own code has failed."""

    text: Line
    at: CasePlace | None = None


class PoorSeeds(Message, name="seeds"):
    """Large seeds make poorer inputs."""

    below: int
    poor: bool
    why: Line
    is_open: bool = False
    """Whether the seeds are few, and the inputs follow from them alone."""


class NullAccepted(Message, name="accepted"):
    """A case accepts a null."""

    at: CasePlace
    null: Null
    how: Line
    part: Line
    right: bool
    """Whether the answer is the right one."""
    suggestion: Line


class CaseTried(Message, name="case"):
    """All nulls of a case were tried."""

    at: CasePlace
    asked: list[Null]
    tried: int
    notes: Annotated[list[Line], Most(MOST_NOTES)]


class ReferenceTimed(Message, name="reference"):
    """What a call of the reference takes."""

    at: CasePlace
    inputs_s: float
    reference_s: float
    check_s: float

    @property
    def parts_s(self) -> dict[str, float]:
        """Its seconds, by the task's functions."""
        return {
            "generate_input": self.inputs_s,
            "ref_kernel": self.reference_s,
            "check_implementation": self.check_s,
        }


FROM_LINT: tuple[type[Message], ...] = (CaseTried, NullAccepted, PoorSeeds, ReferenceTimed, Fault, End)
