"""Figures as tables have them: one unit and as many decimals in a whole column, so that points align."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kernelcup.reporting.phrases import UNITS, duration, factor, percent, score_interval

NS = 1e9
SIGNIFICANT = 4
MOST_DECIMALS = 3
SKEWED = 0.1
"""The ends of an interval are named if their distances from the time differ by more than this share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeScale:
    """How the times of one column are written."""

    unit: str
    size_ns: float
    decimals: int

    @classmethod
    def of(cls, seconds: Iterable[float | None]) -> TimeScale:
        """Choose the unit of the shortest time, and decimals that give it four digits."""
        known = [each * NS for each in seconds if each is not None and math.isfinite(each) and each > 0]
        shortest = min(known, default=1e3)
        unit, size = next((each for each in UNITS if shortest >= each[1]), UNITS[-1])
        before_point = len(str(int(shortest / size)))
        return cls(unit=unit, size_ns=size, decimals=min(max(SIGNIFICANT - before_point, 0), MOST_DECIMALS))

    def text(self, seconds: float | None) -> str:
        """Return a time without its unit: ``27.02``."""
        if seconds is None or not math.isfinite(seconds):
            return "–"
        return f"{seconds * NS / self.size_ns:.{self.decimals}f}"

    def place(self, seconds: float, speedup: float | None) -> str:
        """Return a score with its unit: a time, or a speedup."""
        return f"{self.text(seconds)} {self.unit}" if speedup is None else factor(speedup)

    def within(self, seconds: float, low_s: float | None, high_s: float | None) -> str:
        """Return half of an interval, ``± 0.05``, or its ends if it is skewed; empty where none is known."""
        if low_s is None or high_s is None or not math.isfinite(high_s - low_s):
            return ""
        down, up = seconds - low_s, high_s - seconds
        if abs(up - down) > SKEWED * max(up, down):
            return f"{self.text(low_s)} to {self.text(high_s)}"
        half = (high_s - low_s) / 2 * NS / self.size_ns
        smallest = 10.0**-self.decimals
        if half and half < smallest / 2:
            return f"± <{smallest:.{self.decimals}f}"
        return f"± {half:.{self.decimals}f}"


def behind_text(seconds: float, first_s: float) -> str:
    """Return how much longer something takes than the fastest: ``+2.5 %``; empty for the fastest."""
    if seconds <= first_s or first_s <= 0:
        return ""
    more = seconds / first_s - 1
    return f"+{100 * more:.1f} %" if more < 9.995 else f"{seconds / first_s:.0f}×"


def score_text(seconds: float, speedup: float | None) -> str:
    """Return a score: a time with its unit, or a speedup."""
    return seconds_text(seconds) if speedup is None else factor(speedup)


def speedup_text(value: float | None) -> str:
    """Return how many times as fast something is: ``4.02×``."""
    return factor(value) if value is not None and math.isfinite(value) else ""


def share_text(share: float | None) -> str:
    """Return a share in percent: ``74 %``."""
    return "" if share is None else percent(share)


def count_text(count: int) -> str:
    """Return a number with a thin space between thousands: ``12 345``."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def bytes_text(count: int) -> str:
    """Return a size: ``6.2 kB``."""
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def amount_text(amount: float) -> str:
    """Return a large number: ``2.1 G``."""
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= size:
            return f"{amount / size:.3g} {letter}"
    return f"{amount:.3g}"


def seconds_text(seconds: float) -> str:
    """Return a time with its unit: ``27.02 µs``."""
    scale = TimeScale.of([seconds])
    return f"{scale.text(seconds)} {scale.unit}"


def moment_text(when: datetime) -> str:
    """Return a moment for readers without JavaScript: ``30 Nov 2026, 23:59 UTC``."""
    at = when.astimezone(UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def machine_time(when: datetime) -> str:
    """Return a moment for programs: ``2026-11-30T23:59:00Z``."""
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def nanoseconds_text(ns: float | None) -> str:
    """Return a time that stands alone: ``13.42 µs``; empty where none is known."""
    return "" if ns is None else duration(ns)


def points_text(points: float | None) -> str:
    """Return points of a grade as they are read."""
    return "none" if points is None else f"{points:g}"


FILTERS = {
    "points": points_text,
    "amount": amount_text,
    "duration": seconds_text,
    "nanoseconds": nanoseconds_text,
    "behind": behind_text,
    "speedup": speedup_text,
    "score_value": score_text,
    "score_interval": score_interval,
    "share": share_text,
    "count": count_text,
    "bytes": bytes_text,
    "moment": moment_text,
    "machine_time": machine_time,
}
