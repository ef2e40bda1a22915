"""What a profiler found. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelcup_harness.protocol.spec import KeptFile, ProfileOptions

OPEN_COUNTERS = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/kernelcup.conf"
)
"""Lets every user of a machine read the GPU's counters, after a reboot."""
BINARY, MEMORY, SASS = "binary.kcgraph", "binary.memory", "sass.txt"
"""Names of what is kept of a ranked run: what was timed, the memory that it reads, and its machine code in words."""
MOST_FILES_BYTES = 48 << 20
"""Most bytes of a profile's files together, compressed; what is larger is left out, and the profile says so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelCounters:
    """One launch of a kernel, with the counters that rules read."""

    name: str
    grid: list[int]
    block: list[int]
    counters: dict[str, float]
    """By the names of :func:`kernelcup_harness.profile.counters.columns`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RanKernel:
    """A kernel of one timed call, from the export that the timer replays. Its name is the submission's choice."""

    name: str
    """As the compiler has mangled it."""
    image: str
    """The beginning of the SHA-256 of the machine code that it comes from."""
    launches: int
    """How often the call launches it in this form."""
    grid: list[int]
    block: list[int]
    registers: int
    """Of a thread."""
    shared_bytes: int
    """Of a block: what the compiler and the launch ask for together."""
    local_bytes: int
    """Of a thread: spilled registers and arrays."""
    share: float | None = None
    """Of the time of all kernels of the call, from 0 to 1; None if they were not timed one by one."""
    origin: str | None = None
    """The library of the machine that has this machine code, for example ``cuBLAS``; empty if none has it, None if the
    machine has no list of its libraries' code."""


def device_of(state: Mapping[str, str]) -> str:
    """Return device and driver by the device's state (``gpu`` in a report's environment); empty if not known."""
    name, driver = state.get("name", ""), state.get("driver_version", "")
    return f"{name}, driver {driver}" if name and driver else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """What ``ncu`` found about one call."""

    case: int
    """Index of the benchmark."""
    options: ProfileOptions
    tool: str = ""
    """The name and version of the profiler; empty if it could not be started."""
    trouble: str = ""
    """Why there are no counters, empty if there are."""
    not_replayed: str = ""
    """Why the submission's own process was profiled, empty if the timer was."""
    kernels: list[KernelCounters] = field(default_factory=list)
    """All profiled launches, in their order."""
    data_bytes: float = 0.0
    """Bytes of the input and the answer; 0 if they are not known."""
    files: list[KeptFile] = field(default_factory=list)
    seconds: float = 0.0
    """How long the profile took, with the start of its processes."""
