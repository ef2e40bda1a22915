"""Everything that KernelCup raises on purpose.

KernelCupError
├─ UserError            its text may be shown; stable ``code``; never retried
│  ├─ NotFound, Conflict (IdempotencyMismatch)
│  ├─ SignInNeeded, SignInFailed, SignInPending, SlowDown, SignInDenied, SignInExpired
│  ├─ Forbidden         forbidden
│  │  └─ ScopeMissing, Banned, RegistrationNeeded
│  ├─ Paused, LeaderboardOpen
│  ├─ RateLimited (Overloaded): says after how many seconds to try again
│  ├─ LeaderboardClosed (NotOpenYet, DeadlinePassed)
│  ├─ InvalidSubmission invalid_submission
│  │  ├─ EmptyFile, FileTooLarge, NotText, InvalidFiles, EntryNeeded, WrongFileType
│  │  ├─ GpuNeeded, InvalidDirective, ConflictingBoards
│  │  └─ LeaderboardNeeded, DeviceNeeded, UnknownDevice
│  ├─ InvalidTask       invalid_task   holds the problems, each with file, line and column
│  └─ InvalidValue      invalid_value
│     └─ EnvironmentMissing, OwnHarnessNeeded, BrokenChecker, MachineTooSmall, TaskTooSlow
├─ WaitOver             what was waited for has not come in the time that was given; it goes on
├─ LaunchError          a machine or a provider failed; the job may be tried again
│  ├─ LaunchTimeout, BadReport
│  ├─ LaunchLost        its machine was lost
│  ├─ NoRoom            the job waits on, and no attempt is used up
│  ├─ LaunchCancelled   it was ended on our own wish: no fault of the machine, no attempt used up
│  └─ UnfitDevice       a GPU is not as it should be; names the GPUs and what was found
├─ StaleLease           another dispatcher owns the job; throw the result away
├─ StorageUnavailable   the database cannot be reached or is locked; the same call may work later
├─ ServerUnavailable    the server cannot be reached, or does not answer as ours do
└─ ConfigError          names file, key and expectation; only at start
   └─ OldDatabase, NewerDatabase  the database is from before the first release, or from a newer version

A submission that fails is a verdict and never one of these.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from kernelcup.clean_text import listed


class KernelCupError(Exception):
    """Root of all deliberate errors. Its text is a fault, or a list of them, of a length that people read."""

    def __init__(self, faults: str | Sequence[object] = "") -> None:
        super().__init__(listed(faults.splitlines() if isinstance(faults, str) else faults))


class UserError(KernelCupError):
    """An error that the user can correct."""

    code = "user_error"


class NotFound(UserError):
    """The object does not exist for the user."""

    code = "not_found"


class Conflict(UserError):
    """The object already exists, or is in use."""

    code = "conflict"


class SignInFailed(UserError):
    """The sign-in provider did not confirm an identity."""

    code = "sign_in_failed"


class SignInPending(UserError):
    """The sign-in of the command line is not decided yet."""

    code = "authorization_pending"


class SlowDown(UserError):
    """The command line polls its sign-in too often."""

    code = "slow_down"


class SignInDenied(UserError):
    """The sign-in of the command line was refused."""

    code = "access_denied"


class SignInExpired(UserError):
    """The code of the command line is unknown, expired or used."""

    code = "expired_token"


class Forbidden(UserError):
    """The user may not do this."""

    code = "forbidden"


class IdempotencyMismatch(Conflict):
    """The idempotency key was already used for another request."""

    code = "idempotency_mismatch"


class SignInNeeded(UserError):
    """The user is not signed in, or the token is unknown, expired or revoked."""

    code = "sign_in_needed"


class ScopeMissing(Forbidden):
    """The token lacks the scope."""

    code = "scope_missing"


class Banned(Forbidden):
    """The user may not submit."""

    code = "banned"


class RegistrationNeeded(Forbidden):
    """The leaderboard is part of an event for which the user has not registered."""

    code = "registration_needed"


class Paused(UserError):
    """The service, the leaderboard or the device is paused."""

    code = "paused"


class RateLimited(UserError):
    """A rate limit is exceeded."""

    code = "rate_limited"

    def __init__(self, text: str, *, retry_after_s: int) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        """Whole seconds, at least 1."""


class Overloaded(RateLimited):
    """The server is overloaded; nothing was done."""

    code = "overloaded"


class LeaderboardClosed(UserError):
    """The leaderboard accepts no submissions now."""

    code = "leaderboard_closed"


class NotOpenYet(LeaderboardClosed):
    """The leaderboard opens later."""

    code = "not_open_yet"


class DeadlinePassed(LeaderboardClosed):
    """The leaderboard's deadline has passed."""

    code = "deadline_passed"


