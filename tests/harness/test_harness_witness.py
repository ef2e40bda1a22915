"""The witness's process: what it answers, what it refuses by name, and what the judge makes of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_device import APART_NS, FakeDevice, FakeSampler, Locked

from kernelcup_harness import witness_process
from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay import witnessed
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine, TimerRefused
from kernelcup_harness.clocks.replay.witnessed import Round, WitnessFailed
from kernelcup_harness.clocks.witness import MOST_SAMPLES, Sampler, Witness
from kernelcup_harness.window.messages import (
    MOST_STRETCHES,
    Refused,
    Seen,
    Stopped,
    StopWatch,
    Tell,
    Watch,
    Watching,
)
from kernelcup_harness.window.reasons import Failure, NoCounters
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import Message, pack, unpack

CALL_NS = 9_000


@contextmanager
def serving(make: Callable[[], Sampler]) -> Iterator[Channel]:
    """A witness in a thread; yield the judge's end of its channel."""
    ours, theirs = socket.socketpair()
    other = Channel(theirs, max_bytes=1 << 20, max_fds=0)
    thread = threading.Thread(target=lambda: Witness(other, lambda: [make()]).serve())
    thread.start()
    try:
        yield Channel(ours, max_bytes=1 << 20, max_fds=0)
    finally:
        ours.close()
        thread.join()
        theirs.close()


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def line(device: FakeDevice) -> Iterator[TimerLine]:
    with serving(lambda: FakeSampler(device)) as channel:
        found = TimerLine(channel)
        assert found.greet(30.0) == ""
        yield found


def ask(line: TimerLine, request: Message, expected: type[Message]) -> Any:
    return line.ask(request, expected, timeout_s=30.0)


def watched(line: TimerLine, work: Callable[[], None]) -> Seen:
    ask(line, Watch(), Watching)
    work()
    ask(line, StopWatch(), Stopped)
    return ask(line, Tell(), Seen)


def test_the_witness_says_what_the_device_did_in_a_watch(line: TimerLine, device: FakeDevice) -> None:
    device.sweep()
    seen = watched(line, lambda: device.work(CALL_NS, 3))

    ((start, end, *work),) = seen.stretches
    assert end - start == pytest.approx(CALL_NS)
    assert work == [3]
    assert watched(line, lambda: None).stretches == []


def test_a_watch_that_is_too_long_is_refused_and_the_next_one_is_not(
    line: TimerLine, device: FakeDevice
) -> None:
    with pytest.raises(TimerRefused, match="too long") as refused:
        watched(line, lambda: device.sleep(MOST_SAMPLES * trace.INTERVAL_NS / 1e9 + 1e-3))

    assert refused.value.name is Failure.NOT_SEEN
    assert len(watched(line, lambda: device.work(CALL_NS)).stretches) == 1


def test_more_stretches_than_a_message_holds_are_refused(line: TimerLine, device: FakeDevice) -> None:
    def often() -> None:
        for _ in range(MOST_STRETCHES + 1):
            device.work(10)

    with pytest.raises(TimerRefused, match="not idle") as refused:
        watched(line, often)
    assert refused.value.name is Failure.NOT_SEEN


def test_locked_counters_are_told_in_the_hello_and_with_each_refusal(device: FakeDevice) -> None:
    with serving(lambda: Locked(device)) as channel:
        line = TimerLine(channel)
        assert "INSUFFICIENT_PRIVILEGES" in line.greet(30.0)
        for request, expected in ((Watch(), Watching), (StopWatch(), Stopped), (Tell(), Seen)):
            with pytest.raises(TimerRefused, match="INSUFFICIENT_PRIVILEGES") as refused:
                ask(line, request, expected)
            assert refused.value.name is Failure.NOT_SEEN


def test_a_library_that_lacks_a_function_is_told_in_the_hello() -> None:
    def lacking() -> Sampler:
        raise AttributeError("undefined symbol: cuptiPmSamplingEnable")

    with serving(lacking) as channel:
        assert "cuptiPmSamplingEnable" in TimerLine(channel).greet(30.0)


@pytest.mark.parametrize(
    "frame", [{"type": "fire", "capture": 0, "place": 0}, {"type": "watch", "more": 1}, {"type": "what"}, {}]
)
def test_a_request_that_makes_no_sense_is_refused_and_the_next_is_answered(
    line: TimerLine, device: FakeDevice, frame: dict[str, Any]
) -> None:
    refused = unpack(Refused, line.reply(frame, timeout_s=30.0))

    assert refused.name is Failure.BAD_REQUEST
    assert len(watched(line, lambda: device.work(CALL_NS)).stretches) == 1


