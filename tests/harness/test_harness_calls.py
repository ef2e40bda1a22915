"""The judge's side of a call, against a contestant that answers whatever it likes."""

from __future__ import annotations

import dataclasses
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelcup_harness.core import call
from kernelcup_harness.core.answer import (
    MOST_TENSORS,
    NOISE,
    Answer,
    CallFailed,
    Form,
    GuardBroken,
)
from kernelcup_harness.core.call import PLACES, Caller
from kernelcup_harness.doubt.overhead import use_noop
from kernelcup_harness.wire import decode, values
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.guards import POISON_BYTES
from kernelcup_harness.wire.messages import Profiled

Reply = Callable[[dict[str, Any], dict[str, values.Arena]], dict[str, Any] | None]


def no_records(module: str, name: str) -> type:
    """Know no class, with the words of the task's."""
    raise values.BadTree(f"{module}.{name} is not defined in the task's files")


class Table:
    """A judge's caller, and a thread that answers its frames."""

    def __init__(self, result_bytes: int = 1 << 20) -> None:
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, max_bytes=1 << 20)
        self.other = Channel(theirs, max_bytes=1 << 20)
        self.caller = Caller(self._channel, no_records, result_bytes)
        self.arenas: dict[str, values.Arena] = {}
        self.form: Form | None = None
        self.frames: list[dict[str, Any]] = []

    def call(self, reply: Reply, data: Any = 1, *, profile: bool = False, timeout_s: float = 60.0) -> Answer:
        """Have one call answered by ``reply``; None closes the channel."""
        thread = threading.Thread(target=self._serve, args=(reply,))
        thread.start()
        try:
            return self.caller.call(data, self.form, timeout_s=timeout_s, profile=profile)
        finally:
            thread.join()

    def _serve(self, reply: Reply) -> None:
        give = self._next()
        self.other.send({"id": give["id"], "type": "given"})
        frame = self._next()
        self.frames = [give, frame]
        answer = reply({**frame, **give["layout"]}, self.arenas)
        if answer is None:
            self.other.close()
        else:
            self.other.send({"id": frame["id"], **answer})
        if answer is not None and answer.get("type") == "returned":
            frame = self._next()
            self.other.send({"id": frame["id"], **(reply(frame, self.arenas) or {})})

    def ask(self, kind: str, reply: dict[str, Any]) -> None:
        """Have a request of this type, which needs no call, answered."""
        thread = threading.Thread(target=lambda: self.other.send({"id": self._next()["id"], **reply}))
        thread.start()
        try:
            if kind == "forget":
                self.caller.forget(timeout_s=60.0)
            else:
                use_noop(self.caller, None)
        finally:
            thread.join()

    def _next(self) -> dict[str, Any]:
        frame = self.other.receive(60.0)
        for name, fd in zip(frame.get("arenas", []), self.other.take_fds(), strict=True):
            if name in self.arenas:
                self.arenas[name].close()
            self.arenas[name] = values.Arena.adopt(fd)
        return frame

    def close(self) -> None:
        """Close everything, the caller's arenas too."""
        self._channel.close()
        self.other.close()
        self.caller.close()
        for arena in self.arenas.values():
            arena.close()


@pytest.fixture
def table() -> Iterator[Table]:
    """A judge and a contestant."""
    made = Table()
    yield made
    made.close()


