"""The exit codes: one for each verdict and each kind of error, the same for every command."""

from __future__ import annotations

from collections.abc import Iterable

from kernelcup.domain import JobState
from kernelcup.errors import (
    ConfigError,
    KernelCupError,
    LaunchError,
    NewerDatabase,
    OldDatabase,
    ServerUnavailable,
    StorageUnavailable,
    UnfitDevice,
    UserError,
    WaitOver,
)
from kernelcup_harness.protocol import Verdict

OK = 0
BUG = 1
USAGE = 2
USER_ERROR = 3
CONFIG_ERROR = 4
STORAGE_ERROR = 5
LAUNCH_ERROR = 6
CANCELLED = 7
SYSTEM_ERROR = 8
NO_RESULT = 9
NOT_RUN = 18
SIGNAL = 128
"""Plus the number of the signal that ended the command."""
INTERRUPTED = SIGNAL + 2
BROKEN_PIPE = SIGNAL + 13

VERDICTS: dict[Verdict, int] = {
    Verdict.ACCEPTED: OK,
    Verdict.WRONG_ANSWER: 10,
    Verdict.COMPILE_ERROR: 11,
    Verdict.RUNTIME_ERROR: 12,
    Verdict.TIME_LIMIT_EXCEEDED: 13,
    Verdict.MEMORY_LIMIT_EXCEEDED: 14,
    Verdict.OUTPUT_LIMIT_EXCEEDED: 15,
    Verdict.REJECTED: 16,
    Verdict.INTERNAL_ERROR: 17,
}

MEANINGS: dict[int, str] = {
    OK: "done; of a run: accepted",
    BUG: "a fault of KernelCup: the message names a file with the traceback to report",
    USAGE: "the command line is wrong: unknown option, missing argument",
    USER_ERROR: "something you can put right; `task check` found problems",
    CONFIG_ERROR: "the configuration cannot be used; `doctor`: submissions cannot be judged here",
    STORAGE_ERROR: "the database cannot be reached or stays locked; the same command may work later",
    LAUNCH_ERROR: "the machine failed before it could report",
    CANCELLED: "a job was cancelled, and of the submission's other jobs none was refused",
    SYSTEM_ERROR: "the operating system refused something, such as writing to a folder or a full disk",
    NO_RESULT: "nothing came of it: `watch --timeout` is over, or `compare` compared nothing",
    **{code: verdict.value for verdict, code in VERDICTS.items() if code},
    NOT_RUN: "compiled, not run: there is no GPU here (`run`)",
    SIGNAL: "plus the number of the signal that ended the command: 143 for SIGTERM",
    INTERRUPTED: "interrupted with Ctrl-C, or a question was answered with no",
    BROKEN_PIPE: "the reader of the output went away, as with `| head`",
}
"""Every exit code and its meaning."""

ERRORS: tuple[tuple[type[KernelCupError], int, str], ...] = (
    (UserError, USER_ERROR, "user_error"),
    (OldDatabase, CONFIG_ERROR, "old_database"),
    (NewerDatabase, CONFIG_ERROR, "newer_database"),
    (ConfigError, CONFIG_ERROR, "config_error"),
    (StorageUnavailable, STORAGE_ERROR, "storage_unavailable"),
    (ServerUnavailable, STORAGE_ERROR, "server_unavailable"),
    (WaitOver, NO_RESULT, "wait_over"),
    (UnfitDevice, LAUNCH_ERROR, "unfit_device"),
    (LaunchError, LAUNCH_ERROR, "launch_error"),
    (KernelCupError, BUG, "error"),
)


def of_error(error: KernelCupError) -> int:
    """Return the exit code of a deliberate error."""
    return next(code for kind, code, _ in ERRORS if isinstance(error, kind))


def error_code(error: KernelCupError) -> str:
    """Return the stable code of a deliberate error."""
    if isinstance(error, UserError):
        return error.code
    return next(name for kind, _, name in ERRORS if isinstance(error, kind))


def of_jobs(jobs: Iterable[tuple[JobState, Verdict | None]]) -> int:
    """Return the exit code for several jobs: the first that was not accepted counts, then a cancelled one.

    Unfinished jobs do not count as failures.
    """
    known = list(jobs)
    for _, verdict in known:
        if verdict is not None and verdict is not Verdict.ACCEPTED:
            return VERDICTS[verdict]
    return CANCELLED if any(state is JobState.CANCELLED for state, _ in known) else OK
