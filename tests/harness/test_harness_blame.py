"""Whose fault a run's end is, and what survives it."""

from __future__ import annotations

import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import SharedMemory
from harness_runs import HONEST, RANKED, own_spec, ranked, run
from inside import cases, judged, last_end

from kernelcup_harness.core import requests
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.verdict import MachineFailed, RunEnds, of_ours
from kernelcup_harness.device import memory
from kernelcup_harness.doubt.doubts import Doubts
from kernelcup_harness.protocol import (
    DeviceFacts,
    Mode,
    Reason,
    SourceTree,
    Verdict,
    Work,
    for_participants,
)
from kernelcup_harness.run import empty_call
from kernelcup_harness.run.blame import CANNOT_TELL, by_exclusion
from kernelcup_harness.run.record import Record
from kernelcup_harness.run.runner import run_job
from kernelcup_harness.wire.channel import Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import FROM_JUDGE
from kernelcup_harness.wire.messages import unpack_any


def reserved(*, held: int) -> memory.Reservation:
    device = SharedMemory()
    reservation = memory.Reservation(device)
    device.theirs = held
    return reservation


@pytest.mark.parametrize(
    "cause",
    [
        torch.OutOfMemoryError("no more"),
        CallFailed("memory", "no room"),
        RuntimeError("CUDA error: out of memory"),
        ChannelClosed("end of stream"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_whoever_holds_all_device_memory_is_to_blame_for_what_of_ours_fails(cause: Exception) -> None:
    failed = MachineFailed("the timer failed")
    failed.__cause__ = cause
    blamed = of_ours(failed, "it failed", reserved(held=60), Reason.MACHINE)
    assert (blamed.verdict, blamed.reason) == (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.DEVICE_MEMORY)
    assert "leaves too little" in blamed.message
    modest = of_ours(failed, "it failed", reserved(held=20), Reason.MACHINE)
    assert (modest.verdict, modest.reason) == (Verdict.INTERNAL_ERROR, Reason.MACHINE)


def test_another_failure_is_the_machines_whatever_a_submission_holds() -> None:
    assert (
        of_ours(ValueError("a bug"), "it failed", reserved(held=60), Reason.MACHINE).reason is Reason.MACHINE
    )


@pytest.mark.parametrize("fails", ["the timer", "the judge"])
def test_a_submission_that_takes_all_device_memory_in_a_ranked_call_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    device = SharedMemory()
    monkeypatch.setattr(sys, "all_device_memory", device, raising=False)
    monkeypatch.setattr(memory, "reserve", lambda _gpu: memory.Reservation(device))
    real = Checks.make_input

    def fail(self: Any, *given: Any) -> Any:
        if device.theirs > 50 and fails == "the judge":
            raise RuntimeError("CUDA error: out of memory")
        if device.theirs > 50:
            raise MachineFailed("the timer failed") from CallFailed("memory", "no room")
        return real(self, *given)

    monkeypatch.setattr(Checks, "make_input", fail)
    hog = "import sys\n\n\ndef custom_kernel(data):\n    sys.all_device_memory.theirs = 60\n    return data * 2\n"
    verdict, reason, message = last_end(judged(ranked(hog), tmp_path))
    assert (verdict, reason) == ("memory_limit_exceeded", "device_memory")
    assert "the submission holds" in message
    honest = tmp_path / "honest"
    honest.mkdir()
    device.theirs = 0
    assert last_end(judged(ranked(HONEST), honest))[0] == "accepted"


def test_a_rival_whose_process_does_not_start_is_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello, greeted = requests.hello, list[Any]()

    def closed_but_for_the_first(channel: Any) -> None:
        greeted.append(channel)
        if len(greeted) > 1:
            raise ChannelClosed("end of stream")
        hello(channel)

    monkeypatch.setattr(requests, "hello", closed_but_for_the_first)
    events = judged(ranked(HONEST, rival=HONEST), tmp_path)
    verdict, reason, message = last_end(events)
    assert (verdict, reason) == ("internal_error", "machine")
    assert "the process of the rival did not start: end of stream" in message


@pytest.mark.parametrize("answers", [False, True])
def test_a_frame_that_nobody_reads_is_waited_for_like_an_answer(answers: bool) -> None:
    ours, theirs = socket.socketpair()
    line = requests.Line(Channel(ours, max_bytes=1 << 20))
    with pytest.raises(ChannelTimeout):
        line.reply({"type": "go", "leaves": "" if answers else "x" * (4 << 20)}, timeout_s=0.05)
    assert line.waited_s >= 0.05
    theirs.close()
    ours.close()


@pytest.mark.parametrize("failing", ["the submission", "the task", "nobody"])
def test_a_failure_that_shows_nobodys_fault_is_undecided_and_says_so(failing: str) -> None:
    own = RunEnds(Verdict.REJECTED, Reason.PROTOCOL, "its own") if failing == "the submission" else None
    end = by_exclusion(own, lambda: failing == "the task", "it failed")
    expected = {
        "the submission": (Verdict.REJECTED, Reason.PROTOCOL, "its own"),
        "the task": (Verdict.INTERNAL_ERROR, Reason.TASK, "it failed: without the submission, too"),
        "nobody": (Verdict.RUNTIME_ERROR, Reason.UNDECIDED, f"it failed; {CANNOT_TELL}"),
    }
    assert (end.verdict, end.reason, end.message) == expected[failing]


LOG = """\
ended with code 1: Traceback (most recent call last):
  File "/srv/app/kernelcup_harness/judge/main.py", line 3, in main
    go(
    ^^^
  File "eval.py", line 4, in main
ValueError: /srv/app/lib/x.so is not at https://a.b/c/d/e or docs/reference/y.md
Traceback (most recent call last):
  File "submission.py", line 7, in custom_kernel
    torch.empty(-1)
  File "/opt/lib/torch/__init__.py", line 9, in empty
RuntimeError: negative
"""


def test_a_participant_reads_frames_of_the_submission_and_no_folders_of_the_machine() -> None:
    assert for_participants(LOG, ["eval.py"]) == (
        "ended with code 1: ValueError: x.so is not at https://a.b/c/d/e or docs/reference/y.md\n"
        "Traceback (most recent call last):\n"
        '  File "submission.py", line 7, in custom_kernel\n    torch.empty(-1)\nRuntimeError: negative\n'
    )


IMPOSSIBLE = [Work(bytes=1e15)]
FACTS = DeviceFacts(copy_bytes_per_s=1e9)


@pytest.mark.parametrize("is_ended", [True, False])
def test_what_was_found_of_a_time_survives_a_later_end_of_the_run_and_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ended: bool
) -> None:
    def ends(*_given: Any) -> None:
        raise ChannelClosed("end of stream")

    if is_ended:
        monkeypatch.setattr(Doubts, "beside", ends)
    spec = ranked(HONEST, work=IMPOSSIBLE, device=FACTS)
    record = Record(spec, "", lambda _event: None)
    for event in judged(spec, tmp_path):
        record.take(unpack_any(FROM_JUDGE, event))
    report = record.report(secret=b"", duration_s=1.0)
    expected = (Verdict.RUNTIME_ERROR, Reason.EXITED) if is_ended else (Verdict.ACCEPTED, Reason.NONE)
    assert (report.verdict, report.reason) == expected
    assert [finding.code for finding in report.quarantine] == ["below_floor"]


@pytest.mark.parametrize("late", [9, 4])
def test_a_wrong_answer_to_a_later_call_is_a_wrong_answer_to_its_input(tmp_path: Path, late: int) -> None:
    submission = (
        "calls = []\n\n\ndef custom_kernel(data):\n    calls.append(1)\n"
        f"    return data * (2 if len(calls) < {late} else 3)\n"
    )
    rules = replace(RANKED, min_samples=20, max_samples=20, relative_error=1e-9)
    (case,) = cases(judged(ranked(submission, rules=rules), tmp_path))
    assert (case.verdict, case.reason) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert case.failed_on is not None
    assert case.checks == late


# A task's own harness


OLD_LEADERBOARD = """\
import os, sys

with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as out:
    if sys.argv[1] == "test":
        print("test-count: 1\\ntest.0.spec: size: 16\\ntest.0.status: pass\\ncheck: pass", file=out)
    else:
        print("test-count: 1\\ntest.0.status: fail\\ntest.0.error: sum is 3, not 4", file=out)
"""


@pytest.mark.jobs
def test_a_wrong_ranked_result_of_an_older_harness_is_a_wrong_answer() -> None:
    report = run(own_spec(OLD_LEADERBOARD, mode=Mode.LEADERBOARD)).report
    assert (report.verdict, report.stage) == (Verdict.WRONG_ANSWER, "ranked")
    assert report.message == "sum is 3, not 4"


CAUGHT = """\
import os, sys
with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as out:
    try:
        import submission
        submission.custom_kernel(3)
    except Exception:
        sys.exit(1)
    print("test-count: 1\\ntest.0.status: pass\\ncheck: pass", file=out)
"""
IN_A_LIBRARY = """\
import json, os
import submission
json.loads("gather")
"""
FORGED = """\
import os
os.write(2, b'Traceback (most recent call last):\\n  File "eval.py", line 3, in main\\nValueError: broken\\n')
os._exit(1)
"""
REFERENCE_TASK = "def ref_kernel(data):\n    return data\n"
UNDECIDED = (Verdict.RUNTIME_ERROR, Reason.UNDECIDED)
TASKS = (Verdict.INTERNAL_ERROR, Reason.TASK)
SUBMISSIONS = (Verdict.RUNTIME_ERROR, Reason.OWN_HARNESS)
FAILS = "def custom_kernel(data):\n    data.x\n"


@pytest.mark.jobs
@pytest.mark.parametrize(
    ("main", "submission", "reference", "whose"),
    [
        pytest.param(
            CAUGHT, FORGED, REFERENCE_TASK, UNDECIDED, id="a forged traceback that names the harness"
        ),
        pytest.param(
            CAUGHT, "import os\nos._exit(1)\n", "", UNDECIDED, id="an exit that a stand-in has as well"
        ),
        pytest.param(CAUGHT, "import os\nos._exit(0)\n", "", UNDECIDED, id="an end without a report"),
        pytest.param(CAUGHT.replace("sys.exit(1)", "raise"), FAILS, "", SUBMISSIONS, id="a frame"),
        pytest.param(IN_A_LIBRARY, HONEST, "", TASKS, id="a harness that fails in a library"),
        pytest.param(IN_A_LIBRARY, FORGED, "", UNDECIDED, id="another failure of a harness that fails"),
        pytest.param("import submission\n", HONEST, "", TASKS, id="a harness that reports nothing"),
        pytest.param(CAUGHT, HONEST, "", (Verdict.ACCEPTED, Reason.NONE), id="an honest one"),
    ],
)
def test_a_harness_that_fails_is_to_blame_only_if_it_fails_alone_in_the_same_way(
    main: str, submission: str, reference: str, whose: tuple[Verdict, Reason]
) -> None:
    sources = {"eval.py": main, "reference.py": reference}
    report = run(own_spec(main, submission=submission, sources=sources)).report
    assert (report.verdict, report.reason) == whose, report.message
    told = report.message + report.stderr.text
    assert ("Traceback" in told, "/json/" in told) == (whose == SUBMISSIONS, False)


PROGRAM = '#include "submission.cpp"\n\nint main() { return 0; }\n'
ENDED, BROKEN = "#error virtual memory exhausted\n", "#error nonsense\n"


@pytest.mark.jobs
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize(
    ("submission", "busy", "whose"),
    [
        pytest.param(ENDED, "", UNDECIDED, id="its compiler is ended"),
        pytest.param(ENDED, "it was busy", (Verdict.INTERNAL_ERROR, Reason.BUSY), id="on a busy machine"),
        pytest.param(
            BROKEN, "it was busy", (Verdict.COMPILE_ERROR, Reason.OWN_HARNESS), id="a fault on a busy machine"
        ),
    ],
)
def test_a_compiler_that_is_ended_under_an_own_program_is_a_fault_of_no_submission(
    monkeypatch: pytest.MonkeyPatch, submission: str, busy: str, whose: tuple[Verdict, Reason]
) -> None:
    monkeypatch.setattr(empty_call, "trouble", lambda: busy)
    tree = SourceTree.of(submission, "submission.cpp")
    spec = own_spec("", main="eval.cpp", sources={"eval.cpp": PROGRAM}, submission=tree)
    report = run_job(spec, lambda _: None)
    assert (report.verdict, report.reason) == whose, report.message


IMPORTS = """\
import os
{first}
with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as out:
    import submission
    print("test-count: 1\\ntest.0.spec: size: 16\\ntest.0.status: pass\\ncheck: pass", file=out)
"""


@pytest.mark.jobs
def test_a_task_whose_own_library_is_missing_is_the_tasks_fault() -> None:
    report = run(own_spec(IMPORTS.format(first="import no_such_library"), submission=HONEST)).report
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.TASK)
    assert report.message.endswith(
        "at eval.py:2: without the submission, too\nModuleNotFoundError: No module named 'no_such_library'"
    )


@pytest.mark.jobs
@pytest.mark.parametrize(
    "text",
    [
        f"import no_such_library\n{HONEST}",
        "raise ModuleNotFoundError(\"No module named 'no_such_library'\")\n",
    ],
)
def test_a_submission_whose_library_is_missing_is_its_own_fault(text: str) -> None:
    report = run(own_spec(IMPORTS.format(first=""), submission=text)).report
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert "No module named 'no_such_library'" in report.message
