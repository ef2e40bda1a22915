"""Whole timed stages in the clean room, with all processes as threads and the host's memory for the device's."""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_room import CALL_NS, CLOCK, EMPTY_NS, RAN, FakeEngine, FakeHands, judged_in_room
from harness_runs import HONEST, replayed, run
from inside import cases, duel_of, room_of

from kernelcup_harness.clocks import reference_time
from kernelcup_harness.clocks.budget import Budget
from kernelcup_harness.clocks.replay import match, stage, timed_replays
from kernelcup_harness.device.nvidia.driver import DriverError
from kernelcup_harness.doubt import probes
from kernelcup_harness.isolation import processes, sandbox
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    JobSpec,
    MeasureRules,
    Mode,
    Reason,
    SandboxPolicy,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.run import workers
from kernelcup_harness.timer import main as timer_main
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.layout import INPUTS, WRITABLE
from kernelcup_harness.window.reasons import ClockTrouble, NotRebuilt, NotReplayed, WhyNot
from kernelcup_harness.wire.job_messages import Binary, Ran
from kernelcup_harness.wire.messages import unpack

IN_PLACE = """\
import torch


def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)), torch.zeros(size)


def ref_kernel(data):
    source, target = data
    target[...] = source * 2
    return target


def check_implementation(data, output):
    return torch.equal(ref_kernel(data), output)
"""
WRITES = "def custom_kernel(data):\n    return data.mul_(2)\n"
BESIDE = """\
import ctypes


def custom_kernel(data):
    source, target = data
    target[...] = source * 2
    ctypes.memset(target.data_ptr() + target.numel() * 4, 7, 1)
    return target
"""


def findings(case: CaseResult) -> list[str]:
    """The codes of what was found of a case."""
    assert case.timing is not None
    assert case.timing.audit is not None
    return [each.code for each in case.timing.audit.findings]


@pytest.mark.dear("the first of this file, which imports what all of them need")
def test_calls_are_replayed_when_the_contestants_are_gone(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path)

    (case,) = cases(events)
    assert (case.verdict, case.message) == (Verdict.ACCEPTED, "")
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.level is TrustLevel.REPLAYED
    assert room_of(events) == {"replayed": True, "left_out": ["a priority of kernel f"], "witnessed": False}
    # Raw samples are kept; what an empty graph takes is taken off.
    assert set(case.timing.samples_ns) == {float(EMPTY_NS + CALL_NS)}
    assert case.timing.offset_ns == EMPTY_NS
    assert case.timing.score_ns == CALL_NS
    kinds = [event["type"] for event in events]
    assert kinds.count("dismiss") == 1
    assert [event["roles"] for event in events if event["type"] == "dismiss"] == [["submission"]]


def test_empty_graphs_are_timed_before_anything_is_loaded_and_each_place_is_replayed_once(
    tmp_path: Path,
) -> None:
    events, shared = judged_in_room(replayed(HONEST), tmp_path)

    (case,) = cases(events)
    fired = [entry for entry in shared.log if entry[0] == "fire"]
    assert {entry[2] for entry in fired[:4]} == {0, 1, 2, 3}
    assert shared.log[: timed_replays.EMPTIES] == [("empty",)] * timed_replays.EMPTIES
    assert shared.log.count(("empty",)) == timed_replays.EMPTIES
    assert case.checks == len(fired)
    # End times are compared again once all calls are timed; what each kernel takes is measured last.
    kinds = [entry[0] for entry in shared.log]
    last = kinds[kinds.index("check") :]
    assert last[:7] == ["check", *["series"] * 6]
    assert set(last[7:]) == {"cut"}


def test_inputs_are_read_only_for_the_timer_but_for_those_that_the_reference_writes(tmp_path: Path) -> None:
    source = "def custom_kernel(data):\n    data[1][...] = data[0] * 2\n    return data[1]\n"
    events, shared = judged_in_room(replayed(source, sources={"reference.py": IN_PLACE}), tmp_path)

    assert cases(events)[0].verdict is Verdict.ACCEPTED
    assert ("ro", INPUTS) in shared.log
    assert ("rw", WRITABLE) in shared.log


COPY = "return torch.randn(size, generator=torch.Generator().manual_seed(seed))\n"
DOUBLES = f"""\
import torch


def generate_input(size, seed):
    {COPY}

def ref_kernel(data):
    data.mul_(2)


def check_implementation(data, output):
    return torch.equal(data * 2, output)
"""


