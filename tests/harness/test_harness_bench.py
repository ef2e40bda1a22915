"""What is measured beside the calls: canaries, references, the state of the device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness_runs import HONEST, RANKED, ranked
from inside import cases, judged

from kernelcup_harness.core.check import Place
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.device import calibration
from kernelcup_harness.device.calibration import CanaryCheck
from kernelcup_harness.device.cpu.accelerator import Cpu
from kernelcup_harness.device.port import NoGauge
from kernelcup_harness.doubt import device_state, doubts
from kernelcup_harness.doubt.device_state import LOOK_EVERY_S, DeviceWatch
from kernelcup_harness.doubt.doubts import Doubts
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    JobSpec,
    Mode,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
)

CASE = PlannedCase(index=0, parameters={}, hidden=False)
LARGE = [{"size": 1 << 20, "seed": 7}]
# Leaves an answer of a new input out now and then, once the first ones were right.
SOMETIMES_WRONG = """\
calls = []


def custom_kernel(data):
    calls.append(1)
    return data * (2 if len(calls) != 9 else 3)
"""


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind."""
    return [event for event in events if event["type"] == kind]


def unused(spec: JobSpec) -> Doubts:
    """Return the doubts of a job whose contestants are not called."""
    nothing: Any = None
    places: Any = SimpleNamespace(place=lambda _stage, case: case, remarks={1: "not of case 0"})
    watch = DeviceWatch(gpu=False, gauge=NoGauge())
    return Doubts(spec, checks=places, watch=watch, processes=2, tell=nothing, phase=nothing)


# References


def test_a_ranked_case_says_how_long_the_reference_takes(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(), tmp_path))
    assert case.reference_ns is not None
    assert case.reference_ns > 0


@pytest.mark.parametrize(("budget_s", "calls"), [(0.0, 1), (math.inf, doubts.SAMPLES)])
def test_a_slow_reference_is_called_once_for_its_time(budget_s: float, calls: int) -> None:
    timed: list[Any] = []
    checks: Any = SimpleNamespace(form=lambda _place: True, make_input=lambda *_given: 1, expected=str)

    def time_ns(call: Any) -> float:
        timed.append(call)
        return 5.0

    assert doubts.median_ns(checks, Place(StageName.RANKED, 0, {}), budget_s, time_ns) == 5.0
    assert len(timed) == calls


def stopped(captured: bool, overhead_ns: float | None, found_ns: float | None) -> float | None:
    """Return the time of a reference as reported, beside a case with an overhead."""
    stage = Stage(name=StageName.RANKED, cases=[CASE], limit_s=1.0, timed=True)
    level = TrustLevel.REPLAYED if captured else TrustLevel.WALL_CLOCK
    audit = Audit(captured=captured, score_ns=1.0, level=level)
    timed = Timing(samples_ns=[1.0], overhead_ns=overhead_ns, audit=audit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doubts, "median_ns", lambda *_given: found_ns)
        (reference_ns,) = unused(ranked())._references_ns(stage, [(CASE, timed)])
    return reference_ns


def test_a_reference_beside_calls_has_their_overhead_too_and_beside_replays_none() -> None:
    """Otherwise it would look faster than a submission that does the same."""
    assert stopped(False, 7.0, 100.0) == 107.0
    assert stopped(False, None, 100.0) == 100.0
    assert stopped(False, 7.0, None) is None
    assert stopped(True, 7.0, 100.0) == 100.0


def test_a_task_without_a_reference_has_no_time_of_it(tmp_path: Path) -> None:
    text = ranked().sources["reference.py"].replace("ref_kernel", "double")
    (case,) = cases(judged(ranked(sources={"reference.py": text}), tmp_path))
    assert case.verdict is Verdict.ACCEPTED
    assert case.reference_ns is None


# Canaries


def with_canary(monkeypatch: pytest.MonkeyPatch, *, fits: bool) -> None:
    """Have the canary take 70 microseconds, as it should or not."""
    found = CanaryCheck(canary_ns=70_000.0, first_ns=70_000.0, fits=fits)
    monkeypatch.setattr(calibration, "check_canary", lambda _backend, _facts: found)


def test_the_canary_comes_before_any_code_of_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"

    def look(_backend: Backend, _facts: Any) -> CanaryCheck:
        trace.write_text("canary ")
        return CanaryCheck(canary_ns=1.0, first_ns=1.0, fits=True)

    monkeypatch.setattr(calibration, "check_canary", look)
    folder = tmp_path / "job"
    folder.mkdir()
    judged(ranked(f"with open({str(trace)!r}, 'a') as file:\n    file.write('import')\n{HONEST}"), folder)
    assert trace.read_text() == "canary import"


@pytest.mark.parametrize(("mode", "stage"), [(Mode.TEST, "test"), (Mode.BENCHMARK, "benchmark")])
def test_what_is_not_ranked_has_no_canary_and_no_time_of_the_reference(
    tmp_path: Path, mode: Mode, stage: str
) -> None:
    events = judged(ranked(mode=mode), tmp_path)
    assert not of_kind(events, "calibration")
    assert [case.reference_ns for case in cases(events, stage) if case.reference_ns is not None] == []


def test_a_processor_that_is_not_as_usual_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_canary(monkeypatch, fits=False)
    (case,) = cases(judged(ranked(), tmp_path))
    assert case.verdict is Verdict.ACCEPTED


