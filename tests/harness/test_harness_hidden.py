"""Hidden cases are called in a process of their own: what public cases say and show comes from one that met none."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fake_room import FakeEngine, FakeHands, FakeWindow, judged_in_room
from harness_runs import HONEST, quick_spec, run
from inside import cases, judged

from kernelcup.app.submissions.redaction import redact
from kernelcup_harness.clocks.replay.clean_room import CleanRoom
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.isolation import sandbox
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    JobSpec,
    MeasureRules,
    Mode,
    Reason,
    RunReport,
    SandboxPolicy,
    StageName,
    Verdict,
    dumps,
)
from kernelcup_harness.run import runner
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.layout import HEAPS, HIDDEN_FROM, INPUTS
from kernelcup_harness.window.messages import Access
from kernelcup_harness.window.reasons import NotRebuilt, NotReplayed, WhyNot
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
HIDDEN = {"hidden_tests": [{"size": 777, "seed": 3}], "hidden_benchmarks": [{"size": 999, "seed": 4}]}
SECRETS = re.compile(r"(?<![\da-f.])(777|999)(?![\da-f])")
"""The sizes of hidden cases, but not as digits of a time or of a hash."""


def ranked(submission: str, **changes: Any) -> JobSpec:
    """A ranked job of a public and a hidden test, and a public and a hidden benchmark."""
    rules = MeasureRules(warmups=1, min_samples=8, max_samples=10, relative_error=0.0, case_budget_s=5.0)
    values = {"mode": Mode.LEADERBOARD, "backend": Backend.CPU, "rules": rules, **HIDDEN}
    return quick_spec(submission, **(values | changes))


def stage_cases(report: RunReport, stage: StageName = StageName.RANKED) -> list[CaseResult]:
    found = report.stage_report(stage)
    return found.cases


def shown(report: RunReport) -> str:
    return dumps(redact(report, sees_all=False))


@pytest.mark.jobs
def test_an_accepted_run_calls_every_case_once_and_says_which_were_hidden() -> None:
    report = run(ranked(HONEST)).report

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
    # A stage whose hidden cases were not reached is not complete.
    (test,) = [stage for stage in report.stages if stage.name is StageName.TEST]
    assert (test.verdict, test.planned_cases, len(test.cases)) == (Verdict.ACCEPTED, 2, 1)


def test_a_hidden_case_that_raises_shows_its_kind_and_no_line(warm: Run) -> None:
    report = warm(ranked(SEEN + RAISES.format(at=999, after=0)))

    assert "seen [777, 999]" in report.message
    seen = redact(report, sees_all=False)
    (failed,) = [case for case in stage_cases(seen) if case.verdict is not Verdict.ACCEPTED]
    assert (failed.verdict, failed.reason) == (Verdict.RUNTIME_ERROR, Reason.EXCEPTION)
    assert (failed.message, failed.line) == ("", None)
    assert "seen" not in shown(report)
    assert not SECRETS.search(shown(report))


@pytest.mark.jobs
def test_a_line_that_the_file_does_not_have_is_not_shown(warm: Run) -> None:
    lie = "raise ValueError(f'\\n  File \"submission.py\", line {len(data)}, in custom_kernel')"
    source = f"def custom_kernel(data):\n    if len(data) == 999:\n        {lie}\n    return data * 2\n"
    failed = stage_cases(warm(ranked(source)))[-1]

    assert "line 999" in failed.message
    assert failed.line is None


@pytest.mark.jobs
def test_a_hidden_case_that_is_wrong_shows_its_kind_only(warm: Run) -> None:
    source = "def custom_kernel(data):\n    return data * 2 + (len(data) == 777) * len(data)\n"
    report = warm(ranked(source))

    assert (report.verdict, report.stage) == (Verdict.WRONG_ANSWER, StageName.TEST)
    public, hidden = stage_cases(redact(report, sees_all=False), StageName.TEST)
    assert public.verdict is Verdict.ACCEPTED
    assert (hidden.reason, hidden.message, hidden.mismatch) == (Reason.DIFFERS, "", None)
    assert not SECRETS.search(shown(report))


@pytest.mark.jobs
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


@pytest.mark.jobs
def test_an_import_that_fails_beside_hidden_cases_is_not_described() -> None:
    source = "import os\nif os.getuid() == 64921:\n    raise ValueError('a text')\n"
    report = run(ranked(source + HONEST)).report
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
    # It acted: the judge reads its own times, where the two processes are not told apart.
    assert 999.0 in hidden.timing.own_ns
    assert not {777.0, 999.0} & set(public.timing.own_ns)
    assert not SECRETS.search(shown(report))


def test_what_the_second_process_prints_is_not_kept(warm: Run) -> None:
    source = "def custom_kernel(data):\n    print('met', len(data))\n    return data * 2\n"
    report = warm(ranked(source))

    assert "met 8" in report.stdout.text
    assert not SECRETS.search(report.stdout.text)


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
    events, shared = in_room(HONEST, tmp_path, hands=Noted)

    public, hidden = cases(events)
    assert (public.verdict, hidden.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert [event["roles"] for event in events if event["type"] == "dismiss"] == [
        ["submission"],
        ["submission"],
        ["submission", "hidden"],
    ]
    first, second = Noted.made
    assert set(first._attached) == {HEAPS["submission"], INPUTS}
    assert set(second._attached) == {HEAPS["hidden"], INPUTS + HIDDEN_FROM}
    # All of the first are replayed before there is memory for hidden inputs. Number 1 are a public case's cut calls.
    given = shared.log.index((Access.READ.value, INPUTS + HIDDEN_FROM))
    assert {entry[1] for entry in shared.log[:given] if entry[0] in ("fire", "cut")} == {0, 1}
    assert {entry[1] for entry in shared.log[given:] if entry[0] == "fire"} == {2}
    assert {entry[0] for entry in shared.log[given:]}.isdisjoint({"cut"})


def test_each_case_is_cut_where_a_share_is_asked_for(tmp_path: Path) -> None:
    spec = replace(ranked(HONEST, tests=[], hidden_tests=[]), own_share=0.9)
    events, _ = judged_in_room(spec, tmp_path)
    cut = [
        (each["case"], each["hidden"])
        for each in events
        if each["type"] == "ran" and each["case"] is not None
    ]
    assert cut == [(0, False), (1, True)]


class Ordered:
    """The inputs that a judge makes, and the contestants that it has ended, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Any] = []
        make, dismiss = Checks._made, RunnerLine.dismiss

        def noted(checks: Checks, place: Place, number: int) -> Any:
            self.made.append(place.parameters["size"])
            return make(checks, place, number)

        def ended(line: RunnerLine, roles: Any) -> None:
            dismiss(line, roles)
            self.made.append(list(roles))

        monkeypatch.setattr(Checks, "_made", noted)
        monkeypatch.setattr(RunnerLine, "dismiss", ended)

    @property
    def sizes_of_public(self) -> set[int]:
        """The sizes of all inputs before the contestant of public cases had ended."""
        return set(self.made[: self.made.index(["submission"])])

    @property
    def sizes_afterwards(self) -> set[int]:
        return {each for each in self.made[self.made.index(["submission"]) :] if isinstance(each, int)}