@pytest.mark.parametrize("returned", ["", "return data", "return data * 0"])
def test_a_task_in_place_is_replayed_whatever_is_returned(tmp_path: Path, returned: str) -> None:
    source = f"def custom_kernel(data):\n    data.mul_(2)\n    {returned}\n"
    events, _ = judged_in_room(replayed(source, sources={"reference.py": DOUBLES}), tmp_path)

    assert room_of(events)["replayed"], room_of(events)
    assert (cases(events)[0].verdict, cases(events)[0].message) == (Verdict.ACCEPTED, "")


def test_a_replayed_call_that_writes_nothing_learns_where_the_answer_belongs(tmp_path: Path) -> None:
    source = "def custom_kernel(data):\n    return data * 2\n"
    events, _ = judged_in_room(replayed(source, sources={"reference.py": DOUBLES}), tmp_path)

    assert cases(events)[0].verdict is Verdict.WRONG_ANSWER
    assert (
        "this task works in place: the answer has to be written into data, which" in cases(events)[0].message
    )


def test_a_replayed_answer_that_is_an_input_is_refused_by_its_address(tmp_path: Path) -> None:
    reference = f"import torch\ndef generate_input(size, seed):\n    {COPY}def ref_kernel(data):\n    "
    reference += (
        "return data.clone()\ndef check_implementation(data, output):\n    return torch.equal(data, output)\n"
    )
    for source, reason in (("data", Reason.ALIASED), ("data.clone()", Reason.NONE)):
        text = f"def custom_kernel(data):\n    return {source}\n"
        events, _ = judged_in_room(replayed(text, sources={"reference.py": reference}), tmp_path)
        assert cases(events)[0].reason is reason


def test_all_cases_of_a_job_lie_at_the_same_addresses(tmp_path: Path) -> None:
    sizes = [{"size": 100, "seed": 1}, {"size": 70_000, "seed": 2}, {"size": 3_000, "seed": 3}]
    events, shared = judged_in_room(replayed(HONEST, benchmarks=sizes), tmp_path)

    assert [case.verdict for case in cases(events)] == [Verdict.ACCEPTED] * 3
    assert [entry for entry in shared.log if entry[0] == "ro"] == [("ro", INPUTS)]
    assert {entry[2] for entry in shared.log if entry[0] == "fire"} == set(range(12))


def test_who_writes_an_input_gets_a_verdict_that_names_it(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(WRITES), tmp_path)

    (case,) = cases(events)
    assert (case.verdict, case.reason) == (Verdict.WRONG_ANSWER, Reason.WRITES_INPUT)
    assert "tensor 0 of its input" in case.message


def test_who_writes_beside_an_output_is_rejected(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(BESIDE, sources={"reference.py": IN_PLACE}), tmp_path)

    (end,) = [each for each in events if each["type"] == "stage_end" and each["name"] == "ranked"]
    assert (end["verdict"], end["reason"]) == (Verdict.REJECTED.value, Reason.GUARD_BAND.value)


class Elsewhere(FakeHands):
    """Captures nothing of what is launched: the work is on a stream of its own."""

    def replay_of(self, call: Callable[[], Any], kept: torch.Tensor) -> Callable[[], None]:
        return lambda: None


class Stale(FakeHands):
    """Captures the answer to the input of the capture."""

    def replay_of(self, call: Callable[[], Any], kept: torch.Tensor) -> Callable[[], None]:
        first = kept.clone()

        def replay() -> None:
            kept.copy_(first)

        return replay


class Faults(FakeHands):
    """Captures something that fails on the device of the timer."""

    def replay_of(self, call: Callable[[], Any], kept: torch.Tensor) -> Callable[[], None]:
        def fail() -> None:
            raise DriverError("cuStreamSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")

        return fail


class Refuses(FakeHands):
    """Cannot export what was captured."""

    def export(self) -> tuple[bytes, WhyNot | None]:
        raise NotReplayed(WhyNot.RANDOM)


