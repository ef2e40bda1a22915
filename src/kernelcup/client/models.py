"""The data that commands show; here it is built from a server's JSON, elsewhere from local services."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelcup.domain import (
    SETTING_TYPES,
    BoardSettings,
    DuelOutcome,
    JobState,
    Leaderboard,
    RankedBy,
    RankingBy,
    Score,
    StageLimits,
    Standing,
    Task,
)
from kernelcup.reporting.insights import Best
from kernelcup_harness.protocol import HarnessKind, Mode, Parameters, RunReport, Verdict, from_json


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingInfo:
    """Why a job waits and for how long."""

    position: int | None
    starts_in_s: float | None
    runs_s: float | None
    reason: str

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> WaitingInfo:
        """Read it from the server's form."""
        return cls(
            position=body["position"],
            starts_in_s=body["starts_in_s"],
            runs_s=body["runs_s"],
            reason=str(body["reason"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInfo:
    """A submission on one device, with the run that counts."""

    id: int
    device: str
    state: JobState
    attempt: int
    position: int | None
    reason: str
    run: int | None
    verdict: Verdict | None
    score: Score | None
    """None if the job earns none, for example a comparison."""
    report: RunReport | None
    waiting: WaitingInfo | None = None
    trust: str | None = None
    host_class: str | None = None
    """The class of the machine that judged it."""
    duel: DuelOutcome = DuelOutcome.NONE
    remark: str = ""
    """Why it does not rank, or ranks behind a slower result."""
    best: Best | None = None
    """The current leader on the device."""

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> JobInfo:
        """Read it from the server's form."""
        waiting = None if body["waiting"] is None else WaitingInfo.of_json(body["waiting"])
        return cls(
            id=body["id"],
            device=str(body["device"]),
            state=JobState(body["state"]),
            attempt=body["attempt"],
            position=None if waiting is None else waiting.position,
            reason=str(body["reason"]),
            run=body["run"],
            verdict=None if body["verdict"] is None else Verdict(body["verdict"]),
            score=None if body["score_s"] is None else score_of_json(body),
            report=None if body["report"] is None else from_json(RunReport, body["report"]),
            waiting=waiting,
            trust=body.get("trust"),
            host_class=body.get("host_class"),
            duel=DuelOutcome(body.get("duel", "")),
            remark=str(body["remark"]),
            best=None if body["best"] is None else best_of_json(body["best"]),
        )


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
    ended: bool
    jobs: tuple[JobInfo, ...]

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> SubmissionInfo:
        """Read it from the server's form."""
        return cls(
            id=body["id"],
            leaderboard=str(body["leaderboard"]),
            user=str(body["user"]),
            mode=Mode(body["mode"]),
            file_name=str(body["file_name"]),
            devices=tuple(map(str, body["devices"])),
            created_at=datetime.fromisoformat(body["created_at"]),
            ended=bool(body["ended"]),
            jobs=tuple(JobInfo.of_json(job) for job in body["jobs"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardInfo(BoardSettings):
    """A leaderboard."""

    name: str
    devices: tuple[str, ...]
    harness: HarnessKind
    task_hash: str
    creator: str
    created_at: datetime
    seeds_below: int | None
    """The bound of seeds if the task has none; None for 63 bits."""
    notice: str
    """Notices for participants about changes; empty if there are none."""
    tells_review_tags: bool = False
    """A server does not reveal the review tags."""

    @classmethod
    def of(cls, board: Leaderboard) -> BoardInfo:
        """Build it from a leaderboard of this machine."""
        own = {each.name for each in dataclasses.fields(cls)} - {"tells_review_tags"}
        return cls(**{name: getattr(board, name) for name in own}, tells_review_tags=True)

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> BoardInfo:
        """Read it from the server's form."""
        return cls(
            name=str(body["name"]),
            devices=tuple(map(str, body["devices"])),
            harness=HarnessKind(body["harness"]),
            task_hash=str(body["task_hash"]),
            creator=str(body["creator"]),
            created_at=datetime.fromisoformat(body["created_at"]),
            seeds_below=body["seeds_below"],
            notice=str(body["notice"]),
            **{
                name: _setting(kind, body[name])
                for name, kind in SETTING_TYPES.items()
                if name != "review_tags"
            },
        )

    def as_object(self) -> dict[str, object]:
        """Return it as ``--json`` prints it."""
        left_out = {"tells_review_tags", *(() if self.tells_review_tags else ("review_tags",))}
        names = (each.name for each in dataclasses.fields(self) if each.name not in left_out)
        return {name: _plain(getattr(self, name)) for name in names}


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskInfo:
    """A task as participants see it."""

    name: str
    content_hash: str
    description: str
    harness: HarnessKind
    ranking_by: RankingBy
    limits: StageLimits
    tests: Sequence[Parameters]
    benchmarks: Sequence[Parameters]
    hidden_tests: int
    hidden_benchmarks: int
    files: Sequence[str]
    templates: Sequence[str]
    devices: Sequence[str] | None
    """The proposed devices; None if a server does not reveal them."""

    @classmethod
    def of(cls, task: Task) -> TaskInfo:
        """Build it from a task of this machine."""
        return cls(
            name=task.name,
            content_hash=task.content_hash,
            description=task.description,
            harness=task.harness,
            ranking_by=task.ranking_by,
            limits=task.limits,
            tests=task.tests,
            benchmarks=task.benchmarks,
            hidden_tests=len(task.hidden_tests),
            hidden_benchmarks=len(task.hidden_benchmarks),
            files=sorted(task.sources),
            templates=list(task.templates),
            devices=task.devices,
        )

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> TaskInfo:
        """Read it from the server's form."""
        return cls(
            name=str(body["name"]),
            content_hash=str(body["content_hash"]),
            description=str(body["description"]),
            harness=HarnessKind(body["harness"]),
            ranking_by=RankingBy(body["ranking_by"]),
            limits=StageLimits(**body["limits"]),
            tests=list(map(dict, body["tests"])),
            benchmarks=list(map(dict, body["benchmarks"])),
            hidden_tests=int(body["hidden_tests"]),
            hidden_benchmarks=int(body["hidden_benchmarks"]),
            files=list(map(str, body["files"])),
            templates=list(map(str, body["templates"])),
            devices=None,
        )


def best_of_json(body: Mapping[str, Any]) -> Best:
    """Read the leading submission from the server's form."""
    cases = {int(index): float(time_ns) for index, time_ns in body["cases_ns"].items()}
    return Best(submission=int(body["submission"]), score_s=float(body["score_s"]), cases_ns=cases)


def score_of_json(body: Mapping[str, Any]) -> Score:
    """Read a score from the server's form of what has it."""
    return Score(**_known(Score, body))


def standing_of_json(body: Mapping[str, Any]) -> Standing:
    """Read a place in a ranking from the server's form."""
    read: dict[str, Any] = {
        "score": score_of_json(body),
        "submission_id": int(body["submission"]),
        "submitted_at": datetime.fromisoformat(body["submitted_at"]),
        "duel": DuelOutcome(body["duel"]),
        "ranked_by": RankedBy(body.get("ranked_by", RankedBy.TIME)),
    }
    return Standing(**_known(Standing, body) | read)


def _known(kind: type, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass that a body has; an older server lacks the newest."""
    return {each.name: body[each.name] for each in dataclasses.fields(kind) if each.name in body}


def _setting(kind: Any, value: Any) -> Any:
    """Read a setting of this type from the server's form."""
    if kind == datetime | None:
        return moment(value)
    return kind(value) if isinstance(kind, type) else value


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def moment(text: str | None) -> datetime | None:
    """Parse a time that may be absent."""
    return None if text is None else datetime.fromisoformat(text)
