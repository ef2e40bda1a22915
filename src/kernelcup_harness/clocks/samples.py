"""The times of one case: which of them count, when there are enough, and what is reported of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from kernelcup_harness.protocol import Audit, Finding, MeasureRules, Timing, estimates
from kernelcup_harness.protocol.results import trimmed_mean

SLOW_CLOCK = 0.9
"""Samples at a clock below this share of the median do not count."""
SETTLED_WITHIN = 0.02
SETTLED_OVER = 4
"""The median of this many calls is compared with the median of as many calls before them."""
SMALLEST_STEP_NS = 50.0
"""Half width of an interval that is narrow enough for any call."""
FEWEST_TO_STOP = 16
"""Fewest samples whose precision can be judged: fewer may look alike by chance, mostly quick ones."""


STEADY_SHARE, STEADY_NS = 0.02, 300.0
"""The median of times that are steady is known to within this."""


def is_steady(times_ns: Sequence[float]) -> bool:
    """Return whether the median of some times is known well; a few that are far off change nothing."""
    middle = statistics.median(times_ns)
    spread = statistics.median(abs(each - middle) for each in times_ns)
    # Of a normal distribution the standard error of the median is 1.86 median deviations over the root of the count.
    return 1.86 * spread / math.sqrt(len(times_ns)) <= STEADY_SHARE * middle + STEADY_NS


SERIES_SHARE, HELD_SHARE, SERIES_NS = 1.15, 1.25, 3_000.0
"""How far the judge's time of back-to-back calls may exceed the start gun's, and from where on a person looks at it. By
the timer's host it was at most 7 % for 14 kinds of calls on an H100, or 2.1 us if a launch takes the host longer than
the call takes the device."""


def longer_among_many(score_ns: float, series_ns: float) -> Finding | None:
    """Return a finding if back-to-back calls take longer by the judge's clock than by the start gun.

    Far longer ones are held for a review.
    """
    if series_ns <= SERIES_SHARE * score_ns + SERIES_NS:
        return None
    text = (
        f"one after another its calls take {series_ns / 1e3:.2f} us each by the judge's clock, "
        f"a single one {score_ns / 1e3:.2f} us"
    )
    held = series_ns >= HELD_SHARE * score_ns + SERIES_NS
    return Finding(code="series_longer", text=text, quarantines=held)


class Samples:
    """Times are only added."""

    def __init__(self) -> None:
        self.ns: list[float] = []
        """By the judge's clock or the start gun, the clock's own share included."""
        self.watched_ns: list[float] = []
        """By the witness; if there are any, they rank."""
        self.discarded_ns: list[float] = []
        self._own_ns: list[float] = []
        self._clocks_mhz: list[float] = []

    def add(self, ns: float, own_ns: float, *, clock_mhz: float | None, slowed_down: bool) -> None:
        """Add the time of one call; it does not count if the device was slowed down by heat or its power supply."""
        if slowed_down:
            self.discarded_ns.append(ns)
            return
        self.ns.append(ns)
        self._own_ns.append(own_ns)
        if clock_mhz is not None:
            self._clocks_mhz.append(clock_mhz)

    def add_watched(self, times_ns: Sequence[float], *, slowed_down: bool) -> None:
        """Add the times of calls that the witness measured."""
        (self.discarded_ns if slowed_down else self.watched_ns).extend(times_ns)

    def gun_ns(self, offset_ns: float) -> list[float]:
        """Return the times that count, without the clock's own share."""
        return [self.ns[place] - offset_ns for place in self._kept()[0]]

    def timing(
        self,
        *,
        offset_ns: float = 0.0,
        overhead_ns: float | None = None,
        noise_share: float = 0.0,
        audit: Audit | None = None,
    ) -> Timing | None:
        """Return what is reported, None without times."""
        if self.watched_ns:
            return Timing(
                samples_ns=self.watched_ns,
                gun_ns=self.gun_ns(offset_ns),
                noise_share=noise_share,
                discarded_ns=self.discarded_ns,
                audit=audit,
            )
        if not self.ns:
            return None
        kept, discarded = self._kept()
        known = len(self._clocks_mhz) == len(self.ns)
        has_own = not any(map(math.isnan, self._own_ns))
        return Timing(
            samples_ns=[self.ns[place] for place in kept],
            own_ns=[self._own_ns[place] for place in kept] if has_own else [],
            overhead_ns=overhead_ns,
            offset_ns=offset_ns,
            noise_share=noise_share,
            discarded_ns=self.discarded_ns + [self.ns[place] for place in discarded],
            clocks_mhz=[self._clocks_mhz[place] for place in kept] if known else [],
            audit=audit,
        )

    def _kept(self) -> tuple[list[int], list[int]]:
        """Return the numbers of the samples that count, and of those taken at a clock far below the others'."""
        places = list(range(len(self.ns)))
        if len(self._clocks_mhz) != len(self.ns):
            return places, []
        least = SLOW_CLOCK * statistics.median(self._clocks_mhz) if self._clocks_mhz else 0.0
        kept = [place for place in places if self._clocks_mhz[place] >= least]
        return kept, [place for place in places if self._clocks_mhz[place] < least]


def timing_settled(times_ns: Sequence[float]) -> bool:
    """Return whether the last few calls took as long as those before."""
    if len(times_ns) < 2 * SETTLED_OVER:
        return False
    last = statistics.median(times_ns[-SETTLED_OVER:])
    before = statistics.median(times_ns[-2 * SETTLED_OVER : -SETTLED_OVER])
    return abs(last - before) <= SETTLED_WITHIN * before


def enough(samples_ns: Sequence[float], elapsed_s: float, rules: MeasureRules, budget_s: float) -> bool:
    """Return whether a case has enough samples.

    ``elapsed_s`` is the wall-clock time since its first sample, ``budget_s`` the time it may take.
    """
    count = len(samples_ns)
    if count >= rules.max_samples:
        return True
    if count < max(1, rules.min_samples):
        return False
    if elapsed_s >= budget_s:
        return True
    if not rules.relative_error or count < FEWEST_TO_STOP:
        return False
    wanted = max(rules.relative_error * trimmed_mean(samples_ns), SMALLEST_STEP_NS)
    return estimates.half_width(samples_ns) <= wanted
