"""The nouns. Frozen, typed, without behaviour that needs a database, a network or torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    Mode,
    Parameters,
    RunReport,
    Verdict,
    canonical_hash,
    from_json,
    to_json,
)


class Language(StrEnum):
    """What a task's submissions are written in."""

    PYTHON = "py"
    CUDA = "cu"


class TaskForm(StrEnum):
    """How a task was written down."""

    FOLDER = "folder"
    SINGLE_FILE = "single_file"


class RankingBy(StrEnum):
    """How the times of several benchmarks become one score."""

    LAST = "last"
    MEAN = "mean"
    GEOM = "geom"


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaConfig:
    """How a ``lang: cu`` task is built."""

    sources: list[str] = field(default_factory=list)
    include_dirs: list[str] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)
    compile_flags: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLimits:
    """Wall-clock limits of a task's stages, in seconds."""

    test_s: int = 180
    benchmark_s: int = 180
    ranked_s: int = 180


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A problem, whatever form it was written in. Equal content has an equal ``content_hash``."""

    name: str
    """Folder, zip or file name without ending: the proposed leaderboard name."""
    description: str = ""
    lang: Language = Language.PYTHON
    form: TaskForm = TaskForm.FOLDER
    sources: dict[str, str]
    """File name to text, all but the submission."""
    submission_name: str = "submission.py"
    main: str | None = None
    cuda: CudaConfig | None = None
    templates: dict[str, str] = field(default_factory=dict)
    """Language to the text of a starting point."""
    tests: list[Parameters] = field(default_factory=list)
    benchmarks: list[Parameters] = field(default_factory=list)
    hidden_tests: list[Parameters] = field(default_factory=list)
    hidden_benchmarks: list[Parameters] = field(default_factory=list)
    limits: StageLimits = field(default_factory=StageLimits)
    ranking_by: RankingBy = RankingBy.LAST
    seed: int | None = None
    multi_gpu: bool = False
    libraries: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    """The file's ``gpus``: devices proposed for a leaderboard of this task."""
    harness: HarnessKind = HarnessKind.STANDARD
    """What the file asks for: ``own`` where it ships its ``main`` and does not say ``standard``."""
    near_twins: bool = True
    """False where an input with one element changed would break what the task promises of its inputs."""
    aliasing: bool = False
    """Whether outputs may share memory with inputs although the reference's do not."""
    waive_nulls: dict[str, str] = field(default_factory=dict)
    """Null submissions that this task may accept, each with the reason."""

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) over everything but the name: the identity of a task version."""
        body = to_json(self)
        del body["name"]
        # Keys that came later do not count while they say nothing: older versions keep their identity.
        for key, default in {"near_twins": True, "aliasing": False, "waive_nulls": {}}.items():
            if body[key] == default:
                del body[key]
        return canonical_hash(body)

    def to_json(self) -> Mapping[str, object]:
        """Return the JSON form that :meth:`from_json` reads."""
        body: Mapping[str, object] = to_json(self)
        return body

    @classmethod
    def from_json(cls, body: object) -> Task:
        """Build a task from :meth:`to_json`. Raise ``ProtocolError`` if it is not one."""
        return from_json(cls, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A named kind of accelerator on which submissions can be judged: configuration, no enum."""

    name: str
    backend: Backend
    launcher: str = "local"
    slots: int = 1
    """Jobs that may run at once."""
    description: str = ""


class JobState(StrEnum):
    """Where a job is. It says nothing about quality."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaderboard:
    """A task version, the devices that it accepts, and when."""

    id: int
    name: str
    task_hash: str
    devices: tuple[str, ...]
    harness: HarnessKind
    opens_at: datetime | None
    deadline: datetime | None
    """Aware, UTC; None never closes."""
    created_at: datetime
    creator: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One file by one user for one leaderboard. Never edited."""

    id: int
    leaderboard: str
    user: str
    mode: Mode
    devices: tuple[str, ...]
    file_name: str
    code_hash: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One unit of work: a submission on one device."""

    id: int
    submission_id: int
    task_hash: str
    device: str
    mode: Mode
    state: JobState
    attempt: int
    """1 for the first; also the fencing number that a report must carry."""
    reason: str = ""
    """Why it waits or was cancelled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt at a job, with all that it found."""

    id: int
    job_id: int
    attempt: int
    verdict: Verdict
    score_s: float | None
    """Seconds; only for accepted leaderboard runs."""
    started_at: datetime
    finished_at: datetime
    harness_hash: str
    machine: str
    report: RunReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A user's place in the ranking of one (leaderboard, device)."""

    rank: int
    user: str
    score_s: float
    submission_id: int
    submitted_at: datetime
    file_name: str
    trust: str
    comparable: bool
