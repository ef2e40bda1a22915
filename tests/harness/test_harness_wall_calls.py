"""Calls by the wall clock in the window, without a GPU: what is written and read before, while and after it runs."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch
from fake_room import FakeHands, FakeWindow, fake_window, lies_in_window

from kernelcup_harness.clocks.replay import wall_calls
from kernelcup_harness.clocks.replay.wall_calls import WindowCalls
from kernelcup_harness.contestant.main import Contestant
from kernelcup_harness.core.answer import Answer, CallFailed, Form, GuardBroken
from kernelcup_harness.core.requests import Line
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.window import addresses, layout
from kernelcup_harness.window.layout import BAND, HEAPS, INPUTS, WRITABLE, Layout
from kernelcup_harness.window.messages import Access, Attach, Attached, LayInput, SharedRegion
from kernelcup_harness.wire import values
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.messages import Hello, Message, unpack

HEAP = HEAPS["submission"]
LIMIT_S = 30.0
RESULT_BYTES = 1 << 16
Kernel = Callable[[Any], Any]


def no_records(module: str, name: str) -> type:
    raise values.BadTree(f"{module}.{name} is not defined in the task's files")


class Rig:
    """A judge's calls, and a contestant in a thread with a kernel of this test.

    Args:
        shared: The window.
        example: An input.
        kernel: Is called.
        places: Number of places.
        writable: Numbers of the tensors that calls may write.
    """

    def __init__(
        self,
        shared: FakeWindow,
        example: Any,
        kernel: Kernel,
        *,
        places: int = 2,
        writable: frozenset[int] = frozenset(),
    ) -> None:
        self.shared = shared
        self.layout = Layout(example, places=places, writable=set(writable), device="cpu")
        ours, theirs = socket.socketpair()
        self.channel, self.other = Channel(ours, max_bytes=1 << 20), Channel(theirs, max_bytes=1 << 20)
        self.contestant = Contestant(self.other, hands=FakeHands(shared))
        self.contestant._use(kernel)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        unpack(Hello, self.channel.receive(LIMIT_S))
        line = Line(self.channel)
        self._share(line)
        self.calls = WindowCalls(
            self.layout,
            line=line,
            mapping=shared,
            heap=range(HEAP, HEAP + addresses.GRANULE),
            record_type=no_records,
            result_bytes=RESULT_BYTES,
        )

    def _share(self, line: Line) -> None:
        sizes = {
            HEAP: addresses.GRANULE,
            INPUTS: self.layout.input_bytes,
            WRITABLE: self.layout.writable_bytes,
        }
        regions = [
            SharedRegion(address=at, bytes=size, access=Access.WRITE, heap=at == HEAP)
            for at, size in sizes.items()
            if size
        ]
        fds = [self.shared.create(each.address, each.bytes) for each in regions]
        line.ask(Attach(regions=regions), Attached, timeout_s=LIMIT_S, fds=fds)
        for fd in fds:
            os.close(fd)

    def answering(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Have the contestant's replies to calls changed."""
        send = self.other.send

        def changed(frame: dict[str, Any]) -> None:
            send({"id": frame["id"], **change(frame)} if frame["type"] == "called" else frame)

        self.other.send = changed  # type: ignore[method-assign, assignment]

    def call(self, data: Any, form: Form | None = None) -> Answer:
        return self.calls.open(self.calls.timed(data, form, timeout_s=LIMIT_S))

    def close(self) -> None:
        self.channel.close()
        self._thread.join()
        self.other.close()

    def _serve(self) -> None:
        with suppress(ChannelClosed):
            self.contestant.serve()


Rigging = Callable[..., Rig]


@pytest.fixture
def rigged() -> Iterator[Rigging]:
    made: list[Rig] = []
    with fake_window() as shared:

        def rig(*arguments: Any, **options: Any) -> Rig:
            made.append(Rig(shared, *arguments, **options))
            return made[-1]

        yield rig
        for each in made:
            each.close()


@contextmanager
def at_the_clock(monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]) -> Iterator[None]:
    """Do something whenever the judge looks at its clock: its first look begins the time, its second ends it."""
    real, judge, looks = time.perf_counter_ns, threading.current_thread(), [0]

    def clock() -> int:
        if threading.current_thread() is judge:
            looks[0] += 1
            look(looks[0])
        return real()

    with monkeypatch.context() as patched:
        patched.setattr(time, "perf_counter_ns", clock)
        yield
    assert looks[0] == 2


