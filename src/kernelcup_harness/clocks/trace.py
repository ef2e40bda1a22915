"""Reads what the witness saw: the device's activity over time, cut where it is idle.

A watch has rounds. In each, the judge writes an input and sweeps the cache, the timer launches one call, and the judge
copies the answer. The number of dispatches of the judge's own work is known; whatever the device does between these two
parts is the call. So nothing can be hidden before, beside or after it: what is launched is counted, and what was
launched before keeps the device from being idle.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

COUNTERS = ("sm__cycles_active.max", "sm__cycles_elapsed.max", "gr__dispatch_count.sum")
"""The hardware's counters, in the order of a sample's values; all in one pass. Instructions could be counted as well,
which makes each sample three times as large and slower to read."""
INTERVAL_NS = 2_000
"""Between two samples. The time of a stretch is finer: cycles count within a sample."""
IDLE_NS = 6_000
"""Activity that is further apart belongs to different stretches; kernels of a graph are at most 1.5 us apart."""
HOUSEKEEPING_NS = 5_000.0
"""Stretches without dispatches up to this long are the driver's own."""
SPAN_NS, PREAMBLE_NS = 120.0, 600.0
"""What the span of a call has more than the start gun's time less an empty graph's, and what it lacks of a graph that
begins with a preamble: one dispatch more than it has nodes, for which no multiprocessor works. Measured with kernels
that spin, on an H200; see ``benchmarks/RESULTS.md``."""
PART_NS = 500_000
"""Parts of the judge's own work that are further apart are learned as different parts."""


class Sample(Protocol):
    """Counters over one interval: see :class:`kernelcup_harness.device.nvidia.pm_sampling.Sample`."""

    @property
    def start_ns(self) -> int:
        """Its beginning by the device's timer."""

    @property
    def end_ns(self) -> int:
        """Its end."""

    @property
    def values(self) -> tuple[float, ...]:
        """The values of :data:`COUNTERS`."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Activity between two idle times.

    Args:
        start_ns: When the first multiprocessor became active, by the device's timer.
        end_ns: When the last one ended.
        dispatches: Number of kernels and the like that were started.
    """

    start_ns: float
    end_ns: float
    dispatches: int


@dataclass(frozen=True, slots=True)
class Expected:
    """The dispatches of one round.

    Args:
        before: Of the judge's own work before the call.
        call: Of the call.
        after: Of the judge's own work after it.
    """

    before: int
    call: int
    after: int


class Unreadable(Exception):
    """The trace shows other work than that which was asked for, or lacks samples."""


class NothingSeen(Exception):
    """The calls of a watch started nothing that the witness counts: copies by the device's copy engines, say."""


def cut(samples: Sequence[Sample]) -> list[Stretch]:
    """Return the stretches of activity. Raise :class:`Unreadable` if samples do not follow one another."""
    for before, after in itertools.pairwise(samples):
        if abs(after.start_ns - before.end_ns) > INTERVAL_NS // 2:
            raise Unreadable("samples are missing")
    groups: list[list[Sample]] = []
    for sample in samples:
        if not (active_ns(sample) or sample.values[2]):
            continue
        if groups and sample.start_ns - groups[-1][-1].end_ns <= IDLE_NS:
            groups[-1].append(sample)
        else:
            groups.append([sample])
    return [stretch for stretch in map(stretch_of, groups) if not is_housekeeping(stretch)]


def active_ns(sample: Sample) -> float:
    """Return how long multiprocessors were active in a sample."""
    active, elapsed = sample.values[:2]
    return active / max(elapsed, 1.0) * (sample.end_ns - sample.start_ns)


def stretch_of(group: Sequence[Sample]) -> Stretch:
    """Return a group of samples as a stretch.

    The activity of its first sample lasts until that sample's end, and that of its last one begins with it.
    """
    active = [sample for sample in group if active_ns(sample)] or list(group)
    first, last = active[0], active[-1]
    start = first.end_ns - active_ns(first)
    end = last.start_ns + active_ns(last) if last is not first else float(first.end_ns)
    return Stretch(start, end, int(sum(sample.values[2] for sample in group)))


def is_housekeeping(stretch: Stretch) -> bool:
    """Return whether a stretch is the driver's own."""
    return not stretch.dispatches and stretch.end_ns - stretch.start_ns <= HOUSEKEEPING_NS


def total(stretches: Sequence[Stretch]) -> int:
    """Return the dispatches of some stretches together."""
    return sum(each.dispatches for each in stretches)


def calls(stretches: Sequence[Stretch], rounds: Sequence[Expected]) -> list[list[Stretch]]:
    """Return the stretches of each call.

    Dispatches elsewhere than expected make a call longer or the trace unreadable: what should have been the judge's
    then counts as the call's.

    Args:
        stretches: What a watch saw.
        rounds: What was asked for.

    Raises:
        Unreadable: There is anything but this work, or no idle time between its parts.
    """
    rest, by_round = list(stretches), []
    for number, wanted in enumerate(rounds):
        _, rest = parted(rest, wanted.before, f"before call {number}")
        call, rest = parted(rest, wanted.call, f"in call {number}")
        while rest and not rest[0].dispatches:
            # Activity of something that was started before.
            call.append(rest.pop(0))
        by_round.append(call)
        _, rest = parted(rest, wanted.after, f"after call {number}")
    if rest:
        raise Unreadable(f"there was more work after the last call: {shown(rest)}")
    return by_round


def parted(stretches: Sequence[Stretch], count: int, where: str) -> tuple[list[Stretch], list[Stretch]]:
    """Return the first stretches with so many dispatches, and the rest. Raise :class:`Unreadable` if none are."""
    for length in range(len(stretches) + 1):
        if total(stretches[:length]) == count:
            return list(stretches[:length]), list(stretches[length:])
    raise Unreadable(f"other work than {count} dispatches {where}: {shown(stretches)}")


def dispatches_of_call(stretches: Sequence[Stretch], known: int, calls: int) -> int:
    """Return the dispatches of each of some equal calls, where the rest of a watch is known.

    Raise :class:`NothingSeen` if there are none, :class:`Unreadable` if they cannot be equal.
    """
    each, left = divmod(total(stretches) - known, calls)
    if not each and not left:
        raise NothingSeen("its calls start nothing that the witness counts")
    if left or each < 0:
        raise Unreadable(f"{total(stretches) - known} dispatches in {calls} equal calls")
    return each


def span_ns(call: Sequence[Stretch], nodes: int) -> float:
    """Return the time of a call: from the first multiprocessor's start to the last one's end, gaps included.

    Args:
        call: Its stretches.
        nodes: The number of nodes of its graph that do something.
    """
    preamble = PREAMBLE_NS if total(call) > nodes else 0.0
    return max(0.0, call[-1].end_ns - call[0].start_ns - SPAN_NS + preamble)


def parts(stretches: Sequence[Stretch]) -> list[int]:
    """Return the dispatches of each part of a watch, cut where the device was idle for long."""
    groups: list[list[Stretch]] = []
    for each in stretches:
        if groups and each.start_ns - groups[-1][-1].end_ns <= PART_NS:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [total(part) for part in groups]


def shown(stretches: Sequence[Stretch]) -> str:
    """Return the first stretches as text, for the operator."""
    return ", ".join(f"{each.dispatches} dispatches" for each in stretches[:6]) or "nothing"
