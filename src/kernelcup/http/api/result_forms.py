"""Answers for submissions, runs and standings, for users and tokens, and for machines."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field

from kernelcup import scoring
from kernelcup.app.results.runs import ShownRun
from kernelcup.domain import DuelOutcome, Final, RankedBy, Role, Scope, Standing
from kernelcup.domain.answers import Identity
from kernelcup.http.api.forms import Page, Shown
from kernelcup.reporting.bottlenecks import explain
from kernelcup.reporting.insights import Best, as_objects
from kernelcup.reporting.results import JobInfo, SubmissionInfo, Waiting
from kernelcup_harness.protocol import Mode, to_json


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
    speedup: float | None = Field(
        default=None,
        description="The score of a task that ranks by speedup, larger is better; `score_s` and the interval are then "
        "reciprocals. Null for others.",
    )


class JobOut(ScoreOut):
    """A submission on one device."""

    id: int
    device: str
    state: str
    attempt: int
    reason: str
    waiting: Waiting | None = None
    run: int | None = Field(default=None, description="The run that counts.")
    verdict: str | None = None
    trust: str | None = None
    host_class: str | None = Field(default=None, description="The class of the machine that judged it.")
    duel: DuelOutcome = DuelOutcome.NONE
    remark: str = Field(default="", description="Why it does not rank, or not by its score.")
    best: Best | None = Field(
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
    def of(cls, job: JobInfo) -> Self:
        """Show a job, with as much of its report as it has."""
        report = job.report
        body = _facts(cls, job) | scoring.as_object(job.score) | {"report": None}
        if report is not None:
            body |= {
                "lessons": as_objects(report, job.best),
                "bottlenecks": explain.as_objects(report.counters),
                "report": to_json(report),
            }
        return cls.model_validate(body, from_attributes=True)


class SubmissionOut(BaseModel):
    """A submission and the state of its jobs."""

    id: int
    leaderboard: str
    user: str
    shown_name: str = Field(
        description="The name that others see; empty where they see `user`, or just sent."
    )
    mode: Mode
    file_name: str
    devices: list[str]
    created_at: datetime
    withdrawn_at: datetime | None = None
    ended: bool
    jobs: list[JobOut] = []

    @classmethod
    def of(cls, found: SubmissionInfo) -> Self:
        """Show a submission with its jobs."""
        return cls(**_facts(cls, found) | {"jobs": [JobOut.of(each) for each in found.jobs]})


class StandingOut(ScoreOut):
    """A place in a ranking."""

    rank: int = Field(description="Shared by all results that are indistinguishable from the first of them.")
    tied: bool = Field(description="Whether other results share this rank.")
    user: str
    shown_name: str = Field(description="The name that others see; empty where they see `user`.")
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
    isolation: str = Field(
        description="`provider` where a provider's isolation stood in for our sandbox, else empty."
    )
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
        score = scoring.as_object(standing.score)
        return cls(**_facts(cls, standing) | score, submission=standing.submission_id)


Place = Annotated[StandingOut, BeforeValidator(StandingOut.of)]


class TableOut(Shown, Page[Place]):
    """A part of a ranking."""

    frozen_since: datetime | None = Field(
        description="Time of the freeze, if frozen: later results, including yours, are not shown until the end."
    )
    classes: list[str] = Field(
        description="The classes of machines that rank for themselves, since they have not been shown to give the same "
        "times; empty while the device has one ranking. Without `class` one ranking follows the other."
    )
    final: Final | None = Field(
        description="The newest final, with its official order; null before the deadline, without one, and on later "
        "pages."
    )
    waiting: int = Field(
        description="Users without a place whose results were judged against an earlier version of the task or by "
        "another harness, and rank once they are judged again; 0 on later pages."
    )
    unranked: list[Place] = Field(
        description="Each user's best of a level that the leaderboard does not rank (see its `trust`), with ranks "
        "among themselves: at most 100, with the first page only."
    )
    practice: list[Place] = Field(
        description="Each user's best among submissions from after the deadline, with ranks among themselves: at most "
        "100, with the first page only. They change nothing of the ranking."
    )


class RecordOut(Shown):
    """An improvement of a user's best result."""

    id: int
    user: str
    shown_name: str = Field(description="The name that others see; empty where they see `user`.")
    score_s: float
    speedup: float | None
    submission: int = Field(validation_alias="submission_id")
    at: datetime


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
        facts = _facts(cls, run) | _facts(cls, shown) | scoring.as_object(run.score)
        ids = {"job": run.job_id, "submission": shown.submission_id}
        return cls(**facts | ids | {"report": to_json(run.report)})


def _facts(form: type[BaseModel], found: object) -> dict[str, Any]:
    """Return what an answer has in common with an object."""
    return {name: getattr(found, name) for name in form.model_fields if hasattr(found, name)}


class UserOut(Shown):
    """A user."""

    id: int
    name: str
    shown_name: str = Field(description="The name that others see; empty where they see `name`.")
    role: Role
    banned_at: datetime | None
    ban_reason: str
    created_at: datetime
    identities: list[Identity]


class MeOut(UserOut):
    """The user, and what the token may do."""

    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    direct_messages: bool = Field(
        description="Whether bots write to you when one of your results is overtaken or loses its rank."
    )


class TokenOut(Shown):
    """A token, without its secret."""

    id: int
    kind: str
    name: str
    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class SecretTokenOut(TokenOut):
    """A new token."""

    secret: str = Field(description="Shown only once.")


class DeviceOut(Shown):
    """A named kind of accelerator."""

    name: str
    backend: str
    launcher: str
    slots: int
    description: str


class ReservationOut(Shown):
    """A time at which a machine judges for one leaderboard only, or for none."""

    id: int
    machine: str
    board: str | None = Field(description="Null for maintenance.")
    begins_at: datetime
    ends_at: datetime
    reason: str


class ComparisonOut(Shown):
    """What two machines say of the same work."""

    device: str
    first_class: str
    second_class: str
    pairs: int = Field(description="Submissions that both have judged.")
    disagree: list[int] = Field(description="Those whose intervals do not overlap.")
    ratio: float | None = Field(description="Median of the second one's times by the first one's.")
    canaries_ns: list[float]
    canaries_agree: bool | None
    agrees: bool | None = Field(description="Null if there is too little to say.")