def ones(count: int = 64) -> torch.Tensor:
    return torch.ones(count, dtype=torch.int32)


def double(data: torch.Tensor) -> torch.Tensor:
    return data * 2


def form_of(value: Any, *, in_place: bool = False) -> Form:
    return Form.of(value, in_place=in_place)


def test_an_answer_in_the_window_arrives_with_both_times(rigged: Rigging) -> None:
    rig = rigged(ones(), double)
    for value in range(5):
        answer = rig.call(ones() * value)
        assert answer.output.tolist() == [2 * value] * 64
        assert 0 < answer.own_ns <= answer.wall_ns == answer.ns


def test_an_input_is_written_only_once_the_clock_runs(
    rigged: Rigging, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    def look(when: str) -> None:
        seen.append((when, int(rig.shared.view(INPUTS, 4).view(torch.int32)[0])))

    def kernel(data: torch.Tensor) -> torch.Tensor:
        look("called")
        return data * 2

    rig = rigged(ones(), kernel, places=1)
    rig.call(ones() * 3)
    seen.clear()
    lay = rig.contestant._answers[LayInput]

    def lay_and_look(message: LayInput) -> Message:
        reply = lay(message)
        look("tensors are there")
        return reply

    rig.contestant._answers[LayInput] = lay_and_look
    with at_the_clock(monkeypatch, lambda number: look(["clock begins", "clock ends"][number - 1])):
        rig.call(ones() * 5)

    assert seen == [("tensors are there", 3), ("clock begins", 3), ("called", 5), ("clock ends", 5)]


@pytest.mark.parametrize(("factor", "later"), [(2, 9), (0, 2)], ids=["right", "written after the reply"])
def test_an_answer_is_the_judges_own_copy_before_the_clock_ends(
    rigged: Rigging, monkeypatch: pytest.MonkeyPatch, factor: int, later: int
) -> None:
    kept: list[torch.Tensor] = []

    def kernel(data: torch.Tensor) -> torch.Tensor:
        kept.append(data * factor)
        return kept[-1]

    rig = rigged(ones(), kernel)
    with at_the_clock(monkeypatch, lambda number: kept[-1].fill_(later) if number == 2 else None):
        answer = rig.call(ones())

    assert answer.output.tolist() == [factor] * 64


def test_an_answer_outside_of_the_window_is_copied_in(rigged: Rigging) -> None:
    elsewhere = ones() * 7
    rig = rigged(ones(), lambda _data: [elsewhere, elsewhere[:3]])
    seen: list[int] = []

    def note(reply: dict[str, Any]) -> dict[str, Any]:
        seen.extend(each["address"] for each in reply["answer"]["table"])
        return reply

    rig.answering(note)
    answer = rig.call(ones())

    assert not lies_in_window(elsewhere)
    assert [each.tolist() for each in answer.output] == [[7] * 64, [7] * 3]
    assert all(address in range(HEAP, HEAP + addresses.GRANULE) for address in seen)
    # The copies were spoiled, not the contestant's own tensor.
    assert elsewhere.tolist() == [7] * 64


def saying(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Change the description of an answer's first tensor."""

    def change(reply: dict[str, Any]) -> dict[str, Any]:
        reply["answer"]["table"][0].update(changes)
        return reply

    return change


def test_an_answer_at_addresses_that_are_not_its_own_is_refused_by_name(rigged: Rigging) -> None:
    rig, end = rigged(ones(), double), HEAP + addresses.GRANULE
    wrong = [0, HEAP - 256, end - 128, end, HEAPS["rival"], INPUTS + 256, INPUTS + 4096 + 64, INPUTS - 256]
    told = iter([*wrong, (1 << 61) - 1])
    rig.answering(lambda reply: saying(address=next(told))(reply))
    for _ in range(len(wrong) + 1):
        with pytest.raises(CallFailed, match="a tensor of the answer, which is not on the device") as failure:
            rig.call(ones())
        assert failure.value.kind == "output"


def test_the_input_of_another_place_is_no_answer(rigged: Rigging) -> None:
    rig = rigged(ones(), double)
    rig.answering(saying(address=INPUTS))

    with pytest.raises(CallFailed):
        rig.call(ones())
    assert rig.call(ones() * 4).output.tolist() == [4] * 64


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (saying(device="cuda:0"), "output"),
        (saying(nbytes=RESULT_BYTES, address=HEAP), "too_large"),
    ],
)
def test_an_answer_that_cannot_be_read_is_refused_by_kind(rigged: Rigging, change: Any, kind: str) -> None:
    rig = rigged(ones(), double)
    rig.answering(change)
    with pytest.raises(CallFailed) as failure:
        rig.call(ones())

    assert failure.value.kind == kind


