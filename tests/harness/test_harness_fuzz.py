"""Some 100,000 mutated messages, a tenth in `make test`: each reader raises its own refusals, and nothing else.

Captured graphs are mutated in ``test_harness_replay.py``, the job's own protocol in ``test_harness_protocol.py``.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from fake_room import FakeWindow, fake_window
from mutations import feed, hostile, too_deep

from kernelcup_harness.clocks.replay import clean_room
from kernelcup_harness.clocks.replay.clean_room import CleanRoom
from kernelcup_harness.clocks.replay.replays import Case, described
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine
from kernelcup_harness.clocks.replay.wall_calls import WindowCalls
from kernelcup_harness.contestant.window_calls import description
from kernelcup_harness.core.answer import CallFailed, Copied, Form, Pending, opened
from kernelcup_harness.core.call import read_reply
from kernelcup_harness.core.requests import Line
from kernelcup_harness.timer import main
from kernelcup_harness.window import addresses
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.layout import HEAPS, INPUTS, WRITABLE, Layout
from kernelcup_harness.window.messages import (
    Check,
    Checked,
    FireEmpty,
    InputLaid,
    LayInput,
    Refused,
    SharedRegion,
)
from kernelcup_harness.window.reasons import NotReplayed
from kernelcup_harness.wire import values as wire
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, parse_object
from kernelcup_harness.wire.guards import POISON_BYTES
from kernelcup_harness.wire.messages import pack

HEAP = HEAPS["submission"]
RESULT_BYTES = 1 << 16
FORM = Form(value=None, nbytes=0, tensors=4, in_place=False)


Feed = Callable[..., tuple[int, int]]


@pytest.fixture(params=[10, pytest.param(1, marks=pytest.mark.jobs)], ids=["a tenth", "all"])
def fed(request: pytest.FixtureRequest) -> Feed:
    """Return what gives messages to a reader, of which it takes some and refuses many, and counts both."""

    def fed(read: Callable[[Any], None], messages: Any, refusals: Any, count: int) -> tuple[int, int]:
        found = taken, refused = feed(read, messages, refusals, count=count // request.param, seed=1)
        assert taken > count // request.param // 50
        assert refused > count // request.param // 5
        return found

    return fed


def no_records(module: str, name: str) -> type:
    """Know no class, with the words of the task's."""
    raise wire.BadTree(f"{module[:100]}.{name[:100]} is not defined in the task's files")


