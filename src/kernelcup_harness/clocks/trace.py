"""Reads what the witness saw: the device's activity over time, cut where it is idle.

A watch has rounds. In each, the judge writes an input, sweeps the cache and makes a mark; the timer launches one call;
the judge makes another mark and copies the answer. A mark is two kernels of the judge's that last for times drawn for
it, of which no submission knows. Everything that the device does between the two marks of a round is the call's, idle
times included: whose a dispatch is, is never concluded from how many there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

COUNTERS = ("sm__cycles_active.max", "sm__cycles_elapsed.max", "gr__dispatch_count.sum")
"""The hardware's counters, in the order of a sample's values; all in one pass. Instructions could be counted as well,
which makes each sample three times as large and slower to read."""
WITH_TRAFFIC = (
    *COUNTERS,
    "pcie__read_bytes.sum",
    "pcie__write_bytes.sum",
    "nvlrx__bytes_data_user.sum",
    "nvltx__bytes_data_user.sum",
)
"""With what passes over the device's links: also copies that multiprocessors have no part in."""
UNSEEN_BYTES = (8_192.0, 4_096.0, 0.0, 0.0)
"""Of one idle time, by link: what does not count. Flags and commands pass over PCIe: of 341 idle times of an honest
job none read more than 4 kB and one wrote more than 0.5 kB. Of an idle NVLink nothing is user data."""
DRIFT, BUSY_DRIFT = 0.002, 0.01
"""How far bytes over PCIe, which are the counters' own, are off their mean over a long time, idle and busy."""
CALIBRATED = 64
"""Samples of which an idle device's mean is taken."""
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
SHORTEST_MARK_NS, LONGEST_MARK_NS = 12_000, 60_000
MARK_SLACK_NS = ((-250.0, 5_000.0), (-250.0, 1_500.0))
"""How far the activity of a mark's two kernels may be off what they were asked for. Of 482 marks on an H100 the first
was 4 to 443 ns longer, 1.1 us in one of a hundred and 3.2 us once; the second -66 to 94 ns, and 971 ns once."""
Mark = tuple[int, int]
"""The nanoseconds of its two kernels."""


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
class Copy:
    """What passed over the links, whether multiprocessors worked or not.

    Args:
        start_ns: The beginning of the first sample that shows it.
        end_ns: The end of the last one.
    """

    start_ns: float
    end_ns: float


class Unreadable(Exception):
    """The trace shows other work than that which was asked for, or lacks samples."""


class NothingSeen(Exception):
    """Graphs without a node that does anything: the witness sees nothing of them."""


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


def idle_bytes(samples: Sequence[Sample]) -> tuple[float, ...]:
    """Return what the counters alone move over each link in a sample, from a watch of a device that does little.

    Of NVLink and of reading over PCIe that is nothing. Takes the counters of :data:`WITH_TRAFFIC`.
    """
    writes = [sample.values[len(COUNTERS) + 1] for sample in samples]
    # Whatever a device does beside it adds to it.
    ends = range(CALIBRATED, len(writes) + 1, CALIBRATED)
    means = [sum(writes[end - CALIBRATED : end]) / CALIBRATED for end in ends]
    return (0.0, min(means, default=0.0), 0.0, 0.0)


def copies(samples: Sequence[Sample], idle: Sequence[float]) -> list[Copy]:
    """Return what passed over the links: copies by the device's own engines, some of them beside multiprocessors.

    They are found by what an idle time or one of activity has moved in all, so that small pieces hide no large copy.
    Those that are no further apart than activity of one stretch are one.

    Args:
        samples: Of the counters of :data:`WITH_TRAFFIC`.
        idle: What a sample of an idle device shows of each link.
    """
    found: list[Copy] = []
    for is_idle, some in itertools.groupby(samples, lambda each: not (active_ns(each) or each.values[2])):
        group, drift = list(some), DRIFT if is_idle else BUSY_DRIFT
        moved = zip(*(each.values[len(COUNTERS) :] for each in group), strict=True)
        links = zip(moved, idle, UNSEEN_BYTES, strict=True)
        found += filter(None, (copied(group, *link, drift) for link in links))
    merged: list[Copy] = []
    for each in sorted(found, key=lambda each: each.start_ns):
        if merged and each.start_ns - merged[-1].end_ns <= IDLE_NS:
            merged[-1] = Copy(merged[-1].start_ns, max(merged[-1].end_ns, each.end_ns))
        else:
            merged.append(each)
    return merged


