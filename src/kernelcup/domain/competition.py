"""Leaderboards, submissions and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal, get_type_hints

from kernelcup.domain.people import Named
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    Mode,
    ProfileOptions,
)

LARGEST_ID = 2**31 - 1
"""The largest number of a submission, run, user, and so on: databases store them in 32 bits."""


class Visibility(StrEnum):
    """The audience of a leaderboard."""

    PUBLIC = "public"
    CLOSED = "closed"
    """Its members, its creator and admins; for others it does not exist."""


class CodePolicy(StrEnum):
    """When the code of a leaderboard's submissions is shown to others."""

    NEVER = "never"
    AFTER_DEADLINE = "after_deadline"


class AfterDeadline(StrEnum):
    """What a leaderboard accepts after its deadline; none of it changes the final standings."""

    CLOSED = "closed"
    """Nothing."""
    UNRANKED = "unranked"
    """Tests, benchmarks and profiles."""
    PRACTICE = "practice"
    """Ranked submissions as well, which have a table of their own."""


class TrustRule(StrEnum):
    """Which times rank."""

    ANY = "any"
    """All times rank, each marked with its level."""
    REPLAYED = "replayed"
    """Only replayed times rank, witnessed or not; others are kept and shown."""
    WITNESSED = "witnessed"
    """Only replayed times that the device's hardware counters confirm rank; others are kept and shown."""


class DuelOutcome(StrEnum):
    """The outcome of a new best result's duel against the previous leader."""

    NONE = ""
    """It needed no duel."""
    WON = "won"
    TIED = "tied"
    LOST = "lost"
    UNANSWERED = "unanswered"
    """The previous leader could not be measured, or failed in turns."""
    FAILED = "failed"
    """It failed in turns itself."""
    INTERVALS = "intervals"
    """No duel counts, and the intervals of both times show that the result is faster."""
    MISSED = "missed"
    """No duel with the leader counts, and the intervals of both times overlap."""

    @property
    def is_behind(self) -> bool:
        """Whether the result is placed behind the previous leader."""
        return self.is_below or self in (DuelOutcome.TIED, DuelOutcome.MISSED)

    @property
    def is_below(self) -> bool:
        """Whether the result ranks below the previous leader, and does not share its rank."""
        return self in (DuelOutcome.LOST, DuelOutcome.FAILED)


class Priority(IntEnum):
    """Classes of the queue: a lower one is served first."""

    RANKED = 0
    PRACTICE = 1
    """Test and benchmark."""
    PROFILE = 2
    REJUDGE = 3


class JobState(StrEnum):
    """The state of a job, independent of its verdict."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"
    """Its result waits for a review."""
    REJECTED = "rejected"
    """A review rejected its result."""
    HALTED = "halted"
    """Our side lost it several times; it waits for an admin."""


OPEN = (JobState.QUEUED, JobState.RUNNING, JobState.HALTED)
"""The states of jobs that have not ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardSettings:
    """Choices of a leaderboard's managers, beside its task, devices and harness."""

    opens_at: datetime | None = None
    deadline: datetime | None = None
    """Aware, UTC; None never closes."""
    after_deadline: AfterDeadline = AfterDeadline.UNRANKED
    """What may be submitted after the deadline."""
    visibility: Visibility = Visibility.PUBLIC
    pseudonymous: bool = False
    """Whether members are shown to each other under their pseudonyms."""
    code_policy: CodePolicy = CodePolicy.AFTER_DEADLINE
    freeze_at: datetime | None = None
    """From this time on, all but its managers see the standings as of this time."""
    max_file_bytes: int | None = None
    """The board's own size limit for submissions; None for the platform's."""
    review_tags: Sequence[str] = ()
    """Tags of a second opinion with which a ranked result must be reviewed before it counts."""
    trust: TrustRule = TrustRule.ANY
    """Which times rank."""
    duel: bool = False
    """Whether a new first place must win a duel against the previous one, measured in turns."""
    cpu_times: bool = False
    """Whether times of devices without a GPU rank."""
    provider_isolation: bool = False
    """Whether ranked jobs may run where a provider isolates each job itself, and no sandbox of ours stands beside."""
    event: str = ""
    """The event that it is part of; empty for none."""
    event_weight: float = 1.0
    """The weight of its points in the event's table."""
    share: float = 1.0
    """Its weight among leaderboards whose jobs wait for the same GPUs; only admins set it."""

    def ranks_times(self, backend: Backend) -> bool:
        """Return whether times of this kind of device rank; if not, all correct results share the first place."""
        return backend is Backend.CUDA or (backend is Backend.CPU and self.cpu_times)

    @property
    def publishes_code(self) -> bool:
        """Whether the code of ranked results is shown after the deadline; under pseudonyms it would tell its author."""
        return self.code_policy is CodePolicy.AFTER_DEADLINE and not self.pseudonymous


SETTING_TYPES: Mapping[str, Any] = get_type_hints(BoardSettings)
"""The type of each setting, by its name: forms, changes and previews derive from it."""

