"""By which clock a result was timed: times of two clocks cannot be compared, and never rank together.

A clock that is no longer in use moves to :data:`PAST`, with a migration like 0016 that takes its results out of the
standings. They stand apart until they are judged again.
"""

from __future__ import annotations

from enum import StrEnum

from kernelcup_harness.protocol import Backend, HarnessKind, RunReport


class Clock(StrEnum):
    """How a result was timed; the number grows with each new clock of a kind of device."""

    GPU_1 = "gpu 1"
    """On a GPU: the submission's device clock, audited by the judge."""
    NO_GPU_1 = "no gpu 1"
    """Without a GPU: the submission's clock."""
    NO_GPU_2 = "no gpu 2"
    """Without a GPU: the judge's wall clock."""
    OWN = "own"
    """The clock of the task's own harness, which is the task's business."""


ON_GPU = Clock.GPU_1
WITHOUT_GPU = Clock.NO_GPU_2
PAST = (Clock.NO_GPU_1,)
"""Clocks that no result is timed by any more."""

OLDER_CLOCK = "measured by an older clock"


def clock_of(report: RunReport) -> Clock:
    """Return by which clock this version timed a run."""
    if report.harness is HarnessKind.OWN:
        return Clock.OWN
    return clock_of_device(report.backend)


def clock_of_device(backend: Backend) -> Clock:
    """Return by which clock the standard harness times on such a device."""
    return ON_GPU if backend is Backend.CUDA else WITHOUT_GPU


def clock_words(backend: Backend) -> str:
    """Say by which clock the standard harness times on such a device, and why."""
    if clock_of_device(backend) is ON_GPU:
        return "the GPU's own clock, audited by the judge (the clean room, which would replace it, is switched off)"
    return "the judge's wall clock, since there is no GPU; not comparable with times of a GPU"


def is_past(clock: str) -> bool:
    """Tell whether a result by this clock stands apart until it is judged again."""
    return clock in PAST


def rejudge_command(board: str, option: str = "") -> str:
    """Return the command that judges again what stands for its user; ``option`` names the server."""
    return f"kernelcup admin rejudge {board} --only-best{option}"
