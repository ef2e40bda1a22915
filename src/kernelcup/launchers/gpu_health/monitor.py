"""Watch a job's GPUs while it runs, for other processes and for lower clocks.

:mod:`kernelcup.launchers.gpu_health.checks` checks before and after a job. This module watches in between: a reading
through NVML costs a millisecond and does not disturb the measurement.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelcup.launchers.gpu_health.probe import GpuProbe, GpuProcess, GpuReading, ProbeFailed
from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import SLOWED_DOWN

EVERY_S = 1.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Seen:
    """The observations during one job."""

    strangers: dict[str, list[GpuProcess]] = field(default_factory=dict)
    """The processes of others, by GPU."""
    reasons: dict[str, int] = field(default_factory=dict)
    """All reasons for lower clocks, by GPU, as the driver's bit mask."""
    hottest_c: int | None = None
    looks: int = 0

    def take(self, reading: GpuReading, strangers: Sequence[GpuProcess]) -> None:
        """Add one reading of one GPU."""
        known = self.strangers.setdefault(reading.gpu, [])
        known += [each for each in strangers if each.pid not in {other.pid for other in known}]
        held = self.reasons.get(reading.gpu, 0) | (reading.clock_reasons or 0)
        self.reasons[reading.gpu] = held
        if reading.temperature_c is not None:
            self.hottest_c = max(reading.temperature_c, self.hottest_c or reading.temperature_c)

    @property
    def spoilt(self) -> tuple[str, ...]:
        """The GPUs that were shared."""
        return tuple(gpu for gpu, strangers in self.strangers.items() if strangers)

    @property
    def slowed(self) -> tuple[str, ...]:
        """The GPUs that were slowed down by heat or the power supply."""
        return tuple(gpu for gpu, reasons in self.reasons.items() if reasons & SLOWED_DOWN)

    def as_object(self) -> dict[str, Any]:
        """Return the observations as data for the environment of a report."""
        return {
            "looks": self.looks,
            "slowed_down": list(self.slowed),
            "clock_reasons": {gpu: f"{reasons:#x}" for gpu, reasons in self.reasons.items()},
            "hottest_c": self.hottest_c,
        }


def is_ours(pid: int) -> bool:
    """Return whether a process descends from this one, or is invisible because it is in another container.

    Each GPU is locked, so among KernelCup's processes only those that we started can be on it.
    """
    return not Path(f"/proc/{pid}").exists() or pid in processes.descendants(os.getpid())


class Watch:
    """Reads the GPUs of a job at intervals.

    Args:
        probe: If it is None, nothing is watched.
        every_s: Seconds between two readings.
    """

    def __init__(
        self,
        probe: GpuProbe | None,
        *,
        every_s: float = EVERY_S,
        ours: Callable[[int], bool] = is_ours,
    ) -> None:
        self._probe = probe
        self._every_s = every_s
        self._ours = ours

    @contextmanager
    def over(self, gpus: Sequence[str]) -> Iterator[Seen]:
        """Watch until the block ends; then the observations are complete."""
        seen, ended = Seen(), threading.Event()
        if self._probe is None or not gpus:
            yield seen
            return
        thread = threading.Thread(target=self._look_until, args=[gpus, seen, ended], daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            thread.join()

    def look(self, gpus: Sequence[str], seen: Seen) -> None:
        """Read the GPUs once. If the driver does not answer, the check after the job deals with it."""
        assert self._probe is not None
        try:
            readings = self._probe.read(gpus)
        except ProbeFailed as error:
            logger.warning("not watched: %s", error)
            return
        seen.looks += 1
        for reading in readings:
            seen.take(reading, [each for each in reading.processes if not self._ours(each.pid)])

    def _look_until(self, gpus: Sequence[str], seen: Seen, ended: threading.Event) -> None:
        while not ended.wait(self._every_s):
            self.look(gpus, seen)
