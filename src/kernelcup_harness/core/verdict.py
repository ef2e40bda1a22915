"""Verdicts that end a run, attributed to the contestant, the task or the machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Protocol

from kernelcup_harness.core.plan import SUBMISSION, PlannedCase, Stage
from kernelcup_harness.protocol.enums import Reason, StageName, Verdict
from kernelcup_harness.protocol.spec import JobSpec
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import FailureKind

# The verdict for each kind of failure that the contestant reports.
FAILURES = {
    FailureKind.COMPILE: (Verdict.COMPILE_ERROR, Reason.COMPILE),
    FailureKind.IMPORT: (Verdict.RUNTIME_ERROR, Reason.IMPORT),
    FailureKind.EXCEPTION: (Verdict.RUNTIME_ERROR, Reason.EXCEPTION),
    FailureKind.MEMORY: (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.DEVICE_MEMORY),
    FailureKind.HOST_MEMORY: (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.HOST_MEMORY),
    FailureKind.OUTPUT: (Verdict.WRONG_ANSWER, Reason.FORM),
    FailureKind.TOO_LARGE: (Verdict.OUTPUT_LIMIT_EXCEEDED, Reason.TOO_LARGE),
    FailureKind.TIME: (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME),
}
WITHOUT_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
"""Texts of the driver and its libraries when no device memory is left."""
LOST = "the submission's process ended"


class Reservation(Protocol):
    """The judge's part of a device's memory."""

    def contestant_bytes(self) -> int:
        """Return how many bytes the contestant holds."""

    def is_overdrawn(self) -> bool:
        """Return whether that is more than its part."""


class MachineFailed(Exception):
    """A process of the harness itself failed: the fault of the machine or of the harness, not of a submission."""


class RunEnds(Exception):
    """A verdict that ends the run.

    Args:
        verdict: The verdict.
        reason: Its reason.
        message: What happened.
        role: The contestant that was called.
        lost: Whether that contestant is gone, and the runner knows why.
        used_s: Seconds spent waiting for the submission; None unless the stage's time was up.
    """

    def __init__(
        self,
        verdict: Verdict,
        reason: Reason,
        message: str,
        *,
        role: str = SUBMISSION,
        lost: bool = False,
        used_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.reason = reason
        self.message = message
        self.role = role
        self.lost = lost
        self.used_s = used_s


CANNOT_TELL = "it cannot be told whether the submission or the task is at fault"


def by_exclusion(own: RunEnds | None, fails_alone: Callable[[], bool], text: str) -> RunEnds:
    """Return the verdict on a step that has failed. The only way to blame a task for a step with a submission in it.

    Args:
        own: The submission's verdict; None unless a frame, a verdict or a limit is its own.
        fails_alone: Whether the same step fails in the same way without the submission.
        text: What happened.
    """
    if own is not None:
        return own
    if fails_alone():
        return RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, f"{text}: without the submission, too")
    return RunEnds(Verdict.RUNTIME_ERROR, Reason.UNDECIDED, f"{text}; {CANNOT_TELL}")


def of_channel(
    error: Exception,
    stage: Stage,
    used_s: float,
    called: PlannedCase | None,
    longest_s: float = math.inf,
    *,
    took_s: float = 0.0,
) -> RunEnds:
    """Return the verdict for a contestant that does not answer properly, after ``used_s`` of waiting for it.

    ``longest_s`` is what the call might take, infinite if its stage is over; ``took_s`` what the stage has taken.
    """
    from kernelcup_harness.core.answer import Forged, GuardBroken

    case = "" if called is None else f", in case {called.index}{getattr(error, 'ranks', '')}"
    role = SUBMISSION if called is None else called.role
    if isinstance(error, ChannelTimeout) and longest_s < math.inf:
        text = f"a call did not end within {longest_s:.3g} s{case}"
        return RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text, role=role)
    if isinstance(error, ChannelTimeout):
        return time_is_up(stage.name, stage.limit_s, used_s, took_s - used_s, case=case, role=role)
    if isinstance(error, Forged):
        text = f"its times cannot be right: {error}{case}"
        return RunEnds(Verdict.REJECTED, Reason.FORGED_TIME, text, role=role)
    if isinstance(error, BrokenProtocol):
        reason = Reason.GUARD_BAND if isinstance(error, GuardBroken) else Reason.PROTOCOL
        text = f"the submission interfered with the harness: {error}"
        return RunEnds(Verdict.REJECTED, reason, text, role=role)
    return RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, f"{LOST}{case}", role=role, lost=True)


def time_is_up(
    name: StageName,
    limit_s: float,
    used_s: float,
    own_s: float,
    *,
    lost_s: float = 0.0,
    case: str = "",
    role: str = SUBMISSION,
) -> RunEnds:
    """Return whose fault it is that a stage's time is up: the submission's, if it used at least half of the limit.

    Args:
        name: The stage.
        limit_s: Its time limit.
        used_s: Spent waiting for the submission.
        own_s: The rest of what the stage took: that of the task's own code.
        lost_s: Lost of that rest because the submission's processes ran beside the calls.
        case: The case at which the time was up, for the message.
        role: The contestant that was called.
    """
    text = f"the {name.value} stage took longer than {limit_s:g} s{case}"
    beside = (
        f": between the calls the submission's processes took {lost_s:.1f} s of processor time from the judge"
    )
    late = text if used_s >= limit_s / 2 else text + beside
    own = RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, late, role=role, used_s=used_s)
    is_its_own = used_s + lost_s >= limit_s / 2
    text += f", of which the submission used {used_s:.1f} s and the task's own code {own_s:.1f} s"
    end = by_exclusion(own if is_its_own else None, lambda: own_s - lost_s >= limit_s, text)
    end.role, end.used_s = role, used_s
    return end


def of_others(error: Exception, reservation: Reservation | None) -> RunEnds | None:
    """Return the verdict for a failure of the task's code or of the harness; None if it has none."""
    from torch import OutOfMemoryError

    from kernelcup_harness.core.task import TaskFault
    from kernelcup_harness.wire.values import CannotCarry

    if isinstance(error, MachineFailed):
        return of_machine(error, str(error), reservation)
    if isinstance(error, TaskFault):
        return of_task(error.__cause__, str(error), reservation)
    if isinstance(error, CannotCarry):
        text = f"the task's {error}; docs/reference/task-format.md#values lists what can"
        return RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, text)
    if isinstance(error, OutOfMemoryError):
        return of_task(error, f"the judge ran out of device memory: {error}", reservation)
    # The driver's own failures have no class: all but a lack of memory are for the machine's operator.
    return for_memory(error, reservation) if isinstance(error, RuntimeError) else None


