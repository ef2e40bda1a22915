"""What a machine finds out about one of its devices: crosses the border of the harness as one JSON line."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelcup_harness.protocol import Backend

CANARY_VERSION = 1
"""Of what the canary does. Times of different versions are not compared."""

TOLERANCE = 0.02
"""By what share the canary of a GPU may differ from its rolling median."""

SPREADS = 6.0
"""A processor's canary may differ by so many of its own spreads, if that is more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCalibration:
    """What a device can do, as measured. Rates are the best that were seen, times medians."""

    backend: Backend
    device_name: str
    driver: str = ""
    torch: str = ""
    at: str
    """Moment of the measurement, ISO 8601 in UTC."""
    copy_bytes_per_s: float
    """Bytes read and written by a large copy."""
    read_bytes_per_s: float
    """Bytes read by a large sum."""
    matrix_flops_per_s: dict[str, float] = field(default_factory=dict)
    """By precision, of matrices of zeros: these let the clocks stay high, so it is a bound."""
    l2_bytes: int = 0
    """0 where it is not known."""
    empty_pair_ns: float = 0.0
    """Two events with nothing between them; 0 without a GPU."""
    empty_kernel_ns: float = 0.0
    """Two events around the smallest kernel, or the host's clock around the smallest call."""
    profiled_empty_ns: float = 0.0
    """What the profiler sees of a kernel that does nothing; 0 where it cannot be used."""
    launch_ns: float = 0.0
    """One of many smallest kernels that are launched one after another."""
    canary_ns: float
    canary_spread: float = 0.0
    """How far repeats of the canary differ, as a share: a robust standard deviation."""
    canary_version: int = CANARY_VERSION
    clocks_mhz: dict[str, int] = field(default_factory=dict)
    """``sm`` and ``mem`` under load; empty where nobody tells."""
    temperature_c: int | None = None
    duration_s: float = 0.0

    @property
    def bandwidth(self) -> float:
        """The largest rate at which memory was seen to move bytes, a second."""
        return max(self.copy_bytes_per_s, self.read_bytes_per_s)

    @property
    def tolerance(self) -> float:
        """By what share the canary may differ from its rolling median."""
        return TOLERANCE if self.backend is Backend.CUDA else max(TOLERANCE, SPREADS * self.canary_spread)

    @property
    def kind(self) -> tuple[str, str, str, int]:
        """What must be the same for two canaries to be comparable."""
        return self.device_name, self.driver, self.torch, self.canary_version


def drift(canary_ns: float, expected_ns: float) -> float:
    """Return by what share a canary differs from what it should take: 0.05 for 5 % slower."""
    return canary_ns / expected_ns - 1.0 if expected_ns > 0 else 0.0


def fits(canary_ns: float, expected_ns: float, tolerance: float) -> bool:
    """Tell whether a canary is as it should be; without an expectation it is."""
    return expected_ns <= 0 or abs(canary_ns - expected_ns) <= tolerance * expected_ns


def relative_spread(samples: Sequence[float]) -> float:
    """Return a robust standard deviation as a share of the median; 0 for fewer than two samples."""
    if len(samples) < 2:
        return 0.0
    middle = statistics.median(samples)
    deviations = [abs(sample - middle) for sample in samples]
    # The median deviation of a normal distribution is 0.6745 standard deviations.
    return statistics.median(deviations) / 0.6745 / middle if middle > 0 else 0.0