class LeaderboardOpen(UserError):
    """The leaderboard accepts submissions still."""

    code = "leaderboard_open"


class InvalidSubmission(UserError):
    """The file cannot be accepted as a submission."""

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


class InvalidFiles(InvalidSubmission):
    """The files of a submission cannot be read, or cannot lie beside each other or the task's."""

    code = "invalid_files"


class EntryNeeded(InvalidSubmission):
    """None of several files is named as the one with the kernel."""

    code = "entry_needed"


class GpuNeeded(InvalidSubmission):
    """The submission is CUDA C++, and a device that was chosen has no GPU."""

    code = "gpu_needed"


class WrongFileType(InvalidSubmission):
    """The file name's suffix does not fit the task's language."""

    code = "wrong_file_type"


class InvalidDirective(InvalidSubmission):
    """A ``#!POPCORN`` line is invalid."""

    code = "invalid_directive"


class ConflictingBoards(InvalidSubmission):
    """The file and the request name different leaderboards."""

    code = "conflicting_leaderboards"


class LeaderboardNeeded(InvalidSubmission):
    """No leaderboard was named, and there are several."""

    code = "leaderboard_needed"


class DeviceNeeded(InvalidSubmission):
    """No device was named, and the leaderboard has several."""

    code = "device_needed"

    def __init__(self, text: str, *, leaderboard: str = "", devices: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.leaderboard = leaderboard
        self.devices = tuple(devices)
        """The devices to choose from."""


class UnknownDevice(InvalidSubmission):
    """The leaderboard does not have the device."""

    code = "unknown_device"


class InvalidValue(UserError):
    """An argument is invalid."""

    code = "invalid_value"


class EnvironmentMissing(InvalidValue):
    """A device's machine lacks the environment that a task asks for."""

    code = "environment_missing"


class BrokenChecker(InvalidValue):
    """The task's checker accepts wrong answers, and the request does not confirm that."""

    code = "broken_checker"


class OwnHarnessNeeded(InvalidValue):
    """Only the task's own harness can judge it, and the request does not ask for it."""

    code = "own_harness_needed"


class MachineTooSmall(InvalidValue):
    """The task's references need more memory than the machine that should try it has."""

    code = "machine_too_small"


class TaskTooSlow(InvalidValue):
    """A ranked run of the task's reference, or 16 of its calls with input and check, take longer than they may."""

    code = "task_too_slow"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem of a task."""

    file: str
    line: int = 1
    column: int = 1
    key: str = ""
    """Dotted path inside the file, for example ``tests.2.size``; may be empty."""
    text: str
    """The fault, and what is allowed instead."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.key and f'{self.key}: '}{self.text}"


class InvalidTask(UserError):
    """A task has problems; the text has a line for each of the first ten."""

    code = "invalid_task"

    def __init__(self, problems: Sequence[Problem], text: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__(text or self.problems)


class WaitOver(KernelCupError):
    """The awaited result did not come in time."""


class LaunchError(KernelCupError):
    """A machine failed before it could report."""


class LaunchTimeout(LaunchError):
    """No report came in time."""


class LaunchLost(LaunchError):
    """The machine was lost in the middle of a run, or its launcher does not know the call any more."""


class NoRoom(LaunchError):
    """No machine that may judge the job has a free slot now."""


class LaunchCancelled(LaunchError):
    """The run was cancelled by us."""


class BadReport(LaunchError):
    """The report is missing, too large, unreadable, or of another protocol version."""


class UnfitDevice(LaunchError):
    """GPUs are unfit before or after a job."""

    def __init__(self, text: str, *, gpus: Sequence[str] = (), spoils: bool = False) -> None:
        super().__init__(text)
        self.gpus = tuple(gpus)
        """The unfit GPUs; empty if all usable ones are already out of service."""
        self.spoils = spoils
        """Whether the measurements just made on them are worthless."""


class StaleLease(KernelCupError):
    """The job belongs to another dispatcher or attempt by now."""


class RivalDeleted(KernelCupError):
    """The submission to compare with was deleted."""


class StorageUnavailable(KernelCupError):
    """The database cannot be reached or stays locked, or the store of files cannot be reached."""


class ServerUnavailable(KernelCupError):
    """The server cannot be reached, or does not answer like a KernelCup server."""


class ConfigError(KernelCupError):
    """The configuration cannot be used."""


class OldDatabase(ConfigError):
    """The database is from before release 0.1.0, the first whose databases can be upgraded."""


class NewerDatabase(ConfigError):
    """The database is at a revision that this version does not know."""


def is_shortage(error: BaseException | None) -> bool:
    """Return whether the machine temporarily lacks a resource: files, memory or processes."""
    if isinstance(error, OSError):
        return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "new thread" in str(error))
