"""A submission's results, as every edge shows them: built from the platform, or read from a server's JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from kernelcup.domain import OPEN, DuelOutcome, Job, JobState, Named, Ruling, Run, Score, Submission
from kernelcup.reporting.insights import Best
from kernelcup_harness.protocol import RunReport, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Why a job waits, and how long it may still take."""

    position: int | None
    """Position in the queue of its device, 1 for the next; None if too many are ahead to be counted."""
    starts_in_s: float | None
    """Estimated seconds until it starts, from recent similar jobs; None if there were none."""
    runs_s: float | None
    """Estimated seconds that it will run."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInfo:
    """A submission on one device, with the run that counts."""

    id: int
    device: str
    state: JobState
    attempt: int
    first_attempt: int = 1
    reason: str
    queued_at: datetime | None = None
    position: int | None = None
    """Its position in the queue of its device; None if it is not waiting."""
    waiting: Waiting | None = None
    run: int | None = None
    verdict: Verdict | None = None
    score: Score | None = None
    """None if the job earns none, for example a comparison."""
    report: RunReport | None = None
    """As much of it as the viewer may see; none in a list of a server."""
    trust: str | None = None
    host_class: str | None = None
    """The class of the machine that judged it."""
    duel: DuelOutcome = DuelOutcome.NONE
    ruling: Ruling = Ruling.GONE
    """Whether that run counts on its leaderboard, for the viewer; a server tells only the remark."""
    remark: str = ""
    """Why it does not rank, or ranks behind a slower result."""
    best: Best | None = None
    """The current leader on the device, if it is another submission."""
    counted: Run | None = None
    """The run itself, as the viewer may see it; a server tells only the facts above."""

    @classmethod
    def of(
        cls, job: Job, run: Run | None, ruling: Ruling = Ruling.GONE, *, position: int | None = None
    ) -> Self:
        """Show a job with the run that counts."""
        facts: dict[str, Any] = {}
        if run is not None:
            same = ("verdict", "score", "report", "host_class", "duel")
            facts = {name: getattr(run, name) for name in same}
            facts |= {"run": run.id, "trust": run.report.trust, "counted": run}
        names = ("id", "device", "state", "attempt", "first_attempt", "reason", "queued_at")
        return cls(**{name: getattr(job, name) for name in names}, ruling=ruling, position=position, **facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionInfo(Submission, Named):
    """A submission and the state of its jobs."""

    shown_name: str = ""
    jobs: tuple[JobInfo, ...]
    is_followed: bool = False
    """Whether the viewer may follow what happens to it; of a list that is not asked."""

    @classmethod
    def of(cls, submission: Submission, jobs: Iterable[JobInfo], **others: Any) -> Self:
        """Show a submission with its jobs; others are the values of fields that differ."""
        facts = {each.name: getattr(submission, each.name) for each in dataclasses.fields(submission)}
        return cls(**facts | others, jobs=tuple(jobs))

    @property
    def ended(self) -> bool:
        """Whether all jobs have ended."""
        return not any(job.state in OPEN for job in self.jobs)
