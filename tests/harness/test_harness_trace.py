"""What the witness's trace makes of the device's activity: the time of each call, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from fake_device import (
    APART_NS,
    COPY,
    COPY_NS,
    SWEEP,
    SWEEP_NS,
    Kernel,
    samples,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.trace import Stretch, Unreadable
from kernelcup_harness.device.nvidia.pm_sampling import Sample
from properties import examples

FINE_NS = 2.0
"""Cycles are whole in the hardware; here they are not, so times are nearly exact."""


def stretches(*kernels: Kernel, until_ns: int = 200_000) -> list[Stretch]:
    return trace.cut(samples(kernels, until_ns))


def span(*kernels: Kernel, nodes: int | None = None) -> float:
    """The time of a call of some kernels, by default as many nodes as were dispatched."""
    found = stretches(*kernels)
    return trace.span_ns(found, trace.total(found) if nodes is None else nodes)


# The fake


def test_the_counters_show_how_long_anything_ran_and_when_each_kernel_began() -> None:
    kernels = [Kernel(500, 1_500), Kernel(1_000, 3_000, 2)]

    assert samples(kernels, 6_000) == [
        Sample(0, 2_000, (2_250.0, 3_000.0, 3.0)),
        Sample(2_000, 4_000, (1_500.0, 3_000.0, 0.0)),
        Sample(4_000, 6_000, (0.0, 3_000.0, 0.0)),
    ]


# Cutting


def test_activity_is_cut_where_the_device_is_idle() -> None:
    found = stretches(Kernel(10_000, 20_000), Kernel(21_500, 25_000), Kernel(40_000, 41_000, 3))

    assert [each.dispatches for each in found] == [2, 3]
    assert (found[0].start_ns, found[0].end_ns) == pytest.approx((10_000, 25_000))
    assert found[1].end_ns - found[1].start_ns == pytest.approx(1_000)


def test_the_drivers_housekeeping_is_left_out_and_nothing_else_of_its_length() -> None:
    kept = [Kernel(50_000, 52_000), Kernel(110_000, 117_000, 0)]

    assert len(stretches(Kernel(10_000, 14_000, 0), *kept)) == 2


def test_work_of_which_no_multiprocessor_knows_counts() -> None:
    idle = samples([], 8_000)
    idle[2] = replace(idle[2], values=(0.0, 3_000.0, 1.0))

    assert trace.total(trace.cut(idle)) == 1


@pytest.mark.parametrize("lost", [slice(1, 2), slice(5, 9)])
def test_a_trace_that_lacks_samples_is_unreadable(lost: slice) -> None:
    found = samples([Kernel(10_000, 20_000)], 40_000)
    del found[lost]
    with pytest.raises(Unreadable, match="missing"):
        trace.cut(found)


def test_samples_that_begin_again_earlier_are_unreadable() -> None:
    found = samples([], 10_000)
    with pytest.raises(Unreadable, match="missing"):
        trace.cut([*found, *found])


def test_no_samples_are_no_activity() -> None:
    assert trace.cut([]) == []
    assert trace.cut(samples([], 10_000)) == []


# The time of a call


def test_the_time_of_several_kernels_has_the_gaps_between_them() -> None:
    near = span(Kernel(10_000, 13_000), Kernel(14_000, 14_500))
    far = span(Kernel(10_000, 15_000), Kernel(45_000, 48_000))

    assert near == pytest.approx(4_500 - trace.SPAN_NS, abs=FINE_NS)
    assert far == pytest.approx(38_000 - trace.SPAN_NS, abs=FINE_NS)


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 1_999), st.lists(st.integers(100, 3_000), min_size=1, max_size=9))
def test_only_gaps_in_the_first_and_the_last_sample_can_be_missed(phase: int, lasts: list[int]) -> None:
    ends = list(accumulate([20_000 + phase, *lasts]))
    kernels = [Kernel(*pair) for pair in pairwise(ends)][::2]
    true_ns = kernels[-1].end_ns - kernels[0].start_ns
    (found,) = stretches(*kernels)
    first, last = (at // trace.INTERVAL_NS for at in (kernels[0].start_ns, kernels[-1].end_ns - 1))
    gaps = [(one.end_ns, other.start_ns) for one, other in pairwise(kernels)]
    edges = [range(at * trace.INTERVAL_NS, (at + 1) * trace.INTERVAL_NS) for at in {first, last}]
    missed = sum(max(0, min(high, edge.stop) - max(low, edge.start)) for low, high in gaps for edge in edges)

    assert true_ns - missed - FINE_NS <= found.end_ns - found.start_ns <= true_ns + FINE_NS


def test_a_graph_with_a_dispatch_more_than_nodes_has_begun_before_its_first_kernel() -> None:
    kernel = Kernel(10_300, 21_800, 2)

    assert span(kernel, nodes=1) - span(kernel, nodes=2) == pytest.approx(trace.PREAMBLE_NS)


def test_a_call_of_which_fewer_dispatches_are_seen_than_it_has_nodes_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="1 dispatches were seen of 2 nodes"):
        span(Kernel(10_000, 20_000), nodes=2)


def test_a_call_that_is_too_short_to_be_seen_takes_no_time_and_not_less() -> None:
    assert span(Kernel(10_000, 10_050)) == 0.0


# Which activity is a call's


NODES = 2
MARKS = [((13_000, 17_000), (21_000, 15_000)), ((30_000, 14_500), (12_500, 40_000))]
CALLS_NS = (11_000, 9_000)
MARGIN_NS = 30_000
"""Idle time before and after each call."""


def watch_of(*calls: Sequence[Kernel], marks: Sequence[Any] = tuple(MARKS)) -> list[Kernel]:
    found: list[Kernel] = []
    at = 0

    def add(lasts_ns: int, dispatches: int = 1) -> None:
        nonlocal at
        found.append(Kernel(at, at + lasts_ns, dispatches))
        at += lasts_ns + APART_NS

    for call, (before, after) in zip(calls, marks, strict=True):
        for lasts_ns, dispatches in ((COPY_NS, COPY), (SWEEP_NS, SWEEP), *((ns, 1) for ns in before)):
            add(lasts_ns, dispatches)
        at += MARGIN_NS
        found += later(call, at)
        at = max(each.end_ns for each in found) + MARGIN_NS
        for lasts_ns, dispatches in (*((ns, 1) for ns in after), (COPY_NS, COPY), (COPY_NS, COPY)):
            add(lasts_ns, dispatches)
    return found


def later(kernels: Sequence[Kernel], by_ns: int) -> list[Kernel]:
    return [each._replace(start_ns=each.start_ns + by_ns, end_ns=each.end_ns + by_ns) for each in kernels]


def times_of(kernels: Sequence[Kernel], marks: Sequence[Any] = tuple(MARKS)) -> list[float]:
    until_ns = max((each.end_ns for each in kernels), default=0) + 20_000
    found = trace.calls(trace.cut(samples(kernels, until_ns)), marks)
    return [trace.span_ns(call, nodes=NODES) for call in found]


ROUNDS = watch_of(*([Kernel(0, lasts_ns, NODES)] for lasts_ns in CALLS_NS))
"""A watch of two calls."""
HONEST_NS = [lasts_ns - trace.SPAN_NS for lasts_ns in CALLS_NS]


def test_each_call_is_what_lies_between_its_marks() -> None:
    assert times_of(ROUNDS) == pytest.approx(HONEST_NS, abs=FINE_NS)


def test_a_call_of_several_stretches_is_one_call() -> None:
    calls = ([Kernel(0, 3_000), Kernel(23_000, 31_000)], [Kernel(0, CALLS_NS[1], NODES)])
    assert times_of(watch_of(*calls)) == pytest.approx([31_000 - trace.SPAN_NS, HONEST_NS[1]], abs=FINE_NS)


def test_how_many_dispatches_the_judge_needs_changes_nothing() -> None:
    """What the judge does beside a call follows from what a submission says of its answer."""
    judges = {(SWEEP_NS, SWEEP), (COPY_NS, COPY)}
    more = [
        each._replace(
            dispatches=each.dispatches + 7 * ((each.end_ns - each.start_ns, each.dispatches) in judges)
        )
        for each in ROUNDS
    ]
    assert times_of(more) == pytest.approx(HONEST_NS, abs=FINE_NS)


def test_a_call_that_makes_marks_of_its_own_is_not_shorter() -> None:
    """Even one that knows the times of both marks of its round, which no submission does."""
    first, second = (
        [Kernel(0, mark[0]), Kernel(mark[0] + APART_NS, sum(mark) + APART_NS)] for mark in MARKS[0]
    )
    length = max(each.end_ns for each in [*first, *second])
    gap = length + APART_NS
    calls = [*first, *later(second, gap), Kernel(2 * gap, 2 * gap + 8_000)]
    found = times_of(watch_of(calls, [Kernel(0, CALLS_NS[1], NODES)]))
    assert found[0] >= 2 * gap + 8_000 - trace.SPAN_NS - FINE_NS
    assert found[1] == pytest.approx(HONEST_NS[1], abs=FINE_NS)


def test_a_call_that_looks_like_the_next_mark_by_chance_is_read() -> None:
    before = MARKS[1][0]
    call = [Kernel(0, before[0]), Kernel(before[0] + APART_NS, sum(before) + APART_NS)]
    found = times_of(watch_of(call, [Kernel(0, CALLS_NS[1], NODES)]))
    assert found == pytest.approx([sum(before) + APART_NS - trace.SPAN_NS, HONEST_NS[1]], abs=FINE_NS)


def test_two_marks_of_a_watch_may_be_alike() -> None:
    alike = [(MARKS[0][0], MARKS[0][0]), (MARKS[0][0], MARKS[0][0])]
    kernels = watch_of(*([Kernel(0, lasts_ns, NODES)] for lasts_ns in CALLS_NS), marks=alike)
    found = times_of(kernels, alike)
    assert found[0] == pytest.approx(HONEST_NS[0], abs=FINE_NS)
    assert found[1] >= HONEST_NS[1] - FINE_NS


def index_of_call(number: int) -> int:
    """The number of a call's kernel in :data:`ROUNDS`."""
    return 4 + 9 * number


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(ROUNDS[:9], id="a watch that ended early"),
        pytest.param([], id="nothing at all"),
        pytest.param([*ROUNDS[:2], *ROUNDS[3:]], id="half of a mark before a call"),
        pytest.param([*ROUNDS[:6], *ROUNDS[7:]], id="half of a mark after a call"),
        pytest.param([*ROUNDS[:14], *ROUNDS[16:]], id="no mark after the last call"),
        pytest.param([*ROUNDS[:4], *ROUNDS[5:]], id="a round without a call"),
        pytest.param([*ROUNDS[:2], ROUNDS[2]._replace(dispatches=2), *ROUNDS[3:]], id="work beside a mark"),
        pytest.param(
            [*ROUNDS[:4], ROUNDS[4]._replace(end_ns=ROUNDS[5].end_ns), *ROUNDS[5:]],
            id="a call that lasts into the mark",
        ),
    ],
)
def test_a_watch_without_all_its_marks_and_calls_is_refused(kernels: list[Kernel]) -> None:
    with pytest.raises(Unreadable):
        times_of(kernels)