def done(value: Any, **changes: Any) -> Reply:
    """Answer with a value, as an honest contestant does."""

    def reply(_frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        encoder = values.Encoder(guarded=True)
        tree = encoder.tree(values.contiguous(value), "output")
        encoder.write(arenas["outputs"])
        answer = {"type": "done", "ns": 1000.0, "tree": tree, "table": encoder.table()}
        return {**answer, **changes}

    return reply


def saying(**fields: Any) -> Reply:
    """Answer with these fields."""
    return lambda _frame, _arenas: fields


def test_an_answer_has_the_output_and_both_times(table: Table) -> None:
    answer = table.call(done((torch.ones(3), 5)))
    assert answer.output[0].tolist() == [1.0, 1.0, 1.0]
    assert answer.output[1] == 5
    assert answer.ns == answer.wall_ns > 0
    assert answer.own_ns == 1000.0
    assert table.caller.waited_s > 0


def test_the_input_arrives_as_it_is(table: Table) -> None:
    data = {"x": torch.arange(6.0).reshape(2, 3).t(), "n": 3}
    seen, told = [], []

    def reply(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        told.append(frame["leaves"])
        decoder = decode.Decoder(arenas["inputs"], frame["table"], no_records, dense=False)
        seen.append(decoder.value(frame["tree"]))
        return done(None)(frame, arenas) or {}

    table.call(reply, data)
    assert seen[0]["n"] is None
    assert told == [[{"k": "int", "v": 3}]]
    assert torch.equal(seen[0]["x"], data["x"])
    assert seen[0]["x"].stride() == data["x"].stride()


def test_a_contestants_own_time_is_at_most_the_judges(table: Table) -> None:
    answer = table.call(done(1, ns=1e15))
    assert answer.own_ns == answer.ns == answer.wall_ns < 1e12


@pytest.mark.parametrize("ns", [0.0, -1.0, math.nan, math.inf, True, "1.0", None])
def test_an_answer_without_a_time_is_refused(table: Table, ns: Any) -> None:
    with pytest.raises(BrokenProtocol):
        table.call(done(1, ns=ns))


@pytest.mark.parametrize(
    "reply",
    [
        saying(),
        saying(type="hello"),
        saying(type=["done"]),
        saying(type="done"),
        saying(type="done", ns=1.0, tree={"k": "none"}),
        saying(type="done", ns=1.0, table=[]),
        saying(type="fail", kind="no such kind"),
        saying(type="fail"),
        saying(type="profile", text="not asked for"),
        done(1, id=5),
        done(1, id=None),
    ],
)
def test_an_answer_of_another_form_is_refused(table: Table, reply: Reply) -> None:
    with pytest.raises(BrokenProtocol):
        table.call(reply)


@pytest.mark.parametrize("kind", ["exception", "compile", "memory", "host_memory", "output", "too_large"])
def test_a_failure_is_told_with_its_kind_and_its_text_which_has_a_limit(table: Table, kind: str) -> None:
    with pytest.raises(CallFailed) as failure:
        table.call(saying(type="fail", kind=kind, text="x" * 16_384))
    assert failure.value.kind == kind
    assert failure.value.text == "x" * 16_384
    with pytest.raises(BrokenProtocol):
        table.call(saying(type="fail", kind=kind, text="x" * 16_385))


def test_of_a_class_that_the_task_does_not_know_only_the_fields_arrive(table: Table) -> None:
    tree = {"k": "record", "t": ["submission", "x" * 100_000], "v": {"size": {"k": "int", "v": 3}}}
    answer = table.call(saying(type="done", ns=1.0, tree=tree, table=[]))
    assert answer.output == {"size": 3}


def test_a_profile_within_its_limit_is_taken_when_it_was_asked_for(table: Table) -> None:
    answer = table.call(saying(type="profile", text="table", trace="trace"), profile=True)
    assert (answer.profile, answer.trace) == ("table", "trace")
    with pytest.raises(CallFailed, match="no profiler"):
        table.call(saying(type="fail", kind="exception", text="no profiler"), profile=True)
    with pytest.raises(BrokenProtocol):
        table.call(saying(type="profile", text="x" * 900_000, trace=""), profile=True)


def test_a_trace_that_is_too_long_is_refused() -> None:
    # A frame this long would not pass the channel.
    frame = {"type": "profile", "text": "table", "trace": "x" * (8 << 20)}
    assert call.read_reply(frame, profile=True) == Profiled(text="table", trace=frame["trace"])
    with pytest.raises(BrokenProtocol):
        call.read_reply({**frame, "trace": frame["trace"] + "x"}, profile=True)


def test_silence_times_out(table: Table) -> None:
    with pytest.raises(ChannelTimeout):
        table.caller.call(1, timeout_s=0.0, profile=False)


def test_a_contestant_that_ends_instead_of_answering_is_told(table: Table) -> None:
    with pytest.raises(ChannelClosed):
        table.call(lambda _frame, _arenas: None)


def test_a_contestant_that_ended_between_two_calls_has_not_written_anything(table: Table) -> None:
    """The runner may have ended it for its memory or its output: nothing to accuse it of."""
    table.call(done(1))
    table.other.close()
    with pytest.raises(ChannelClosed):
        table.caller.call(1, timeout_s=1.0, profile=False)


def test_a_contestant_that_does_not_read_is_out_of_time(table: Table) -> None:
    """A frame larger than the socket's buffer must not hold the judge for ever."""
    outcome: list[BaseException] = []

    def judge() -> None:
        try:
            table.caller.call(list(range(60_000)), timeout_s=0.0, profile=False)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=judge)
    thread.start()
    thread.join(60.0)
    table.other.close()
    thread.join()
    assert isinstance(outcome[0], ChannelTimeout)


def test_a_frame_before_the_call_is_refused(table: Table) -> None:
    table.other.send({"type": "done"})
    with pytest.raises(BrokenProtocol, match="unexpected frame"):
        table.caller.call(1, timeout_s=0.0, profile=False)


def test_two_answers_to_one_call_are_noticed_at_the_next(table: Table) -> None:
    def twice(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        answer = done(1)(frame, arenas) or {}
        table.other.send({"id": frame["id"], **answer})
        return answer

    table.call(twice)
    with pytest.raises(BrokenProtocol, match="unexpected frame"):
        table.caller.call(1, timeout_s=0.0, profile=False)


def test_an_old_answer_is_poisoned(table: Table) -> None:
    expected = torch.full((5000,), 7.0)
    table.form = Form.of(expected, in_place=False)
    kept: list[dict[str, Any]] = []

    def honest(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        kept.append(done(expected)(frame, arenas) or {})
        return kept[0]

    assert torch.equal(table.call(honest).output, expected)
    stale = table.call(lambda _frame, _arenas: kept[0]).output
    assert not stale.eq(expected).any()


def test_poison_is_another_one_each_time(table: Table) -> None:
    patterns = []

    def look(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        patterns.append(bytes(arenas["outputs"].bytes[:POISON_BYTES].tolist()))
        return done(1)(frame, arenas) or {}

    table.call(look)
    table.call(look)
    assert patterns[0] != patterns[1]
    assert len(set(patterns[0])) > 100


# Memory


def sent_arenas(table: Table, data: torch.Tensor) -> tuple[int, list[list[str]]]:
    """Make a call; return the place of its input, and the arenas sent with both of its frames."""
    table.call(done(1), data)
    give, go = table.frames
    assert give["slot"] == go["slot"]
    return go["slot"], [give["arenas"], go.get("arenas", [])]


def test_inputs_lie_at_all_places_in_turns_and_their_memory_is_used_again(table: Table) -> None:
    found = [sent_arenas(table, torch.zeros(4)) for _ in range(2 * PLACES + 1)]
    slots = [slot for slot, _arenas in found]
    assert len(set(slots[:PLACES])) == PLACES
    assert slots[PLACES:] == [*slots[:PLACES], slots[0]]
    assert found[0][1] == [["inputs", "outputs"], []]
    assert [arenas for _slot, arenas in found[1:]] == [[["inputs"], []]] * 3 + [[[], []]] * (PLACES + 1)


def test_large_inputs_lie_at_one_place(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "LARGEST_IN_TURNS", 100)
    assert {sent_arenas(table, torch.zeros(200))[0] for _ in range(3)} == {0}


def test_memory_is_shared_before_the_call_and_only_where_it_is_too_small(table: Table) -> None:
    table.form = Form.of(torch.zeros(1), in_place=False)
    for _ in range(PLACES):
        table.call(done(1), torch.zeros(1))
    assert sent_arenas(table, torch.zeros(2))[1] == [[], []]
    table.caller._result_bytes = 1 << 30
    table.form = Form.of(torch.zeros(4 << 20), in_place=False)
    assert sent_arenas(table, torch.zeros(5))[1] == [["outputs"], []]
    assert sent_arenas(table, torch.zeros(1 << 20))[1] == [["inputs"], []]


def test_memory_that_was_forgotten_is_shared_again(table: Table) -> None:
    for _ in range(PLACES):
        table.call(done(1), torch.zeros(4))
    table.ask("forget", {"type": "forgotten"})
    assert sent_arenas(table, torch.zeros(4))[1] == [["inputs"], []]


@pytest.mark.parametrize("reply", [{"type": "done"}, {}, {"type": "fail"}])
def test_a_request_with_another_reply_is_refused(table: Table, reply: dict[str, Any]) -> None:
    with pytest.raises(BrokenProtocol):
        table.ask("noop", reply)


def test_a_request_that_fails_says_why(table: Table) -> None:
    with pytest.raises(CallFailed, match="no room"):
        table.ask("noop", {"type": "fail", "kind": "memory", "text": "no room"})


def test_calls_leave_no_descriptors_behind(table: Table) -> None:
    for _ in range(PLACES):
        table.call(done(1), torch.zeros(1))
    before = len(os.listdir("/proc/self/fd"))
    for power in range(16, 20):
        table.call(done(1), torch.zeros(1 << power))
    assert len(os.listdir("/proc/self/fd")) == before


# The judge's clock


def at_ticks(monkeypatch: pytest.MonkeyPatch, *works: Callable[[], None]) -> None:
    """Do some work whenever the judge reads its clock, which shows 0 s, then 1 s, 2 s, ..."""
    left, shown = list(works), [-1]

    def tick() -> int:
        left.pop(0)()
        shown[0] += 1
        return shown[0] * 10**9

    monkeypatch.setattr(call, "time", SimpleNamespace(monotonic=time.monotonic, perf_counter_ns=tick))


@pytest.mark.parametrize("size", [64, 1 << 20])
def test_an_input_cannot_be_read_before_the_clock_starts(
    table: Table, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(call, "PLACES", 1)
    table.call(done(1), torch.full((size,), 1, dtype=torch.uint8))
    seen: dict[str, list[int]] = {}

    def look(when: str) -> Callable[[], None]:
        return lambda: seen.update({when: table.arenas["inputs"].bytes[:size].unique().tolist()})

    at_ticks(monkeypatch, look("as the clock starts"), look("as the clock ends"))
    answer = table.call(done(1), torch.full((size,), 2, dtype=torch.uint8))
    assert seen == {"as the clock starts": [1], "as the clock ends": [2]}
    assert answer.wall_ns == answer.ns == 1e9


def test_what_is_written_when_the_clock_has_ended_is_not_in_the_answer(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_late() -> None:
        table.arenas["outputs"].bytes.zero_()

    at_ticks(monkeypatch, lambda: None, write_late)
    assert table.call(done(torch.ones(100))).output.sum() == 100


def test_an_answer_is_decoded_after_the_clock_has_ended(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    monkeypatch.setattr(call, "opened", lambda pending, _type: decoded.append(pending.wall_ns))
    at_ticks(monkeypatch, lambda: None, lambda: decoded.append("the clock has ended"))
    table.call(done(1))
    assert decoded == ["the clock has ended", 1e9]


@pytest.mark.parametrize("reply", [saying(type="fail", kind="exception", text="no"), done(1, ns=-1.0)])
def test_an_answer_without_output_has_arrived_too(table: Table, reply: Reply) -> None:
    thread = threading.Thread(target=table._serve, args=(reply,))
    thread.start()
    pending = table.caller.timed(1, None, timeout_s=60.0)
    thread.join()
    assert pending.wall_ns > 0
    with pytest.raises((CallFailed, BrokenProtocol)):
        table.caller.open(pending)


# Guard bands and memory that is shared


TWO = (torch.ones(3), torch.ones(100))


@pytest.mark.parametrize("place", [0, 255, 268, 511, 767, 1168, 1300, 1535])
def test_a_byte_beside_an_output_is_noticed(table: Table, place: int) -> None:
    """Two tensors: at 256 for 12 bytes, and at 768 for 400."""

    def beside(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        answer = done(TWO)(frame, arenas) or {}
        arenas["outputs"].bytes[place] ^= 255
        return answer

    table.form = Form.of(TWO, in_place=False)
    with pytest.raises(GuardBroken, match="beside an output"):
        table.call(beside)


def test_an_answer_between_its_bands_is_taken(table: Table) -> None:
    table.form = Form.of(TWO, in_place=False)
    assert [each.tolist() for each in table.call(done(TWO)).output] == [[1.0] * 3, [1.0] * 100]


def test_memory_beyond_the_pattern_has_no_bands(table: Table) -> None:
    """An answer larger than expected is wrong anyway: only as much as was expected is patterned."""
    table.form = Form.of(torch.zeros(1), in_place=False)
    large = torch.ones(5000), torch.ones(5000)
    assert [each.sum() for each in table.call(done(large)).output] == [5000, 5000]


def test_an_answer_of_too_many_tensors_is_not_decoded(table: Table) -> None:
    many = [torch.zeros(1) for _ in range(MOST_TENSORS + 1)]
    with pytest.raises(CallFailed, match="1025 tensors"):
        table.call(done(many))
    table.form = Form.of(many, in_place=False)
    assert len(table.call(done(many)).output) == MOST_TENSORS + 1


@pytest.mark.parametrize("offset", [-4096, 1 << 19, 1 << 62, 1 << 100, 256.0, True, None])
def test_a_tensor_outside_of_the_answers_memory_is_refused(table: Table, offset: Any) -> None:
    def reply(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any]:
        answer = done(torch.ones(3))(frame, arenas) or {}
        answer["table"][0]["offset"] = offset
        return answer

    with pytest.raises(BrokenProtocol):
        table.call(reply)


def test_what_a_contestant_says_of_shared_memory_is_none_of_its_words(table: Table) -> None:
    with pytest.raises(BrokenProtocol):
        table.call(done(TWO, shared=[[0, 1]], repeated=[[0, 1]]), TWO)


def held(private: set[int]) -> Form:
    """Return the form of an answer whose call is held, since some tensors of the input are private."""
    return dataclasses.replace(Form.of(TWO, in_place=False), private=frozenset(private))


def test_an_answer_that_waits_is_asked_for_when_private_inputs_are_overwritten(table: Table) -> None:
    seen = []

    def reply(frame: dict[str, Any], arenas: dict[str, values.Arena]) -> dict[str, Any] | None:
        inputs = arenas["inputs"].bytes
        seen.append(
            (frame["type"], frame.get("held"), frame.get("parts"), inputs[[0, 11, 256, 655]].tolist())
        )
        if frame["type"] == "go":
            return {"type": "returned"}
        return done(TWO)(frame, arenas)

    table.form = held({1})
    answer = table.call(reply, (torch.zeros(3), torch.zeros(100)))
    assert seen == [
        ("go", True, None, [0, 0, 0, 0]),
        ("take", None, [[256, 400]], [0, 0, NOISE, NOISE]),
    ]
    assert answer.overwritten
    assert answer.output[0].tolist() == [1.0] * 3


def test_an_answer_that_does_not_wait_although_it_should_is_refused(table: Table) -> None:
    table.form = held(set())
    assert not table.call(done(TWO), TWO).overwritten
    table.form = held({0})
    with pytest.raises(BrokenProtocol):
        table.call(done(TWO), TWO)


def test_a_held_call_that_fails_has_failed(table: Table) -> None:
    table.form = held({0})
    with pytest.raises(CallFailed):
        table.call(saying(type="fail", kind="exception", text="no"), TWO)
