"""The domain's classes: frozen, typed, without behaviour that needs a database, a network or torch."""

from __future__ import annotations

from kernelcup.domain.competition import (
    LARGEST_ID,
    MOMENTS,
    OPEN,
    SETTING_TYPES,
    AfterDeadline,
    BoardSettings,
    CodePolicy,
    DuelOutcome,
    Job,
    JobKind,
    JobState,
    Leaderboard,
    ModeGroup,
    NewsKind,
    PauseScope,
    Priority,
    Submission,
    TrustRule,
    Visibility,
)
from kernelcup.domain.devices import HERE, OWN_JOB, Device, grouped, slots_for, split_count
from kernelcup.domain.finals import Compared, Final, FinalPlace, Meeting
from kernelcup.domain.people import NOBODY, OPERATOR, Actor, Named, Role, Scope, UserName
from kernelcup.domain.results import (
    ASIDE,
    NO_FILTERS,
    Filters,
    RankedBy,
    Record,
    Result,
    Ruling,
    Run,
    Score,
    Standing,
    Table,
)
from kernelcup.domain.tasks import (
    LEAVES_SCORES,
    Language,
    StageLimits,
    Task,
    TaskForm,
    TaskInfo,
)
from kernelcup_harness.protocol import RankingBy
