"""What the core decides by itself: tests one after the other, and what no doubt, clock or explanation can change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from harness_runs import quick_spec, run
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import cases, judged

from builders import make_spec
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import Checks, Fault, MoreInputs, Place
from kernelcup_harness.core.judge import Beside, Judge, Prepared, with_findings
from kernelcup_harness.core.plan import CaseCalls, PlannedCase
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    Finding,
    MeasureRules,
    Mode,
    Reason,
    SampleName,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
    Work,
)
from properties import examples

WRONG_FOR_NINE = "def custom_kernel(data):\n    return data * (3 if len(data) == 9 else 2)\n"
SIZES = [{"size": size, "seed": 5} for size in (8, 9, 10)]
# Says which of the harness's modules the judge's process has loaded.
LOADED = """\
import sys

import torch


def generate_input(size, seed):
    return torch.ones(size), " ".join(name for name in sys.modules if name.startswith("kernelcup_harness."))


def ref_kernel(data):
    return data[0]


def check_implementation(data, output):
    return data[1]
"""
PLACE = Place(StageName.RANKED, 0, {"size": 3})
PLANNED = PlannedCase(index=0, parameters={}, hidden=False)


# Tests


def test_a_test_case_is_called_as_often_as_it_is_checked_each_time_with_a_new_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SampleName] = []
    real = Checks.fault

    def noted(self: Checks, place: Place, sample: SampleName, data: Any, answer: Answer) -> Fault | None:
        seen.append(sample)
        return real(self, place, sample, data, answer)

    monkeypatch.setattr(Checks, "fault", noted)
    double, rules = "def custom_kernel(data):\n    return data * 2\n", MeasureRules(checks=3)
    spec = quick_spec(double, tests=SIZES[:1], mode=Mode.TEST, rules=rules)
    (case,) = cases(judged(spec, tmp_path), "test")
    assert (case.verdict, case.checks) == (Verdict.ACCEPTED, 3)
    assert seen == [SampleName(input=number) for number in range(3)]


def test_tests_run_one_after_the_other_and_one_that_fails_is_not_called_again(tmp_path: Path) -> None:
    spec = quick_spec(WRONG_FOR_NINE, tests=SIZES, mode=Mode.TEST, rules=MeasureRules(checks=2))
    found = cases(judged(spec, tmp_path), "test")
    assert [(case.index, case.verdict.value, case.checks) for case in found] == [
        (0, "accepted", 2),
        (1, "wrong_answer", 1),
        (2, "accepted", 2),
    ]


# What a test loads


def loaded(mode: Mode) -> set[str]:
    """Return the rooms and modules of the harness that the judge of such a job has loaded."""
    spec = quick_spec(
        "def custom_kernel(data):\n    return data[0]\n",
        mode=mode,
        backend=Backend.CPU,
        sources={"reference.py": LOADED},
        tests=SIZES[:1],
    )
    (stage,) = [each for each in run(spec).report.stages if each.cases]
    return {name for full in stage.cases[0].message.split() for name in (full, full.split(".")[1])}


@pytest.mark.jobs
def test_a_job_that_is_not_timed_loads_no_clock_no_doubt_no_calibration_and_no_nvml() -> None:
    timed = {"clocks", "doubt", "kernelcup_harness.device.calibration"}
    others = {*timed, "kernelcup_harness.device.nvidia.nvml"}
    # On a busy machine a judge waits for its job, and imports the clocks meanwhile: another one does not.
    found = next((each for _ in range(5) if not (each := loaded(Mode.TEST)) & others), others)
    assert found & others == set()
    assert found >= {"core", "wire", "protocol"}
    assert loaded(Mode.BENCHMARK) >= timed


# What cannot accept an answer


class Task:
    """Doubles; its checker says nothing more."""

    has_reference = True
    in_place = False
    tolerance = None

    def generate(self, parameters: dict[str, int], seed: int, _salt: int = 0) -> torch.Tensor:
        return torch.full((parameters["size"],), seed % 1000)

    def expected(self, data: torch.Tensor) -> torch.Tensor:
        return data * 2

    def given(self, data: torch.Tensor) -> torch.Tensor:
        return data

    def checked(self, given: torch.Tensor, output: torch.Tensor) -> str:
        return "" if torch.equal(given * 2, output) else "not the double"


class Doubtful:
    """Says anything about changed inputs."""

    def __init__(self, counts: bool, is_input: bool, add: int) -> None:
        self._counts, self._is_input, self._add = counts, is_input, add

    def twins(self, place: Place, make: Callable[[int], Any]) -> list[bool]:
        return [self._counts]

    def change(self, place: Place, sample: SampleName, data: Any, make: Callable[[int], Any]) -> None:
        data += self._add

    def is_input(self, place: Place, sample: SampleName, make: Callable[[int], Any]) -> bool:
        return self._is_input


def fault_of(checks: Checks, sample: SampleName, off_by: int) -> Fault | None:
    """Return the fault of an answer that is off by so much."""
    data = checks.make_input(PLACE, sample)
    return checks.fault(PLACE, sample, data, Answer(output=data * 2 + off_by))


@settings(max_examples=examples(60), deadline=None)
@given(st.booleans(), st.booleans(), st.integers(-3, 3), st.integers(0, 5), st.integers(-2, 2))
def test_no_doubt_accepts_an_answer(counts: bool, is_input: bool, add: int, number: int, off_by: int) -> None:
    """Only of an input that it added itself it may say that it is none, or does not count."""
    more: MoreInputs = Doubtful(counts, is_input, add)
    checks = Checks(cast("Any", Task()), bytes(32), make_spec(), more=more)
    assert (fault_of(checks, SampleName(input=number), off_by) is None) is (off_by == 0)
    found = fault_of(checks, SampleName(input=number, twin=True), off_by)
    assert (found is None) is (off_by == 0 or not is_input or not counts)
    assert bool(checks.remarks) is (off_by != 0 and is_input and not counts)


def test_an_explanation_that_fails_changes_nothing_but_words() -> None:
    def fails(*_given: Any) -> None:
        raise RuntimeError("no words")

    silent, failing = (
        Checks(cast("Any", Task()), bytes(32), make_spec(), **given)
        for given in ({}, {"explain": fails})  # type: ignore[arg-type]
    )
    expected, found = (fault_of(each, SampleName(input=1), 1) for each in (silent, failing))
    assert expected is not None
    assert found is not None
    assert found.reason is expected.reason is Reason.DIFFERS
    assert found.text == f"{expected.text}\nthe difference cannot be described (RuntimeError: no words)"
    assert fault_of(failing, SampleName(input=2), 0) is None


# What cannot shorten a time

FINDINGS = st.lists(
    st.builds(
        Finding,
        code=st.sampled_from(["throttled", "below_floor"]),
        text=st.just(""),
        quarantines=st.booleans(),
    )
)
NS = st.floats(1.0, 1e9)
TIMED = st.builds(
    lambda samples, score: Timing(
        samples_ns=samples, audit=Audit(score_ns=score, level=TrustLevel.WITNESSED)
    ),
    st.lists(NS, min_size=1, max_size=20),
    NS,
)


@settings(max_examples=examples(100), deadline=None)
@given(TIMED, FINDINGS)
def test_no_finding_changes_a_time_or_its_level(timing: Timing, findings: list[Finding]) -> None:
    found = with_findings(timing, findings)
    assert found.audit is not None
    assert timing.audit is not None
    assert found.audit.findings == findings
    assert (found.score_ns, found.samples_ns) == (timing.score_ns, timing.samples_ns)
    assert found.audit.level is timing.audit.level
    assert with_findings(Timing(samples_ns=[1.0]), findings).audit is None


@settings(max_examples=examples(60), deadline=None)
@given(TIMED, FINDINGS, st.none() | NS, st.none() | NS)
def test_what_is_found_beside_a_time_changes_neither_time_nor_verdict(
    timing: Timing, findings: list[Finding], floor_ns: float | None, reference_ns: float | None
) -> None:
    told: list[Any] = []
    runner = SimpleNamespace(tell=told.append)
    judge = Judge(cast("Prepared", SimpleNamespace(clocks={}, runner=runner)))
    beside = Beside(findings=findings, work=Work(), floor_ns=floor_ns, reference_ns=reference_ns)
    result = judge.accepted(CaseCalls(PLANNED), judge.doubted(timing, findings), beside)
    assert result.timing is not None
    assert result.timing.score_ns == timing.score_ns
    assert result.verdict is Verdict.ACCEPTED
    # What holds a result is told at once.
    assert [message.finding for message in told] == [each for each in findings if each.quarantines]
