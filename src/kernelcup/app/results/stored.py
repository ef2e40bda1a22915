"""What the parts of a result that was just stored are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.app.results.queries import ruling
from kernelcup.app.submissions.review_evidence import Held
from kernelcup.domain import Job, Leaderboard, Ruling, Run, Submission
from kernelcup_harness.protocol import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A result, in the transaction that stores it; of a ranked job its leaderboard is locked."""

    job: Job
    run: Run
    now: datetime
    submission: Submission
    board: Leaderboard
    held: Held | None
    """Why it must be reviewed before it counts."""
    replaces: bool
    """Whether it takes the place of an earlier result of its job."""
    is_comparison: bool

    @property
    def counts(self) -> bool:
        """Whether it may enter the ranking."""
        ranked = self.job.mode is Mode.LEADERBOARD and self.held is None
        return ranked and ruling.of_job(self.job, self.run, self.board) is Ruling.COUNTS
