"""What the witness's trace makes of the bytes that pass over a device's links: copies without a multiprocessor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from fake_device import Kernel, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.trace import CALIBRATED, INTERVAL_NS, UNSEEN_BYTES
from kernelcup_harness.device.nvidia.pm_sampling import Sample
from properties import examples

READ, WRITE, RECEIVE, SEND = range(4)
OWN = 5_877.0
"""What the counters themselves write over PCIe in each sample of an idle H200."""
IDLE = (0.0, OWN, 0.0, 0.0)
MOST_READ = UNSEEN_BYTES[READ]


def watched(
    count: int, moved: Mapping[tuple[int, int], float], kernels: Sequence[Kernel] = ()
) -> list[Sample]:
    """Return samples of a device; ``moved`` has the bytes by sample and link, beside the counters' own."""
    found = []
    for at in range(count):
        seen = sampled(kernels, at * INTERVAL_NS, (at + 1) * INTERVAL_NS)
        links = tuple(IDLE[link] + moved.get((at, link), 0.0) for link in range(4))
        found.append(Sample(seen.start_ns, seen.end_ns, seen.values + links))
    return found


def copies(
    count: int, moved: Mapping[tuple[int, int], float], kernels: Sequence[Kernel] = ()
) -> list[tuple[float, float]]:
    found = trace.copies(watched(count, moved, kernels), IDLE)
    return [(each.start_ns / INTERVAL_NS, each.end_ns / INTERVAL_NS - 1) for each in found]


SHORT = Kernel(9 * INTERVAL_NS, 10 * INTERVAL_NS, dispatches=0)
LONG = Kernel(4 * INTERVAL_NS, 14 * INTERVAL_NS)
HALF = {(2, READ): 0.6 * MOST_READ, (17, READ): 0.6 * MOST_READ}
APART = trace.IDLE_NS // INTERVAL_NS
NEAR = Kernel(6 * INTERVAL_NS, 7 * INTERVAL_NS)
COPIES: dict[str, tuple[Any, list[Kernel], Any]] = {
    "an idle device copies nothing": ({}, [], []),
    "a byte that is received over NVLink": ({(7, RECEIVE): 1.0}, [], [(7, 7)]),
    "a byte that is sent": ({(7, SEND): 1.0}, [], [(7, 7)]),
    "flags that are read over PCIe are no copy": ({(7, READ): UNSEEN_BYTES[READ]}, [], []),
    "commands that are written neither": ({(7, WRITE): UNSEEN_BYTES[WRITE]}, [], []),
    "from its first sample to its last": ({(7, SEND): 512.0, (18, SEND): 512.0}, [], [(7, 18)]),
    "less than the counters' own writing": (
        {(at, WRITE): -OWN if at % 2 else OWN for at in range(20)},
        [],
        [],
    ),
    "sent beside activity": ({(9, SEND): 65_536.0}, [LONG], [(9, 9)]),
    "read beside activity": ({(9, READ): 65_536.0}, [LONG], [(9, 9)]),
    "activity that counts as the driver's own hides none": ({(9, SEND): 65_536.0}, [SHORT], [(9, 9)]),
    "what does not count is of one idle time": (HALF, [Kernel(9 * INTERVAL_NS, 11 * INTERVAL_NS)], []),
    "so it is one copy there": (HALF, [], [(2, 17)]),
    "nearer than stretches": ({(4, SEND): 8.0, (5 + APART, SEND): 8.0}, [NEAR], [(4, 5 + APART)]),
    "as far apart as stretches": (
        {(4, SEND): 8.0, (6 + APART, SEND): 8.0},
        [NEAR],
        [(4, 4), (6 + APART,) * 2],
    ),
}


@pytest.mark.parametrize(("moved", "kernels", "found"), COPIES.values(), ids=COPIES)
def test_copies_are_what_passes_over_links(moved: Any, kernels: list[Kernel], found: Any) -> None:
    assert copies(20, moved, kernels) == found


def test_activity_that_counts_as_the_drivers_own_is_cut_out() -> None:
    assert trace.cut(watched(20, {}, [SHORT])) == []


@pytest.mark.parametrize("link", [READ, WRITE])
def test_small_pieces_over_pcie_are_one_copy(link: int) -> None:
    pieces = {(at, link): 2_048.0 for at in range(3, 17)}
    begin, end = copies(20, pieces)[0]
    # Less than half of what does not count is left out at each end.
    assert 3 <= begin <= 5
    assert 14 <= end <= 16


def test_the_writing_of_the_counters_may_drift() -> None:
    drifted = {(at, WRITE): OWN * trace.DRIFT for at in range(1_000)}
    assert copies(1_000, drifted) == []
    assert copies(1_000, drifted | {(150, WRITE): 2 * UNSEEN_BYTES[WRITE]}) != []


def test_the_writing_of_the_counters_may_drift_further_beside_a_long_activity() -> None:
    kernel = Kernel(0, 1_000 * INTERVAL_NS)
    drifted = {(at, WRITE): OWN * trace.BUSY_DRIFT for at in range(1_000)}
    assert copies(1_000, drifted, [kernel]) == []
    assert copies(1_000, drifted) != []
    assert copies(1_000, drifted | {(150, WRITE): 2 * UNSEEN_BYTES[WRITE]}, [kernel]) != []


def test_many_short_idle_times_make_few_copies() -> None:
    kernels = [Kernel(at * INTERVAL_NS, (at + 1) * INTERVAL_NS) for at in range(1, 3_000, 2)]
    sent = {(at, link): 4_096.0 for at in range(3_000) for link in (RECEIVE, SEND)}
    assert copies(3_000, sent, kernels) == [(0, 2_999)]


@settings(max_examples=examples(200))
@given(st.lists(st.floats(-20_000, 20_000), min_size=1, max_size=40), st.sampled_from([0.0, 4_096.0]))
def test_a_copy_begins_before_it_ends_whatever_was_moved(moved: list[float], unseen: float) -> None:
    some = watched(len(moved), {})
    found = trace.copied(some, moved, 0.0, unseen, 0.0)
    assert (found is not None) == (sum(moved) > unseen)
    if found is not None:
        assert some[0].start_ns <= found.start_ns < found.end_ns <= some[-1].end_ns


# What the counters alone move


def test_what_the_counters_write_is_the_mean_of_a_quiet_time() -> None:
    busy = {(at, WRITE): 50_000.0 for at in range(CALIBRATED)}
    assert trace.idle_bytes(watched(3 * CALIBRATED, busy)) == IDLE


def test_only_the_counters_writing_over_pcie_is_the_devices_own() -> None:
    copying = {(at, link): 4_096.0 for at in range(2 * CALIBRATED) for link in (READ, RECEIVE, SEND)}
    assert trace.idle_bytes(watched(2 * CALIBRATED, copying)) == IDLE


def test_a_sample_with_no_writing_does_not_lower_the_mean_alone() -> None:
    assert trace.idle_bytes(watched(CALIBRATED, {(5, WRITE): -OWN, (6, WRITE): OWN})) == IDLE
