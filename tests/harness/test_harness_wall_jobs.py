"""Ranked jobs whose calls are not replayed: through the window by the wall clock, or through the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from fake_room import FakeHands, judged_in_room
from harness_runs import HONEST, replayed
from inside import cases, room_of
from test_harness_clean_room import IN_PLACE, Waits, findings

from kernelcup_harness.clocks.replay import clean_room, session
from kernelcup_harness.clocks.replay.clean_room import SMALL_BYTES, CleanRoom
from kernelcup_harness.clocks.replay.session import NOT_IN_WINDOW, Session
from kernelcup_harness.clocks.replay.wall_calls import WindowCalls
from kernelcup_harness.core.answer import Form
from kernelcup_harness.core.call import Caller, Calls
from kernelcup_harness.core.plan import SUBMISSION, PlannedCase, Stage
from kernelcup_harness.doubt import overhead
from kernelcup_harness.protocol import NOT_REPLAYED, Reason, StageName, TrustLevel, Verdict
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire.channel import Channel

PLANNED = PlannedCase(index=0, parameters={}, hidden=False)
RANKED = Stage(name=StageName.RANKED, cases=[PLANNED], limit_s=10.0, timed=True)
VARYING = """\
import torch


def generate_input(size, seed):
    return torch.ones(size + seed % 7)


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return torch.equal(ref_kernel(data), output)
"""


class Counted:
    """How many calls were made which way, after the overheads."""

    def __init__(self) -> None:
        self.window = 0
        self.host = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count calls of inputs of any size; overheads are not measured."""
    found = Counted()
    monkeypatch.setattr(clean_room, "SMALL_BYTES", 0)
    monkeypatch.setattr(overhead.Overheads, "measure", lambda *_: None)

    def counting(kind: type, name: str) -> None:
        real = kind.timed  # type: ignore[attr-defined]

        def timed(calls: Any, *arguments: Any, **options: Any) -> Any:
            setattr(found, name, getattr(found, name) + 1)
            return real(calls, *arguments, **options)

        monkeypatch.setattr(kind, "timed", timed)

    counting(WindowCalls, "window")
    counting(Caller, "host")
    return found


def check_by_the_wall_clock(events: list[dict[str, Any]]) -> None:
    """An accepted case that is ranked by the wall clock, with the finding that explains it."""
    (case,) = cases(events)
    assert (case.verdict, case.message) == (Verdict.ACCEPTED, "")
    assert case.timing.audit.level is TrustLevel.WALL_CLOCK
    assert not case.timing.audit.captured
    # Nothing is subtracted.
    assert case.timing.score_ns == case.timing.raw_ns
    assert "not_replayed" in findings(case)


def test_calls_that_cannot_be_captured_are_made_in_the_window(tmp_path: Path, counted: Counted) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=Waits)

    check_by_the_wall_clock(events)
    assert room_of(events)["reason"] == WhyNot.WAITS.value
    (case,) = cases(events)
    assert (counted.window, counted.host) == (case.checks, 0)


class Fails(FakeHands):
    reason = WhyNot.UNKNOWN

    def capture(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        raise NotReplayed(self.reason)


@pytest.mark.parametrize("reason", [WhyNot.HOST_OUTPUT, pytest.param(WhyNot.MEMORY, marks=pytest.mark.jobs)])
def test_calls_that_do_not_fit_into_the_window_go_through_the_hosts_memory(
    tmp_path: Path, counted: Counted, reason: WhyNot
) -> None:
    hands = type("FailsSo", (Fails,), {"reason": reason})
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=hands)

    check_by_the_wall_clock(events)
    assert room_of(events)["reason"] == reason.value
    (case,) = cases(events)
    assert (counted.window, counted.host) == (0, case.checks)


def test_a_task_whose_inputs_differ_in_form_is_called_through_the_hosts_memory(
    tmp_path: Path, counted: Counted
) -> None:
    events, _ = judged_in_room(replayed(HONEST, sources={"reference.py": VARYING}), tmp_path)

    check_by_the_wall_clock(events)
    assert room_of(events)["reason"] == WhyNot.VARIES.value
    assert counted.window == 0