def of_task(cause: BaseException | None, text: str, reservation: Reservation | None) -> RunEnds:
    """Return the verdict for a failure of the task's code: the contestant's fault if it holds all the memory."""
    return for_memory(cause, reservation) or RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, text)


def of_machine(cause: BaseException | None, text: str, reservation: Reservation | None) -> RunEnds:
    """Return the verdict for a failed process of the harness: the contestant's fault if it holds all the memory."""
    return for_memory(cause, reservation) or RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text)


def for_memory(cause: BaseException | None, reservation: Reservation | None) -> RunEnds | None:
    """Blame the contestant for a lack of device memory if it holds more than its part; otherwise return None."""
    if not is_out_of_memory(cause) or reservation is None or not reservation.is_overdrawn():
        return None
    held = reservation.contestant_bytes()
    text = f"the submission holds {held / 1e9:.1f} GB of the device's memory and leaves too little"
    return RunEnds(Verdict.MEMORY_LIMIT_EXCEEDED, Reason.DEVICE_MEMORY, text)


def is_out_of_memory(cause: BaseException | None) -> bool:
    """Return whether an error was caused by a lack of device memory, as reported by PyTorch, the driver or libraries.

    A closed channel counts: some libraries end the process when memory runs out.
    """
    from torch import OutOfMemoryError

    while cause is not None:
        kind = getattr(cause, "kind", None)
        said = kind == "memory" or any(words in str(cause) for words in WITHOUT_MEMORY)
        if said or isinstance(cause, (OutOfMemoryError, ChannelClosed)):
            return True
        cause = cause.__cause__
    return False


def line_in(text: str, spec: JobSpec, *, first: bool = False) -> int | None:
    """Return the last line of the submission's entry that a stack names, or the first; None if it names none."""
    named = re.findall(rf'File "(?:[^"]*/)?{re.escape(spec.submission.entry)}", line (\d{{1,6}})\b', text)
    line = int(named[0 if first else -1]) if named else 0
    # The submission may have written the text.
    return line if 1 <= line <= spec.submission.code.count("\n") + 1 else None


def of_import(error: Exception, timeout_s: float, role: str = SUBMISSION) -> RunEnds:
    """Return the verdict for a contestant that does not answer properly during the import."""
    if isinstance(error, ChannelTimeout):
        text = f"importing the submission took longer than {timeout_s:g} s"
        return RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text, role=role)
    if isinstance(error, BrokenProtocol):
        text = f"the submission interfered with the harness: {error}"
        return RunEnds(Verdict.REJECTED, Reason.PROTOCOL, text, role=role)
    return RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, LOST, role=role, lost=True)