def test_a_gpu_that_is_not_as_usual_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_canary(monkeypatch, fits=False)
    monkeypatch.setattr(DeviceWatch, "gpu", property(lambda _self: True, lambda _self, _value: None))
    events = judged(ranked(), tmp_path)
    (end,) = of_kind(events, "stage_end")
    assert (end["verdict"], end["reason"]) == ("internal_error", "machine")
    assert "canary took 70.0 us" in end["message"]


def test_a_canary_that_cannot_be_taken_is_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_backend: Backend, _facts: Any) -> CanaryCheck:
        raise RuntimeError("no context")

    monkeypatch.setattr(calibration, "check_canary", fail)
    (end,) = of_kind(judged(ranked(), tmp_path), "stage_end")
    assert (end["verdict"], end["reason"]) == ("internal_error", "machine")


# Which answers are checked


def test_one_wrong_answer_among_many_large_ones_is_found(tmp_path: Path) -> None:
    rules = replace(RANKED, max_samples=12, min_samples=12, relative_error=1e-9, stage_budget_s=20.0)
    wrong = ranked(SOMETIMES_WRONG, rules=rules, mode=Mode.BENCHMARK, benchmarks=LARGE)
    (case,) = cases(judged(wrong, tmp_path), "benchmark")
    assert (case.verdict, case.checks) == (Verdict.WRONG_ANSWER, 9)


def test_all_large_answers_are_checked(tmp_path: Path) -> None:
    rules = replace(RANKED, max_samples=12, min_samples=12, relative_error=1e-9, stage_budget_s=20.0)
    (case,) = cases(judged(ranked(rules=rules, mode=Mode.BENCHMARK, benchmarks=LARGE), tmp_path), "benchmark")
    assert case.timing is not None
    assert case.checks >= len(case.timing.samples_ns) == 12


# The device's state


class Gauge(NoGauge):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def clock_mhz(self) -> float | None:
        """Another clock each time."""
        self.asked += 1
        return 1000.0 + self.asked


def test_the_driver_is_not_asked_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(device_state.time, "monotonic", lambda: now[0])
    gauge = Gauge()
    watch = DeviceWatch(gpu=True, gauge=gauge)
    seen = []
    for _ in range(100):
        seen.append(watch.look()[0])
        now[0] += LOOK_EVERY_S / 10
    assert seen[0] == 1001.0
    assert 9 <= gauge.asked <= 11
    assert len(set(seen)) == gauge.asked


class FullGauge(NoGauge):
    """Knows everything of a device that one more process uses than it should."""

    def clock_mhz(self) -> float | None:
        """A steady clock."""
        return 1500.0

    def temperature_c(self) -> float | None:
        """A usual temperature."""
        return 50.0

    def processes(self) -> int | None:
        """The judge, its checker, the timer, a contestant and another one."""
        return 5


def test_the_report_has_the_state_of_the_device_and_where_the_time_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "gauge", lambda _self: FullGauge())
    with_canary(monkeypatch, fits=True)
    events = judged(ranked(), tmp_path)
    before, after = [event["calibration"] for event in of_kind(events, "calibration")]
    assert before["canary_ns"] == after["canary_ns"] == 70_000.0
    assert (after["sm_clock_mhz"], after["temperature_c"], after["device_name"]) == (1500.0, 50.0, "")
    (phases,) = of_kind(events, "phases")
    assert {
        "set-up",
        "context",
        "canary",
        "overheads",
        "reference",
        "load",
        "test",
        "ranked/calls",
        "ranked/reference",
        "ranked/probes",
    } == set(phases["phases"])


def findings(events: list[dict[str, Any]]) -> list[str]:
    """Return the codes of what was found of the one case."""
    (case,) = cases(events)
    assert case.timing is not None
    assert case.timing.audit is not None
    return [finding.code for finding in case.timing.audit.findings]


def test_a_device_that_others_use_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cpu, "gauge", lambda _self: FullGauge())
    assert findings(judged(ranked(), tmp_path)) == ["busy_device"]


def test_a_device_that_was_slowed_down_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed: Iterator[bool] = cycle([False, True])
    monkeypatch.setattr(DeviceWatch, "look", lambda _self: (None, next(slowed)))
    events = judged(ranked(), tmp_path)
    assert findings(events) == ["throttled"]
    (case,) = cases(events)
    assert case.timing is not None
    assert case.timing.discarded_ns


@pytest.mark.parametrize(("backend", "found"), [(Backend.CUDA, ["wide_interval"]), (Backend.CPU, [])])
def test_on_a_gpu_calls_that_scatter_too_much_are_a_finding(backend: Backend, found: list[str]) -> None:
    scattered = Timing(samples_ns=[8e3, 32e3] * 10)
    audit = Audit(score_ns=scattered.raw_ns, level=TrustLevel.WALL_CLOCK)
    timed = replace(scattered, audit=audit)
    assert [each.code for each in unused(ranked(backend=backend)).findings(CASE, timed)] == found
    assert audit.score_ns == 20e3


def test_a_wrong_answer_that_does_not_count_is_a_finding_that_does_not_hold_the_result() -> None:
    timing = Timing(samples_ns=[8e3] * 20, audit=Audit(score_ns=8e3, level=TrustLevel.WALL_CLOCK))
    (found,) = unused(ranked()).findings(replace(CASE, index=1), timing)
    assert (found.code, found.text, found.quarantines) == ("excused_twin", "not of case 0", False)
