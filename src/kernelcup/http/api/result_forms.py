"""Answers for submissions, runs and standings."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from kernelcup import scoring
from kernelcup.app.queue.estimates import Waiting
from kernelcup.app.results.leader import Beside
from kernelcup.app.results.runs import ShownRun
from kernelcup.app.submissions.submissions import JobView, SubmissionView
from kernelcup.domain import DuelOutcome, RankedBy, Standing, Submission
from kernelcup.http.api.forms import Shown
from kernelcup.reporting.bottlenecks import explain
from kernelcup.reporting.insights import as_objects
from kernelcup_harness.protocol import Mode, to_json


class WaitingOut(BaseModel):
    """Why a job waits, and for how long."""

    position: int | None = Field(description="Place in the device's queue, 1 for the next job.")
    starts_in_s: float | None = Field(description="Estimated wait, from the durations of earlier jobs.")
    runs_s: float | None = Field(description="Estimated run time.")
    reason: str

    @classmethod
    def of(cls, waiting: Waiting) -> WaitingOut:
        """Show what a job waits for."""
        return cls(
            position=waiting.position,
            starts_in_s=waiting.ahead_s,
            runs_s=waiting.run_s,
            reason=waiting.reason,
        )


class BestOut(Shown):
    """The submission in first place."""

    submission: int
    score_s: float
    cases_ns: dict[int, float] = Field(
        description="Its times of public benchmarks, by index; empty for another version of the task."
    )


class ScoreOut(BaseModel):
    """A score with its uncertainty, in seconds."""

    score_s: float | None = Field(description="Null for a run that earns no score.")
    low_s: float | None = Field(
        description="95 % interval of the score; null if unknown. On a GPU it covers a rerun in a fresh process, "
        "otherwise only calls within one process."
    )
    high_s: float | None
    raw_s: float | None = Field(
        description="Replayed: before the time of an empty graph was subtracted. By the wall clock: the submission's "
        "own, unverified time."
    )


class JobOut(ScoreOut):
    """A submission on one device."""

    id: int
    device: str
    state: str
    attempt: int
    reason: str
    waiting: WaitingOut | None = None
    run: int | None = Field(default=None, description="The run that counts.")
    verdict: str | None = None
    trust: str | None = None
    host_class: str | None = Field(default=None, description="The class of the machine that judged it.")
    duel: DuelOutcome = DuelOutcome.NONE
    remark: str = Field(default="", description="Why it does not rank, or not by its score.")
    best: BestOut | None = Field(
        default=None, description="The current first place on the device, if it is another submission."
    )
    lessons: list[dict[str, Any]] = Field(
        default=[],
        description="For each timed case, by stage: comparison with the device, the reference and the best.",
    )
    bottlenecks: list[dict[str, Any]] = Field(
        default=[],
        description="What limits the kernels of a profile: sentences with a code, evidence and advice.",
    )
    report: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        view: JobView,
        waiting: Waiting | None = None,
        *,
        with_report: bool = False,
        beside: Beside | None = None,
    ) -> JobOut:
        """Show a job, with as much of its report as the view has."""
        run = view.run
        best = beside.best if beside is not None else None
        return cls(
            id=view.job.id,
            device=view.job.device,
            state=view.job.state.value,
            attempt=view.job.attempt,
            reason=view.job.reason,
            waiting=WaitingOut.of(waiting) if waiting is not None else None,
            run=run.id if run is not None else None,
            verdict=run.verdict.value if run is not None else None,
            **scoring.as_object(run.score if run is not None else None),
            trust=run.report.trust.value if run is not None else None,
            host_class=run.host_class if run is not None else None,
            duel=run.duel if run is not None else DuelOutcome.NONE,
            remark=beside.remark if beside is not None else "",
            best=None if best is None else BestOut.of(best),
            lessons=as_objects(run.report, best) if run is not None and with_report else [],
            bottlenecks=explain.as_objects(run.report.counters) if run is not None and with_report else [],
            report=to_json(run.report) if run is not None and with_report else None,
        )


class SubmissionOut(BaseModel):
    """A submission and the state of its jobs."""

    id: int
    leaderboard: str
    user: str
    mode: Mode
    file_name: str
    devices: list[str]
    created_at: datetime
    withdrawn_at: datetime | None = None
    ended: bool
    jobs: list[JobOut] = []

    @classmethod
    def of(
        cls,
        view: SubmissionView,
        waiting: dict[int, Waiting] | None = None,
        *,
        with_report: bool = False,
        beside: dict[int, Beside] | None = None,
    ) -> SubmissionOut:
        """Show a submission with its jobs."""
        known, told = waiting or {}, beside or {}
        jobs = [
            JobOut.of(job, known.get(job.job.id), with_report=with_report, beside=told.get(job.job.id))
            for job in view.jobs
        ]
        return cls(**_facts(view.submission), ended=view.ended, jobs=jobs)


class StandingOut(ScoreOut):
    """A place in a ranking."""

    rank: int = Field(description="Shared by all results that are indistinguishable from the first of them.")
    tied: bool = Field(description="Whether other results share this rank.")
    user: str
    score_s: float
    duel: DuelOutcome = Field(
        description="Duel against the previous first place, if the leaderboard requires it."
    )
    submission: int
    submitted_at: datetime
    file_name: str
    language: str = Field(description="`Python` or `CUDA C++`; empty where the file is not shown.")
    trust: str
    comparable: bool
    lent: bool = Field(description="Whether a machine judged it for which the operator does not vouch.")
    host_class: str = Field(
        description="The class of machines among whose results it ranks; empty while the device has one ranking."
    )
    ranked_by: RankedBy = Field(
        description="`time`; `upper_end`: by `high_s`, since the interval is wider than 5 %; `correctness`: times on "
        "the device mean nothing, and all correct results share the first place."
    )

    @classmethod
    def of(cls, standing: Standing) -> StandingOut:
        """Show a standing."""
        facts = {name: getattr(standing, name) for name in cls.model_fields if hasattr(standing, name)}
        score = scoring.as_object(standing.score)
        return cls(**facts | score, submission=standing.submission_id)


class RunOut(ScoreOut):
    """One attempt at a job, with as much of its report as the viewer may see."""

    id: int
    job: int
    submission: int
    leaderboard: str
    device: str
    attempt: int
    task_hash: str
    verdict: str
    rank_s: float | None = Field(description="The score used for ranking, after a duel that was not won.")
    duel: DuelOutcome
    rival: int | None = Field(description="The submission of the duel, or the one that it ranks behind.")
    started_at: datetime
    finished_at: datetime
    harness_hash: str
    machine: str = Field(description="The host that judged; shown to admins, empty for others.")
    host_class: str = Field(
        description="Its class: GPUs, driver, cores and memory; empty if they are not known."
    )
    report: dict[str, Any]

    @classmethod
    def of(cls, shown: ShownRun) -> RunOut:
        """Show a run."""
        run = shown.run
        return cls(
            id=run.id,
            job=run.job_id,
            submission=shown.submission_id,
            leaderboard=shown.leaderboard,
            device=shown.device,
            attempt=run.attempt,
            task_hash=run.task_hash,
            verdict=run.verdict.value,
            **scoring.as_object(run.score),
            rank_s=run.rank_s,
            duel=run.duel,
            rival=run.rival,
            started_at=run.started_at,
            finished_at=run.finished_at,
            harness_hash=run.harness_hash,
            machine=run.machine,
            host_class=run.host_class,
            report=to_json(run.report),
        )


def _facts(submission: Submission) -> dict[str, Any]:
    return {
        "id": submission.id,
        "leaderboard": submission.leaderboard,
        "user": submission.user,
        "mode": submission.mode,
        "file_name": submission.file_name,
        "devices": list(submission.devices),
        "created_at": submission.created_at,
        "withdrawn_at": submission.withdrawn_at,
    }
