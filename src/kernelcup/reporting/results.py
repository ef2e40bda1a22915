"""A submission's results, as every edge shows them: built from the platform, or read from a server's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.domain import DuelOutcome, JobState, Score
from kernelcup.reporting.insights import Best
from kernelcup_harness.protocol import Mode, RunReport, Verdict


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
    reason: str
    position: int | None = None
    run: int | None
    verdict: Verdict | None
    score: Score | None
    """None if the job earns none, for example a comparison."""
    report: RunReport | None
    waiting: Waiting | None = None
    trust: str | None = None
    host_class: str | None = None
    """The class of the machine that judged it."""
    duel: DuelOutcome = DuelOutcome.NONE
    remark: str = ""
    """Why it does not rank, or ranks behind a slower result."""
    best: Best | None = None
    """The current leader on the device, if it is another submission."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionInfo:
    """A submission and the state of its jobs."""

    id: int
    leaderboard: str
    user: str
    mode: Mode
    file_name: str
    devices: tuple[str, ...]
    created_at: datetime
    withdrawn_at: datetime | None = None
    ended: bool
    jobs: tuple[JobInfo, ...]