class Waits(FakeHands):
    """Cannot capture."""

    def capture(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        raise NotReplayed(WhyNot.WAITS)


class Unmapped(FakeHands):
    """Has no window."""

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        raise NotReplayed(WhyNot.NO_IMAGES)


class Refusing(FakeEngine):
    """Does not rebuild anything."""

    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        raise NotRebuilt("a memset of memory outside of the window")


class Disarmed(FakeEngine):
    """Has rebuilt a kernel with an address that leads nowhere."""

    foreign = ("byte 16 of the parameters of kernel f",)


class FaultsByRandom(Faults):
    """The same, and suspects the state of the generator."""

    def export(self) -> tuple[bytes, WhyNot | None]:
        return super().export()[0], WhyNot.RANDOM


@pytest.mark.parametrize(
    ("hands", "engine", "reason"),
    [
        (Elsewhere, FakeEngine, WhyNot.ELSEWHERE),
        (Stale, FakeEngine, WhyNot.STALE),
        (Faults, FakeEngine, WhyNot.FAULTS),
        (Elsewhere, Disarmed, WhyNot.ELSEWHERE),
        (Stale, Disarmed, WhyNot.FOREIGN_POINTER),
        (Faults, Disarmed, WhyNot.FOREIGN_POINTER),
        (FaultsByRandom, Disarmed, WhyNot.RANDOM),
        (FaultsByRandom, FakeEngine, WhyNot.FAULTS),
        (Refuses, FakeEngine, WhyNot.RANDOM),
        (Waits, FakeEngine, WhyNot.WAITS),
        (Unmapped, FakeEngine, WhyNot.NO_IMAGES),
        (FakeHands, Refusing, WhyNot.REFUSED),
    ],
)
def test_what_cannot_be_replayed_is_called_and_the_report_says_why(
    tmp_path: Path, hands: type[FakeHands], engine: type[FakeEngine] | None, reason: WhyNot
) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=hands, engine=engine)

    (case,) = cases(events)
    assert (case.verdict, case.message) == (Verdict.ACCEPTED, "")
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.level is not TrustLevel.REPLAYED
    assert "not_replayed" in findings(case)
    assert room_of(events)["reason"] == reason.value
    assert not any(event["type"] == "dismiss" for event in events)


class Hurried(FakeEngine):
    """Is never ready in time."""

    def empty(self) -> int | None:
        return None


@pytest.mark.parametrize("engine", [None, Hurried])
def test_a_clock_that_does_not_work_before_the_import_ranks_nothing_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: type[FakeEngine] | None
) -> None:
    monkeypatch.setattr(timer_main, "EMPTY_S", 0.0)
    events, _ = judged_in_room(replayed(HONEST), tmp_path, engine=engine)

    (end,) = [event for event in events if event["type"] == "stage_end"]
    assert (end["verdict"], end["reason"]) == (Verdict.INTERNAL_ERROR, Reason.MACHINE)
    assert cases(events) == []


def test_a_practice_run_goes_by_the_wall_clock_where_the_other_does_not_work(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST, mode=Mode.BENCHMARK), tmp_path, engine=None)

    (case,) = [event["case"] for event in events if event["type"] == "case"]
    assert case["verdict"] == Verdict.ACCEPTED
    assert room_of(events)["reason"] == WhyNot.NO_TIMER.value


@pytest.mark.parametrize("hands", [FakeHands, FaultsByRandom])
def test_an_address_outside_of_the_window_counts_only_if_the_replay_fails(
    tmp_path: Path, hands: type[FakeHands]
) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=hands, engine=Disarmed)

    found = room_of(events)
    assert found["replayed"] == (hands is FakeHands)
    assert ("byte 16 of the parameters of kernel f" in found.get("text", "")) == (hands is not FakeHands)


class Turns(FakeHands):
    """Replays rightly while the contestant is there, and wrongly afterwards: from now on, or once."""

    last = sys.maxsize

    def replay_of(self, call: Callable[[], Any], kept: torch.Tensor) -> Callable[[], None]:
        rightly, calls = super().replay_of(call, kept), []

        def replay() -> None:
            rightly()
            calls.append(1)
            if 1 < len(calls) <= self.last:
                kept.add_(1)

        return replay


@pytest.mark.parametrize("last", [sys.maxsize, 2])
def test_what_turns_wrong_when_the_contestant_is_gone_is_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    monkeypatch.setattr(Turns, "last", last)
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=Turns)

    (case,) = cases(events)
    assert case.verdict is Verdict.WRONG_ANSWER
    assert any(event["type"] == "dismiss" for event in events)


def test_a_wrong_kernel_is_a_wrong_answer_when_it_is_tried(tmp_path: Path) -> None:
    events, shared = judged_in_room(replayed("def custom_kernel(data):\n    return data * 3\n"), tmp_path)

    (case,) = cases(events)
    assert (case.verdict, case.reason) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert case.mismatch is not None
    assert len([entry for entry in shared.log if entry[0] == "fire"]) == 1


