"""What is measured beside the claims: canaries, references, the device's state, an empty kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness_runs import quick_spec
from inside import cases, judged

from kernelcup_harness import bench, calibration, checks, nvml, trusted
from kernelcup_harness.answers import Answer, CallFailed, Pending
from kernelcup_harness.calibration import CanaryCheck
from kernelcup_harness.checks import Checks
from kernelcup_harness.frames import BrokenProtocol
from kernelcup_harness.protocol import Backend, JobSpec, MeasureRules, Mode, Verdict

HONEST = "def custom_kernel(data):\n    return data * 2\n"
RULES = MeasureRules(warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4)
# Right at first, and at the end of a case that is called again and again.
SOMETIMES_WRONG = """\
calls = []


def custom_kernel(data):
    calls.append(1)
    return data * (2 if len(calls) < 9 else 3)
"""


def ranked(submission: str = HONEST, **changes: Any) -> JobSpec:
    """Return a ranked job of one case on the processor."""
    values: dict[str, Any] = {"mode": Mode.LEADERBOARD, "backend": Backend.CPU, "tests": [], "rules": RULES}
    return quick_spec(submission, **(values | changes))


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind."""
    return [event for event in events if event["event"] == kind]


# References


def test_a_ranked_case_says_how_long_the_reference_takes(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(), tmp_path))
    assert case.reference_ns is not None
    assert case.reference_ns > 0


def test_a_slow_reference_is_called_once(tmp_path: Path) -> None:
    reference = ranked().sources["reference.py"]
    slow = reference.replace(
        "    return data * 2",
        "    end = time.monotonic() + 0.02\n    while time.monotonic() < end:\n        pass\n    return data * 2",
    ).replace("import torch", "import time\n\nimport torch")
    events = judged(ranked(sources={"reference.py": slow}), tmp_path)
    (case,) = cases(events)
    assert case.reference_ns is not None
    assert case.reference_ns >= 2e7
    assert of_kind(events, "phases")[0]["phases"]["ranked/reference"] < 0.2


def test_other_modes_have_no_time_of_the_reference(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(mode=Mode.BENCHMARK), tmp_path), "benchmark")
    assert case.reference_ns is None


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


def test_the_canary_is_in_the_report_also_where_nothing_was_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_canary(monkeypatch, fits=True)
    events = judged(ranked("def custom_kernel(data):\n    return data\n"), tmp_path)
    (found,) = of_kind(events, "calibration")
    assert found["calibration"]["canary_ns"] == 70_000.0


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


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
def test_what_is_not_ranked_has_no_canary(tmp_path: Path, mode: Mode) -> None:
    assert not of_kind(judged(ranked(mode=mode), tmp_path), "calibration")


def test_a_processor_that_is_not_as_usual_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_canary(monkeypatch, fits=False)
    (case,) = cases(judged(ranked(), tmp_path))
    assert case.verdict is Verdict.ACCEPTED


def test_a_gpu_that_is_not_as_usual_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_canary(monkeypatch, fits=False)
    monkeypatch.setattr(bench.Watch, "gpu", property(lambda _self: True, lambda _self, _value: None))
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


# Which answers are looked at


def test_an_answer_that_nobody_looked_at_is_not_called_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup_harness.schedule.LARGE_OUTPUT_BYTES", 1)
    monkeypatch.setattr("kernelcup_harness.schedule.CHECKED_SHARE", 0.0)
    rules = replace(RULES, max_samples=30, min_samples=30, relative_error=1e-9, repeats=0, twins=0)
    (case,) = cases(judged(ranked(rules=rules, mode=Mode.BENCHMARK), tmp_path), "benchmark")
    assert case.timing is not None
    # The first four, at times an old input, and the last.
    assert 5 <= case.checks < 15
    assert len(case.timing.samples_ns) == 30


def test_the_last_answer_is_always_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelcup_harness.schedule.LARGE_OUTPUT_BYTES", 1)
    monkeypatch.setattr("kernelcup_harness.schedule.CHECKED_SHARE", 0.0)
    monkeypatch.setattr("kernelcup_harness.schedule.LATE_SURPRISE", 0.0)
    rules = replace(RULES, max_samples=30, min_samples=30, relative_error=1e-9, repeats=0, twins=0)
    (case,) = cases(judged(ranked(SOMETIMES_WRONG, rules=rules, mode=Mode.BENCHMARK), tmp_path), "benchmark")
    assert case.verdict is Verdict.WRONG_ANSWER
    assert case.timing is not None
    assert len(case.timing.samples_ns) == 30


