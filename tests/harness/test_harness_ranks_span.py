"""What the witness reads of a call on several GPUs, and errors of a rank on their way, without processes."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kernelcup_harness.clocks.trace import Copy, Stretch, Unreadable
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import MachineFailed, RunEnds
from kernelcup_harness.protocol import Reason, Verdict
from kernelcup_harness.ranks import main as ranks_main
from kernelcup_harness.ranks.errors import NotQueued, Raised
from kernelcup_harness.ranks.leader import weight_of
from kernelcup_harness.ranks.witnessed import (
    MOST_WAKING,
    Marks,
    Span,
    WorkBeside,
    span_of,
    time_ns,
    woken_at,
)
from kernelcup_harness.wire.channel import ChannelClosed, ChannelTimeout

A, B, C = (20_000, 31_000), (25_000, 42_000), (33_000, 18_000)
MARKS = Marks(A, B, C)
INPUT, ANSWER = 1 << 20, 1 << 20
GAP_NS = 10_000.0


class Watch:
    """Writes down what a GPU does, one thing after the other."""

    def __init__(self) -> None:
        self.now_ns = 1e6
        self.woken_ns = 0.0
        self.stretches: list[Stretch] = []
        self.copies: list[Copy] = []

    def work(self, ns: float, dispatches: int = 1) -> Span:
        begin = self.now_ns
        self.stretches.append(Stretch(begin, begin + ns, dispatches))
        self.now_ns += ns + GAP_NS
        return Span(begin, begin + ns)

    def copy(self, ns: float) -> Span:
        begin = self.now_ns
        self.copies.append(Copy(begin, begin + ns))
        self.now_ns += ns + GAP_NS
        return Span(begin, begin + ns)

    def mark(self, mark: tuple[int, int]) -> None:
        for ns in mark:
            self.work(ns)

    def opened(self) -> Watch:
        """Wake the links, and write the input between two marks."""
        self.woken_ns = self.work(9_000).end_ns
        self.mark(A)
        self.work(3_000)
        self.mark(B)
        return self

    def closed(self) -> Span:
        """Copy the answer, make the last mark, and read the span."""
        self.work(4_000)
        self.mark(C)
        return self.span()

    def span(self) -> Span:
        """Read the span, which counts from when the links were woken; return it by this GPU's own timer."""
        found = span_of(self.stretches, self.copies, MARKS, INPUT, ANSWER)
        copies = tuple(
            Copy(each.start_ns + self.woken_ns, each.end_ns + self.woken_ns) for each in found.copies
        )
        return Span(found.begin_ns + self.woken_ns, found.end_ns + self.woken_ns, copies)


def test_a_call_lasts_from_its_first_activity_to_its_last() -> None:
    watch = Watch().opened()
    first, last = watch.work(50_000), watch.work(7_000, dispatches=3)
    assert watch.closed() == Span(first.begin_ns, last.end_ns)


def test_work_before_the_gate_opens_makes_a_call_longer() -> None:
    watch = Watch().opened()
    early = watch.work(1_000)
    watch.now_ns += 200_000
    call = watch.work(50_000)
    assert watch.closed() == Span(early.begin_ns, call.end_ns)


def test_what_looks_like_the_last_mark_ends_no_call() -> None:
    watch = Watch().opened()
    first = watch.work(5_000)
    watch.mark(C)
    last = watch.work(5_000)
    assert watch.closed() == Span(first.begin_ns, last.end_ns)


@pytest.mark.parametrize("dispatches", [2, 9])
def test_work_beside_the_copy_of_the_answer_is_unreadable(dispatches: int) -> None:
    watch = Watch().opened()
    watch.work(50_000)
    watch.work(4_000, dispatches)
    watch.mark(C)
    with pytest.raises(Unreadable, match="work while the answer was copied"):
        watch.span()


def test_a_copy_of_the_answer_that_takes_too_long_is_unreadable() -> None:
    watch = Watch().opened()
    watch.work(50_000)
    watch.work(20_000 + ANSWER / 200 + 1)
    watch.mark(C)
    with pytest.raises(Unreadable, match="work while the answer was copied"):
        watch.span()


@pytest.mark.parametrize(("ns", "dispatches"), [(3_000, 2), (20_000 + INPUT / 200 + 1, 1)])
def test_work_while_the_input_is_written_is_unreadable(ns: float, dispatches: int) -> None:
    watch = Watch()
    watch.mark(A)
    watch.work(ns, dispatches)
    watch.mark(B)
    watch.work(50_000)
    with pytest.raises(Unreadable, match="work while the input was written"):
        watch.closed()


def test_what_passes_over_a_link_beside_another_gpus_work_is_that_works() -> None:
    works, receives = Span(10_000.0, 60_000.0), Span(11_000.0, 12_000.0, [Copy(9_000.0, 61_500.0)])
    assert time_ns([works, receives]) == 50_000.0
    earlier = Span(11_000.0, 12_000.0, [Copy(7_000.0, 61_500.0)])
    assert time_ns([works, earlier]) == 53_000.0


def called_with_a_copy(number: int, beside: bool) -> tuple[float, Stretch, Copy]:
    """Return the time of a call of 5 us, and call and copy: that one beside a stretch or after it."""
    watch = Watch().opened()
    watch.now_ns += 150_000
    watch.work(5_000)
    watch.now_ns += 300_000
    watch.closed()
    each = watch.stretches[number]
    begin_ns = each.start_ns + 500 if beside else each.end_ns + 4_000
    copy = Copy(begin_ns, begin_ns + 1_000)
    watch.copies.append(copy)
    return time_ns([watch.span()]), watch.stretches[6], copy


