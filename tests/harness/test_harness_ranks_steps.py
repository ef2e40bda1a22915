"""Steps of the judges of GPU ranks with one another, with the witness, and its samplers: neither processes nor GPUs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_device import FakeDevice, FakeSampler

from kernelcup_harness import witness_process
from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.witness import Witness
from kernelcup_harness.core.answer import CallFailed, Form
from kernelcup_harness.device.nvidia import samplers
from kernelcup_harness.device.nvidia.pm_sampling import Sample
from kernelcup_harness.device.nvidia.samplers import SamplerApart
from kernelcup_harness.ranks import gated, judge, leader
from kernelcup_harness.ranks.errors import NotQueued, Raised
from kernelcup_harness.ranks.gated import GatedCalls
from kernelcup_harness.ranks.leader import Ranks, Stuck
from kernelcup_harness.ranks.witnessed import Marks, RanksWitness
from kernelcup_harness.window.reasons import NoCounters
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import FailureKind

# One rank after the other


@contextmanager
def replying(monkeypatch: pytest.MonkeyPatch, *replies: Any) -> Iterator[Ranks]:
    """Ranks that reply one after the other, with no time between a failure and the end of patience."""
    ranks, ends = object.__new__(Ranks), [Pipe() for _ in replies]
    ranks._lines = [ours for ours, _ in ends]
    for (_, theirs), reply in zip(ends, replies, strict=True):
        theirs.send(reply)
    monkeypatch.setattr(leader, "GRACE_S", 0.0)
    monkeypatch.setattr(leader, "wait", lambda lines, _left_s: lines[:1])
    yield ranks
    for ours, theirs in ends:
        ours.close()
        theirs.close()


def test_a_call_that_is_not_queued_leaves_no_reply_of_another_rank_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with replying(monkeypatch, Raised.of(NotQueued("it waits for the device itself")), 64) as ranks:
        with pytest.raises(NotQueued, match="GPU rank 0: it waits"):
            ranks._gathered(range(2), 10.0)
        assert not ranks._lines[1].poll()


def test_a_failed_rank_gives_the_others_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Raised.of(CallFailed(FailureKind.EXCEPTION, "no such rank"))
    with (
        replying(monkeypatch, failed, 64) as ranks,
        pytest.raises(Stuck, match="GPU rank 1 had not returned"),
    ):
        ranks._gathered(range(2), 10.0)


# What keeps a case from being queued


def form(*tensors: torch.Tensor) -> Form:
    return Form.of(tensors, in_place=False)


def test_tensors_on_the_host_keep_a_case_from_being_queued() -> None:
    here = torch.zeros(3)
    assert "on the host" in judge.hindrance([here], None)
    assert "on the host" in judge.hindrance([], form(here))
    assert judge.hindrance([1, "text"], None) == ""


def test_more_tensors_than_one_kernel_copies_keep_a_case_from_being_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_device = [SimpleNamespace(is_cuda=True)]
    monkeypatch.setattr(judge.aliasing, "leaves", lambda value: on_device * len(value))
    answer: Any = SimpleNamespace(value=range(judge.COPIED_TOGETHER))
    assert judge.hindrance([], answer) == ""
    answer.value = range(judge.COPIED_TOGETHER + 1)
    assert judge.hindrance([], answer) == "its answer has more than 128 tensors"


# The answer of a queued call


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls of a contestant whose answers lie in the host's memory, of 100 bytes at most."""
    made: Any = object.__new__(GatedCalls)
    made._form, made._marks = None, []
    made._caller = SimpleNamespace(capacity=lambda _form: 100)
    made._own = SimpleNamespace(mark=made._marks.append)
    made._woken = torch.zeros(64, dtype=torch.uint8)
    made._part = lambda nbytes: torch.arange(nbytes, dtype=torch.uint8)
    monkeypatch.setattr(gated.torch.cuda, "synchronize", lambda: None)
    return made


def taken(calls: Any, *sizes: int) -> tuple[int, list[int]]:
    """Take an answer of tensors of these sizes; return its bytes, and what was copied."""
    calls._done = SimpleNamespace(table=list(sizes))
    nbytes = calls.take((1, 2), 0)
    return nbytes, calls._taken[2].tolist()