def pending(reply: dict[str, Any]) -> Pending:
    """Return an answer that has arrived."""
    nothing: Any = None
    return Pending(
        reply=reply,
        kind="claim",
        wall_ns=900.0,
        inputs=1,
        most_tensors=9,
        memory=nothing,
        pattern=nothing,
        poisoned=0,
    )


def test_what_an_answer_claims_is_read_without_its_output() -> None:
    assert checks.unopened(pending({"type": "done", "ns": 100.0})).ns == 100.0
    assert checks.unopened(pending({"type": "done", "ns": 1e9})).ns == 900.0


def test_an_answer_without_a_time_is_refused_unread() -> None:
    with pytest.raises(BrokenProtocol):
        checks.unopened(pending({"type": "done", "ns": None}))
    with pytest.raises(CallFailed):
        checks.unopened(pending({"type": "fail", "kind": "exception", "text": "no"}))


# The device's state


class Gauge(nvml.NoGauge):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def clock_mhz(self) -> float | None:
        """Another clock each time."""
        self.asked += 1
        return 1000.0 + self.asked


def test_the_driver_is_not_asked_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(bench.time, "monotonic", lambda: now[0])
    gauge = Gauge()
    watch = bench.Watch(gpu=True, gauge=gauge)
    seen = []
    for _ in range(100):
        seen.append(watch.look()[0])
        now[0] += bench.LOOK_EVERY_S / 10
    assert seen[0] == 1001.0
    assert 9 <= gauge.asked <= 11
    assert len(set(seen)) == gauge.asked


# An empty kernel