class FaultsLater(FakeEngine):
    """Fails on the device once the contestant is gone."""

    def fire(self, group: int, place: int) -> int:
        if sum(entry[0] == "fire" for entry in self._shared.log) >= 4:
            raise DriverError("cuStreamSynchronize", 719, "CUDA_ERROR_LAUNCH_FAILED")
        return super().fire(group, place)


def test_a_device_fault_when_the_contestant_is_gone_ends_the_run_with_its_name(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, engine=FaultsLater)

    (case,) = cases(events)
    assert (case.verdict, case.reason) == (Verdict.RUNTIME_ERROR, Reason.EXCEPTION)
    assert "CUDA_ERROR_LAUNCH_FAILED" in case.message


class Dawdles(FakeEngine):
    """Takes longer for calls one after another than for single ones."""

    longer_in_series_ns = 20_000


def test_calls_that_take_longer_one_after_another_are_told(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, engine=Dawdles)

    assert findings(cases(events)[0]) == ["series_longer"]


SLOW_INPUTS = """\
import fake_room
import torch


def generate_input(size, seed):
    fake_room.CLOCK.now_s += 0.5
    return torch.randint(0, 1 << 20, (size,), generator=torch.Generator().manual_seed(seed))


def ref_kernel(data):
    fake_room.CLOCK.now_s += 0.1
    return data * 2


def check_implementation(data, output):
    return torch.equal(ref_kernel(data), output)
"""


def slow_inputs(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> JobSpec:
    """A ranked job whose inputs take half a second each by a clock that nobody waits for."""
    for module in (stage, reference_time, probes):
        monkeypatch.setattr(module, "time", CLOCK)
    monkeypatch.setattr(CLOCK, "now_s", 0.0)
    values = {"sources": {"reference.py": SLOW_INPUTS}, "rules": MeasureRules(), "reference_s": [1.2] * 3}
    sizes = [{"size": 8, "seed": 5}, {"size": 9, "seed": 5}, {"size": 10, "seed": 5}]
    return replayed(HONEST, **{"benchmarks": sizes, **values, **changes})


def test_a_stage_with_slow_inputs_has_all_samples_and_keeps_to_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, shared = judged_in_room(slow_inputs(monkeypatch), tmp_path)

    for case in cases(events):
        assert case.verdict is Verdict.ACCEPTED, case.message
        assert case.timing is not None
        assert len(case.timing.samples_ns) >= 16
    assert ("series", 40) in shared.log
    budget_s = 3 * 24 * 1.2
    one_probe_s = 2.0
    assert CLOCK.now_s <= 1.2 * budget_s + one_probe_s


def test_a_case_without_time_for_a_series_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "left_s", 0.0)
    events, shared = judged_in_room(replayed(HONEST), tmp_path)

    assert findings(cases(events)[0]) == ["no_series"]
    assert not [entry for entry in shared.log if entry[0] == "series"]


def test_a_stage_whose_inputs_are_too_slow_for_its_budget_says_how_many_samples_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, _ = judged_in_room(slow_inputs(monkeypatch, reference_s=[0.01] * 3), tmp_path)

    (case,) = cases(events)
    assert (case.verdict, case.reason) == (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME)
    assert "of the 16 samples" in case.message
    assert "Ask the task's author" in case.message
    assert CLOCK.now_s <= 40


def test_the_judge_measures_a_reference_that_the_job_says_nothing_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, _ = judged_in_room(slow_inputs(monkeypatch, reference_s=[]), tmp_path)

    assert [case.verdict for case in cases(events)] == [Verdict.ACCEPTED] * 3


def test_inputs_that_differ_in_form_are_called(tmp_path: Path) -> None:
    reference = """\
import torch


def generate_input(size, seed):
    return torch.ones(size + seed % 7)


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return torch.equal(ref_kernel(data), output)
"""
    events, _ = judged_in_room(replayed(HONEST, sources={"reference.py": reference}), tmp_path)

    assert room_of(events)["reason"] == WhyNot.VARIES.value
    assert cases(events)[0].verdict is Verdict.ACCEPTED


RIVAL = {"rival": HONEST}