def test_calls_without_nodes_are_not_seen() -> None:
    with pytest.raises(trace.NothingSeen):
        trace.span_ns([], nodes=0)


SPANS = [(ROUNDS[at].start_ns, ROUNDS[at].end_ns) for at in map(index_of_call, range(2))]


def outside(kernel: Kernel) -> bool:
    return all(kernel.end_ns <= start or kernel.start_ns >= end for start, end in SPANS)


UNTIL_NS = max(each.end_ns for each in ROUNDS) + 20_000
KERNELS = st.builds(
    lambda start, lasts, dispatches: Kernel(start, start + lasts, dispatches),
    st.integers(0, UNTIL_NS - 20_000),
    st.integers(1, 20_000),
    st.integers(0, SWEEP + 1),
)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, trace.INTERVAL_NS - 1), st.lists(KERNELS.filter(outside), min_size=1, max_size=4))
def test_activity_outside_of_calls_never_makes_one_shorter(phase: int, more: list[Kernel]) -> None:
    try:
        found = times_of(later([*ROUNDS, *more], phase))
    except Unreadable:
        return
    assert all(ns >= honest - FINE_NS for ns, honest in zip(found, HONEST_NS, strict=True))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, trace.INTERVAL_NS - 1), st.integers(1, 6_000), st.integers(0, 3_000))
def test_activity_near_a_call_lengthens_it(phase: int, lasts: int, apart: int) -> None:
    start, end = SPANS[1]
    for pair in ((start - apart - lasts, start - apart), (end + apart, end + apart + lasts)):
        more = Kernel(*pair, 0)
        found = times_of(later([*ROUNDS, more], phase))
        assert found[0] == pytest.approx(HONEST_NS[0], abs=FINE_NS)
        assert found[1] >= HONEST_NS[1] - FINE_NS
        if lasts > trace.HOUSEKEEPING_NS or apart < 100:
            assert found[1] > HONEST_NS[1] + lasts - FINE_NS - 100


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 299), st.integers(1, 50))
def test_no_lost_samples_make_a_call_shorter(at: int, count: int) -> None:
    found = samples(ROUNDS, UNTIL_NS)
    del found[at : at + count]
    try:
        calls = trace.calls(trace.cut(found), MARKS)
    except Unreadable:
        return
    # Only samples from before the first or after the last activity may be missing.
    assert [trace.span_ns(call, nodes=2) for call in calls] == pytest.approx(HONEST_NS, abs=FINE_NS)
