"""Check a GPU before and after a job: no other processes, free memory, no new errors.

Pure logic: the driver is read through a :class:`GpuProbe`, and time and waiting are arguments.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum

from kernelcup.clean_text import more
from kernelcup.errors import LaunchCancelled, UnfitDevice
from kernelcup.launchers.gpu_health.cleanup import Swept
from kernelcup.launchers.gpu_health.monitor import Seen, Watch
from kernelcup.launchers.gpu_health.probe import MIB, GpuProbe, GpuProcess, GpuReading, ProbeFailed
from kernelcup_harness.protocol import SLOWED_DOWN

PATIENCE_S = 5.0
"""The driver frees the memory of a dead process within this time."""

RETRY_S = 0.25

TOLERANCE_BYTES = 128 * MIB
"""The driver's own use varies by a few MiB; a process with nothing but a context has over 300 MiB."""

SHOWN_PROCESSES = 3

logger = logging.getLogger(__name__)


class Kind(StrEnum):
    """The kind of a fault of a GPU."""

    PROCESS = "process"
    MEMORY = "memory"
    ERROR = "error"
    PROBE = "probe"
    SLOW = "slow"
    LEFTOVER = "leftover"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuFault:
    """One fault of a GPU."""

    kind: Kind
    gpu: str
    text: str


def _nothing_swept() -> Swept:
    return Swept()


