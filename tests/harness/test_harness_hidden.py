"""Hidden cases are called in a process of their own: what public cases say and show comes from one that met none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fake_room import FakeEngine, FakeHands, FakeWindow, judged_in_room
from harness_runs import quick_spec, run
from inside import cases

from kernelcup.services.submissions.redaction import redact
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    JobSpec,
    MeasureRules,
    Mode,
    Reason,
    RunReport,
    StageName,
    Verdict,
    dumps,
)
from kernelcup_harness.window.failures import NotRebuilt
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.layout import HEAPS, HIDDEN_FROM, INPUTS
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from warm_harness import Run

SEEN = """\
seen = []


def custom_kernel(data):
    seen.append(len(data))
"""
RAISES = """\
    if len(data) == {at} and len(seen) > {after}:
        raise ValueError(f"seen {{sorted(set(seen))}}")
    return data * 2
"""
LINE = 7
HIDDEN = {"hidden_tests": [{"size": 777, "seed": 3}], "hidden_benchmarks": [{"size": 999, "seed": 4}]}
SECRETS = ("777", "999")


def ranked(submission: str, **changes: Any) -> JobSpec:
    """A ranked job of a public and a hidden test, and a public and a hidden benchmark."""
    rules = MeasureRules(warmups=1, min_samples=8, max_samples=10, relative_error=0.0, case_budget_s=5.0)
    values = {"mode": Mode.LEADERBOARD, "backend": Backend.CPU, "rules": rules, **HIDDEN}
    return quick_spec(submission, **(values | changes))


def stage_cases(report: RunReport, stage: StageName = StageName.RANKED) -> list[CaseResult]:
    """Return the results of a stage."""
    found = report.stage_report(stage)
    assert found is not None
    return found.cases


def shown(report: RunReport) -> str:
    """Return all that the author sees."""
    return dumps(redact(report, sees_all=False))


def test_an_accepted_run_calls_every_case_once_and_says_which_were_hidden() -> None:
    report = run(ranked("def custom_kernel(data):\n    return data * 2\n")).report

    assert report.verdict is Verdict.ACCEPTED, report.message
    for name in (StageName.TEST, StageName.RANKED):
        public, hidden = stage_cases(report, name)
        assert (public.hidden, public.met_hidden) == (False, False)
        assert (hidden.hidden, hidden.met_hidden) == (True, True)
        assert public.checks
        assert hidden.checks


def test_a_public_case_that_raises_after_all_were_met_has_met_no_hidden_one(warm: Run) -> None:
    report = warm(ranked(SEEN + RAISES.format(at=8, after=8)))

    assert (report.verdict, report.stage) == (Verdict.RUNTIME_ERROR, StageName.RANKED)
    (failed,) = [case for case in stage_cases(report) if case.verdict is not Verdict.ACCEPTED]
    assert "seen [8, 16]" in failed.message
    assert not failed.hidden
    assert redact(report, sees_all=False).message == report.message


def test_a_hidden_case_that_raises_shows_kind_and_line_only(warm: Run) -> None:
    report = warm(ranked(SEEN + RAISES.format(at=999, after=0)))

    assert "seen [777, 999]" in report.message
    seen = redact(report, sees_all=False)
    (failed,) = [case for case in stage_cases(seen) if case.verdict is not Verdict.ACCEPTED]
    assert (failed.verdict, failed.reason) == (Verdict.RUNTIME_ERROR, Reason.EXCEPTION)
    assert failed.message == f"It failed at line {LINE} of the submission."
    assert not any(secret in shown(report) for secret in ("seen", *SECRETS))


def test_a_line_that_the_file_does_not_have_is_not_shown(warm: Run) -> None:
    lie = "raise ValueError(f'\\n  File \"submission.py\", line {len(data)}, in custom_kernel')"
    source = f"def custom_kernel(data):\n    if len(data) == 999:\n        {lie}\n    return data * 2\n"
    failed = stage_cases(warm(ranked(source)))[-1]

    assert "line 999" in failed.message
    assert failed.line is None


def test_a_hidden_case_that_is_wrong_shows_its_kind_only(warm: Run) -> None:
    source = "def custom_kernel(data):\n    return data * 2 + (len(data) == 777) * len(data)\n"
    report = warm(ranked(source))

    assert (report.verdict, report.stage) == (Verdict.WRONG_ANSWER, StageName.TEST)
    public, hidden = stage_cases(redact(report, sees_all=False), StageName.TEST)
    assert public.verdict is Verdict.ACCEPTED
    assert (hidden.reason, hidden.message, hidden.mismatch) == (Reason.DIFFERS, "", None)
    assert not any(secret in shown(report) for secret in SECRETS)


def test_a_process_that_ends_in_a_hidden_case_does_not_say_how(warm: Run) -> None:
    source = (
        "import os\n\n\ndef custom_kernel(data):\n"
        "    if len(data) == 777:\n        os._exit(77)\n    return data * 2\n"
    )
    report = warm(ranked(source))

    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, Reason.EXITED)
    assert "exit code 77" in report.message
    assert "77" not in redact(report, sees_all=False).message
    assert report.exit_code != 77


def test_an_import_that_fails_beside_hidden_cases_is_not_described() -> None:
    source = "import os\nif os.getuid() == 64921:\n    raise ValueError('a text')\n"
    report = run(ranked(source + "def custom_kernel(data):\n    return data * 2\n")).report
    if report.verdict is Verdict.ACCEPTED:
        pytest.skip("both processes have the same user here")

    assert report.stage is StageName.IMPORT
    assert "a text" in report.message
    assert "a text" not in shown(report)


def test_own_times_of_public_cases_cannot_hold_hidden_sizes(warm: Run) -> None:
    source = """\
