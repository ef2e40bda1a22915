"""Everything that KernelCup raises on purpose.

KernelCupError
├─ UserError            its text may be shown; stable ``code``; never retried
│  ├─ NotFound          not_found
│  ├─ Conflict          conflict
│  │  └─ IdempotencyMismatch idempotency_mismatch
│  ├─ SignInNeeded      sign_in_needed
│  ├─ SignInFailed      sign_in_failed
│  ├─ SignInPending     authorization_pending
│  ├─ SlowDown          slow_down
│  ├─ SignInDenied      access_denied
│  ├─ SignInExpired     expired_token
│  ├─ Forbidden         forbidden
│  │  ├─ ScopeMissing       scope_missing
│  │  └─ Banned             banned
│  ├─ Paused            paused
│  ├─ RateLimited       rate_limited   says after how many seconds to try again
│  │  └─ Overloaded         overloaded
│  ├─ LeaderboardClosed leaderboard_closed
│  │  ├─ NotOpenYet         not_open_yet
│  │  └─ DeadlinePassed     deadline_passed
│  ├─ InvalidSubmission invalid_submission
│  │  ├─ EmptyFile          empty_file
│  │  ├─ FileTooLarge       file_too_large
│  │  ├─ NotText            not_text
│  │  ├─ WrongFileType      wrong_file_type
│  │  ├─ InvalidDirective   invalid_directive
│  │  ├─ ConflictingBoards  conflicting_leaderboards
│  │  ├─ LeaderboardNeeded  leaderboard_needed
│  │  ├─ DeviceNeeded       device_needed
│  │  └─ UnknownDevice      unknown_device
│  ├─ InvalidTask       invalid_task   holds every problem, each with file, line and column
│  └─ InvalidValue      invalid_value
│     └─ OwnHarnessNeeded   own_harness_needed
├─ WaitOver             what was waited for has not come in the time that was given; it goes on
├─ LaunchError          a machine or a provider failed; the job may be tried again
│  ├─ LaunchTimeout
│  ├─ LaunchCancelled   it was ended on our own wish: no fault of the machine, no attempt used up
│  ├─ BadReport
│  └─ UnfitDevice       a GPU is not as it should be; names the GPUs and what was found
├─ StaleLease           another dispatcher owns the job; throw the result away
├─ StorageUnavailable   the database cannot be reached or is locked; the same call may work later
├─ ServerUnavailable    the server cannot be reached, or does not answer as ours do
└─ ConfigError          names file, key and expectation; only at start

A submission that fails is a verdict and never one of these.
"""

from __future__ import annotations

import errno
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


class SignInFailed(UserError):
    """The sign-in provider did not vouch for anybody."""

    code = "sign_in_failed"


class SignInPending(UserError):
    """Nobody has decided yet whether the command line is let in."""

    code = "authorization_pending"


class SlowDown(UserError):
    """The command line asks too often whether it is let in."""

    code = "slow_down"


class SignInDenied(UserError):
    """Somebody refused to let the command line in."""

    code = "access_denied"


class SignInExpired(UserError):
    """The code of the command line is unknown, expired or used."""

    code = "expired_token"


class Forbidden(UserError):
    """This person may not do that."""

    code = "forbidden"


class IdempotencyMismatch(Conflict):
    """The idempotency key was used before, with another request."""

    code = "idempotency_mismatch"


class SignInNeeded(UserError):
    """Nobody is signed in, or the token is unknown, expired or revoked."""

    code = "sign_in_needed"


class ScopeMissing(Forbidden):
    """The token was not made for that."""

    code = "scope_missing"


class Banned(Forbidden):
    """This person may not submit."""

    code = "banned"


class Paused(UserError):
    """The service, the leaderboard or the device takes nothing now."""

    code = "paused"


class RateLimited(UserError):
    """Too much in too short a time."""

    code = "rate_limited"

    def __init__(self, text: str, *, retry_after_s: int) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        """Whole seconds, at least 1."""


class Overloaded(RateLimited):
    """The server has more to do than it can; nothing was done."""

    code = "overloaded"


class LeaderboardClosed(UserError):
    """The leaderboard takes no submissions now."""

    code = "leaderboard_closed"


class NotOpenYet(LeaderboardClosed):
    """The leaderboard opens later."""

    code = "not_open_yet"


class DeadlinePassed(LeaderboardClosed):
    """The leaderboard's deadline is over."""

    code = "deadline_passed"


class InvalidSubmission(UserError):
    """The file cannot be taken as a submission."""

    code = "invalid_submission"


class EmptyFile(InvalidSubmission):
    """The file has no content."""

    code = "empty_file"


class FileTooLarge(InvalidSubmission):
    """The file is larger than a submission may be."""

    code = "file_too_large"


class NotText(InvalidSubmission):
    """The file is not UTF-8 text."""

    code = "not_text"


class WrongFileType(InvalidSubmission):
    """The file name's ending does not fit the task's language."""

    code = "wrong_file_type"


class InvalidDirective(InvalidSubmission):
    """A ``#!POPCORN`` line cannot be understood."""

    code = "invalid_directive"


class ConflictingBoards(InvalidSubmission):
    """The file names another leaderboard than the person did."""

    code = "conflicting_leaderboards"


class LeaderboardNeeded(InvalidSubmission):
    """Nobody said which leaderboard is meant, and there are several."""

    code = "leaderboard_needed"


class DeviceNeeded(InvalidSubmission):
    """Nobody said which device is meant, and the leaderboard has several."""

    code = "device_needed"

    def __init__(self, text: str, *, leaderboard: str = "", devices: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.leaderboard = leaderboard
        self.devices = tuple(devices)
        """Between which to choose."""


class UnknownDevice(InvalidSubmission):
    """The leaderboard has no such device."""

    code = "unknown_device"


class InvalidValue(UserError):
    """An argument has the wrong form."""

    code = "invalid_value"


class OwnHarnessNeeded(InvalidValue):
    """Only the task's own harness can judge it, and nobody has asked for that."""

    code = "own_harness_needed"


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


class WaitOver(KernelCupError):
    """What was waited for has not come in the time that was given."""


class LaunchError(KernelCupError):
    """A machine failed before it could report."""


class LaunchTimeout(LaunchError):
    """No report came in time."""


class LaunchCancelled(LaunchError):
    """The run was ended because we asked for it."""


class BadReport(LaunchError):
    """The report is missing, too large, unreadable, or of another protocol version."""


class UnfitDevice(LaunchError):
    """GPUs are not as they should be before or after a job."""

    def __init__(self, text: str, *, gpus: Sequence[str] = (), spoils: bool = False) -> None:
        super().__init__(text)
        self.gpus = tuple(gpus)
        """Those that are unfit; empty where all that could be used are out of service already."""
        self.spoils = spoils
        """Whether what was measured on them just before means nothing."""


class StaleLease(KernelCupError):
    """The job has gone to another dispatcher or attempt."""


class RivalDeleted(KernelCupError):
    """The submission that a job was to be compared with is gone."""


class StorageUnavailable(KernelCupError):
    """The database cannot be reached or stays locked."""


class ServerUnavailable(KernelCupError):
    """The server cannot be reached, or does not answer as ours do."""


class ConfigError(KernelCupError):
    """The configuration cannot be used."""


SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})


def is_shortage(error: BaseException | None) -> bool:
    """Return whether the machine is short of something: files, memory, processes. That passes."""
    if isinstance(error, OSError):
        return error.errno in SHORTAGES
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "new thread" in str(error))