class Hygiene:
    """Remembers the first state of each GPU, and compares later ones with it.

    The baseline of memory is the lowest use ever seen without a visible process. In a container the processes of
    others are invisible, and only their memory use reveals them.

    Args:
        sweep: Removes files of the dedicated users from shared memory and temporary folders.
        patience_s: How long a GPU may take to become clean.
    """

    def __init__(
        self,
        probe: GpuProbe,
        *,
        sweep: Callable[[], Swept] = _nothing_swept,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = PATIENCE_S,
        retry_s: float = RETRY_S,
        tolerance_bytes: int = TOLERANCE_BYTES,
    ) -> None:
        self._probe = probe
        self._sweep = sweep
        self._clock = clock
        self._patience_s, self._retry_s = patience_s, retry_s
        self._tolerance_bytes = tolerance_bytes
        self._memory: dict[str, int] = {}
        self._errors: dict[str, Mapping[str, int]] = {}

    def before(self, gpus: Sequence[str], *, wait: Callable[[float], object]) -> None:
        """Return once the GPUs are clean.

        Args:
            wait: Waits some seconds; returns a true value if waiting should end, like ``Event.wait``.

        Raises:
            UnfitDevice: They did not become clean in time.
            LaunchCancelled: ``wait`` returned a true value.
        """
        if findings := self._wait_for_clean(gpus, wait=wait, cool=True):
            raise UnfitDevice(_told(findings, " before the job"), gpus=_gpus(findings))

    def during(self, gpus: Sequence[str]) -> AbstractContextManager[Seen]:
        """Watch the GPUs while a job runs; the observations are complete at the end of the block."""
        return Watch(self._probe).over(gpus)

    def after(self, gpus: Sequence[str], *, wait: Callable[[float], object]) -> None:
        """Return once the GPUs are clean again. Raise like :meth:`before`."""
        if findings := self._wait_for_clean(gpus, wait=wait):
            # Memory that is freed late does not affect the measurement; other processes and faults may.
            spoils = any(finding.kind in (Kind.PROCESS, Kind.ERROR) for finding in findings)
            raise UnfitDevice(_told(findings, " after the job"), gpus=_gpus(findings), spoils=spoils)

    def check_seen(self, seen: Seen) -> None:
        """Raise ``UnfitDevice`` if another process was on the GPUs during the job."""
        if gpus := seen.spoilt:
            texts = [f"GPU {gpu} during the job: used by {_people(seen.strangers[gpu])}" for gpu in gpus]
            raise UnfitDevice(". ".join(texts), gpus=gpus, spoils=True)

    def look_again(self, gpus: Sequence[str]) -> None:
        """Check once, without waiting. Raise ``UnfitDevice``."""
        if findings := self._look(gpus, cool=True):
            raise UnfitDevice(_told(findings), gpus=_gpus(findings))

    def forget(self, gpus: Sequence[str]) -> None:
        """Accept the state of the GPUs at the next check as their baseline, because an operator vouches for them."""
        for gpu in gpus:
            self._memory.pop(gpu, None)
            self._errors.pop(gpu, None)

    def _wait_for_clean(
        self, gpus: Sequence[str], *, wait: Callable[[float], object], cool: bool = False
    ) -> list[GpuFault]:
        """Return the faults that remain after waiting; with ``cool``, heat is a fault too."""
        if not gpus:
            return []
        until = self._clock() + self._patience_s
        while findings := self._look(gpus, cool=cool):
            # An error does not go away by waiting, and would not be new at the next check.
            hopeless = any(finding.kind is Kind.ERROR for finding in findings)
            if hopeless or self._clock() >= until:
                return findings
            if wait(self._retry_s):
                raise LaunchCancelled(f"cancelled while waiting for GPU {', '.join(gpus)} to be clean")
        return []

    def _look(self, gpus: Sequence[str], *, cool: bool = False) -> list[GpuFault]:
        swept = self._sweep()
        for path in swept.removed:
            logger.warning("removed what a run had left behind: %s", path)
        text = f"left behind by a run, cannot be removed: {', '.join(swept.stuck)}"
        findings = [GpuFault(kind=Kind.LEFTOVER, gpu=gpu, text=text) for gpu in gpus if swept.stuck]
        try:
            readings = self._probe.read(gpus)
        except ProbeFailed as error:
            return [*findings, *(GpuFault(kind=Kind.PROBE, gpu=gpu, text=str(error)) for gpu in gpus)]
        for reading in readings:
            findings += self._judge(reading)
            if cool and (reading.clock_reasons or 0) & SLOWED_DOWN:
                findings.append(GpuFault(kind=Kind.SLOW, gpu=reading.gpu, text=_slow_text(reading)))
        return findings

    def _judge(self, reading: GpuReading) -> list[GpuFault]:
        found = [(Kind.ERROR, text) for text in self._new_errors(reading)]
        if reading.processes:
            found.append((Kind.PROCESS, f"used by {_people(reading.processes)}"))
        if text := self._excess(reading):
            found.append((Kind.MEMORY, text))
        return [GpuFault(kind=kind, gpu=reading.gpu, text=text) for kind, text in found]

    def _excess(self, reading: GpuReading) -> str:
        used = reading.memory_used_bytes
        if used is None:
            return ""
        known = self._memory.get(reading.gpu)
        if not reading.processes and (known is None or used < known):
            self._memory[reading.gpu] = known = used
        if known is None or used <= known + self._tolerance_bytes:
            return ""
        return f"{(used - known) // MIB:,} MiB of memory above its baseline of {known // MIB:,} MiB"

    def _new_errors(self, reading: GpuReading) -> list[str]:
        known = self._errors.get(reading.gpu, reading.errors)
        # Report each error once: the GPU may return to service if no more follow.
        self._errors[reading.gpu] = dict(reading.errors)
        texts = [
            f"{count - known[name]} new {name}"
            for name, count in reading.errors.items()
            if count > known.get(name, count)
        ]
        if reading.remap_failed:
            texts.append("a broken row of its memory could not be replaced")
        return texts


def _slow_text(reading: GpuReading) -> str:
    heat = "" if reading.temperature_c is None else f" at {reading.temperature_c} C"
    return f"slowed down by heat or the power supply{heat} (reasons {reading.clock_reasons:#x})"


def _people(processes: Sequence[GpuProcess]) -> str:
    shown = [f"process {process.pid} ({process.name})" for process in processes[:SHOWN_PROCESSES]]
    return " ".join([", ".join(shown), *more(len(processes) - len(shown))])


def _gpus(findings: Sequence[GpuFault]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.gpu for finding in findings))


def _told(findings: Sequence[GpuFault], moment: str = "") -> str:
    texts = {gpu: [each.text for each in findings if each.gpu == gpu] for gpu in _gpus(findings)}
    return ". ".join(f"GPU {gpu}{moment}: {'; '.join(found)}" for gpu, found in texts.items())