MOMENTS = tuple(name for name, kind in SETTING_TYPES.items() if kind == datetime | None)
"""The settings that are times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaderboard(BoardSettings):
    """A competition: a task version, the devices that it accepts, and its times."""

    id: int
    name: str
    task_hash: str
    devices: tuple[str, ...]
    harness: HarnessKind
    created_at: datetime
    creator: str
    creator_id: int
    course_id: int | None = None
    course: str | None = None
    """The course that it is part of; None for none."""
    judging: str = ""
    """:meth:`Task.judging` of its task and harness: only results with an equal value rank."""
    notice: str = ""
    """A notice for participants if others see more of them than was promised when they submitted."""
    discord_thread: str = ""
    """The number of the thread that it had before it was imported; empty for none."""
    seeds_below: int | None = None
    """The bound of seeds that the trial proposed, if its task has none; None for 63 bits."""
    licence: str = ""
    """The licence under which people submit, of its event; empty for none."""
    own_opens_at: datetime | None = field(default=None, compare=False)
    own_deadline: datetime | None = field(default=None, compare=False)
    """Its own settings; ``opens_at`` and ``deadline`` are what is in force, with the dates of its event."""

    def phase(self, now: datetime) -> Literal["upcoming", "open", "closed"]:
        """Return whether it is open; a late exception extends that for one user."""
        if self.deadline is not None and now > self.deadline:
            return "closed"
        return "upcoming" if self.opens_at is not None and now < self.opens_at else "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission(Named):
    """One file by one user for one leaderboard. Never edited."""

    id: int
    leaderboard: str
    leaderboard_id: int = 0
    user: str
    shown_name: str = ""
    user_id: int = 0
    mode: Mode
    devices: tuple[str, ...]
    file_name: str
    code_hash: str = ""
    created_at: datetime
    client: str = ""
    """The client it came from: ``cli``, ``api``, ``popcorn``, ``web``, ``bot``; ``compare`` or ``final`` if it measures
    two others in turns.
    """
    profile: ProfileOptions | None = None
    """What to profile; None for the defaults."""
    withdrawn_at: datetime | None = None
    """When its author withdrew it from a table that was finished: its place stays, others do not see its code."""
    new_jobs: tuple[Job, ...] = field(default=(), compare=False)
    """Its new jobs, if it was accepted just now; otherwise jobs are looked up."""

    @property
    def is_comparison(self) -> bool:
        """Whether it measures two others in turns."""
        return self.client in ("compare", "final")


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class JobKind:
    """What decides on which machines a job may run."""

    board_id: int
    is_ranked: bool


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
    """Counted from 1; also the fencing number that a report must carry."""
    reason: str = ""
    """Why it waits or was cancelled."""
    user_id: int = 0
    leaderboard_id: int = 0
    priority: Priority = Priority.RANKED
    first_attempt: int = 1
    """The attempt with which the current judging began: more than 1 after a rejudge."""
    lost: int = 0
    """The attempts of the current judging that our side lost; they do not count."""
    queued_at: datetime | None = None
    practice: bool = False
    """Whether it is a ranked job from after the deadline, whose result never counts."""


class NewsKind(StrEnum):
    """The kind of a news item."""

    OPENED = "opened"
    DEADLINE = "deadline"
    FIRST_PLACE = "first_place"
    OVERTAKEN = "overtaken"
    RANK_LOST = "rank_lost"
    """A change of the leaderboard took a user's place; only the user is told."""
    UNVEILED = "unveiled"
    FINAL = "final"
    OFFICIAL = "official"
    """A final has found the official order of a device."""
    VERDICT = "verdict"
    REJUDGED = "rejudged"
    TASK_CHANGED = "task_changed"
    ANNOUNCEMENT = "announcement"
    """The organiser of the leaderboard's event says something."""
    QUESTION = "question"
    """A participant asks the organiser, who alone is told."""
    ANSWER = "answer"
    """The organiser answers a question, to who asked it alone."""

    @property
    def is_for_bell(self) -> bool:
        """Whether only the bell tells it: there are too many for feeds, webhooks and messages."""
        return self in (NewsKind.VERDICT, NewsKind.REJUDGED, NewsKind.TASK_CHANGED)

    @property
    def rings_for_all(self) -> bool:
        """Whether it rings for all who take part in a leaderboard."""
        return self in (NewsKind.TASK_CHANGED, NewsKind.ANNOUNCEMENT)

    @property
    def is_private(self) -> bool:
        """Whether no webhook gets it."""
        return self.is_for_bell or self in (NewsKind.RANK_LOST, NewsKind.QUESTION, NewsKind.ANSWER)

    @property
    def is_of_result(self) -> bool:
        """Whether it reveals the state of a ranking, which a freeze hides."""
        return self in (NewsKind.FIRST_PLACE, NewsKind.OVERTAKEN, NewsKind.RANK_LOST)


class PauseScope(StrEnum):
    """The scope of a pause."""

    SERVICE = "service"
    LEADERBOARD = "leaderboard"
    DEVICE = "device"


class ModeGroup(StrEnum):
    """Modes with a limit of their own."""

    PRACTICE = "practice"
    PROFILE = "profile"
    RANKED = "ranked"

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that it counts."""
        found = {ModeGroup.PRACTICE: (Mode.TEST, Mode.BENCHMARK), ModeGroup.PROFILE: (Mode.PROFILE,)}
        return found.get(self, (Mode.LEADERBOARD,))