class SlowerRival(FakeEngine):
    """Takes a tenth longer for the rival's calls."""

    def fire(self, group: int, place: int) -> int:
        return super().fire(group, place) + (CALL_NS // 10 if self.is_rivals else 0)


class UnlikeLoads(FakeEngine):
    """Takes a twentieth longer for two loads of each four, which are not the same for both sides."""

    def fire(self, group: int, place: int) -> int:
        is_slow = (group % 4 in (1, 2)) != self.is_rivals
        return super().fire(group, place) + (CALL_NS // 20 if is_slow else 0)


def test_two_submissions_are_compared_each_in_a_timer_of_its_own(tmp_path: Path) -> None:
    events, shared = judged_in_room(replayed(HONEST, **RIVAL), tmp_path, engine=SlowerRival)

    (case,) = cases(events)
    assert (case.verdict, case.message) == (Verdict.ACCEPTED, "")
    found = duel_of(events)
    assert (found.verdict, found.blocks) == ("faster", 160)
    assert found.ratio == pytest.approx(1 / 1.1, rel=1e-3)
    assert {entry[1] for entry in shared.log if entry[0] == "fire"} == set(range(16))
    assert {entry[1] for entry in shared.log if entry[0] == "load"} == {False, True}
    assert [event["roles"] for event in events if event["type"] == "dismiss"] == [["submission"], ["rival"]]


MOST = 160
"""Pairs in a duel, for an eighth of the usual time."""


def test_variation_between_loads_of_one_kernel_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 1e9)
    monkeypatch.setattr(match.duels, "decide", partial(match.duels.decide, most=MOST))
    spec = replayed(HONEST, **RIVAL, rival_error=1e-6)
    events, _ = judged_in_room(spec, tmp_path, engine=UnlikeLoads)

    assert duel_of(events).verdict == "tied"
    assert duel_of(events).low < 1 < duel_of(events).high


def test_captures_that_take_long_to_load_are_loaded_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LOADING_S", 0.0)
    events, shared = judged_in_room(replayed(HONEST, **RIVAL), tmp_path, engine=SlowerRival)

    assert duel_of(events).verdict == "faster"
    assert {entry[1] for entry in shared.log if entry[0] == "fire"} == set(range(8))


class Full(FakeEngine):
    """Has memory for five captures."""

    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        if len(self._sets) == 5:
            raise DriverError("cuModuleLoadData", 2, "CUDA_ERROR_OUT_OF_MEMORY")
        return super().load(data, cut)


def test_a_duel_that_fills_the_device_costs_the_submission_nothing(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST, **RIVAL), tmp_path, engine=Full)

    assert cases(events)[0].verdict is Verdict.ACCEPTED
    assert room_of(events)["replayed"], room_of(events)
    assert duel_of(events).verdict == "not_held"
    assert "OUT_OF_MEMORY" in duel_of(events).rival_message


def test_equal_submissions_tie_after_as_many_pairs_as_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 1e9)
    monkeypatch.setattr(match.duels, "decide", partial(match.duels.decide, most=MOST))
    events, _ = judged_in_room(replayed(HONEST, **RIVAL), tmp_path)

    assert (duel_of(events).verdict, duel_of(events).blocks) == ("tied", MOST)


@pytest.mark.parametrize(
    ("source", "hands", "verdict", "said"),
    [
        ("raise OSError('no')\n", FakeHands, "", "could not be imported"),
        ("def custom_kernel(data):\n    return data * 3\n", FakeHands, "not_held", "do not replay"),
        (HONEST, Waits, "not_held", "its calls are not replayed"),
        (HONEST, Elsewhere, "not_held", "do not replay"),
        (WRITES, FakeHands, "", "writes to tensor 0"),
    ],
)
def test_a_rival_that_cannot_be_compared_costs_the_submission_nothing(
    tmp_path: Path, source: str, hands: type[FakeHands], verdict: str, said: str
) -> None:
    events, _ = judged_in_room(replayed(HONEST, rival=source), tmp_path, rival=hands)

    assert cases(events)[0].verdict is Verdict.ACCEPTED
    assert room_of(events)["replayed"], room_of(events)
    assert duel_of(events).verdict == verdict
    assert said in duel_of(events).rival_message


# Processes as on a GPU, where there is none: the timer says so.
WITH_TIMER = (
    "from kernelcup_harness import __main__; from kernelcup_harness.run import standard, workers; "
    "standard.captures = lambda spec: True; "
    "standard.roles_of = lambda spec: (workers.SUBMISSION, workers.TIMER); __main__.main()"
)


