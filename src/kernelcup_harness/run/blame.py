"""Whose fault a failure is, found by exclusion."""

from __future__ import annotations

from collections.abc import Callable

from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.protocol import Reason, Verdict

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


def time_is_up(text: str, limit_s: float, used_s: float, own_s: float, lost_s: float) -> RunEnds:
    """Return whose fault it is that a stage's time is up: the submission's, if it used at least half of the limit.

    Args:
        text: Says so.
        limit_s: The stage's limit.
        used_s: Spent waiting for the submission.
        own_s: The rest of what the stage took: that of the task's own code.
        lost_s: Lost of that rest because the submission's processes ran beside the calls.
    """
    own = RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text)
    if used_s < limit_s / 2:
        took = f"the submission's processes took {lost_s:.1f} s of processor time from the judge"
        own.message += f": between the calls {took}"
    text += f", of which the submission used {used_s:.1f} s and the task's own code {own_s:.1f} s"
    is_its_own = used_s + lost_s >= limit_s / 2
    return by_exclusion(own if is_its_own else None, lambda: own_s - lost_s >= limit_s, text)