def test_small_calls_are_quicker_through_the_hosts_memory(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_room, "SMALL_BYTES", SMALL_BYTES)
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=Waits)

    check_by_the_wall_clock(events)
    assert counted.window == 0


def test_the_overhead_of_a_call_is_measured_in_the_window_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_room, "SMALL_BYTES", 0)
    kinds: list[type] = []
    measured = overhead.Overheads._measured

    def noted(
        found: overhead.Overheads, stage: Stage, case: PlannedCase, calls: Calls, *arguments: Any
    ) -> float:
        kinds.append(type(calls))
        return measured(found, stage, case, calls, *arguments)

    monkeypatch.setattr(overhead.Overheads, "_measured", noted)
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=Waits)

    check_by_the_wall_clock(events)
    (case,) = cases(events)
    assert kinds == [WindowCalls]
    assert case.timing.overhead_ns is not None
    assert case.timing.overhead_ns > 0


def test_the_overhead_of_calls_in_the_window_is_not_that_of_calls_through_the_hosts_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_room, "SMALL_BYTES", 0)
    hands = type("Outside", (Fails,), {"reason": WhyNot.HOST_OUTPUT})
    events, _ = judged_in_room(replayed(HONEST), tmp_path, hands=hands)

    check_by_the_wall_clock(events)
    (case,) = cases(events)
    assert case.timing.overhead_ns is None


def test_a_replayed_time_has_no_overhead_of_a_call(tmp_path: Path) -> None:
    events, _ = judged_in_room(replayed(HONEST), tmp_path)

    (case,) = cases(events)
    assert case.timing.audit.captured
    assert case.timing.overhead_ns is None


AGAIN = "KEPT = []\n\n\ndef custom_kernel(data):\n    KEPT or KEPT.append(data * 2)\n    return KEPT[0]\n"
SHARES = "def custom_kernel(data):\n    data.mul_(2)\n    return data\n"
BESIDE = """\
import ctypes


def custom_kernel(data):
    source, target = data
    target[...] = source * 2
    ctypes.memset(target.data_ptr() + target.numel() * 4, 7, 64)
    return target
"""


@pytest.mark.parametrize(
    ("source", "verdict", "reason"),
    [
        ("def custom_kernel(data):\n    return data * 3\n", Verdict.WRONG_ANSWER, Reason.DIFFERS),
        (AGAIN, Verdict.WRONG_ANSWER, Reason.RANGE),
        (SHARES, Verdict.WRONG_ANSWER, Reason.ALIASED),
        ("def custom_kernel(data):\n    raise OSError('no')\n", Verdict.RUNTIME_ERROR, Reason.EXCEPTION),
        ("def custom_kernel(data):\n    return [data] * 2000\n", Verdict.WRONG_ANSWER, Reason.FORM),
    ],
)
def test_calls_in_the_window_get_the_verdicts_of_any_others(
    tmp_path: Path, counted: Counted, source: str, verdict: Verdict, reason: Reason
) -> None:
    events, _ = judged_in_room(replayed(source), tmp_path, hands=Waits)

    (case,) = cases(events)
    assert (case.verdict, case.reason) == (verdict, reason)
    assert counted.host == 0


def test_a_write_beside_an_output_in_the_window_is_rejected(tmp_path: Path, counted: Counted) -> None:
    spec = replayed(BESIDE, sources={"reference.py": IN_PLACE})
    events, _ = judged_in_room(spec, tmp_path, hands=Waits)

    (end,) = [each for each in events if each["type"] == "stage_end" and each["name"] == "ranked"]
    assert (end["verdict"], end["reason"]) == (Verdict.REJECTED.value, Reason.GUARD_BAND.value)
    assert counted.window == 1


class Unmapping:
    def __init__(self, _part: float) -> None:
        raise NotReplayed(WhyNot.NO_WINDOW, "no VMM")


def a_session(monkeypatch: pytest.MonkeyPatch, kind: Any) -> tuple[Session, list[Any]]:
    monkeypatch.setattr(session, "GpuMapping", kind)
    told: list[Any] = []
    runner: Any = SimpleNamespace(tell=told.append)
    return Session(cast("Channel", None), runner), told


