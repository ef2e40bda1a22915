"""When a call counts as hanging, and whose fault it is that a time limit was exceeded."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_room import judged_in_room
from harness_runs import HONEST, RANKED, quick_spec, run
from inside import judged, last_end

from builders import make_case
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine
from kernelcup_harness.core import judge
from kernelcup_harness.core.answer import Form
from kernelcup_harness.core.call import PLACES, Caller
from kernelcup_harness.core.judge import Deadline
from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    Limits,
    Mode,
    Reason,
    StageName,
    Verdict,
)
from kernelcup_harness.run import empty_call
from kernelcup_harness.run.record import Record
from kernelcup_harness.window.messages import Fire, Launch
from kernelcup_harness.wire.channel import ChannelTimeout

HANGS = "import threading\n\n\ndef custom_kernel(data):\n    threading.Event().wait({seconds})\n    return data * 2\n"
IDLE_NS, SLOW_NS = 100_000.0, 5_000_000.0


def ranked(submission: str = HONEST, **changes: Any) -> JobSpec:
    """A ranked job whose calls, on a busy machine too, have enough time."""
    rules = replace(RANKED, stage_budget_s=60.0, case_budget_s=60.0, **changes)
    return quick_spec(submission, mode=Mode.LEADERBOARD, backend=Backend.CPU, tests=[], rules=rules)


# A call that hangs


@pytest.fixture
def deadline(monkeypatch: pytest.MonkeyPatch) -> Deadline:
    """A stage of 180 s that has just begun, by a clock that stands still."""
    monkeypatch.setattr(judge.time, "monotonic", lambda: 1_000.0)
    made = Deadline()
    made.begin(180.0)
    return made


@pytest.mark.parametrize(
    ("reference_s", "more", "longest_s"),
    [
        pytest.param(0.001, {}, 10.0, id="a quick reference"),
        pytest.param(0.5, {}, 50.0, id="a slow one"),
        pytest.param(0.5, {"calls": 3}, 150.0, id="three calls at once"),
        pytest.param(9.0, {}, 180.0, id="within the limit of the stage"),
        pytest.param(0.001, {"may_compile": True}, 60.0, id="a call that may compile"),
        pytest.param(1.0, {"may_compile": True}, 100.0, id="one beside a slow reference"),
    ],
)
def test_a_call_ends_at_ten_seconds_or_a_hundred_times_the_reference(
    deadline: Deadline, reference_s: float, more: dict[str, Any], longest_s: float
) -> None:
    form = Form(value=None, nbytes=0, tensors=0, in_place=False, reference_s=reference_s)
    assert deadline.remaining(form, **more) == longest_s


def test_a_longer_stage_leaves_more_time_to_compile(deadline: Deadline) -> None:
    deadline.begin(600.0)
    form = Form(value=None, nbytes=0, tensors=0, in_place=False)
    assert deadline.remaining(form, may_compile=True) == 200.0


def test_without_a_reference_a_call_may_take_its_stage(deadline: Deadline) -> None:
    assert deadline.remaining(None) == 180.0
    assert deadline.longest_s == math.inf


def test_the_reference_of_a_case_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = []
    real = Deadline.remaining

    def noted(self: Deadline, form: Form | None = None, **more: Any) -> float:
        forms.append(form)
        return real(self, form, **more)

    monkeypatch.setattr(Deadline, "remaining", noted)
    assert last_end(judged(quick_spec(HONEST), tmp_path))[0] == "accepted"
    (form,) = {id(each): each for each in forms if each is not None}.values()
    assert 0 < form.reference_s < 10


@pytest.mark.parametrize("stage", [StageName.TEST, StageName.RANKED])
def test_a_call_that_hangs_ends_before_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: StageName
) -> None:
    monkeypatch.setattr(judge, "FIRST_S", 0.2)
    monkeypatch.setattr(judge, "FIRST_SHARE", 0.0)
    monkeypatch.setattr(judge, "LONGEST_S", 0.2)
    monkeypatch.setattr(judge, "TIMES_REFERENCE", 0.0)
    source = HANGS.format(seconds=3)
    spec = ranked(source) if stage is StageName.RANKED else quick_spec(source)
    verdict, reason, message = last_end(judged(spec, tmp_path))
    assert (verdict, reason) == ("time_limit_exceeded", "time")
    assert message == "a call did not end within 0.2 s, in case 0"


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.LEADERBOARD])
def test_only_first_calls_of_a_case_have_time_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    monkeypatch.setattr(judge, "TIMES_REFERENCE", 0.0)
    limits = list[float]()
    real = Caller.timed

    def noted(self: Caller, *given: Any, timeout_s: float, **more: Any) -> Any:
        limits.append(timeout_s)
        return real(self, *given, timeout_s=timeout_s, **more)

    many = {"checks": 6, "min_samples": 6, "max_samples": 6}
    spec = ranked(**many) if mode is Mode.LEADERBOARD else quick_spec(HONEST, rules=replace(RANKED, **many))
    monkeypatch.setattr(Caller, "timed", noted)
    assert last_end(judged(spec, tmp_path))[0] == "accepted"
    # Before the import calls that compute nothing are timed.
    limits = [each for each in limits if each != 30.0]
    assert limits[:PLACES] == [60.0] * PLACES
    assert len(limits) >= 6
    assert set(limits[PLACES:]) == {10.0}


@pytest.mark.parametrize("request_type", [Fire, Launch])
def test_a_replayed_call_that_hangs_is_not_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_type: type
) -> None:
    real, asked = TimerLine.ask, list[float]()

    def hangs(self: TimerLine, request: Any, expected: Any, *, timeout_s: float, fds: Any = ()) -> Any:
        if isinstance(request, request_type):
            asked.append(timeout_s)
            if request_type is Launch or len(asked) > PLACES:  # each place is verified once
                raise TimerFailed("it does not answer") from ChannelTimeout()
        return real(self, request, expected, timeout_s=timeout_s, fds=fds)

    monkeypatch.setattr(TimerLine, "ask", hangs)
    events, _ = judged_in_room(ranked(), tmp_path)
    verdict, reason, message = last_end(events)
    assert (verdict, reason) == ("time_limit_exceeded", "time")
    assert message.startswith("a replayed call did not end within ")
    assert max(asked) <= 100.0


def test_a_call_that_hangs_while_it_is_tried_is_timed_by_the_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TimerLine.ask

    def hangs(self: TimerLine, request: Any, expected: Any, *, timeout_s: float, fds: Any = ()) -> Any:
        if isinstance(request, Fire):
            raise TimerFailed("it does not answer") from ChannelTimeout()
        return real(self, request, expected, timeout_s=timeout_s, fds=fds)

    monkeypatch.setattr(TimerLine, "ask", hangs)
    events, _ = judged_in_room(ranked(), tmp_path)
    assert last_end(events)[0] == "accepted"


# A machine that is busy


@pytest.mark.parametrize(
    ("times_ns", "text"),
    [
        pytest.param([IDLE_NS] * 1000, "", id="idle"),
        pytest.param([IDLE_NS] * 600 + [2 * IDLE_NS] * 400, "", id="some calls a little slower"),
        pytest.param([IDLE_NS] * 500 + [4 * IDLE_NS] * 500, "", id="half of them much slower"),
        pytest.param(
            [IDLE_NS] * 900 + [SLOW_NS] * 100,
            "the machine was busy: a call that computes nothing took 0.59 ms, on this machine when idle 0.1 ms",
            id="few of them very slow",
        ),
        pytest.param([], "", id="none answered"),
    ],
)
def test_a_machine_is_busy_if_calls_take_over_three_times_what_the_quickest_take(
    monkeypatch: pytest.MonkeyPatch, times_ns: list[float], text: str
) -> None:
    monkeypatch.setattr(empty_call, "calls_ns", lambda: times_ns)
    assert empty_call.trouble() == text


def test_calls_that_compute_nothing_leave_no_process_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empty_call, "CALLS_S", 0.0)
    before = set(processes.descendants(processes.os.getpid()))
    times_ns = empty_call.calls_ns()
    assert len(times_ns) >= empty_call.FEWEST
    assert min(times_ns) > 0
    assert set(processes.descendants(processes.os.getpid())) <= before


def late(record: Record, message: str) -> None:
    record.begin(StageName.RANKED, 180.0, 1)
    ended = {"verdict": Verdict.TIME_LIMIT_EXCEEDED, "reason": Reason.TIME, "message": message}
    record.case(make_case(None, **ended))
    record.end(**ended)


ADVICE = (
    "case 0 has 3 of the 16 samples: 0.9 s of it the calls alone. Make every call faster, not only those."
)


def test_on_a_busy_machine_a_time_limit_is_nobodys_verdict() -> None:
    record = Record(quick_spec(HONEST), "", lambda _event: None)
    late(record, ADVICE)
    assert empty_call.excuse(record, lambda: "the machine was busy: 5 ms")
    report = record.report(secret=b"", duration_s=1.0)
    expected = "not measured: case 0 has 3 of the 16 samples: 0.9 s of it the calls alone; the machine was busy: 5 ms"
    (case,) = report.stages[0].cases
    for each in (report, report.stages[0], case):
        assert (each.verdict, each.reason) == (Verdict.INTERNAL_ERROR, Reason.BUSY)
        assert each.message == expected


def test_on_an_idle_machine_a_time_limit_is_the_submissions() -> None:
    record = Record(quick_spec(HONEST), "", lambda _event: None)
    late(record, ADVICE)
    assert not empty_call.excuse(record, lambda: "")
    report = record.report(secret=b"", duration_s=1.0)
    assert (report.reason, report.message) == (Reason.TIME, ADVICE)


def test_the_machine_is_asked_about_time_limits_only() -> None:
    def never() -> str:
        raise AssertionError("measured")

    record = Record(quick_spec(HONEST), "", lambda _event: None)
    record.begin(StageName.TEST, 180.0, 1)
    record.end(Verdict.WRONG_ANSWER, Reason.DIFFERS, "wrong")
    empty_call.excuse(record, never)
    assert record.report(secret=b"", duration_s=1.0).reason is Reason.DIFFERS


WATCHED = """\
import os, sys
from kernelcup_harness import __main__
from kernelcup_harness.isolation import processes
from kernelcup_harness.run import empty_call

empty_call.trouble = lambda: f"beside {len(processes.descendants(os.getpid()))} processes"
sys.argv = ["kernelcup_harness", "-"]
sys.exit(__main__.main())
"""
LOADS = """\
import subprocess, sys, time

for _ in range(3):
    subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)


def custom_kernel(data):
    while True:
        pass
"""


@pytest.mark.jobs
def test_what_a_submission_leaves_running_does_not_keep_the_machine_busy() -> None:
    spec = quick_spec(LOADS, limits=Limits(test_s=1.0))
    report = run(spec, argv=[sys.executable, "-P", "-c", WATCHED]).report
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.BUSY)
    assert report.message.endswith("; beside 0 processes")
