"""Calls timed by the judge's wall clock: nothing that a submission does makes them look short."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest
from harness_runs import HONEST, ranked
from inside import cases, judged

from kernelcup_harness.contestant.main import Contestant
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.call import Caller, Calls
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import MachineFailed
from kernelcup_harness.doubt import overhead
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    Mode,
    SampleName,
    StageName,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Message
from warm_harness import Run

WAITING = """
import time


def custom_kernel(data):
    end = time.monotonic() + 0.005
    while time.monotonic() < end:
        pass
    return data * 2
"""
FALSE_CLOCK = """
import time

real = time.perf_counter_ns
time.perf_counter_ns = lambda: real() // 100
""" + WAITING.replace("import time\n", "")
WAIT_NS = 5e6


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.EMULATED])
def test_a_ranked_time_is_by_the_wall_clock(tmp_path: Path, backend: Backend) -> None:
    (case,) = cases(judged(ranked(HONEST, backend=backend), tmp_path))
    assert case.verdict is Verdict.ACCEPTED
    audit = Audit(score_ns=case.timing.raw_ns, level=TrustLevel.WALL_CLOCK)
    assert case.timing.audit == audit
    # Nothing is subtracted.
    assert case.timing.score_ns == case.timing.raw_ns
    assert case.timing.offset_ns == 0.0
    assert len(case.timing.own_ns) == len(case.timing.samples_ns)
    assert all(own < ns for own, ns in zip(case.timing.own_ns, case.timing.samples_ns, strict=True))
    assert case.timing.overhead_ns is not None
    assert case.timing.overhead_ns > 0


def test_a_false_clock_changes_its_own_figure_only(warm: Run) -> None:
    (case,) = warm(ranked(FALSE_CLOCK)).stages[-1].cases
    assert case.timing.score_ns > WAIT_NS
    assert max(case.timing.own_ns) < WAIT_NS


# Overheads


def test_overheads_are_measured_before_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("_use_noop", "_forget", "_load", "_go"):
        real = getattr(Contestant, name)

        def noted(self: Contestant, message: Message, real: Any = real) -> Any:
            asked.append(message.type)
            return real(self, message)

        monkeypatch.setattr(Contestant, name, noted)
    events = judged(ranked(HONEST), tmp_path)
    before, after = asked[: asked.index("load")], asked[asked.index("load") + 1 :]
    assert before[0] == "noop"
    assert before[-1] == "forget"
    assert before.count("go") > overhead.UNCOUNTED
    assert set(after) == {"go"}
    assert cases(events)[0].verdict is Verdict.ACCEPTED


def test_a_benchmark_is_timed_by_the_wall_clock_without_a_level(warm: Run) -> None:
    (case,) = warm(ranked(HONEST, mode=Mode.BENCHMARK)).stages[-1].cases
    assert case.timing.audit is None
    assert len(case.timing.own_ns) == len(case.timing.samples_ns)
    assert case.timing.overhead_ns is not None


class FakeChecks:
    """Makes one input for each case, but for the case whose generator fails."""

    def __init__(self, fails: int | None = None) -> None:
        self._fails = fails

    def place(self, _stage: StageName, case: PlannedCase) -> int:
        return case.index

    def make_input(self, place: int, _sample: SampleName) -> int:
        if place == self._fails:
            raise TaskFault("no such size")
        return place

    def form(self, _place: int) -> None:
        return None


class FakeCaller:
    """Takes a second for each call by its clock, or less; fails where it is told to."""

    def __init__(self, fails: Exception | None = None, *, call_s: float = 1.0) -> None:
        self.now_s, self.calls, self.forgotten = 0.0, 0, False
        self._fails, self._call_s = fails, call_s
        self.line = self

    def ask(self, _request: Message, _expected: type[Message], *, timeout_s: float) -> None:
        assert timeout_s > 0

    def timed(self, data: int, _form: None, *, timeout_s: float) -> Any:
        assert timeout_s > 0
        if self._fails is not None:
            raise self._fails
        self.calls, self.now_s = self.calls + 1, self.now_s + self._call_s
        return dataclasses.make_dataclass("Pending", ["wall_ns"])(1000.0 * (1 + data))

    def forget(self, *, timeout_s: float) -> None:
        assert timeout_s > 0
        self.forgotten = True


def stage(count: int, *, timed: bool = True) -> Stage:
    planned = [PlannedCase(index=index, parameters={}, hidden=False) for index in range(count)]
    return Stage(name=StageName.RANKED, cases=planned, limit_s=10.0, timed=timed)


def of_host(caller: FakeCaller) -> Calls:
    return cast("Calls", caller)


def overheads(caller: FakeCaller, *, fails: int | None = None) -> overhead.Overheads:
    """Return what measures with a caller that is none; the generator of one case may fail."""
    return overhead.Overheads(
        cast("Checks", FakeChecks(fails)),
        {"submission": cast("Caller", caller)},
        lambda _stage, _case: cast("Calls", caller),
    )


def test_overheads_that_take_long_are_measured_of_the_first_case_only() -> None:
    caller, two = FakeCaller(), stage(2)
    found = overheads(caller)
    found.measure([two], clock=lambda: caller.now_s)
    assert found.of(two, two.cases[0], of_host(caller)) == 1000.0
    assert found.of(two, two.cases[1], of_host(caller)) is None
    assert caller.calls == overhead.UNCOUNTED + 1
    assert caller.forgotten


def test_the_overhead_of_each_case_is_that_of_its_own_calls() -> None:
    caller, two = FakeCaller(call_s=0.01), stage(2)
    found = overheads(caller)
    found.measure([two], clock=lambda: caller.now_s)
    assert [found.of(two, case, of_host(caller)) for case in two.cases] == [1000.0, 2000.0]
    assert caller.calls == 2 * (overhead.UNCOUNTED + overhead.SAMPLES)


def test_calls_are_made_by_what_makes_those_of_the_case() -> None:
    caller, others, two = FakeCaller(call_s=0.01), FakeCaller(call_s=0.01), stage(2)
    found = overhead.Overheads(
        cast("Checks", FakeChecks()),
        {"submission": cast("Caller", caller)},
        lambda _stage, case: cast("Calls", others if case.index else caller),
    )
    found.measure([two], clock=lambda: caller.now_s)
    assert caller.calls == others.calls == overhead.UNCOUNTED + overhead.SAMPLES


def test_a_case_whose_generator_fails_has_no_overhead_and_the_next_has() -> None:
    caller, two = FakeCaller(call_s=0.01), stage(2)
    found = overheads(caller, fails=0)
    found.measure([two], clock=lambda: caller.now_s)
    assert [found.of(two, case, of_host(caller)) for case in two.cases] == [None, 2000.0]


def test_cases_that_are_not_timed_have_no_overhead() -> None:
    caller, tests = FakeCaller(), stage(1, timed=False)
    found = overheads(caller)
    found.measure([tests], clock=lambda: caller.now_s)
    assert found.of(tests, tests.cases[0], of_host(caller)) is None
    assert not caller.forgotten


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (CallFailed("exception", "no room"), "no room"),
        (BrokenProtocol("an unexpected frame"), "unexpected"),
        (ChannelTimeout(), "ChannelTimeout"),
        (ChannelClosed("end of stream"), "end of stream"),
    ],
)
def test_a_process_that_fails_before_any_submission_is_there_is_the_machines_fault(
    failure: Exception, text: str
) -> None:
    caller = FakeCaller(fails=failure)
    with pytest.raises(MachineFailed, match=text):
        overheads(caller).measure([stage(1)], clock=lambda: caller.now_s)
