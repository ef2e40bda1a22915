"""The nouns. Frozen, typed, without behaviour that needs a database, a network or torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

from kernelcup_harness.protocol import (
    BEST_LEVELS,
    Backend,
    HarnessKind,
    Mode,
    Parameters,
    RunReport,
    TrustLevel,
    Verdict,
    Work,
    canonical_hash,
    from_json,
    to_json,
)

LATER_KEYS: Mapping[str, object] = {
    "near_twins": True,
    "aliasing": False,
    "non_finite": False,
    "same_dtype": False,
    "waive_nulls": {},
    "work": [],
    "hidden_work": [],
    "seeds_below": None,
}
"""Keys of tasks that came after the first version, with what they are where a task does not say."""

LEAVES_SCORES = frozenset(
    {"name", "description", "templates", "limits", "devices", "harness", "waive_nulls", "work", "hidden_work"}
)
"""Keys of tasks whose change leaves results comparable; a change of any other key does not."""

LARGEST_ID = 2**31 - 1
"""No submission, run, user, ... has a larger number: databases keep them in 32 bits."""


class Language(StrEnum):
    """What a task's submissions are written in."""

    PYTHON = "py"
    CUDA = "cu"


class Role(StrEnum):
    """What a person may do here, the least first."""

    NOBODY = "nobody"
    """Somebody who has not signed in; no account has this role."""
    PARTICIPANT = "participant"
    CREATOR = "creator"
    """May make leaderboards, and manage those that are theirs."""
    ADMIN = "admin"


class Scope(StrEnum):
    """What a token may be used for, within what its user may do."""

    READ = "read"
    SUBMIT = "submit"
    """Submit, cancel and delete one's own, join boards."""
    INSPECT = "inspect"
    """See all of the boards that one manages: hidden cases, everybody's code and reports, reviews."""
    MANAGE = "manage"
    """Make and change leaderboards, review results."""
    ADMIN = "admin"
    """What only admins do; all the others but ``act`` are in it."""
    ACT = "act"
    """Act for other users, as a bot does for those whose identity it vouches for."""


class Visibility(StrEnum):
    """Who sees a leaderboard."""

    PUBLIC = "public"
    CLOSED = "closed"
    """Its members, its creator and admins; for others it does not exist."""


class CodePolicy(StrEnum):
    """When the code of a leaderboard's submissions is shown to others."""

    NEVER = "never"
    AFTER_DEADLINE = "after_deadline"


class TrustRule(StrEnum):
    """How far a time must be proven to rank."""

    ANY = "any"
    """All rank, each with the mark of its level."""
    AUDITED = "audited"
    """Others are kept and shown, but not ranked."""


def is_proven(trust: str) -> bool:
    """Return whether a result ranks among the proven ones; one that only its own clock vouches for does not.

    Where there is no audit at all, all results are self-measured and rank among themselves.
    """
    return trust != TrustLevel.BOUNDED


class DuelOutcome(StrEnum):
    """How a result that would be first did against who was first before."""

    NONE = ""
    """It needed no duel."""
    WON = "won"
    TIED = "tied"
    LOST = "lost"
    UNANSWERED = "unanswered"
    """Who was first could not be measured any more."""
    MISSED = "missed"
    """Somebody else came first while it was measured, or the duel could not be held."""

    @property
    def is_behind(self) -> bool:
        """Whether such a result stands behind who was first."""
        return self in (DuelOutcome.TIED, DuelOutcome.LOST, DuelOutcome.MISSED)


class Priority(IntEnum):
    """Classes of the queue: a lower one is served first."""

    RANKED = 0
    PRACTICE = 1
    """Test, benchmark and profile."""
    REJUDGE = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """Whoever asks for something, and what they may do."""

    user_id: int | None
    """None for nobody and for the operator."""
    name: str
    role: Role
    scopes: frozenset[Scope]