class Line:
    """A channel that answers what it is told to."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.reply = reply
        self.sent: list[dict[str, Any]] = []

    def send(self, frame: dict[str, Any], timeout_s: float) -> None:
        """Note what is sent."""
        self.sent.append(frame)

    def receive(self, _timeout_s: float) -> dict[str, Any]:
        """Give the one answer."""
        return self.reply


def profiled(known: float | None, reply: dict[str, Any]) -> tuple[list[dict[str, Any]], float | None]:
    """Return what was asked, and what is known of an empty kernel afterwards."""
    line: Any = Line(reply)
    caller: Any = None
    found = trusted.Trusted(caller, line, gpu=True, empty_kernel_ns=known)
    found.begin()
    found._end_profiling()
    return line.sent, found._known_empty_ns


def test_an_empty_kernel_that_the_machine_knows_is_not_profiled() -> None:
    assert profiled(576.0, {}) == ([], 576.0)


def test_where_the_profiler_does_not_work_it_is_not_tried_again() -> None:
    assert profiled(0.0, {}) == ([], 0.0)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"type": "empty", "ns": 600.0}, 600.0),
        ({"type": "empty", "ns": None}, 0.0),
        ({"type": "fail", "kind": "exception", "text": ""}, 0.0),
        ({"type": "empty", "ns": -1.0}, 0.0),
        ({"type": "empty", "ns": 1e9}, 0.0),
    ],
)
def test_an_empty_kernel_that_nobody_knows_is_profiled(reply: dict[str, Any], expected: float) -> None:
    sent, known = profiled(None, reply)
    assert [frame["type"] for frame in sent] == ["empty"]
    assert known == expected


def calibrated(profiled_ns: float | None = 900.0) -> trusted.Trusted:
    """Return one in whose process an empty kernel reads 3.3 us."""
    nobody: Any = None
    found = trusted.Trusted(nobody, nobody, gpu=True, empty_kernel_ns=profiled_ns)
    found.readings.empty_pair, found.readings.empty_kernel = [1250.0] * 10, [3300.0] * 10
    found.readings.profiled_empty_ns = profiled_ns
    return found


@pytest.mark.parametrize(
    ("profiled_ns", "own_ns", "offset_ns"),
    [
        pytest.param(900.0, [3200.0] * 10, 2300.0, id="its own"),
        pytest.param(900.0, [], 2400.0, id="the trusted one's where there is none"),
        pytest.param(900.0, [9000.0] * 10, 2400.0, id="not one that is nowhere near"),
        pytest.param(900.0, [1.0] * 10, 2400.0, id="nor one that is far below"),
        pytest.param(None, [3200.0] * 10, 1250.0, id="a pair of events where there is no profiler"),
    ],
)
def test_a_process_has_an_offset_of_its_own(
    profiled_ns: float | None, own_ns: list[float], offset_ns: float
) -> None:
    assert calibrated(profiled_ns).offset_in(own_ns) == offset_ns


def test_a_contestant_says_what_empty_kernels_read_in_its_process() -> None:
    count = bench.UNCOUNTED_EMPTY + bench.EMPTY_CALLS
    line: Any = Line({"type": "clock", "ns": [3000.0 + number for number in range(count)]})
    assert len(bench.empty_calls_ns(line)) == bench.EMPTY_CALLS
    assert line.sent[0]["calls"] == count
    for ns in (None, "x", [1.0, "x"], [float("nan")] * count):
        line.reply = {"type": "clock", "ns": ns}
        with pytest.raises(BrokenProtocol, match="report its clock"):
            bench.empty_calls_ns(line)


def test_claims_of_known_lengths_lie_on_a_line() -> None:
    claims = {5_000.0: [8_000.0] * 8, 20_000.0: [23_100.0] * 8, 100_000.0: [103_600.0] * 8}
    assert trusted.is_straight(claims)
    assert not trusted.is_straight({**claims, 20_000.0: [29_700.0] * 8})
    assert not trusted.is_straight({**claims, 100_000.0: [106_000.0] * 8})


def test_slopes_that_something_disturbed_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = calibrated()
    found.readings.spin_claims = {trusted.RING_LENGTH_NS: [22_400.0] * 8}
    series = [[47_000.0] * 6, [26_000.0] * 6, [33_000.0] * 6, [20_000.0] * 6]
    monkeypatch.setattr(found, "_ring_slopes", lambda: series.pop(0))
    found._measure_slopes()
    assert (found.readings.slopes[0], len(series)) == (26_000.0, 1)
    found._measure_slopes()
    assert (found.readings.slopes[0], len(series)) == (20_000.0, 0)


def test_what_calls_among_many_take_more_is_their_gap_and_less_is_none() -> None:
    found = calibrated()
    assert found.slope_gap_ns == 0.0
    found.readings.spin_claims = {trusted.RING_LENGTH_NS: [22_400.0] * 8}
    found.readings.slopes = [20_330.0, 20_310.0, 29_000.0]
    assert found.slope_gap_ns == pytest.approx(330.0)
    found.readings.slopes = [19_700.0] * 3
    assert found.slope_gap_ns == 0.0
    assert found.slope_residual_ns == pytest.approx(300.0)


def test_a_report_has_the_slopes_that_slack_follows_from() -> None:
    found = calibrated()
    found.readings.noop_handshakes = [10_000.0] * 8
    found.readings.spin_claims = {length: [length + 2_400.0] * 8 for length in trusted.LENGTHS_NS}
    found.readings.spin_handshakes = {length: [length + 12_000.0] * 8 for length in trusted.LENGTHS_NS}
    found.readings.slopes = [20_330.0, 20_310.0]
    assert found.calibration().ring_slopes_ns == [20_330.0, 20_310.0]


def test_a_machine_whose_known_lengths_are_off_judges_nobody() -> None:
    found = calibrated()
    found.arms = True
    found.readings.noop_handshakes = [10_000.0] * 8
    found.readings.spin_handshakes = {5e3: [17e3] * 8, 20e3: [32e3] * 8, 100e3: [112e3] * 8}
    found._check()
    assert found.handshake_residual_ns < 1
    assert found.launch_ns == pytest.approx(2_000)
    found.readings.spin_handshakes[20e3] = [45e3] * 8
    with pytest.raises(trusted.TrustedFailed, match="handshakes of known lengths"):
        found._check()
    # Where processes take part nobody expects a line.
    found.arms = False
    found._check()
    found.readings.spin_claims = {trusted.RING_LENGTH_NS: [22_400.0] * 8}
    found.readings.slopes = [33_000.0] * 6
    with pytest.raises(trusted.TrustedFailed, match="in a series"):
        found._check()


@pytest.mark.parametrize(
    ("samples", "settled"),
    [
        ([3000.0] * 7, False),
        ([3000.0] * 8, True),
        ([3000.0] * 9, False),
        ([3000.0, 3030.0] * 10, True),
        ([3000.0, 3400.0] * 4, False),
    ],
)
def test_a_calibration_ends_where_it_is_sure(samples: list[float], settled: bool) -> None:
    assert trusted.is_settled(samples) is settled


def test_checks_give_the_references_output() -> None:
    class Task:
        def expected(self, data: Any) -> Any:
            return data * 2

    task: Any = Task()
    assert Checks(task, b"", aliasing=False).expected(4) == 8
    assert Answer().output is None
