"""The clock that timed a result: times of different clocks cannot be compared, and never rank together.

A clock that is no longer in use moves to :data:`PAST`, with a migration like 0017 that takes its results out of the
standings. They are listed separately until they are judged again.
"""

from __future__ import annotations

from enum import StrEnum

from kernelcup_harness.protocol import Backend, HarnessKind, RunReport


class Clock(StrEnum):
    """How a result was timed; the number grows with each new clock of a kind of device."""

    GPU_1 = "gpu 1"
    """On a GPU: events of the submission's process, audited by the judge."""
    GPU_2 = "gpu 2"
    """On a GPU: the device's timer in a clean process (replayed), or the judge's wall clock."""
    NO_GPU_1 = "no gpu 1"
    """Without a GPU: the submission's clock."""
    NO_GPU_2 = "no gpu 2"
    """Without a GPU: the judge's wall clock."""
    OWN = "own"
    """The clock of the task's own harness."""


ON_GPU = Clock.GPU_2
WITHOUT_GPU = Clock.NO_GPU_2
PAST = (Clock.NO_GPU_1, Clock.GPU_1)
"""Clocks that are no longer in use."""

OLDER_CLOCK = "measured by an older clock"


def clock_of(report: RunReport) -> Clock:
    """Return the clock by which this version timed a run."""
    if report.harness is HarnessKind.OWN:
        return Clock.OWN
    return clock_of_device(report.backend)


def clock_of_device(backend: Backend) -> Clock:
    """Return the clock of the standard harness for a kind of device."""
    return ON_GPU if backend is Backend.CUDA else WITHOUT_GPU


def clock_words(backend: Backend) -> str:
    """Return in words which clock the standard harness uses for a kind of device, and why."""
    if clock_of_device(backend) is ON_GPU:
        return "the device's timer in a clean process (replayed), or the judge's wall clock"
    return "the judge's wall clock, since there is no GPU; not comparable with times of a GPU"


def is_past(clock: str) -> bool:
    """Return whether results of this clock are listed separately until they are judged again."""
    return clock in PAST


def rejudge_command(board: str, option: str = "") -> str:
    """Return the command that judges each user's best again; ``option`` names the server."""
    return f"kernelcup admin rejudge {board} --only-best{option}"