import time
seen, calls = [], []
def clock():
    calls.append(0)
    return max(seen, default=0) if len(calls) % 2 else 0
def custom_kernel(data):
    if not seen:
        time.perf_counter_ns = clock
    seen.append(len(data))
    return data * 2
"""
    report = warm(ranked(source))

    assert report.verdict is Verdict.ACCEPTED, report.message
    public, hidden = stage_cases(report)
    assert public.timing is not None
    assert hidden.timing is not None
    # It acted: the judge reads its own times, where the two processes are not told apart.
    assert 999.0 in hidden.timing.own_ns
    assert not {777.0, 999.0} & set(public.timing.own_ns)
    assert "999.0" not in shown(report)


def test_what_the_second_process_prints_is_not_kept(warm: Run) -> None:
    source = "def custom_kernel(data):\n    print('met', len(data))\n    return data * 2\n"
    report = warm(ranked(source))

    assert "met 8" in report.stdout.text
    assert not any(secret in report.stdout.text for secret in SECRETS)


class Noted(FakeHands):
    """Keeps the hands of all contestants, in the order in which these are started."""

    made: ClassVar[list[Noted]] = []

    def __init__(self, shared: FakeWindow) -> None:
        super().__init__(shared)
        self.made.append(self)


def in_room(submission: str, folder: Path, **given: Any) -> tuple[list[dict[str, Any]], FakeWindow]:
    """Judge a job whose calls are replayed, with one public and one hidden benchmark."""
    return judged_in_room(ranked(submission, tests=[], hidden_tests=[]), folder, **given)


def test_public_and_hidden_calls_are_captured_by_different_contestants(tmp_path: Path) -> None:
    Noted.made.clear()
    events, shared = in_room("def custom_kernel(data):\n    return data * 2\n", tmp_path, hands=Noted)

    public, hidden = cases(events)
    assert (public.verdict, hidden.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert [event["roles"] for event in events if event["type"] == "dismiss"] == [["submission", "hidden"]]
    first, second = Noted.made
    assert set(first._attached) == {HEAPS["submission"], INPUTS}
    assert set(second._attached) == {HEAPS["hidden"], INPUTS + HIDDEN_FROM}
    # Two captures in one timer; all of the first are verified before the second has met an input.
    fired = [entry[1] for entry in shared.log if entry[0] == "fire"]
    assert fired[:8] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert set(fired[8:]) == {0, 1}


def test_each_case_is_cut_where_a_share_is_asked_for(tmp_path: Path) -> None:
    spec = replace(
        ranked("def custom_kernel(data):\n    return data * 2\n", tests=[], hidden_tests=[]), own_share=0.9
    )
    events, _ = judged_in_room(spec, tmp_path)
    cut = [
        (each["case"], each["hidden"])
        for each in events
        if each["type"] == "ran" and each["case"] is not None
    ]
    assert cut == [(0, False), (1, True)]


def test_in_one_timer_all_have_met_hidden_cases(tmp_path: Path) -> None:
    events, _ = in_room("def custom_kernel(data):\n    return data * 2\n", tmp_path)

    assert all(case.met_hidden for case in cases(events))


def test_a_public_call_that_cannot_be_captured_is_described_and_has_met_nothing(tmp_path: Path) -> None:
    events, _ = in_room(SEEN + RAISES.format(at=8, after=1), tmp_path)

    (case,) = cases(events)
    assert case.verdict is Verdict.RUNTIME_ERROR
    assert "seen [8]" in case.message
    assert not case.met_hidden


class Reluctant(FakeHands):
    """Cannot export where hidden cases are called, and says more than it should."""

    def __init__(self, shared: FakeWindow) -> None:
        super().__init__(shared)
        self.is_hidden = False

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        super().attach(fd, address, nbytes)
        self.is_hidden |= address == HEAPS["hidden"]

    def export(self) -> bytes:
        if self.is_hidden:
            raise NotReplayed(WhyNot.NODE, "999")
        return super().export()


class Chatty(FakeEngine):
    """Refuses what it gets second, with a name of the submission's."""

    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        if self._sets:
            raise NotRebuilt("kernel size_999")
        return super().load(data, cut)


@pytest.mark.parametrize("given", [{"hands": Reluctant}, {"engine": Chatty}])
def test_why_hidden_calls_are_not_replayed_is_a_kind_without_a_text(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    events, _ = in_room("def custom_kernel(data):\n    return data * 2\n", tmp_path, **given)

    (room,) = [e["environment"]["clean_room"] for e in events if "clean_room" in e.get("environment", {})]
    assert not room["replayed"]
    assert "999" not in str(room)
    public, hidden = cases(events)
    # The calls are made then; the first process may have read what the timer was given.
    assert (public.verdict, hidden.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert public.met_hidden