def deep(count: int = 900) -> Any:
    """Return lists in lists: as deep as JSON can be read."""
    value: Any = []
    for _ in range(count):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: {**reply, "answer": None},
        lambda reply: {**reply, "ns": 0.0},
        lambda reply: {"type": "fail", "kind": "unheard of", "text": ""},
        lambda reply: {"type": "fail", "kind": deep(), "text": deep()},
        lambda reply: {**reply, "more": 1},
        lambda reply: {**reply, "ns": "5"},
        lambda reply: {"type": "done", "ns": 5.0},
        lambda reply: {**reply, "answer": {**reply["answer"], "tree": {"k": "tensor", "i": 1}}},
        lambda reply: {**reply, "answer": {**reply["answer"], "tree": {"k": "tensor"}}},
        lambda reply: {**reply, "answer": {**reply["answer"], "tree": {"k": deep()}}},
        lambda reply: {**reply, "answer": {**reply["answer"], "tree": deep()}},
        saying(shape=[1 << 61] * 100_000),
        saying(shape=5),
        saying(strides=[1], shape=[1 << 40]),
        saying(nbytes=7),
        saying(address=1.0),
        saying(dtype=["int32"]),
    ],
)
def test_an_answer_that_makes_no_sense_breaks_the_protocol(rigged: Rigging, change: Any) -> None:
    rig = rigged(ones(), double)
    rig.answering(change)

    with pytest.raises(BrokenProtocol):
        rig.call(ones())


