"""Everything that KernelCup raises on purpose.

KernelCupError
├─ UserError            its text may be shown; stable ``code``; never retried
│  ├─ NotFound          not_found
│  ├─ Conflict          conflict
│  ├─ Forbidden         forbidden
│  ├─ LeaderboardClosed leaderboard_closed
│  ├─ InvalidSubmission invalid_submission
│  ├─ InvalidTask       invalid_task   holds every problem, each with file, line and column
│  └─ InvalidValue      invalid_value
├─ LaunchError          a machine or a provider failed; the job may be tried again
│  ├─ LaunchTimeout
│  └─ BadReport
├─ StaleLease           another dispatcher owns the job; throw the result away
└─ ConfigError          names file, key and expectation; only at start

A submission that fails is a verdict and never one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class KernelCupError(Exception):
    """Root of all deliberate errors."""


class UserError(KernelCupError):
    """Something that the person who asked can put right."""

    code = "user_error"


class NotFound(UserError):
    """No such thing."""

    code = "not_found"


class Conflict(UserError):
    """It exists already, or is in use."""

    code = "conflict"


class Forbidden(UserError):
    """This person may not do that."""

    code = "forbidden"


class LeaderboardClosed(UserError):
    """The leaderboard takes no submissions now."""

    code = "leaderboard_closed"


class InvalidSubmission(UserError):
    """The file cannot be taken as a submission."""

    code = "invalid_submission"


class InvalidValue(UserError):
    """An argument has the wrong form."""

    code = "invalid_value"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong with a task."""

    file: str
    line: int = 1
    column: int = 1
    key: str = ""
    """Dotted path inside the file, such as ``tests.2.size``; may be empty."""
    text: str
    """What is wrong and what is allowed."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: "
        return f"{place}{self.key}: {self.text}" if self.key else f"{place}{self.text}"


class InvalidTask(UserError):
    """A task has problems; all of them are in ``problems``, one line each in the text."""

    code = "invalid_task"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class LaunchError(KernelCupError):
    """A machine failed before it could report."""


class LaunchTimeout(LaunchError):
    """No report came in time."""


class BadReport(LaunchError):
    """The report is missing, too large, unreadable, or of another protocol version."""


class StaleLease(KernelCupError):
    """The job has gone to another dispatcher or attempt."""


class ConfigError(KernelCupError):
    """The configuration cannot be used."""