class Says(Line):
    """A line to a process that answers whatever this test wants."""

    def __init__(self) -> None:
        super().__init__(cast("Channel", None))
        self.said: Any = None

    def reply(self, frame: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return a reply: channels let only objects through. Those that only confirm are as they have to be."""
        if frame["type"] == LayInput.type:
            return pack(InputLaid())
        return self.said if isinstance(self.said, dict) else {}


class TimerSays(TimerLine):
    """The same to the timer."""

    def __init__(self) -> None:
        super().__init__(cast("Channel", None))
        self.said: Any = None

    def reply(self, _frame: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return a reply."""
        return self.said if isinstance(self.said, dict) else {}


@pytest.fixture
def shared() -> Iterator[FakeWindow]:
    """A window with memory for all that is described."""
    with fake_window() as made:
        for address in (HEAP, INPUTS, WRITABLE):
            os.close(made.create(address, addresses.GRANULE))
        yield made


def laid() -> Layout:
    """The layout of an input of two tensors, the second of which may be written."""
    return Layout([torch.ones(8), torch.zeros(40)], places=2, writable={1}, device="cpu")


def answers_of(shared: FakeWindow, at: int) -> list[dict[str, Any]]:
    """Honest descriptions of answers: in the heap, in the input, with all kinds of values."""

    def tensor(address: int, *shape: int) -> torch.Tensor:
        count = torch.Size(shape).numel()
        return shared.view(address, 4 * count).view(torch.float32).view(shape)

    written = laid().entries[1].at(at)
    one, two = tensor(HEAP + 512, 2, 3), tensor(HEAP + 4096, 7)
    values = [
        one,
        [one, two, one],
        {"a": (two, 3, None, "x", 1.5, 2j), 7: tensor(written, 40), "t": [torch.float16, torch.empty(0)]},
    ]
    # Decoders read no more of a node than its kind needs.
    more = {"tree": {"k": "none", "v": [{"k": "tensor", "i": 0}]}, "table": []}
    return [more, *(description(value) for value in values)]


def calls_by(line: Says, shared: FakeWindow) -> WindowCalls:
    """Calls in the window that are answered by a line of this test."""
    return WindowCalls(
        laid(),
        line=line,
        mapping=shared,
        heap=range(HEAP, HEAP + addresses.GRANULE),
        record_type=no_records,
        result_bytes=RESULT_BYTES,
    )


def test_a_description_that_is_too_deep_to_be_compared_is_read_again(shared: FakeWindow) -> None:
    line = Says()
    calls = calls_by(line, shared)
    for _ in range(4):
        told = answers_of(shared, 0)[1]
        told["table"][0]["more"] = too_deep()
        line.said = {"type": "called", "ns": 5.0, "answer": told}
        pending = calls.timed([torch.ones(8), torch.zeros(40)], FORM, timeout_s=1.0)
        assert calls.open(pending).output.shape == (2, 3)


def test_replies_to_calls_in_the_window(fed: Feed, shared: FakeWindow) -> None:
    line = Says()
    calls = calls_by(line, shared)
    data = [torch.ones(8), torch.zeros(40)]
    # Calls take the second place first.
    replies = [
        {"type": "called", "ns": 5.0, "answer": each} for at in (1, 0) for each in answers_of(shared, at)
    ]
    replies.append({"type": "fail", "kind": "exception", "text": "no"})

    def call(reply: Any) -> None:
        line.said = reply
        pending = calls.timed(data, FORM, timeout_s=1.0)
        answer = calls.open(pending)
        assert set(answer.shared_inputs) <= {0, 1}

    fed(call, replies, (CallFailed, BrokenProtocol), count=20_000)


def a_room(shared: FakeWindow, line: Says, timer_line: TimerSays) -> tuple[CleanRoom, Case]:
    """A clean room with one case, whose processes answer whatever a test wants."""
    room = CleanRoom(
        shared,
        checks=cast("Any", SimpleNamespace(form=lambda _place: FORM)),
        contestants={"submission": (cast("Any", None), line)},
        timer=timer_line,
        chance=random.Random(1),
        remaining=lambda: 1.0,
        record_type=no_records,
        result_bytes=RESULT_BYTES,
    )
    source = room._sources["submission"]
    source.heap = range(HEAP, HEAP + addresses.GRANULE)
    return room, Case(cast("Any", None), laid(), source)


def test_descriptions_of_captured_answers(fed: Feed, shared: FakeWindow) -> None:
    room, case = a_room(shared, Says(), TimerSays())
    pairs = [list(each) for each in zip(answers_of(shared, 0), answers_of(shared, 1), strict=True)]

    def read(answers: Any) -> None:
        given = answers if isinstance(answers, list) else []
        case.answers = described(case, given, FORM, shared.device, RESULT_BYTES)
        for at in (0, 1):
            answer = room._read(case, at)
            assert set(answer.shared_inputs) <= {0, 1}
            case.due(at)

    refusals = (CallFailed, BrokenProtocol, NotReplayed)
    fed(read, pairs, refusals, count=20_000)


def test_sizes_of_exports(fed: Feed, shared: FakeWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_room, "MOST_EXPORT_BYTES", 1 << 16)
    line = Says()
    room, case = a_room(shared, line, TimerSays())
    handed: list[int] = []
    monkeypatch.setattr(room, "hand_over", lambda: handed.append(cast("Any", case.source.export)[1]))

    def load(reply: Any) -> None:
        line.said = reply
        try:
            room.take_export()
            room.hand_over()
        finally:
            room.close()

    replies = [
        {"type": "exported", "why": None, "bytes": 300},
        {"type": "exported", "why": "waits", "bytes": 0},
    ]
    taken, _ = fed(load, replies, (BrokenProtocol, NotReplayed), count=5_000)
    assert taken == len(handed)
    assert all(type(each) is int and 0 <= each <= 1 << 16 for each in handed)


def test_replies_through_the_hosts_memory(fed: Feed) -> None:
    memory = torch.zeros(1 << 14, dtype=torch.uint8)

    def reply_of(value: Any) -> dict[str, Any]:
        encoder = wire.Encoder(guarded=True)
        tree = encoder.tree(value, "output")
        return {"type": "done", "ns": 5.0, "tree": tree, "table": encoder.table()}

    one = torch.ones(4)
    replies = [
        reply_of(one),
        reply_of([one, {"a": torch.ones(3, 3), 2: (None, True, 1j)}, one]),
        {"type": "profile", "text": "table", "trace": "data"},
        {"type": "fail", "kind": "memory", "text": "no"},
    ]

    def read(reply: Any) -> None:
        pending = Pending(
            reply=read_reply(reply if isinstance(reply, dict) else {}, profile=True),
            wall_ns=10.0,
            most_tensors=4,
            memory=Copied(memory),
            check_bands=lambda gaps: None if gaps[0] == (0, wire.GUARD_BYTES) else pytest.fail("no band"),
        )
        opened(pending, no_records)

    assert memory.numel() > POISON_BYTES
    fed(read, replies, (CallFailed, BrokenProtocol), count=20_000)


class Engine:
    """An engine that answers constants."""

    def attach(self, region: SharedRegion, fd: int) -> None:
        assert region.address >= addresses.WINDOW
        assert region.address + region.bytes <= addresses.WINDOW + addresses.WINDOW_BYTES
        os.fstat(fd)

    def load(self, _data: bytes, _cut: int | None = None) -> Rebuilt:
        return Rebuilt([1, 2, 3, 4], [1] * 4, ["same"] * 4)

    def fire(self, group: int, place: int) -> int | None:
        assert group in range(2)
        assert place in range(4)
        return 5

    def launch(self, calls: Any) -> None:
        for group, place in calls:
            self.fire(group, place)

    def profile(self, call: Any) -> None:
        self.launch([call])

    def empty(self) -> int | None:
        return 1

    def check(self) -> None:
        """Find nothing."""


def test_requests_to_the_timer(fed: Feed) -> None:
    region = {"address": addresses.WINDOW, "bytes": 4096, "access": "ro"}
    frames = [
        {"type": "attach", "regions": [region, {**region, "access": "rw"}]},
        {"type": "load_capture", "bytes": 3},
        {"type": "fire", "capture": 1, "place": 3},
        {"type": "fire_empty", "repeat": 2},
        {"type": "launch", "capture": 1, "places": [3, 0]},
        {"type": "check"},
    ]
    fds: list[int] = []

    def take() -> list[int]:
        taken, fds[:] = fds.copy(), []
        return taken

    found = main.Timer(cast("Any", SimpleNamespace(take_fds=take)), Engine())

    def answer(frame: Any) -> None:
        # Two captures stay loaded, however many are.
        found._places = [4, 4]
        fds[:] = [os.open("/dev/null", os.O_RDONLY) for _ in range(answer.count % 3)]  # type: ignore[attr-defined]
        answer.count += 1  # type: ignore[attr-defined]
        reply = found._answer(frame if isinstance(frame, dict) else {})
        for fd in take():
            os.close(fd)
        if isinstance(reply, Refused):
            assert reply.name is main.Failure.BAD_REQUEST
            raise main.RequestFailed(main.Failure.BAD_REQUEST, reply.text)

    answer.count = 0  # type: ignore[attr-defined]
    before = len(os.listdir("/proc/self/fd"))
    fed(answer, frames, main.RequestFailed, count=16_000)
    assert len(os.listdir("/proc/self/fd")) == before


def test_replies_of_the_timer(fed: Feed, shared: FakeWindow) -> None:
    said = TimerSays()
    room, case = a_room(shared, Says(), said)
    room._cases[0] = case
    case.source.captured = 4
    arena = wire.Arena.create(1)
    case.source.export = arena, 1
    asked = (
        lambda: room._fired(FireEmpty(repeat=2)),
        room.hand_over,
        lambda: room._asked(Check(), Checked),
    )
    loaded = {
        "type": "loaded",
        "nodes": [1] * 4,
        "shapes": ["a"] * 4,
        "ran": [],
        "dropped": ["x"],
        "foreign": [],
    }
    refusal = {"type": "refused", "name": "bad_graph", "text": "no"}
    # Each reply, and a refusal, to what asks for it.
    replies = [{"type": "fired", "ns": [5, 6]}, refusal, loaded, refusal, {"type": "checked"}, refusal]
    turns = itertools.cycle(ask for ask in asked for _ in range(2))

    def read(reply: Any) -> None:
        said.said = reply
        next(turns)()

    fed(read, replies, (TimerFailed, NotReplayed), count=12_000)
    room.close()


def test_frames() -> None:
    chance = random.Random(7)
    message = {
        "type": "done",
        "id": 5,
        "tree": {"k": "list", "v": [1.5, "é", None]},
        "table": [{"nbytes": 7}],
    }
    refused = 0
    for number in range(1_000):
        if number % 2:
            body = bytearray(json.dumps(hostile(chance, message, [])).encode())
        else:
            body = bytearray(json.dumps(message).encode())
        for _ in range(chance.randint(0, 3)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        try:
            assert isinstance(parse_object(bytes(body)), dict)
        except BrokenProtocol:
            refused += 1
    assert 100 < refused < 990