def test_descriptions_that_change_from_call_to_call_are_read_again(rigged: Rigging) -> None:
    number = iter(range(100))
    answers: list[Any] = [
        lambda data: data * 2,
        lambda data: (data * 3)[: 1 + next(number)],
        lambda data: data.to(torch.float64),
        lambda data: {"a": data * 2, "b": [data + 1, 5, None]},
        lambda data: data.view(8, 8).t().contiguous(),
    ]
    turn = [0]
    rig = rigged(ones(), lambda data: answers[turn[0] % len(answers)](data))
    for turn[0] in range(15):
        told = rig.call(ones()).output
        kind = turn[0] % len(answers)
        if kind == 1:
            assert told.tolist() == [3] * (1 + turn[0] // len(answers))
        elif kind == 2:
            assert told.dtype is torch.float64
        elif kind == 3:
            assert (told["a"][0], told["b"][0][0], told["b"][1:]) == (2, 2, [5, None])
        else:
            assert tuple(told.shape) == ((8, 8) if kind == 4 else (64,))


def test_a_description_as_before_is_read_once_for_each_place(
    rigged: Rigging, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[torch.Tensor] = []

    def kernel(data: torch.Tensor) -> torch.Tensor:
        if not kept:
            kept.append(torch.empty_like(data))
        return torch.mul(data, 2, out=kept[0])

    read: list[Any] = []
    monkeypatch.setattr(wall_calls, "described", lambda *a, **k: read.append(a) or layout.described(*a, **k))
    rig = rigged(ones(), kernel)

    assert [int(rig.call(ones() * value).output[0]) for value in range(8)] == [*range(0, 16, 2)]
    assert len(read) == 2


def test_a_call_that_fails_is_its_own_failure_and_the_next_one_is_made(rigged: Rigging) -> None:
    # Without memory in the window the call is made again outside of it.
    full = torch.OutOfMemoryError("none left")
    failures: list[Exception] = [ValueError("no"), full, full, MemoryError()]

    def kernel(data: torch.Tensor) -> Any:
        if failures:
            raise failures.pop(0)
        return data * 2

    rig = rigged(ones(), kernel)
    kinds = []
    for _ in range(3):
        with pytest.raises(CallFailed) as failure:
            rig.call(ones())
        kinds.append(failure.value.kind)
    assert kinds == ["exception", "memory", "host_memory"]
    assert rig.call(ones()).output.tolist() == [2] * 64


def test_an_answer_that_no_tree_can_hold_is_of_the_wrong_form(rigged: Rigging) -> None:
    rig = rigged(ones(), lambda _data: object())
    with pytest.raises(CallFailed, match="cannot be carried") as failure:
        rig.call(ones())

    assert failure.value.kind == "output"


def into(data: Any) -> torch.Tensor:
    data[1][...] = data[0] * 2
    return data[1]


@pytest.mark.parametrize("offset", [-BAND, -1, 60 * 4, 60 * 4 + 1, 60 * 4 + BAND - 1])
def test_a_write_beside_a_writable_input_is_found(rigged: Rigging, offset: int) -> None:
    """At each place. The byte may be right by chance."""

    def kernel(data: Any) -> torch.Tensor:
        ctypes.memset(data[1].data_ptr() + offset, 7, 1)
        return into(data)

    data = (ones(60), torch.zeros(60, dtype=torch.int32))
    rig = rigged(data, kernel, writable=frozenset({1}))
    found = 0
    for _ in range(4):
        try:
            rig.call(data)
        except GuardBroken:
            found += 1
    assert found >= 2


def test_honest_writes_of_a_writable_input_are_the_answer(rigged: Rigging) -> None:
    data = (ones(60), torch.zeros(60, dtype=torch.int32))
    rig = rigged(data, into, writable=frozenset({1}))
    for value in range(4):
        answer = rig.call((data[0] * value, data[1]))
        assert answer.output.tolist() == [2 * value] * 60
        assert answer.shared_inputs == (1,)


@pytest.mark.parametrize("returned", [None, 5, ones()])
def test_a_call_answers_in_its_input_if_the_reference_does(rigged: Rigging, returned: Any) -> None:
    data = (ones(60), torch.zeros(60, dtype=torch.int32))
    rig = rigged(data, into, writable=frozenset({1}))
    rig.contestant._use(lambda each: [into(each), returned][1])

    assert rig.call(data, form_of(data, in_place=True)).output[1].tolist() == [2] * 60
    if returned is None:
        assert rig.call(data, form_of(data)).output is None


def test_an_answer_that_is_given_again_is_wrong(rigged: Rigging) -> None:
    kept: list[torch.Tensor] = []

    def kernel(data: torch.Tensor) -> torch.Tensor:
        if not kept:
            kept.append(data * 2)
        return kept[0]

    rig = rigged(ones(), kernel)

    assert rig.call(ones()).output.tolist() == [2] * 64
    assert rig.call(ones()).output.tolist() != [2] * 64


def test_an_answer_shares_what_its_addresses_say(rigged: Rigging) -> None:
    data = (ones(), ones() * 2, ones() * 3)

    def kernel(given: Any) -> Any:
        made = given[0] * 2
        return [given[2][5:], made, made[:7], torch.empty(0), {"x": given[0]}]

    rig = rigged(data, kernel)
    answer = rig.call(data)

    assert answer.shared_inputs == (0, 2)


def test_many_tensors_in_the_same_memory_are_no_breach_of_the_protocol(rigged: Rigging) -> None:
    def kernel(data: torch.Tensor) -> list[torch.Tensor]:
        return [data] * 100

    answer = rigged(ones(), kernel).call(ones())

    assert (len(answer.output), answer.shared_inputs) == (100, (0,))


def test_inputs_that_differ_in_form_are_the_tasks_fault(rigged: Rigging) -> None:
    called: list[Any] = []
    rig = rigged(ones(), called.append)
    for other in (ones(65), ones().to(torch.int64), [ones()], (ones(), 3)):
        with pytest.raises(TaskFault, match="differ in form"):
            rig.calls.timed(other, None, timeout_s=LIMIT_S)

    assert called == []


def test_many_inputs_lie_at_their_places_in_turns(rigged: Rigging) -> None:
    seen: list[int] = []
    rig = rigged(ones(), lambda data: seen.append(data.data_ptr()) or data * 2, places=3)
    for value in range(6):
        assert rig.call(ones() * value).output[0] == 2 * value

    assert len(set(seen)) == 3
    assert seen[:3] == seen[3:]
