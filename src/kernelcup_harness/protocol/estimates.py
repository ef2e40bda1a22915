"""The uncertainty of times: intervals of trimmed means. Pure, standard library only; decides ranks, not verdicts.

The interval of a trimmed mean is Student's, over the deviation of the winsorized samples (Tukey and McLaughlin 1963),
widened if consecutive samples are correlated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from kernelcup_harness.protocol.results import Timing, ordered_and_cut

Z95 = statistics.NormalDist().inv_cdf(0.975)
"""Half a 95 % interval of a normal distribution, in standard deviations."""
PROCESS_NS, PROCESS_SHARE = 80.0, 0.004
"""Standard deviation of a kernel's time between processes, as nanoseconds and as a share: its code and data lie
elsewhere in each, and no number of samples averages that out. Measured with an empty kernel in 67 jobs on an H200
and with plain submissions beside attacks on the time."""
WALL_CLOCK_NS = 150_000.0
"""Standard deviation between processes of a call by the wall clock on a GPU: two kinds of calls of 0.65 to 1.2 ms, each
in 13 processes on an H100. What the host does around a call varies as much: an empty call took 0.23 to 0.50 ms."""
LARGEST_REACH = 0.05
"""Widest reach of an interval that counts, as a share: else the noisiest result would tie with all others."""
LONGEST_LAG = 20
"""Longest lag of the autocorrelation."""


def interval_ns(timing: Timing) -> tuple[float, float] | None:
    """Return the 95 % interval of a case's ranked time, None if it is not known.

    On a GPU it also covers the variation between processes, of which a run has only one.
    """
    found, error = sampling_interval_ns(timing), process_error_ns(timing)
    return found if error <= 0 else widened(found, timing.score_ns, error)


def process_error_ns(timing: Timing) -> float:
    """Return the standard deviation of a case's ranked time between processes; 0 without a GPU."""
    if timing.not_replayed:
        return WALL_CLOCK_NS
    is_replayed = timing.offset_ns > 0 or timing.gun_ns
    if not is_replayed or timing.reported_ns is not None:
        return 0.0
    return timing.score_ns * between_processes([timing.score_ns], [1.0], device_share=timing.noise_share)


def sampling_interval_ns(timing: Timing) -> tuple[float, float] | None:
    """Return the 95 % interval of a case's ranked time in this process, None if it is not known."""
    if timing.reported_ns is not None:
        error = timing.reported.get("err")
        return None if error is None else around(timing.reported_ns, error)
    return moved(interval(timing.samples_ns), timing.raw_ns, timing.score_ns)


def error_ns(timing: Timing) -> float | None:
    """Return the standard error of a case's ranked time, None with fewer than two samples."""
    if len(timing.samples_ns) < 2:
        return timing.reported.get("err")
    return standard_error(timing.samples_ns)


def winsorized(samples: Sequence[float]) -> list[float]:
    """Return the samples, in their order, with the extremes moved to the nearest that is kept."""
    kept, _cut = ordered_and_cut(samples)
    return [min(max(sample, kept[0]), kept[-1]) for sample in samples]


def standard_error(samples: Sequence[float]) -> float:
    """Return the standard error of :func:`trimmed_mean`, of at least two samples in the order of time."""
    count = len(samples)
    _kept, cut = ordered_and_cut(samples)
    # As shares of the largest: squares of very long times would be too large for a float.
    scale = max(map(abs, samples)) or 1.0
    moved_in = [each / scale for each in winsorized(samples)]
    middle = sum(moved_in) / count
    variance = sum((sample - middle) ** 2 for sample in moved_in) / (count - 1)
    spread = math.sqrt(variance * likeness(moved_in))
    return scale * spread / ((1 - 2 * cut / count) * math.sqrt(count))


def likeness(samples: Sequence[float]) -> float:
    """Return the factor by which correlated neighbours increase the variance of a mean; at least 1.

    Sums the autocorrelation up to the first lag that is within chance.
    """
    count = len(samples)
    mean = sum(samples) / count
    around_mean = [sample - mean for sample in samples]
    power = sum(each * each for each in around_mean)
    if count < 8 or power <= 0:
        return 1.0
    total = 1.0
    for lag in range(1, min(LONGEST_LAG, count // 4) + 1):
        alike = sum(a * b for a, b in zip(around_mean, around_mean[lag:], strict=False)) / power
        if alike < 1 / math.sqrt(count):
            break
        total += 2 * alike
    return total


def interval(samples: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return the interval in which :func:`trimmed_mean` of infinitely many samples lies; None for fewer than two."""
    if len(samples) < 2:
        return None
    kept, _cut = ordered_and_cut(samples)
    half = student(level, max(1, len(kept) - 1)) * standard_error(samples)
    middle = statistics.fmean(kept)
    return middle - half, middle + half


def half_width(samples: Sequence[float], level: float = 0.95) -> float:
    """Return half the width of :func:`interval`; infinite for fewer than two samples."""
    found = interval(samples, level)
    return math.inf if found is None else (found[1] - found[0]) / 2


def around(middle: float, error: float, level: float = 0.95) -> tuple[float, float]:
    """Return the interval around an estimate of known standard error."""
    half = statistics.NormalDist().inv_cdf((1 + level) / 2) * error
    return middle - half, middle + half


def moved(found: tuple[float, float] | None, middle: float, new_middle: float) -> tuple[float, float] | None:
    """Return an interval moved by as much as its middle; it never goes below zero."""
    if found is None:
        return None
    by = new_middle - middle
    return max(0.0, found[0] + by), max(0.0, found[1] + by)


def widened(found: tuple[float, float] | None, middle: float, error: float) -> tuple[float, float] | None:
    """Return the 95 % interval of an estimate with a further standard error; it never goes below zero."""
    if found is None:
        return None
    down, up = (math.hypot(end - middle, Z95 * error) for end in found)
    return max(0.0, middle - down), middle + up


def between_processes(
    times_ns: Sequence[float], weights: Sequence[float], *, device_share: float = 0.0
) -> float:
    """Return the standard deviation between processes of a mean of logarithms of kernels' times.

    All cases of a process share where its code lies, so their errors do not average out. ``device_share`` is the
    observed deviation of the device between runs; it replaces the usual one if it is larger.
    """
    usual = max(PROCESS_SHARE, device_share)
    shares = [math.hypot(PROCESS_NS / max(1.0, time_ns), usual) for time_ns in times_ns]
    return math.fsum(weight * share for weight, share in zip(weights, shares, strict=True))


def student(level: float, freedom: int) -> float:
    """Return the two-sided quantile of Student's distribution.

    Exact for one and two degrees of freedom, else by the expansion of Cornish and Fisher (Hill 1970), to within 0.5 %.
    """
    tail = (1 + level) / 2
    if freedom == 1:
        return math.tan(math.pi * (tail - 0.5))
    if freedom == 2:
        return (2 * tail - 1) * math.sqrt(2 / (4 * tail * (1 - tail)))
    z: float = statistics.NormalDist().inv_cdf(tail)
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom ** (power + 1) for power, term in enumerate(terms))
