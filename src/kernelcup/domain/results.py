"""Scores, runs and standings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kernelcup.domain.competition import DuelOutcome
from kernelcup.domain.finals import Final
from kernelcup.domain.people import Named
from kernelcup.domain.tasks import Language
from kernelcup_harness.protocol import RunReport, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which submissions a list is limited to; None for no limit."""

    tag: str | None = None
    """Of a second opinion."""
    verdict: Verdict | None = None
    device: str | None = None
    since: datetime | None = None
    until: datetime | None = None


NO_FILTERS = Filters()


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A score with its uncertainty. All times in seconds."""

    score_s: float
    low_s: float | None = None
    """Lower end of the 95 % interval, None where nothing is known about it."""
    high_s: float | None = None
    raw_s: float | None = None
    """Replayed: before the time of an empty graph was subtracted. By the wall clock: the submission's own time."""
    speedup: float | None = None
    """The score of a task that ranks by speedup; the seconds, and the ends of the interval, are then reciprocals."""

    @property
    def in_ns(self) -> tuple[float, float | None, float | None]:
        """The score and the ends of its interval in nanoseconds."""
        low_ns, high_ns = (None if end is None else end * 1e9 for end in (self.low_s, self.high_s))
        return self.score_s * 1e9, low_ns, high_ns


class RankedBy(StrEnum):
    """What gives a result its place."""

    TIME = "time"
    """Its score, or after a duel that it did not win the leader's time."""
    UPPER_END = "upper_end"
    """The upper end of its interval, because that is wider than a tie allows."""
    CORRECTNESS = "correctness"
    """That it is correct: its time means nothing, and all such results share one place."""


class Ruling(StrEnum):
    """Whether a result counts, or the first reason why it does not."""

    COUNTS = "counts"
    REJECTED = "rejected"
    """A review rejected it."""
    HELD = "held"
    """It waits for a review."""
    HIDDEN = "hidden"
    """It was judged after the freeze, and this reader sees the results from before."""
    REPLACED = "replaced"
    """It was judged again, and the other run counts."""
    NO_TIME = "no_time"
    PRACTICE = "practice"
    """It was submitted after the deadline, as practice."""
    OUTDATED = "outdated"
    """It was judged with another version of the task, or by another harness, than the leaderboard has now."""
    LEVEL = "level"
    """The leaderboard requires another level of times."""
    GONE = "gone"
    """Its submission was deleted, or has no result on this device."""


ASIDE = (Ruling.REJECTED, Ruling.HELD)
"""A review keeps it from everybody but the leaderboard's managers and its author."""
RELEASED = "released"
RULE = "kernelcup"
"""The opener of a review that a rule opened."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt at a job, with its results."""

    id: int
    job_id: int
    attempt: int
    task_hash: str
    """The task version that it was judged against."""
    verdict: Verdict
    score: Score | None
    """Only for accepted leaderboard runs."""
    started_at: datetime
    finished_at: datetime
    harness_hash: str
    machine: str
    report: RunReport
    host_class: str = ""
    """The class of the machine at that time: its hardware and driver."""
    rank_s: float | None = None
    """The time that it is ranked by, if that is not its score: the leader's, after a duel that it did not win."""
    duel: DuelOutcome = DuelOutcome.NONE
    rival: int | None = None
    """The submission that it was measured against."""
    judging: str = ""
    """:meth:`Task.judging` of the task version and the harness that it was judged by."""

    @property
    def score_s(self) -> float | None:
        """The score in seconds, None without one."""
        return None if self.score is None else self.score.score_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Result(Named):
    """One scored run in a ranking."""

    user: str
    shown_name: str = ""
    score: Score
    submission_id: int
    submitted_at: datetime
    file_name: str
    trust: str
    comparable: bool
    lent: bool = False
    """Whether a machine judged it for which the operator does not vouch."""
    isolation: str = ""
    """``provider`` where a provider's isolation stood in for our sandbox."""
    duel: DuelOutcome = DuelOutcome.NONE
    """The outcome of its duel against the previous leader, if it had one."""
    host_class: str = ""
    """The class of machines among whose results it ranks; empty while the ranking has one class only."""

    @property
    def language(self) -> str:
        """The language of its file, empty where the file is not shown."""
        found = Language.of_file(self.file_name)
        return "" if found is None else found.label

    @property
    def score_s(self) -> float:
        """The score in seconds."""
        return self.score.score_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing(Result):
    """A user's place in the ranking of one (leaderboard, device), or of one class of its machines."""

    rank: int
    """Shared by all results that cannot be distinguished from the first of them."""
    tied: bool = False
    """Whether another user has this rank as well."""
    ranked_by: RankedBy = RankedBy.TIME

    @property
    def time_s(self) -> float | None:
        """The score in seconds, None if it means nothing."""
        return None if self.ranked_by is RankedBy.CORRECTNESS else self.score_s

    @property
    def times_s(self) -> tuple[float | None, float | None, float | None]:
        """The score and the ends of its interval, where these are seconds."""
        is_time = self.score.speedup is None
        return (self.time_s, self.score.low_s, self.score.high_s) if is_time else (None, None, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A part of a ranking, with what stands beside it."""

    items: list[Standing]
    next: int | None
    """How many places of the ranking come before those that are left; None at the end."""
    frozen_since: datetime | None
    """None where it is live."""
    classes: list[str]
    """The classes of machines that rank for themselves; empty while there is one ranking."""
    final: Final | None
    waiting: int
    """How many users have no place until an earlier result is judged again."""
    unranked: list[Standing]
    """Each user's best of a level that the leaderboard does not rank."""
    practice: list[Standing]
    """Each user's best from after the deadline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Named):
    """An improvement of a user's best."""

    id: int
    user_id: int
    user: str
    shown_name: str = ""
    submission_id: int
    score_s: float
    """The measured score; after a duel that was not won, the result ranks by another time."""
    speedup: float | None = None
    """The score itself where a task ranks by speedup."""
    at: datetime
