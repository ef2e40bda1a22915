"""What is to be profiled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProfileWay(StrEnum):
    """What is profiled."""

    TRACE = "trace"
    """The submission's process, by PyTorch's profiler: a timeline, and no counters."""
    REPLAYED = "replayed"
    """The timer, which replays the captured call: no host code of the submission runs under the profiler."""
    CALLED = "called"
    """The submission's process, where its call cannot be replayed: host code could change what is seen."""


class Sections(StrEnum):
    """Sets of sections of ``ncu``."""

    BASIC = "basic"
    DETAILED = "detailed"
    FULL = "full"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileOptions:
    """What is to be profiled."""

    benchmark: int | None = None
    """Index of the benchmark; None for the last one."""
    kernel: str = ""
    """A regular expression that a kernel's name has to contain; empty for all kernels."""
    launches: int = 0
    """Most launches to profile; 0 for all of the call."""
    sections: Sections = Sections.FULL
    way: ProfileWay = ProfileWay.TRACE
    """Set by the runner, which profiles in several ways."""