def copied(
    samples: Sequence[Sample], moved: Sequence[float], idle: float, unseen: float, drift: float
) -> Copy | None:
    """Return the copy that bytes over one link tell of, None if they are too few."""
    more = [each - idle for each in moved]
    most = unseen + drift * idle * len(samples)
    if sum(more) <= most:
        return None
    first = next(at for at, total in enumerate(itertools.accumulate(more)) if total > most / 2)
    last = next(at for at, total in enumerate(itertools.accumulate(reversed(more))) if total > most / 2)
    return Copy(samples[first].start_ns, samples[-1 - last].end_ns)


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


def calls(stretches: Sequence[Stretch], marks: Sequence[tuple[Mark, Mark]]) -> list[list[Stretch]]:
    """Return the stretches of each call.

    What a call does can only make it longer: of all that looks like its first mark the first counts, and of all that
    looks like its second one the last before the next round.

    Args:
        stretches: What a watch saw.
        marks: Those before and after each call.

    Raises:
        Unreadable: A mark is missing.
    """
    found: list[list[Stretch]] = []
    at = 0
    for number, (before, after) in enumerate(marks):
        begin = first_place(before, stretches, at) + 2
        # What looks like the next mark by chance, before this call's second one, is none.
        first = first_place(after, stretches, begin)
        is_last = number + 1 == len(marks)
        at = len(stretches) if is_last else first_place(marks[number + 1][0], stretches, first + 2)
        ends = [n for n in range(first, at - 1) if is_mark(stretches[n : n + 2], after)]
        found.append(list(stretches[begin : ends[-1]]))
    return found


def first_place(mark: Mark, stretches: Sequence[Stretch], begin: int) -> int:
    """Return where a mark may be, from some stretch on. Raise :class:`Unreadable`."""
    for place in range(begin, len(stretches) - 1):
        if is_mark(stretches[place : place + 2], mark):
            return place
    raise Unreadable(f"no mark {mark} from stretch {begin} on: {shown(stretches[begin:])}")


def is_mark(pair: Sequence[Stretch], mark: Mark) -> bool:
    """Return whether two stretches may be a mark."""
    return all(
        each.dispatches == 1 and low <= each.end_ns - each.start_ns - ns <= high
        for each, ns, (low, high) in zip(pair, mark, MARK_SLACK_NS, strict=True)
    )


def span_ns(call: Sequence[Stretch], nodes: int) -> float:
    """Return the time of a call: from the first multiprocessor's start to the last one's end, gaps included.

    Args:
        call: Its stretches.
        nodes: The number of nodes of its graph that do something.

    Raises:
        NothingSeen: There is none.
        Unreadable: There are more than were seen: something of the call is hidden.
    """
    if not call:
        if nodes:
            raise Unreadable(f"nothing was seen of {nodes} nodes")
        raise NothingSeen
    if total(call) < nodes:
        raise Unreadable(f"{total(call)} dispatches were seen of {nodes} nodes")
    preamble = PREAMBLE_NS if total(call) > nodes else 0.0
    return max(0.0, call[-1].end_ns - call[0].start_ns - SPAN_NS + preamble)


def shown(stretches: Sequence[Stretch]) -> str:
    """Return the first stretches as text, for the operator."""
    first = (f"{each.dispatches} in {(each.end_ns - each.start_ns) / 1e3:.1f} us" for each in stretches[:8])
    return f"{len(stretches)} stretches, dispatches {', '.join(first)}" if stretches else "nothing"
