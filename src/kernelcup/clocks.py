"""The clock that timed a result: times of different clocks cannot be compared."""

from __future__ import annotations

from enum import StrEnum

from kernelcup_harness.protocol import Backend, HarnessKind, RunReport


class Clock(StrEnum):
    """How a result was timed."""

    GPU = "gpu"
    """On a GPU: calls that are replayed in a clean process (witnessed or replayed), or the judge's wall clock."""
    NO_GPU = "no gpu"
    """Without a GPU: the judge's wall clock."""
    OWN = "own"
    """The clock of the task's own harness."""


def clock_of(report: RunReport) -> Clock:
    """Return the clock by which a run was timed."""
    if report.harness is HarnessKind.OWN:
        return Clock.OWN
    return clock_of_device(report.backend)


def clock_of_device(backend: Backend) -> Clock:
    """Return the clock of the standard harness for a kind of device."""
    return Clock.GPU if backend is Backend.CUDA else Clock.NO_GPU


def clock_words(backend: Backend) -> str:
    """Return in words which clock the standard harness uses for a kind of device, and why."""
    if clock_of_device(backend) is Clock.GPU:
        return "calls replayed in a clean process (witnessed or replayed), or the judge's wall clock"
    return "the judge's wall clock, since there is no GPU; not comparable with times of a GPU"
