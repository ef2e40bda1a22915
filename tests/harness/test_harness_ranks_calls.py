"""Calls on several GPUs behind the gate: the steps that all ranks take, and what becomes of a watch that shows too
little. Neither processes nor GPUs.

What the fake enforces: a queued call ends before the next one is queued, and no answer is copied before all are done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kernelcup_harness.clocks.replay.witnessed import TRIES, WitnessFailed
from kernelcup_harness.clocks.trace import Unreadable
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.call import PLACES
from kernelcup_harness.core.check import Place
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.protocol import Reason, SampleName, StageName, Verdict
from kernelcup_harness.ranks.calls import LeaderCaller
from kernelcup_harness.ranks.errors import NotQueued
from kernelcup_harness.ranks.judge import Called
from kernelcup_harness.ranks.witnessed import Span, WorkBeside
from kernelcup_harness.wire.messages import FailureKind

TIME_NS, WALL_NS = 10_000.0, 150_000
SAMPLE = SampleName(input=0)


def place(world: int = 2, index: int = 0) -> Place:
    return Place(StageName.RANKED, index, {"world_size": world, "seed": 1})


class FakeRanks:
    count = 2

    def __init__(self) -> None:
        self.gate = SimpleNamespace(number=0, open=lambda: self.steps.append("open"))
        self.steps: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.why = ""
        self._queued = self._done = False

    def join(self, _world: int) -> None:
        """They are a group already."""

    def have_joined(self, _role: str, _world: int) -> None:
        """So are the contestants."""

    def ask(self, name: str, *_arguments: Any, world: int = 0, timeout_s: float = 0.0) -> list[Any]:
        self.steps.append(name)
        if name == "queue":
            assert not self._queued
            self._queued = True
        if error := self.fails.get(name):
            raise error
        if name in ("settle", "drop"):
            assert "open" in self.steps
            self._done = True
        if name == "take":
            assert self._done
        if name in ("keep_taken", "drop"):
            self._queued = self._done = False
        reply = {"queue": 64, "take": 32, "keep_taken": 1.0}.get(name)
        return [reply] * (world or self.count)

    def call(self, world: int, *_arguments: Any, timeout_s: float) -> list[Called]:
        self.steps.append("call")
        assert not self._queued
        return [Called(0, WALL_NS, 1.0, why=self.why)] * world


class FakeWitness:
    def __init__(self) -> None:
        self.errors: list[Exception | None] = []
        self.begin_fails: Exception | None = None
        self.begins_ns: Sequence[float] = (0.0, 0.0)

    def begin(self) -> None:
        if self.begin_fails is not None:
            raise self.begin_fails

    def end(self) -> None:
        """End the watch."""

    def spans(self, _marks: Any, sizes: Sequence[tuple[int, int]], count: int) -> list[Span]:
        assert sizes == [(64, 32)] * len(sizes)
        assert count == FakeRanks.count
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return [Span(begin, TIME_NS) for begin in self.begins_ns[: len(sizes)]]


class Calls:
    """A caller whose first calls were made, so that the next ones are watched."""

    def __init__(self, why: str = "") -> None:
        self.ranks, self.witness = FakeRanks(), FakeWitness()
        self.ranks.why = why
        self.caller = LeaderCaller(self.ranks, "submission", self.witness)  # type: ignore[arg-type]
        self.times(PLACES)
        self.ranks.steps.clear()

    def time(self, case: Place | None = None) -> float:
        return self.caller.timed((case or place(), SAMPLE), None, timeout_s=10.0).ns

    def times(self, count: int) -> list[float]:
        return [self.time() for _ in range(count)]

    def unwatched(self) -> str:
        """Return why the case is timed by the wall clock."""
        return self.caller.unwatched.get(place().key, "")


def test_no_answer_is_taken_before_all_calls_are_done() -> None:
    calls = Calls()
    assert calls.time() == TIME_NS
    assert calls.ranks.steps == ["queue", "write", "open", "settle", "take", "keep_taken", "open"]


@pytest.mark.parametrize("late", ["queue", "begin"])
def test_calls_that_cannot_be_watched_end_with_their_inputs_before_the_wall_clocks(late: str) -> None:
    calls = Calls()
    if late == "queue":
        calls.ranks.fails["queue"] = NotQueued("it waits for the device itself")
    else:
        calls.witness.begin_fails = WitnessFailed("no counters")
    assert calls.time() == WALL_NS
    assert calls.ranks.steps[-5:] == ["write", "open", "drop", "open", "call"]
    assert calls.time() == WALL_NS
    assert calls.unwatched()


def test_watches_that_show_too_little_make_a_case_one_of_the_wall_clock() -> None:
    calls = Calls()
    calls.witness.errors = [Unreadable("samples were lost: the watch was too long")] * TRIES
    assert all(map(math.isnan, calls.times(TRIES - 1)))
    assert calls.time() == WALL_NS
    assert "the watch was too long" in calls.unwatched()


def test_another_case_may_be_unreadable_again_as_often() -> None:
    calls = Calls()
    calls.witness.errors = [Unreadable("no mark")] * TRIES
    calls.times(TRIES)
    for _ in range(PLACES):
        calls.time(place(index=1))
    calls.witness.errors = [Unreadable("no mark")]
    assert math.isnan(calls.time(place(index=1)))


def test_work_beside_the_judges_own_is_forged() -> None:
    calls = Calls()
    calls.witness.errors = [WorkBeside("work while the answer was copied")] * TRIES
    with pytest.raises(RunEnds, match="answer was copied") as ends:
        calls.times(TRIES)
    assert (ends.value.verdict, ends.value.reason) == (Verdict.REJECTED, Reason.FORGED_TIME)


def test_a_submission_cannot_choose_the_calls_that_count() -> None:
    calls = Calls()
    calls.witness.errors = 9 * [*[WorkBeside("work while the answer was copied")] * (TRIES - 1), None]
    with pytest.raises(RunEnds):
        calls.times(2 * TRIES)


def test_a_watch_in_five_may_be_unreadable() -> None:
    calls = Calls()
    calls.witness.errors = 20 * [WorkBeside("another program's kernel"), *[None] * 4]
    times = calls.times(100)
    assert sum(map(math.isnan, times)) == 20
    assert not calls.unwatched()


def test_a_call_does_not_count_when_a_gpu_began_far_later_than_in_others() -> None:
    calls = Calls()
    assert calls.time() == TIME_NS
    calls.witness.begins_ns = 0.0, 100_000.0
    assert math.isnan(calls.time())
    assert calls.caller.late_starts == {place().key: 1}


def test_no_more_than_a_quarter_of_the_calls_is_left_out_for_a_late_start() -> None:
    calls = Calls()
    calls.time()
    calls.witness.begins_ns = 0.0, 100_000.0
    times = calls.times(39)
    assert sum(map(math.isnan, times)) == 10


def test_a_case_that_cannot_be_queued_in_one_rank_is_queued_in_none() -> None:
    calls = Calls(why="its input has tensors on the host")
    assert calls.time() == WALL_NS
    assert calls.ranks.steps == ["call"]
    assert calls.unwatched() == "its input has tensors on the host"


def test_a_failed_call_opens_the_gate_for_the_others() -> None:
    calls = Calls()
    calls.ranks.fails["settle"] = CallFailed(FailureKind.EXCEPTION, "an illegal address")
    with pytest.raises(CallFailed):
        calls.time()
    assert calls.ranks.steps[-1] == "open"


def test_a_case_of_one_gpu_is_watched_on_that_one() -> None:
    calls = Calls()
    for _ in range(PLACES):
        calls.time(place(world=1, index=2))
    assert calls.time(place(world=1, index=2)) == TIME_NS
