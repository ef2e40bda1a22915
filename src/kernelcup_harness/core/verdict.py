"""Verdicts that end a run, attributed to the contestant, the task or the machine."""

from __future__ import annotations

import math
import re
from typing import Protocol

from kernelcup_harness.core.plan import SUBMISSION, PlannedCase, Stage
from kernelcup_harness.protocol.enums import Reason, Verdict
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


def of_channel(
    error: Exception, stage: Stage, used_s: float, called: PlannedCase | None, longest_s: float = math.inf
) -> RunEnds:
    """Return the verdict for a contestant that does not answer properly, after ``used_s`` of waiting for it.

    ``longest_s`` is what the call might take, infinite if its stage is over: the runner decides whose fault that is.
    """
    from kernelcup_harness.core.answer import Forged, GuardBroken

    case = "" if called is None else f", in case {called.index}{getattr(error, 'ranks', '')}"
    role = SUBMISSION if called is None else called.role
    if isinstance(error, ChannelTimeout) and longest_s < math.inf:
        text = f"a call did not end within {longest_s:.3g} s{case}"
        return RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text, role=role)
    if isinstance(error, ChannelTimeout):
        text = f"the {stage.name.value} stage took longer than {stage.limit_s:g} s{case}"
        return RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text, role=role, used_s=used_s)
    if isinstance(error, Forged):
        text = f"its times cannot be right: {error}{case}"
        return RunEnds(Verdict.REJECTED, Reason.FORGED_TIME, text, role=role)
    reason = Reason.GUARD_BAND if isinstance(error, GuardBroken) else Reason.PROTOCOL
    return of_silence(error, role, case, reason)


def of_silence(error: Exception, role: str, case: str = "", reason: Reason = Reason.PROTOCOL) -> RunEnds:
    """Return the verdict for a contestant that broke the protocol, for ``reason``, or has ended."""
    if isinstance(error, BrokenProtocol):
        return RunEnds(
            Verdict.REJECTED, reason, f"the submission interfered with the harness: {error}", role=role
        )
    return RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, f"{LOST}{case}", role=role, lost=True)


def of_others(error: Exception, reservation: Reservation | None) -> RunEnds | None:
    """Return the verdict for a failure of the task's code or of the harness; None if it has none."""
    from torch import OutOfMemoryError

    from kernelcup_harness.core.task import TaskFault
    from kernelcup_harness.wire.values import CannotCarry

    if isinstance(error, MachineFailed):
        return of_ours(error, str(error), reservation, Reason.MACHINE)
    if isinstance(error, TaskFault):
        return of_ours(error.__cause__, str(error), reservation)
    if isinstance(error, CannotCarry):
        text = f"the task's {error}; docs/reference/task-format.md#values lists what can"
        return RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, text)
    if isinstance(error, OutOfMemoryError):
        return of_ours(error, f"the judge ran out of device memory: {error}", reservation)
    # The driver's own failures have no class: all but a lack of memory are for the machine's operator.
    return for_memory(error, reservation) if isinstance(error, RuntimeError) else None


def of_ours(
    cause: BaseException | None, text: str, reservation: Reservation | None, reason: Reason = Reason.TASK
) -> RunEnds:
    """Return the verdict for failed code of a task, or of the harness: the contestant's if it holds all the memory."""
    return for_memory(cause, reservation) or RunEnds(Verdict.INTERNAL_ERROR, reason, text)


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
    return of_silence(error, role)
