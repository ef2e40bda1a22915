"""What the witness's trace makes of the device's activity: the time of each call, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

import pytest
from fake_device import APART_NS, COPY, SWEEP, FakeDevice, FakeSampler, Kernel, Locked, sampled, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.trace import Stretch, Unreadable
from kernelcup_harness.device.nvidia.pm_sampling import Sample
from kernelcup_harness.window.failures import NoCounters

FINE_NS = 2.0
"""Cycles are whole in the hardware; here they are not, so times are nearly exact."""


def stretches(*kernels: Kernel, until_ns: int = 200_000) -> list[Stretch]:
    """What some activity looks like."""
    return trace.cut(samples(kernels, until_ns))


def span(*kernels: Kernel, nodes: int = 9) -> float:
    """The time of a call of some kernels."""
    return trace.span_ns(stretches(*kernels), nodes)


# The fake


def test_the_counters_show_how_long_anything_ran_and_when_each_kernel_began() -> None:
    kernels = [Kernel(500, 1_500), Kernel(1_000, 3_000, 2)]

    assert samples(kernels, 6_000) == [
        Sample(0, 2_000, (2_250.0, 3_000.0, 3.0)),
        Sample(2_000, 4_000, (1_500.0, 3_000.0, 0.0)),
        Sample(4_000, 6_000, (0.0, 3_000.0, 0.0)),
    ]


def test_the_fake_sampler_sees_its_own_watch_only_and_once() -> None:
    device = FakeDevice()
    sampler = FakeSampler(device)
    device.sweep()
    sampler.start()
    device.work(9_000, 3)
    sampler.stop()
    device.sweep()

    assert trace.total(trace.cut(sampler.read())) == 3
    with pytest.raises(AssertionError):
        sampler.read()


def test_the_fake_sampler_loses_samples_of_a_long_watch() -> None:
    device = FakeDevice()
    sampler = FakeSampler(device, most=3)
    sampler.start()
    device.sleep(7e-6)
    sampler.stop()
    with pytest.raises(NoCounters, match="too long"):
        sampler.read()
    with pytest.raises(NoCounters, match="PRIVILEGES"):
        Locked(device)


def test_the_judges_work_on_the_fake_device_is_a_sweep_or_a_copy() -> None:
    device = FakeDevice()
    device.sweep()
    device.settle()
    device.haunted = True
    device.settle()
    device.settle()

    assert [each.dispatches for each in device.kernels] == [SWEEP, COPY, COPY + 1, COPY]


# Cutting


def test_activity_is_cut_where_the_device_is_idle() -> None:
    found = stretches(Kernel(10_000, 20_000), Kernel(21_500, 25_000), Kernel(40_000, 41_000, 3))

    assert [each.dispatches for each in found] == [2, 3]
    assert (found[0].start_ns, found[0].end_ns) == pytest.approx((10_000, 25_000))
    assert found[1].end_ns - found[1].start_ns == pytest.approx(1_000)


def test_the_ends_of_a_stretch_are_finer_than_a_sample() -> None:
    (found,) = stretches(Kernel(3_123, 17_456))

    assert (found.start_ns, found.end_ns) == pytest.approx((3_123, 17_456))


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


def test_the_time_of_a_kernel_is_its_activity() -> None:
    assert span(Kernel(10_300, 21_800)) == pytest.approx(11_500 - trace.SPAN_NS, abs=FINE_NS)


def test_the_time_of_several_kernels_has_the_gaps_between_them() -> None:
    near = span(Kernel(10_000, 13_000), Kernel(14_000, 14_500))
    far = span(Kernel(10_000, 15_000), Kernel(45_000, 48_000))

    assert near == pytest.approx(4_500 - trace.SPAN_NS, abs=FINE_NS)
    assert far == pytest.approx(38_000 - trace.SPAN_NS, abs=FINE_NS)


@settings(max_examples=200, deadline=None)
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


def test_a_call_that_is_too_short_to_be_seen_takes_no_time_and_not_less() -> None:
    assert span(Kernel(10_000, 10_050)) == 0.0


# Which activity is a call's


SWEEPS, COPIES = (partial(Kernel, dispatches=each) for each in (SWEEP, COPY))
NODES = 2
CALLS = ((120_000, 131_000), (300_000, 309_000))
ROUNDS = [
    SWEEPS(0, 100_000),
    Kernel(*CALLS[0], NODES),
    COPIES(151_000, 154_000),
    SWEEPS(180_000, 280_000),
    Kernel(*CALLS[1], NODES),
    COPIES(330_000, 333_000),
]
"""A watch of two calls."""
UNTIL_NS = 400_000


EXPECTED = trace.Expected(SWEEP, NODES, COPY)


def times_of(*kernels: Kernel, rounds: int = 2) -> list[float]:
    """The times of the calls of a watch."""
    found = trace.calls(trace.cut(samples(kernels, UNTIL_NS)), [EXPECTED] * rounds)
    return [trace.span_ns(call, nodes=NODES) for call in found]


HONEST_NS = [11_000 - trace.SPAN_NS, 9_000 - trace.SPAN_NS]


def test_each_call_is_what_lies_between_the_judges_own_work() -> None:
    assert times_of(*ROUNDS) == pytest.approx(HONEST_NS, abs=FINE_NS)


def test_a_call_of_several_stretches_is_one_call() -> None:
    first, second = Kernel(105_000 + trace.IDLE_NS, 114_000), Kernel(*CALLS[0])
    found = times_of(ROUNDS[0], first, second, *ROUNDS[2:])

    assert found[0] == pytest.approx(20_000 - trace.SPAN_NS, abs=FINE_NS)


def changed(at: int, **fields: int) -> list[Kernel]:
    """The same watch with one kernel changed."""
    return [each._replace(**fields) if number == at else each for number, each in enumerate(ROUNDS)]


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([*ROUNDS, Kernel(345_000, 346_000, 2)], id="dispatches after the last copy"),
        pytest.param([*ROUNDS, Kernel(333_500, 334_000)], id="a dispatch right after the last copy"),
        pytest.param([*ROUNDS, Kernel(165_000, 166_000, 2)], id="work between two rounds"),
        pytest.param(changed(3, dispatches=SWEEP + 1), id="a kernel beside a sweep"),
        pytest.param(changed(0, dispatches=SWEEP - 1), id="a part of a sweep that is not done"),
        pytest.param(changed(2, dispatches=COPY + 1), id="a kernel beside a copy"),
        pytest.param(changed(5, dispatches=COPY + 1), id="a kernel beside the last copy"),
        pytest.param(changed(1, end_ns=152_000), id="a call that overlaps the copy"),
        pytest.param(changed(4, end_ns=329_000), id="a call right up to the copy"),
        pytest.param(changed(4, start_ns=281_000), id="a call right behind the sweep"),
        pytest.param(ROUNDS[:4] + ROUNDS[5:], id="a round without a call"),
        pytest.param(ROUNDS[:3], id="a watch that ended early"),
        pytest.param([], id="nothing at all"),
        pytest.param([*ROUNDS[:3], *ROUNDS[4:]], id="a sweep that never came"),
    ],
)
def test_anything_but_the_judges_work_and_one_call_a_round_is_refused(kernels: list[Kernel]) -> None:
    with pytest.raises(Unreadable):
        times_of(*kernels)


def test_a_call_that_does_more_that_looks_like_the_copy_of_its_answer_is_refused() -> None:
    false = [COPIES(131_000 + APART_NS - 3_000, 131_000 + APART_NS)]
    late = [COPIES(165_000, 168_000)]

    with pytest.raises(Unreadable):
        times_of(*ROUNDS[:2], *false, *late, *ROUNDS[3:])


def later(kernels: Sequence[Kernel], by_ns: int) -> list[Kernel]:
    """The same activity, so much later."""
    return [each._replace(start_ns=each.start_ns + by_ns, end_ns=each.end_ns + by_ns) for each in kernels]


def outside(kernel: Kernel) -> bool:
    """Whether a kernel touches no call."""
    return all(kernel.end_ns <= start or kernel.start_ns >= end for start, end in CALLS)


KERNELS = st.builds(
    lambda start, lasts, dispatches: Kernel(start, start + lasts, dispatches),
    st.integers(0, UNTIL_NS - 20_000),
    st.integers(1, 20_000),
    st.integers(0, SWEEP + 1),
)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, trace.INTERVAL_NS - 1), st.lists(KERNELS.filter(outside), min_size=1, max_size=4))
def test_activity_outside_of_calls_never_makes_one_shorter(phase: int, more: list[Kernel]) -> None:
    try:
        found = times_of(*later([*ROUNDS, *more], phase))
    except Unreadable:
        return
    assert all(ns >= honest - FINE_NS for ns, honest in zip(found, HONEST_NS, strict=True))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, trace.INTERVAL_NS - 1), st.integers(1, 6_000), st.integers(0, 3_000))
def test_activity_near_a_call_lengthens_it(phase: int, lasts: int, apart: int) -> None:
    start, end = CALLS[1]
    for pair in ((start - apart - lasts, start - apart), (end + apart, end + apart + lasts)):
        more = Kernel(*pair, 0)
        found = times_of(*later([*ROUNDS, more], phase))
        assert found[0] == pytest.approx(HONEST_NS[0], abs=FINE_NS)
        assert found[1] >= HONEST_NS[1] - FINE_NS
        if lasts > trace.HOUSEKEEPING_NS or apart < 100:
            assert found[1] > HONEST_NS[1] + lasts - FINE_NS - 100


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 199), st.integers(1, 50))
def test_no_lost_samples_make_a_call_shorter(at: int, count: int) -> None:
    found = samples(ROUNDS, UNTIL_NS)
    del found[at : at + count]
    try:
        calls = trace.calls(trace.cut(found), [EXPECTED] * 2)
    except Unreadable:
        return
    # Only samples from before the first or after the last activity may be missing.
    assert [trace.span_ns(call, nodes=2) for call in calls] == pytest.approx(HONEST_NS, abs=FINE_NS)


def test_parts_of_the_judges_work_are_learned_apart() -> None:
    kernels = [SWEEPS(0, 100_000), COPIES(120_000, 130_000), COPIES(700_000, 710_000)]

    assert trace.parts(stretches(*kernels, until_ns=800_000)) == [
        SWEEP + COPY,
        COPY,
    ]


def test_what_cannot_be_explained_is_told_in_figures() -> None:
    with pytest.raises(Unreadable, match=r"other work than 3 dispatches before call 0: 2 dispatches, "):
        times_of(*changed(0, dispatches=SWEEP - 1))


def test_one_interval_of_the_fake_is_one_sample() -> None:
    assert sampled([], 0, trace.INTERVAL_NS).values == (0.0, 3_000.0, 0.0)


@pytest.mark.parametrize(("known", "calls", "each"), [(8, 2, 2), (4, 2, 4), (11, 1, 1)])
def test_equal_calls_share_the_dispatches_that_are_not_the_judges(known: int, calls: int, each: int) -> None:
    assert trace.dispatches_of_call(stretches(*ROUNDS, until_ns=UNTIL_NS), known, calls) == each


@pytest.mark.parametrize(
    ("known", "error"), [(12, trace.NothingSeen), (9, Unreadable), (14, Unreadable), (13, Unreadable)]
)
def test_calls_that_are_not_seen_or_not_equal_are_told(known: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        trace.dispatches_of_call(stretches(*ROUNDS, until_ns=UNTIL_NS), known, 2)
