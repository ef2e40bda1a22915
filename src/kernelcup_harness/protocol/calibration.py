"""The harness's interface for the calibration of a device: one JSON line."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelcup_harness.protocol import Backend

CANARY_VERSION = 2
"""Version of the canary's work. Times of different versions are not compared."""

TOLERANCE = {Backend.CUDA: 0.05, Backend.CPU: 0.02}
"""Share by which a canary may be slower than its rolling median. Processes on one GPU differ by up to 4 % while the
times of submissions do not move; a GPU that is slowed down or shared differs by more."""

SPREADS = 6.0
"""A canary may be slower by this many spreads, if that is more."""
MOST_TOLERANCE = 0.10
"""Bound of this for a GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCalibration:
    """Measured capabilities of a device. Rates are the best measured ones, times are medians."""

    backend: Backend
    device_name: str
    driver: str = ""
    torch: str = ""
    environment: str = ""
    """Hash of the default environment, in which it was measured."""
    packages: str = ""
    """The packages of that environment for authors of kernels, with versions."""
    at: str
    """Time of the measurement, ISO 8601 in UTC."""
    copy_bytes_per_s: float
    """Bytes a second read and written by a large copy."""
    read_bytes_per_s: float
    """Bytes a second read by a large sum."""
    matrix_flops_per_s: dict[str, float] = field(default_factory=dict)
    """Rate by precision for matrices of zeros, which keep the clocks high: an upper bound."""
    l2_bytes: int = 0
    """Size of the L2 cache, 0 if it is not known."""
    empty_pair_ns: float = 0.0
    """Two events with nothing between them; 0 without a GPU."""
    empty_kernel_ns: float = 0.0
    """Two events around the smallest kernel, or the host's clock around the smallest call."""
    profiled_empty_ns: float = 0.0
    """The profiler's time of an empty kernel; 0 if the profiler cannot be used."""
    launch_ns: float = 0.0
    """Time of one of many smallest kernels that are launched one after another."""
    canary_ns: float
    canary_spread: float = 0.0
    """Robust standard deviation of repeated canaries, as a share."""
    canary_version: int = CANARY_VERSION
    clocks_mhz: dict[str, int] = field(default_factory=dict)
    """``sm`` and ``mem`` under load; empty if they are not known."""
    temperature_c: int | None = None
    no_counters: str | None = None
    """Why the hardware counters cannot be read, so that no time is witnessed; empty if they can, None if not known."""
    duration_s: float = 0.0

    @property
    def bandwidth(self) -> float:
        """Largest measured rate of memory in bytes a second."""
        return max(self.copy_bytes_per_s, self.read_bytes_per_s)

    @property
    def tolerance(self) -> float:
        """Share by which the canary may be slower than its rolling median."""
        return tolerance(self.backend, self.canary_spread)

    @property
    def kind(self) -> tuple[str, str, str, int]:
        """Two canaries are comparable only if these are equal."""
        return self.device_name, self.driver, self.torch, self.canary_version


def tolerance(backend: Backend, spread: float) -> float:
    """Return the share by which a canary may be slower, given the spread of canaries as a share."""
    least = TOLERANCE.get(backend, 0.0)
    most = MOST_TOLERANCE if backend is Backend.CUDA else float("inf")
    return min(most, max(least, SPREADS * spread))


def drift(canary_ns: float, expected_ns: float) -> float:
    """Return the share by which a canary differs from its expected time: 0.05 for 5 % slower."""
    return canary_ns / expected_ns - 1.0 if expected_ns > 0 else 0.0


def fits(canary_ns: float, expected_ns: float, tolerance: float) -> bool:
    """Return whether a canary is not too slow; True if there is no expectation."""
    return expected_ns <= 0 or canary_ns - expected_ns <= tolerance * expected_ns


def relative_spread(samples: Sequence[float]) -> float:
    """Return a robust standard deviation as a share of the median; 0 for fewer than two samples."""
    if len(samples) < 2:
        return 0.0
    middle = statistics.median(samples)
    deviations = [abs(sample - middle) for sample in samples]
    # The median deviation of a normal distribution is 0.6745 standard deviations.
    return statistics.median(deviations) / 0.6745 / middle if middle > 0 else 0.0
