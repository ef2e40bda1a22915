"""The mean without the slowest and fastest tenth, which a few disturbed calls do not move."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

TRIM = 0.1
"""Share of the samples that is cut off at each end."""


def trimmed_mean(samples: Sequence[float]) -> float:
    """Return the mean without the slowest and fastest tenth; NaN without samples."""
    return statistics.fmean(ordered_and_cut(samples)[0]) if samples else math.nan


def ordered_and_cut(samples: Sequence[float]) -> tuple[list[float], int]:
    """Return the samples in order without the extremes, and how many were cut at each end."""
    ordered = sorted(samples)
    cut = int(len(ordered) * TRIM)
    return ordered[cut : len(ordered) - cut], cut