def without_room(spec: JobSpec, folder: Path) -> tuple[list[dict[str, Any]], None]:
    """Judge a job whose calls are timed by the wall clock."""
    return judged(spec, folder), None


@pytest.mark.parametrize("way", [without_room, judged_in_room])
def test_no_hidden_input_is_made_before_the_contestant_of_public_cases_has_ended(
    way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Ordered(monkeypatch)
    events, _ = way(ranked(HONEST), tmp_path)

    ends = [
        (event["name"], event["verdict"], event["message"])
        for event in events
        if event["type"] == "stage_end"
    ]
    assert {verdict for _, verdict, _ in ends} == {"accepted"}, ends
    assert order.sizes_of_public == {8, 16}
    # In the timer the duel and the witness could follow; here nothing public does.
    assert order.sizes_afterwards >= {777, 999}


@pytest.mark.parametrize("way", [without_room, judged_in_room])
def test_a_run_whose_public_cases_fail_makes_no_hidden_input(
    way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Ordered(monkeypatch)
    events, _ = way(ranked(SEEN + RAISES.format(at=8, after=3)), tmp_path)

    assert not {777, 999} & {each for each in order.made if isinstance(each, int)}
    assert [event["verdict"] for event in events if event["type"] == "stage_end"][-1] == "runtime_error"


def test_where_only_tests_are_hidden_their_contestant_outlives_the_ranked_stage(tmp_path: Path) -> None:
    spec = ranked(HONEST, hidden_benchmarks=[])
    events, _ = judged_in_room(spec, tmp_path)

    assert [(case.hidden, case.verdict) for case in cases(events, "test")] == [
        (False, Verdict.ACCEPTED),
        (True, Verdict.ACCEPTED),
    ]
    assert "hidden" not in [role for event in events if event["type"] == "dismiss" for role in event["roles"]]


@pytest.mark.jobs
def test_a_stage_goes_on_in_the_report_where_its_public_cases_ended() -> None:
    done = run(ranked(HONEST))

    told = [(e["stage"], e["cases"], e.get("done", 0)) for e in done.events if e["event"] == "stage"]
    assert told == [
        ("import", 0, 0),
        ("test", 1, 0),
        ("ranked", 1, 0),
        ("import", 0, 0),
        ("test", 2, 1),
        ("ranked", 2, 1),
    ]
    stages = [(stage.name, stage.planned_cases, len(stage.cases)) for stage in done.report.stages]
    assert stages == [(StageName.IMPORT, 0, 0), (StageName.TEST, 2, 2), (StageName.RANKED, 2, 2)]


def test_where_the_timer_is_lost_after_public_cases_hidden_ones_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = CleanRoom._cut

    def lost(room: CleanRoom, case: Any) -> Any:
        cut(room, case)
        raise TimerFailed("the timer does not answer: a kernel waits")

    monkeypatch.setattr(CleanRoom, "_cut", lost)
    events, _ = in_room(HONEST, tmp_path)

    public, hidden = cases(events)
    assert (public.verdict, hidden.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert (public.timing.audit.captured, hidden.timing.audit.captured) == (True, False)


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
    """Refuses what the contestant of hidden cases has captured, with a name of the submission's."""

    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        if self._sets and cut is None:
            raise NotRebuilt("kernel size_999")
        return super().load(data, cut)


@pytest.mark.parametrize("given", [{"hands": Reluctant}, {"engine": Chatty}])
def test_why_hidden_calls_are_not_replayed_is_a_kind_without_a_text(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    events, _ = in_room(HONEST, tmp_path, **given)

    before, after = [
        e["environment"]["clean_room"] for e in events if "clean_room" in e.get("environment", {})
    ]
    assert before["replayed"]
    assert not after["replayed"]
    assert "999" not in str(after)
    public, hidden = cases(events)
    # The calls are made then; those of public cases had been replayed before.
    assert (public.verdict, hidden.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert not public.met_hidden


STATE = """\
import ctypes, fcntl, json, os, struct

libc = ctypes.CDLL(None, use_errno=True)
file = os.open(os.__file__, os.O_RDONLY)
again = os.open(os.__file__, os.O_RDONLY)
record = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 1, 0)


def refused(work):
    try:
        work()
    except OSError as error:
        return error.strerror


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def locked():
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def kept():
    copy = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 0)
    fcntl.fcntl(copy, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    os.set_blocking(os.pipe()[0], False)
    fcntl.fcntl(os.memfd_create("a", os.MFD_ALLOW_SEALING), fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    os.preadv(file, [bytearray(8)], 0)


value = ctypes.c_uint64(3)
tried = {
    "record lock": refused(lambda: fcntl.fcntl(file, fcntl.F_SETLK, record)),
    "look at record locks": refused(lambda: fcntl.fcntl(file, fcntl.F_GETLK, record)),
    "open file description lock": refused(lambda: fcntl.fcntl(file, 37, record)),
    "lease": refused(lambda: checked(libc.fcntl(file, 1024, fcntl.F_RDLCK))),
    "dnotify": refused(lambda: fcntl.fcntl(os.open("/usr", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS)),
    "hint": refused(lambda: checked(libc.fcntl(file, 1036, ctypes.byref(value)))),
    "look at the hint": refused(lambda: checked(libc.fcntl(file, 1035, ctypes.byref(value)))),
    "inotify": refused(lambda: checked(libc.inotify_init1(0))),
    "page cache": refused(lambda: os.preadv(file, [bytearray(8)], 0, os.RWF_NOWAIT)),
    "lock of a whole file": refused(locked),
    "own descriptors": refused(kept),
}
print("tried=" + json.dumps(tried))
print("first=" + json.dumps(open("/proc/1/cmdline").read().split(chr(0))))


def custom_kernel(data):
    return data * 2
"""


@pytest.mark.jobs
@pytest.mark.skipif(not sandbox.has_own_names(), reason="bubblewrap shows the first process")
def test_the_state_of_shared_files_is_refused_or_without_effect_and_own_descriptors_work(
    tmp_path: Path,
) -> None:
    done = run(quick_spec(STATE, backend=Backend.CPU), {"KERNELCUP_HARNESS_BUILDS": str(tmp_path)})

    assert done.report.verdict is Verdict.ACCEPTED, done.report.message
    (tried,) = done.printed("tried")
    without_effect = {"lock of a whole file", "own descriptors"}
    assert {name for name, error in tried.items() if error is None} == without_effect
    (first,) = done.printed("first")
    assert str(tmp_path.parent) not in " ".join(first)
    assert [each for each in first if each.startswith("--")] == ["--args", "--"] + (
        ["--reuid", "--regid", "--clear-groups", "--no-new-privs", "--"] if os.getuid() == 0 else []
    )


def test_ranked_jobs_with_hidden_cases_need_a_sandbox_with_files_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda **_: sandbox.Kind.LANDLOCK)
    hidden = ranked("", sandbox=SandboxPolicy.REQUIRED)
    public = replace(hidden, hidden_tests=[], hidden_benchmarks=[])

    assert "doctor" in str(runner.cannot_run(hidden, boxed=True))
    assert runner.cannot_run(public, boxed=True) is None
    # The operator who requires no sandbox accepts a weak one.
    assert runner.cannot_run(replace(hidden, sandbox=SandboxPolicy.AUTO), boxed=True) is None
    monkeypatch.setattr(sandbox, "kind", lambda **_: sandbox.Kind.BUBBLEWRAP)
    assert runner.cannot_run(hidden, boxed=True) is None


@pytest.mark.jobs
def test_a_rival_is_captured_beside_hidden_cases_and_both_are_timed_in_turns_at_the_end(
    tmp_path: Path,
) -> None:
    spec = ranked(HONEST, tests=[], hidden_tests=[], rival=HONEST)
    events, _ = judged_in_room(spec, tmp_path)

    told = [event for event in events if event["type"] in ("dismiss", "duel", "case")]
    assert [event["type"] for event in told] == ["dismiss", "case", *["dismiss"] * 3, "duel", "case"]
    assert [event["roles"] for event in told if event["type"] == "dismiss"] == [
        ["submission"],
        ["submission"],
        ["submission", "hidden"],
        ["rival"],
    ]
    (duel,) = [event["duel"] for event in told if event["type"] == "duel"]
    assert duel["verdict"] != "not_held", duel
    assert len(duel["cases"]) == 2