def test_an_answer_is_copied_as_one(calls: Any) -> None:
    assert taken(calls, 3, 0, 2) == (5, [0, 1, 2, 0, 1])
    assert taken(calls, 3) == (3, [0, 1, 2])
    assert calls._marks == [(1, 2)] * 2


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
def test_an_answer_without_a_byte_is_copied_too_for_the_witness(calls: Any, sizes: tuple[int, ...]) -> None:
    assert taken(calls, *sizes) == (0, [0])


def test_an_answer_that_is_too_large_for_the_judge_is_the_submissions(calls: Any) -> None:
    with pytest.raises(CallFailed, match="101 bytes") as failed:
        taken(calls, 100, 1)
    assert failed.value.kind is FailureKind.TOO_LARGE
    assert calls._marks == []


# The witness of several GPUs


@pytest.fixture
def devices() -> list[FakeDevice]:
    return [FakeDevice(), FakeDevice()]


@pytest.fixture
def witness(devices: list[FakeDevice]) -> Iterator[RanksWitness]:
    ours, theirs = socket.socketpair()
    other = Channel(theirs, max_bytes=1 << 20, max_fds=0)
    made = [FakeSampler(each) for each in devices]
    thread = threading.Thread(target=lambda: Witness(other, lambda: made).serve())
    thread.start()
    found = RanksWitness(Channel(ours, max_bytes=1 << 20, max_fds=0))
    assert found.greet(30.0) == ""
    yield found
    ours.close()
    thread.join()
    theirs.close()


def called(device: FakeDevice, marks: Marks) -> None:
    device.mark(marks.before_input)
    device.work(3_000)
    device.mark(marks.before_call)
    device.work(50_000)
    device.work(4_000)
    device.mark(marks.after_call)


@pytest.mark.parametrize("works", [False, True])
def test_a_gpu_that_a_case_has_no_rank_for_may_not_work(
    witness: RanksWitness, devices: list[FakeDevice], works: bool
) -> None:
    marks = Marks.draw()
    witness.begin()
    called(devices[0], marks)
    if works:
        devices[1].work(9_000)
    witness.end()
    if works:
        with pytest.raises(trace.Unreadable, match="GPU 1 has no rank in this case"):
            witness.spans(marks, [(64, 64)], 2)
    else:
        (span,) = witness.spans(marks, [(64, 64)], 2)
        assert span.end_ns - span.begin_ns == pytest.approx(50_000)


def test_a_call_that_failed_in_its_watch_does_not_end_the_next_ones(
    witness: RanksWitness, devices: list[FakeDevice]
) -> None:
    witness.begin()
    devices[0].work(9_000)
    marks = Marks.draw()
    witness.begin()
    for each in devices:
        called(each, marks)
    witness.end()
    assert len(witness.spans(marks, [(64, 64)] * 2, 2)) == 2


# Its samplers


def test_a_sampler_whose_process_has_ended_has_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers.os, "fork", lambda: 1)
    sampler = SamplerApart(lambda: pytest.fail("made here"))
    for ask in (sampler.wait, sampler.start, sampler.stop, sampler.read):
        with pytest.raises(NoCounters, match="has ended"):
            ask()
    sampler._line.close()


class Idle:
    """A sampler of an idle device that gives so many samples in its watches."""

    def __init__(self, *counts: int) -> None:
        self._counts = list(counts)

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def read(self) -> list[Sample]:
        return [
            Sample(at, at + 1, (0.0, 1.0, 0.0, 0.0, 5_877.0, 0.0, 0.0)) for at in range(self._counts.pop(0))
        ]


def calibrated(*counts: int) -> Any:
    sampler: Any = Idle(*counts)
    return witness_process.calibrated(sampler)


def test_too_few_samples_tell_nothing_of_an_idle_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness_process.time, "sleep", lambda _seconds: None)
    few = trace.CALIBRATED - 1
    assert calibrated(few, few, trace.CALIBRATED) == (0.0, 5_877.0, 0.0, 0.0)
    with pytest.raises(NoCounters, match="63 samples"):
        calibrated(few, few, few)
