"""What operations return of accounts, rules, machines and results, as it is stored; the doors and clients show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from kernelcup.domain.competition import ModeGroup, PauseScope
from kernelcup.domain.people import Role, Scope


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check of a machine or of the service."""

    name: str
    """For example ``torch``, ``backup`` or ``machine:h100-1``."""
    state: Literal["ok", "missing", "broken"]
    text: str
    """One line; of a problem with what to do."""
    needed: bool = False
    """Whether the exit code of `doctor` tells it: without it a machine cannot judge, or a service is out of order."""

    @property
    def kind(self) -> str:
        """The name without the thing that it is about: ``machine``."""
        return self.name.partition(":")[0]


def check(name: str, good: bool, text: str, how: str = "") -> CheckResult:
    """Return the result of a check, with how to solve a problem."""
    return CheckResult(
        name, "ok" if good else "broken", f"{text} ({how})" if how and not good else text, True
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """A user's account at a sign-in provider."""

    provider: str
    subject: str
    """The provider's permanent id for the account; two providers may use the same number."""
    login: str
    """The account's name when it was last seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """A person, whichever identities they sign in with."""

    id: int
    name: str
    role: Role
    banned_at: datetime | None
    """None if the user is not banned."""
    ban_reason: str
    created_at: datetime
    identities: tuple[Identity, ...]
    direct_messages: bool = True
    """Whether bots message them when one of their results is overtaken or loses its rank."""
    shown_name: str = ""
    """The name that others see, empty where they see the account's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A token without its secret."""

    id: int
    kind: str
    """``api``, ``popcorn`` or ``session``."""
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenSignIn:
    """A sign-in link that can still be used, without its secret."""

    user: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """The use of a right that not all users have."""

    id: int
    at: datetime
    actor: str
    action: str
    """For example ``user.ban``."""
    target: str
    """For example ``board:vectoradd``, ``user:ada``, ``submission:7``."""
    detail: dict[str, Any]


class Quantity(StrEnum):
    """The quantity that a limit counts."""

    SUBMISSIONS = "submissions"
    GPU_SECONDS = "gpu_seconds"
    COST = "cost"
    """In the currency of the machines' prices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """An amount per time window. A field that is None applies to all."""

    id: int
    board_id: int | None
    board: str | None
    user_id: int | None
    user: str | None
    device: str | None
    launcher: str | None
    """For a budget of what the machines of a launcher cost: it holds jobs back, and refuses no submission."""
    mode_group: ModeGroup | None
    per_user: bool
    """Whether each user has the amount, or all users share it."""
    quantity: Quantity
    amount: float
    window_s: int

    @property
    def text(self) -> str:
        """The limit in words, for example ``10 ranked submissions per hour on H100, for each user``."""
        one = "" if self.amount == 1 else "s"
        named = {Quantity.GPU_SECONDS: f"GPU-second{one}", Quantity.COST: "in cost"}
        what = named.get(self.quantity, f"submission{one}")
        if self.launcher is not None:
            return f"{self.amount:g} {what} per {_window(self.window_s)} of launcher {self.launcher}"
        kinds = f"{self.mode_group.value} " if self.mode_group is not None else ""
        where = f" to {self.board}" if self.board is not None else ""
        device = f" on {self.device}" if self.device is not None else ""
        who = "for each user" if self.per_user else "for all together"
        whose = f"for {self.user}" if self.user is not None else who
        return f"{self.amount:g} {kinds}{what} per {_window(self.window_s)}{where}{device}, {whose}"


def _window(seconds: int) -> str:
    units = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
    name, size = next(unit for unit in units if seconds % unit[1] == 0)
    count = seconds // size
    return name if count == 1 else f"{count} {name}s"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A pause, during which no submissions are accepted."""

    scope: PauseScope
    key: str
    """Empty, the leaderboard's id, or the device's name in lower case."""
    reason: str
    since: datetime
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """What a register says of a person."""

    label: str = ""
    """What the register calls the person, for example the student number."""
    name: str = ""
    group: str = ""
    pseudonym: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Invite(Person):
    """A code that makes one user a member of some courses."""

    code: str
    courses: tuple[str, ...]
    boards: tuple[str, ...]
    """Leaderboards of these courses."""
    created_at: datetime
    claimed_by: str | None
    claimed_by_id: int | None
    claimed_at: datetime | None
    position: int | None = None
    """The line of the register that it is for; None for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member(Person):
    """A member of a course, or a person of its register who has not joined yet."""

    user: str
    """Empty until the person joins."""
    joined_at: datetime | None
    position: int | None = None
    """The place in the register; None for those who stand in none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Leaderboards with one register of people."""

    id: int
    name: str
    creator: str
    creator_id: int
    created_at: datetime
    of_board: bool
    """Whether it was made for one leaderboard, with which it is renamed and deleted."""
    rules: Mapping[str, str]
    """Rules of grading as they were written, by the number of the leaderboard; under an empty key those of all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """The review of a result, open or decided."""

    id: int
    job_id: int
    run_id: int
    submission_id: int
    leaderboard: str
    device: str
    user: str
    score_s: float | None
    opened_at: datetime
    opened_by: str
    """A person, or ``kernelcup`` if a rule opened it."""
    reason: str
    evidence: dict[str, Any]
    decision: str | None
    """``released`` or ``rejected``; None while it is open."""
    decided_at: datetime | None
    decided_by: str | None
    note: str
    same_code: list[int] = field(default_factory=list)
    """Other submissions of equal code that wait too, or were decided at once with it; empty in a list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceStats:
    """Figures of one device."""

    device: str
    runs: int
    passed: int
    scored: int
    longest_delay_s: float | None
    """Seconds from a submission until its first run began; None without a first run."""
    mean_delay_s: float | None
    run_s: float
    """Seconds of all runs together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserTime:
    """The total time of one user's runs."""

    user: str
    run_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFault:
    """A GPU that is out of service."""

    machine: str
    gpu: str
    """As in ``CUDA_VISIBLE_DEVICES``."""
    device: str
    """The device of the job that found the fault; other devices may share the GPU."""
    reason: str
    since: datetime
    next_look_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """A time at which a machine judges for one leaderboard only, or for none."""

    id: int
    machine: str
    board_id: int | None = None
    """None for maintenance: it judges nothing."""
    board: str | None
    begins_at: datetime
    ends_at: datetime
    reason: str

    def keeps_out(self, board_id: int | None, now: datetime) -> bool:
        """Return whether it keeps the jobs of a leaderboard off its machine now."""
        return self.begins_at <= now < self.ends_at and (self.board_id is None or self.board_id != board_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    """A URL that receives a leaderboard's news."""

    id: int
    leaderboard: str
    url: str
    created_by: str
    created_at: datetime
    failures: int
    """Failed attempts since the last success."""
    last_error: str
    succeeded_at: datetime | None
    disabled_at: datetime | None
    waiting: int
    """The number of pending deliveries."""