NOBODY = Actor(user_id=None, name="nobody", role=Role.NOBODY, scopes=frozenset({Scope.READ}))
OPERATOR = Actor(user_id=None, name="operator", role=Role.ADMIN, scopes=frozenset(Scope))
"""Whoever runs commands on the machine that has the database: they could change it by hand."""


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
    """False where an input with one element of each tensor changed would break what the task promises of its inputs."""
    aliasing: bool = False
    """Whether outputs may share memory with inputs although the reference's do not."""
    non_finite: bool = False
    """Whether an element of an output may be NaN or infinite where the reference's is finite."""
    same_dtype: bool = False
    """Whether outputs of another dtype than the reference's are wrong whatever the checker says."""
    waive_nulls: dict[str, str] = field(default_factory=dict)
    """Null submissions that this task may accept, each with the reason."""
    work: list[Work] = field(default_factory=list)
    """What each of ``benchmarks`` cannot do without; empty where the task declares nothing."""
    hidden_work: list[Work] = field(default_factory=list)
    seeds_below: int | None = None
    """All seeds that are drawn are less than this; None leaves it to the leaderboard."""

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) over everything but the name: the identity of a task version."""
        return self._hash_without({"name"})

    def judging(self, harness: HarnessKind) -> str:
        """Return what results must have in common to rank together: equal where judging is equal."""
        return f"{harness.value}:{self._hash_without(LEAVES_SCORES)}"

    def _hash_without(self, left_out: Collection[str]) -> str:
        body = to_json(self)
        # Keys that came later do not count while they say nothing: older versions keep their identity.
        silent = {key for key, default in LATER_KEYS.items() if body[key] == default}
        return canonical_hash({key: body[key] for key in body.keys() - silent - set(left_out)})

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


REJECTED = "a person rejected this result"
"""The reason of a quarantined job begins with this once somebody has decided against it."""


def is_rejected(state: str, reason: str) -> bool:
    """Return whether somebody has decided against a job's result; else a quarantined one waits for a person."""
    return state == JobState.QUARANTINED and reason.startswith(REJECTED)


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
    creator_id: int
    visibility: Visibility = Visibility.PUBLIC
    pseudonymous: bool = False
    """Whether members are shown to each other under their pseudonyms."""
    code_policy: CodePolicy = CodePolicy.NEVER
    freeze_at: datetime | None = None
    """From then on others than its managers see the standings as they were at that moment."""
    max_file_bytes: int | None = None
    """Its own size limit for submissions; None for the platform's."""
    review_tags: tuple[str, ...] = ()
    """Tags of the static screen that send a ranked result to review before it counts."""
    trust: TrustRule = TrustRule.ANY
    duel: bool = False
    """Whether a new first place must be faster than the one before, measured in turns with it."""
    judging: str = ""
    """:meth:`Task.judging` of its task and harness: only results that were judged so rank."""
    notice: str = ""
    """What participants have to know: that others see more of them than was promised when they submitted."""
    seeds_below: int | None = None
    """Bound of seeds where its task has none, as trying the task proposed it; None for 63 bits."""
    event: str = ""
    """The event that it is part of; empty for none."""

    def takes(self, level: TrustLevel) -> bool:
        """Return whether times of this level rank here."""
        return self.trust is TrustRule.ANY or level in BEST_LEVELS


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One file by one user for one leaderboard. Never edited."""

    id: int
    leaderboard: str
    leaderboard_id: int
    user: str
    user_id: int
    mode: Mode
    devices: tuple[str, ...]
    file_name: str
    code_hash: str
    created_at: datetime
    client: str = ""
    """Which door it came through: ``cli``, ``api``, ``popcorn``, ``web``, ``bot``."""
    new_jobs: tuple[Job, ...] = field(default=(), compare=False)
    """Its jobs as they were made, where it was taken in just now; elsewhere they are looked up."""


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
    user_id: int = 0
    priority: Priority = Priority.RANKED
    first_attempt: int = 1
    """The attempt with which this judging began: more than 1 after a rejudge."""
    queued_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt at a job, with all that it found."""

    id: int
    job_id: int
    attempt: int
    task_hash: str
    """The task version that it was judged against."""
    verdict: Verdict
    score_s: float | None
    """Seconds; only for accepted leaderboard runs."""
    started_at: datetime
    finished_at: datetime
    harness_hash: str
    machine: str
    report: RunReport
    low_s: float | None = None
    """Ends of the score's 95 % interval, None where nothing is known about it."""
    high_s: float | None = None
    raw_s: float | None = None
    """The score from what the submission's clock read, before anything was taken off."""
    at_floor: bool = False
    """Whether it is no longer than a kernel that does nothing: the score is at most that."""
    rank_s: float | None = None
    """What it is ranked by where that is not its score: the incumbent's, in a duel that it did not win."""
    duel: DuelOutcome = DuelOutcome.NONE
    rival: int | None = None
    """The submission that it was measured against."""
    judging: str = ""
    """:meth:`Task.judging` of the task version and the harness that it was judged by."""
    clock: str = ""
    """By which clock it was timed: see :mod:`kernelcup.clocks`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A user's place in the ranking of one (leaderboard, device)."""

    rank: int
    """Shared by all who cannot be told apart from the first of them."""
    user: str
    score_s: float
    submission_id: int
    submitted_at: datetime
    file_name: str
    trust: str
    comparable: bool
    tied: bool = False
    """Whether somebody else has this rank as well."""
    low_s: float | None = None
    """Ends of the score's 95 % interval, None where nothing is known about it."""
    high_s: float | None = None
    raw_s: float | None = None
    """The score from what the submission's clock read, before anything was taken off."""
    at_floor: bool = False
    """Whether the score is at most that: it is no longer than a kernel that does nothing."""
    duel: DuelOutcome = DuelOutcome.NONE
    """How it did against who was first before; all but ``won`` stand behind them."""

    @property
    def proven(self) -> bool:
        """Whether it ranks among the proven results; the others stand below them."""
        return is_proven(self.trust)
