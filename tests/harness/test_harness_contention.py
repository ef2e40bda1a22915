"""What the judge loses to processes that run beside the calls, and who is to blame for it."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from harness_runs import quick_spec

from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import Mode, Reason, StageName, Verdict
from kernelcup_harness.run import overruns
from kernelcup_harness.run.blame import time_is_up
from kernelcup_harness.run.overruns import Contention, Overruns
from kernelcup_harness.run.record import Record
from kernelcup_harness.wire.messages import StageEnds

JUDGE, ITS_PYTHON, CONTESTANT, SPINNER = 101, 102, 201, 202


WHOSE = {
    "submission": (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME),
    "task": (Verdict.INTERNAL_ERROR, Reason.TASK),
    "nobody": (Verdict.RUNTIME_ERROR, Reason.UNDECIDED),
}


class Machine:
    """Processes below this one, what they have waited for a processor, and what they have computed."""

    def __init__(self) -> None:
        self.family = {JUDGE: os.getpid(), ITS_PYTHON: JUDGE, CONTESTANT: os.getpid(), SPINNER: CONTESTANT}
        self.delayed_s = dict.fromkeys(self.family, 0.0)
        self.used_s = dict.fromkeys(self.family, 0.0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which nothing has run so far."""
    made = Machine()
    monkeypatch.setattr(processes, "parents", lambda: made.family)
    monkeypatch.setattr(overruns, "delayed_s", lambda pid: made.delayed_s[pid])
    monkeypatch.setattr(overruns, "used_cpu_s", lambda pid: made.used_s[pid])
    return made


@pytest.mark.parametrize(
    ("delayed_s", "used_s", "lost_s"),
    [
        pytest.param(0.0, 16.0, 0.0, id="sixteen threads within a call, while the judge waits"),
        pytest.param(3.0, 0.0, 0.0, id="a machine that others keep busy"),
        pytest.param(3.0, 8.0, 3.0, id="a crowd beside the calls"),
        pytest.param(3.0, 0.5, 0.5, id="mostly others"),
    ],
)
def test_only_what_the_judge_lost_to_a_submission_counts(
    machine: Machine, delayed_s: float, used_s: float, lost_s: float
) -> None:
    counted = Contention(JUDGE, {JUDGE})
    counted.begin()
    machine.delayed_s[ITS_PYTHON], machine.used_s[SPINNER] = delayed_s, used_s
    counted.look()
    assert counted.lost_s == lost_s


def test_calls_and_work_of_the_judge_in_turns_are_no_loss(machine: Machine) -> None:
    counted = Contention(JUDGE, {JUDGE})
    counted.begin()
    for _ in range(5):
        machine.used_s[CONTESTANT] += 1.0
        counted.look()
        machine.delayed_s[ITS_PYTHON] += 1.0
        counted.look()
    assert counted.lost_s == 0.0


def test_each_stage_is_counted_by_itself_and_a_process_that_replaces_another_from_its_start(
    machine: Machine,
) -> None:
    counted = Contention(JUDGE, {JUDGE})
    machine.delayed_s[ITS_PYTHON] = machine.used_s[SPINNER] = 9.0
    counted.begin()
    assert counted.lost_s == 0.0
    del machine.family[SPINNER]
    machine.family[300], machine.used_s[300], machine.delayed_s[ITS_PYTHON] = CONTESTANT, 0.5, 11.0
    counted.look()
    assert counted.lost_s == 0.5


def test_the_judges_own_processes_are_not_the_contestants(machine: Machine) -> None:
    counted = Contention(JUDGE, {JUDGE})
    counted.begin()
    machine.delayed_s[ITS_PYTHON] = machine.used_s[ITS_PYTHON] = 4.0
    counted.look()
    assert counted.lost_s == 0.0


def test_the_systems_figures_are_read() -> None:
    before_s, until = overruns.used_cpu_s(os.getpid()), time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert overruns.used_cpu_s(os.getpid()) >= before_s + 0.03
    assert overruns.delayed_s(os.getpid()) >= 0.0
    gone = 1 << 30
    assert (overruns.used_cpu_s(gone), overruns.delayed_s(gone)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("used_s", "own_s", "lost_s", "whose"),
    [
        pytest.param(5.0, 5.0, 0.0, "submission", id="half of the limit in calls"),
        pytest.param(1.0, 9.0, 4.0, "submission", id="half of it beside them as well"),
        pytest.param(0.0, 10.0, 5.0, "submission", id="half of it beside them"),
        pytest.param(1.0, 10.0, 0.0, "task", id="the task's own code takes all of it"),
        pytest.param(1.0, 12.0, 3.0, "nobody", id="it might not without what was lost"),
        pytest.param(
            4.0, 6.0, 0.0, "nobody", id="it would have ended in time alone: asleep for less than half"
        ),
    ],
)
def test_a_stage_is_the_tasks_fault_only_if_its_own_code_takes_too_long_alone(
    used_s: float, own_s: float, lost_s: float, whose: str
) -> None:
    end = time_is_up("late", 10.0, used_s, own_s, lost_s)
    assert (end.verdict, end.reason) == WHOSE[whose]


def overruns_after(lost_s: float, machine: Machine) -> Overruns:
    """Return what judges a stage of ten seconds that has taken eleven, of which the judge has lost some."""

    def member(pid: int) -> Any:
        return SimpleNamespace(child=SimpleNamespace(process=SimpleNamespace(pid=pid)))

    workers: Any = SimpleNamespace(judge=member(JUDGE), contestants={"submission": member(CONTESTANT)})
    found = Overruns(workers)
    found.begin(10.0)
    found._began -= 11.0
    machine.delayed_s[ITS_PYTHON] = machine.used_s[SPINNER] = lost_s
    return found


@pytest.mark.parametrize(
    ("lost_s", "verdict"), [(0.0, Verdict.INTERNAL_ERROR), (6.0, Verdict.TIME_LIMIT_EXCEEDED)]
)
def test_an_overrun_is_excused_only_if_the_submission_did_not_cause_it(
    lost_s: float, verdict: Verdict, machine: Machine
) -> None:
    end = StageEnds(
        name=StageName.TEST,
        verdict=Verdict.TIME_LIMIT_EXCEEDED,
        reason=Reason.TIME,
        message="late",
        role="submission",
        met_hidden=False,
        lost=False,
        used_s=0.5,
    )
    assert overruns_after(lost_s, machine).end(end).verdict is verdict


def test_the_end_of_a_stage_for_another_reason_stays(machine: Machine) -> None:
    end = StageEnds(
        name=StageName.TEST,
        verdict=Verdict.INTERNAL_ERROR,
        reason=Reason.TASK,
        message="a bug",
        role="submission",
        met_hidden=False,
        lost=False,
    )
    assert overruns_after(9.0, machine).end(end) is end


@pytest.mark.parametrize(
    ("lost_s", "verdict", "reason"),
    [
        (0.0, Verdict.INTERNAL_ERROR, Reason.TASK),
        (6.0, Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME),
    ],
)
def test_a_judge_that_never_ends_its_work_is_excused_likewise(
    lost_s: float, verdict: Verdict, reason: Reason, machine: Machine
) -> None:
    record = Record(quick_spec("", mode=Mode.TEST), "", lambda _event: None)
    record.begin(StageName.TEST, 10.0, 1)
    overruns = overruns_after(lost_s, machine)
    overruns.look()
    overruns.fail(record)
    report = record.report(secret=b"", duration_s=1.0)
    assert (report.verdict, report.reason) == (verdict, reason)