WOKEN, FIRST_A, LAST_A, WRITTEN, FIRST_B, LAST_B, CALL, TAKEN, FIRST_C = range(9)


@pytest.mark.parametrize(
    ("number", "beside"),
    [
        *((number, beside) for number in (WRITTEN, FIRST_B, LAST_B) for beside in (True, False)),
        (LAST_A, False),
        (CALL, False),
        (TAKEN, True),
    ],
)
def test_a_copy_from_the_writing_of_the_input_on_makes_a_call_longer(number: int, beside: bool) -> None:
    time, call, copy = called_with_a_copy(number, beside)
    assert time == max(call.end_ns, copy.end_ns) - min(call.start_ns, copy.start_ns) > 5_000


@pytest.mark.parametrize(
    ("number", "beside"),
    [
        *((number, beside) for number in (WOKEN, FIRST_A, FIRST_C) for beside in (True, False)),
        (LAST_A, True),
        (CALL, True),
        (TAKEN, False),
    ],
)
def test_a_copy_at_another_time_changes_nothing(number: int, beside: bool) -> None:
    assert called_with_a_copy(number, beside)[0] == 5_000.0


def test_a_call_may_be_a_copy_alone() -> None:
    watch = Watch().opened()
    copy = watch.copy(6_000)
    assert time_ns([watch.closed()]) == copy.end_ns - copy.begin_ns


def test_a_call_of_which_nothing_is_seen_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="nothing was seen of the call"):
        Watch().opened().closed()


@pytest.mark.parametrize("missing", [A, B, C])
def test_a_missing_mark_is_unreadable(missing: tuple[int, int]) -> None:
    watch = Watch().opened()
    watch.work(50_000)
    watch.work(4_000)
    watch.mark(C)
    watch.stretches = [each for each in watch.stretches if each.end_ns - each.start_ns not in missing]
    with pytest.raises(Unreadable, match="no mark"):
        watch.span()


@pytest.mark.parametrize("dispatches", [0, 1])
def test_activity_after_the_call_that_wakes_the_links_shifts_no_timer(dispatches: int) -> None:
    watch = Watch()
    watch.work(9_000)
    watch.work(50_000, dispatches)
    watch.mark(A)
    watch.work(3_000)
    watch.mark(B)
    watch.work(50_000)
    with pytest.raises(Unreadable, match="before the input was written"):
        watch.closed()


def test_work_beside_the_call_that_wakes_the_links_is_told() -> None:
    with pytest.raises(WorkBeside, match="before the input was written"):
        woken_at([Stretch(0.0, 9_000.0, MOST_WAKING + 1)])


def test_a_case_of_one_gpu_wakes_no_links() -> None:
    assert woken_at([]) == 0.0


def test_the_time_of_a_call_is_from_the_first_gpu_to_the_last() -> None:
    assert time_ns([Span(100.0, 900.0), Span(130.0, 950.0)]) == 850.0


ERRORS: list[tuple[Exception, type[Exception], str]] = [
    (NotQueued("it waits"), NotQueued, "GPU rank 3: it waits"),
    (TaskFault("no such file"), TaskFault, "GPU rank 3: no such file"),
    (ChannelTimeout("too late"), ChannelTimeout, "GPU rank 3: too late"),
    (ChannelClosed(), ChannelClosed, "GPU rank 3"),
    (RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, "it ended"), RunEnds, "GPU rank 3: "),
    (KeyError("x"), MachineFailed, "GPU rank 3: KeyError: 'x'"),
]


@pytest.mark.parametrize(("error", "kind", "text"), ERRORS, ids=lambda each: str(each)[:20])
def test_an_error_of_a_rank_arrives_with_its_rank(error: Exception, kind: type[Exception], text: str) -> None:
    arrived = pickle.loads(pickle.dumps(Raised.of(error))).error(3)
    assert type(arrived) is kind
    assert str(arrived).startswith(text)


def test_an_error_keeps_what_it_holds() -> None:
    error = RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, "it ended", lost=True)
    arrived: Any = pickle.loads(pickle.dumps(Raised.of(error))).error(1)
    assert vars(arrived).keys() == vars(error).keys()
    assert (arrived.verdict, arrived.reason, arrived.lost) == (Verdict.RUNTIME_ERROR, Reason.EXITED, True)


def test_memory_that_the_judge_lacks_is_the_tasks_fault() -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    arrived = Raised.of(OutOfMemoryError("tried to allocate 3 GiB")).error(0)
    assert isinstance(arrived, TaskFault)
    assert str(arrived) == "GPU rank 0: the judge ran out of device memory: tried to allocate 3 GiB"


def test_the_error_that_others_follow_from_comes_first() -> None:
    failed = CallFailed.__new__(CallFailed)
    errors = [MachineFailed("NotCalled: "), ChannelTimeout(""), failed, ChannelClosed()]
    assert sorted(errors, key=weight_of) == errors[::-1]
    # One rank waits for its device, for another that has raised: the call is not made by the wall clock.
    assert weight_of(failed) < weight_of(NotQueued("it waits for the device itself"))


@pytest.mark.parametrize(
    ("score_ns", "held"),
    [(15_000.0, False), (16_400.0, False), (13_600.0, False), (418_000.0, True), (13_000.0, True)],
)
def test_a_score_that_lies_apart_from_its_slowest_rank_is_held(score_ns: float, held: bool) -> None:
    calls = [[14_000.0, 15_000.0], [15_000.0, 12_000.0], [15_500.0, 90.0]]
    assert bool(ranks_main.rank_times_differ(score_ns, calls)) == held


def test_a_score_without_times_of_ranks_is_not_held_for_them() -> None:
    assert ranks_main.rank_times_differ(15_000.0, []) == ""
