"""What the judge knows of all that is measured and doubted beside its calls.

The judge gets an implementation from the process that starts it. None of it can accept a run or make a time shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kernelcup_harness.judge.caller import Caller, Calls
    from kernelcup_harness.judge.checks import Checks
    from kernelcup_harness.judge.schedule import CaseRun, PlannedCase, Stage
    from kernelcup_harness.protocol import Audit, Finding, JobSpec
    from kernelcup_harness.wire.messages import Message


class Watch(Protocol):
    """The state of the device, and where the time goes."""

    @property
    def gpu(self) -> bool:
        """Whether this is a GPU."""

    def look(self) -> tuple[float | None, bool]:
        """Return the clock in MHz, and whether the device is slowed down."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context whose seconds count towards a phase."""


class Audits(Protocol):
    """Everything beside the calls of one job: see :class:`kernelcup_harness.audit.bench.Bench`."""

    @property
    def watch(self) -> Watch:
        """The state of the device, and where the time goes."""

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase."""

    def before_load(self) -> None:
        """Look at the device before any code of a submission runs. Raise ``RunEnds`` if it is not fit."""

    def measure_overheads(
        self, stages: Sequence[Stage], calls_of: Callable[[Stage, PlannedCase], Calls]
    ) -> None:
        """Measure what a call costs that computes nothing. Raise ``RunEnds``."""

    def overhead_ns(self, stage: Stage, case: PlannedCase, calls: Calls) -> float | None:
        """Return the overhead in each sample of a case that is called this way, None if it is not known."""

    def begin(self, stage: Stage) -> None:
        """Note the state of the device at the beginning of a timed stage."""

    def finishes(self, stage: Stage) -> bool:
        """Return whether a stage needs more work after all its calls."""

    def note(self, run: CaseRun, audit: Audit, more: Sequence[Finding | None] = ()) -> None:
        """Note the time of a case, with what was found beside it."""

    def note_called(self, run: CaseRun, more: Sequence[Finding | None]) -> None:
        """Note the time of a case whose calls were timed by the wall clock."""

    def finish(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        """Time the references and report the state of the device."""


class MakeAudits(Protocol):
    """Makes the audits of a job."""

    def __call__(
        self,
        spec: JobSpec,
        *,
        checks: Checks,
        callers: Mapping[str, Caller],
        tell: Callable[[Message], None],
    ) -> Audits:
        """Return the audits of one job."""