def test_without_a_watch_there_is_nothing_to_tell(line: TimerLine) -> None:
    with pytest.raises(TimerRefused, match="no watch") as refused:
        ask(line, Tell(), Seen)
    assert refused.value.name is Failure.BAD_REQUEST


def test_the_witness_has_no_torch_and_no_context() -> None:
    code = (
        "import sys, kernelcup_harness.witness_process; "
        "print([each for each in sys.modules if each == 'torch' or each == 'kernelcup_harness.device.nvidia.driver'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_machine_without_counters_has_a_witness_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def refuse(counters: Any, *, interval_ns: int, most: int) -> Sampler:
        asked.append((counters, interval_ns, most))
        raise NoCounters("no counters here")

    monkeypatch.setattr(witness_process, "Sampler", refuse)
    with serving(witness_process.sampler) as channel:
        assert TimerLine(channel).greet(30.0) == "no counters here"
    assert asked == [(trace.COUNTERS, trace.INTERVAL_NS, MOST_SAMPLES)]


# The judge's side


@pytest.fixture
def judges(device: FakeDevice) -> Iterator[witnessed.Witness]:
    with serving(lambda: FakeSampler(device)) as channel:
        found = witnessed.Witness(channel, device)
        assert found.greet(30.0) == ""
        yield found


def parts(device: FakeDevice, call: Callable[[], None] | None = None, *, nodes: int = 1) -> Round:
    """A call on a device, with the judge's work beside it."""

    def before() -> None:
        device.sweep()
        device.settle()

    work = call or (lambda: device.work(CALL_NS))
    return Round(nodes=nodes, before=before, call=work, after=device.settle)


def test_calls_of_a_watch_have_their_times_and_answers_are_checked_once_it_is_over(
    judges: witnessed.Witness, device: FakeDevice
) -> None:
    checked: list[int] = []
    calls = [parts(device, lambda ns=ns: device.work(ns)) for ns in (7_000, 12_000)]  # type: ignore[misc]
    found = judges.watch(calls, lambda: checked.append(len(device.kernels)))

    assert found == pytest.approx([each - trace.SPAN_NS for each in (7_000, 12_000)])
    assert checked == [len(device.kernels)]


def vanish(device: FakeDevice) -> None:
    """Make a call after which the device works right into the judge's mark."""
    device.work(CALL_NS)
    device.now_ns -= APART_NS


def test_three_unreadable_watches_in_a_row_are_the_machines_error(
    judges: witnessed.Witness, device: FakeDevice
) -> None:
    bad, good = parts(device, lambda: vanish(device)), parts(device)

    assert judges.watch([bad], lambda: None) == []
    assert judges.watch([bad], lambda: None) == []
    # One that can be read ends the row.
    assert len(judges.watch([good], lambda: None)) == 1
    assert judges.watch([bad], lambda: None) == []
    assert judges.watch([bad], lambda: None) == []
    with pytest.raises(WitnessFailed, match="no mark"):
        judges.watch([bad], lambda: None)


def test_no_two_marks_are_alike_by_more_than_chance() -> None:
    marks = [witnessed.drawn() for _ in range(400)]
    assert len(set(marks)) == len(marks)
    assert all(trace.SHORTEST_MARK_NS <= ns < trace.LONGEST_MARK_NS for mark in marks for ns in mark)


class Lying:
    def __init__(self, stretches: list[list[float]]) -> None:
        self.stretches = stretches

    def serve(self, channel: Channel) -> None:
        for reply in (Watching(), Stopped(), Seen(stretches=self.stretches)):
            frame = channel.receive()
            channel.send({"id": frame["id"], **pack(reply)})


def test_stretches_that_are_none_are_the_machines_error(device: FakeDevice) -> None:
    ours, theirs = socket.socketpair()
    other = Channel(theirs, max_bytes=1 << 20, max_fds=0)
    thread = threading.Thread(target=Lying([[1.0, 2.0]]).serve, args=(other,))
    thread.start()
    found = witnessed.Witness(Channel(ours, max_bytes=1 << 20, max_fds=0), device)
    with pytest.raises(TimerFailed, match="without stretches"):
        found.watch([], lambda: None)
    thread.join()
    ours.close()
    theirs.close()