def test_a_machine_without_a_window_has_calls_through_the_hosts_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, told = a_session(monkeypatch, Unmapping)
    found.open(
        **dict.fromkeys(("checks", "chance", "remaining"), cast("Any", None)),
        contestants={SUBMISSION: cast("Any", (object(), None))},
        record_type=cast("Any", None),
        result_bytes=1,
    )

    assert found.calls(RANKED, PLANNED) is None
    assert found.finding.code == NOT_REPLAYED
    assert "(no VMM)" in found.finding.text
    assert told[-1].environment["clean_room"]["reason"] == "no_window"


SOURCE = SimpleNamespace(line=None, heap=range(0))


class StubRoom:
    waited_s = 3.0
    made = object()

    def calls(self, _case: PlannedCase) -> Any:
        return self.made


@pytest.mark.parametrize("reason", [None, *WhyNot])
def test_calls_go_through_the_window_unless_it_is_the_reason_why_they_are_made(
    monkeypatch: pytest.MonkeyPatch, reason: WhyNot | None
) -> None:
    found, _ = a_session(monkeypatch, lambda _part: None)
    found._rooms = [cast("CleanRoom", StubRoom())]
    if reason is not None:
        found._leave(NotReplayed(reason))

    assert found.calls(RANKED, PLANNED) is (None if reason in NOT_IN_WINDOW else StubRoom.made)
    tests = Stage(name=StageName.TEST, cases=[PLANNED], limit_s=10.0, timed=False)
    assert found.calls(tests, PLANNED) is None


def test_time_spent_waiting_for_calls_in_the_window_is_the_submissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, _ = a_session(monkeypatch, lambda _part: None)
    assert found.waited_s == 0.0
    found._rooms = [cast("CleanRoom", StubRoom())]
    found._leave(NotReplayed(WhyNot.WAITS))

    assert found.waited_s == 3.0


def a_room(monkeypatch: pytest.MonkeyPatch, form: Form | None, place_bytes: int) -> CleanRoom:
    given: dict[str, Any] = dict.fromkeys(("timer", "chance", "remaining", "record_type"), None)
    checks = SimpleNamespace(form=lambda _place: form)
    room = CleanRoom(
        cast("Any", SimpleNamespace(device="cpu")),
        checks=cast("Any", checks),
        contestants={},
        result_bytes=1,
        **given,
    )
    laid = SimpleNamespace(place_bytes=place_bytes)
    room._cases[0] = cast("Any", SimpleNamespace(place=None, layout=laid, source=SOURCE))
    return room


@pytest.mark.parametrize(
    ("input_bytes", "answer_bytes", "in_window"),
    [
        (SMALL_BYTES, 0, False),
        (SMALL_BYTES + 1, 0, True),
        (SMALL_BYTES // 2, SMALL_BYTES // 2, False),
        (0, SMALL_BYTES + 1, True),
        (8, 8, False),
    ],
)
def test_the_way_of_calls_depends_on_the_bytes_of_input_and_answer(
    monkeypatch: pytest.MonkeyPatch, input_bytes: int, answer_bytes: int, in_window: bool
) -> None:
    form = Form(value=torch.empty(1), nbytes=answer_bytes, tensors=1, in_place=False)
    room = a_room(monkeypatch, form, input_bytes)

    assert (room.calls(PLANNED) is not None) == in_window
    assert (a_room(monkeypatch, None, input_bytes).calls(PLANNED) is not None) == (input_bytes > SMALL_BYTES)


def test_answers_in_other_memory_go_through_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = torch.empty(1, device="meta")
    form = Form(value=[torch.empty(1), elsewhere], nbytes=0, tensors=2, in_place=False)

    assert a_room(monkeypatch, form, 1 << 30).calls(PLANNED) is None


def test_cases_that_were_not_laid_out_go_through_the_hosts_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    other = PlannedCase(index=1, parameters={}, hidden=False)

    assert a_room(monkeypatch, None, 1 << 30).calls(other) is None