@pytest.mark.jobs
@pytest.mark.parametrize("sandbox", [SandboxPolicy.AUTO, SandboxPolicy.NONE])
def test_a_machine_without_a_device_judges_as_before_and_says_why(sandbox: SandboxPolicy) -> None:
    spec = replayed(HONEST, sandbox=sandbox)
    finished = run(spec, argv=[sys.executable, "-P", "-c", WITH_TIMER, "--events", "-"])
    report = finished.report

    assert report.verdict is Verdict.ACCEPTED, report.message
    assert report.environment["clean_room"]["reason"] == WhyNot.NO_WINDOW.value
    (case,) = report.stages[-1].cases
    assert "not_replayed" in findings(case)
    assert "Traceback" not in finished.log


@pytest.mark.parametrize("boxed", [True, pytest.param(False, marks=pytest.mark.jobs)])
def test_contestants_are_ended_with_what_they_have_started_while_the_others_go_on(
    tmp_path: Path, boxed: bool
) -> None:
    processes.adopt_orphans()
    if boxed and not sandbox.is_there():
        pytest.skip("no sandbox here")
    roles = (workers.SUBMISSION, workers.TIMER)
    made = workers.Workers(Backend.CPU, tmp_path, boxed=boxed, roles=roles)
    try:
        made.wait_until_ready(60.0)
        made.dismiss([workers.SUBMISSION])
        alive = {role: member.is_alive for role, member in made.contestants.items()}
        assert alive == {workers.SUBMISSION: False, workers.TIMER: True}
        assert made.judge.is_alive
        assert made.submission.is_dismissed
    finally:
        made.stop()


def kernels_of(events: list[dict[str, Any]]) -> list[Ran]:
    """What the judge says of the kernels that ran."""
    return [unpack(Ran, each) for each in events if each["type"] == "ran"]


def test_what_ran_is_told_of_the_contestant_that_has_met_public_cases(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path)
    timed, untimed = kernels_of(events)
    assert untimed.kernels == [RAN]
    assert timed.why == ""
    # The copy before it takes a third of the call, and is no kernel.
    assert (timed.kernels, timed.longer) == ([replace(RAN, share=1.0)], 1.0)


class DawdlesInARow(FakeEngine):
    """Has a kernel that notices when it is not the call that is timed, and then takes its time."""

    def fire_cut(self, group: int, place: int) -> int:
        return super().fire_cut(group, place) + (0 if place else 10 * CALL_NS)


def test_a_call_that_takes_longer_in_a_row_is_told_with_how_much(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, engine=DawdlesInARow)
    timed, _ = kernels_of(events)
    # Two thirds of the call are the kernel's, and ten whole calls more in a row.
    assert timed.longer == pytest.approx((10 + 2 / 3) / (2 / 3))


class Hangs(FakeEngine):
    """Hangs with kernels in a row, until its process is ended."""

    def fire_cut(self, group: int, place: int) -> int:
        raise ClockTrouble("the end of a launch was never stamped")


class Differs(FakeEngine):
    """Computes something else in a row than in a call."""

    def _run(self, group: int, place: int) -> None:
        if group not in self._cuts:
            super()._run(group, place)


@pytest.mark.parametrize(
    ("engine", "why"), [(Hangs, "never stamped"), (Differs, "answer wrong"), (Refusing, None)]
)
def test_kernels_that_cannot_be_timed_one_by_one_change_no_verdict(
    tmp_path: Path, engine: type[FakeEngine], why: str | None
) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, engine=engine)
    assert {each.verdict for each in cases(events)} == {Verdict.ACCEPTED}
    assert [each.kernels for each in kernels_of(events)] == ([] if why is None else [[], [RAN]])
    assert why is None or why in kernels_of(events)[0].why


def test_a_benchmark_is_replayed_as_well_and_only_what_ranked_jobs_ran_is_sent_to_be_kept(
    tmp_path: Path,
) -> None:
    kept = {}
    for mode in (Mode.LEADERBOARD, Mode.BENCHMARK):
        (tmp_path / mode.value).mkdir()
        events, _ = judged_in_room(replayed(HONEST, mode=mode), tmp_path / mode.value)
        kept[mode] = [unpack(Binary, each).gz64 for each in events if each["type"] == "binary"]
    (case,) = cases(events, "benchmark")
    assert case.timing is not None
    assert case.timing.score_ns == CALL_NS
    (binary,) = kept[Mode.LEADERBOARD]
    assert json.loads(gzip.decompress(base64.b64decode(binary))) == {"name": "graphs-0"}
    assert kept[Mode.BENCHMARK] == []
