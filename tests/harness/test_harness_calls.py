"""The judge's side of a call, against a contestant that answers whatever it likes."""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from kernelcup_harness import masks, wire
from kernelcup_harness.answers import Answer, CallFailed, Form, GuardBroken
from kernelcup_harness.calls import Caller
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.poison import POISON_BYTES

Reply = Callable[[dict[str, Any], dict[str, wire.Arena]], dict[str, Any] | None]


def no_records(module: str, name: str) -> type:
    """Know no class, with the words of the task's."""
    raise wire.BadTree(f"{module}.{name} is not defined in the task's files")


class Table:
    """A judge's caller, and a thread that answers its frames."""

    def __init__(self, result_bytes: int = 1 << 20) -> None:
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, max_bytes=1 << 20)
        self.other = Channel(theirs, max_bytes=1 << 20)
        self.caller = Caller(self._channel, no_records, result_bytes)
        self.arenas: dict[str, wire.Arena] = {}
        self.form: Form | None = None
        self.frames: list[dict[str, Any]] = []

    def call(self, reply: Reply, data: Any = 1, *, profile: bool = False, timeout_s: float = 10.0) -> Answer:
        """Have one call answered by ``reply``; None closes the channel."""
        thread = threading.Thread(target=self._serve, args=(reply,))
        thread.start()
        try:
            return self.caller.call(data, self.form, timeout_s=timeout_s, profile=profile)
        finally:
            thread.join()

    def _serve(self, reply: Reply) -> None:
        frame = self._next()
        self.frames = [frame]
        layout = frame["layout"]
        if frame["type"] == "give":
            self.other.send({"id": frame["id"], "type": "given"})
            frame = self._next()
            self.frames.append(frame)
        self.uncover(frame["seed"])
        answer = reply({**frame, **layout}, self.arenas)
        if answer is None:
            self.other.close()
        else:
            self.other.send({"id": frame["id"], **answer})

    def _next(self) -> dict[str, Any]:
        frame = self.other.receive(10.0)
        for name, fd in zip(frame["arenas"], self.other.take_fds(), strict=True):
            if name in self.arenas:
                self.arenas[name].close()
            self.arenas[name] = wire.Arena.adopt(fd)
        return frame

    def uncover(self, seed: int | None) -> None:
        """Make the input readable where it lies, as a contestant may do with its own copy."""
        if seed is not None:
            size = self.frames[0]["layout"]["bytes"]
            masks.Mask(gpu=False).toggle(self.arenas["inputs"].bytes[:size], seed)

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

    def reply(_frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        encoder = wire.Encoder(guarded=True)
        tree = encoder.tree(wire.contiguous(value), "output")
        encoder.write(arenas["outputs"])
        answer = {"type": "done", "ns": 1000.0, "tree": tree, "table": encoder.table()}
        return {**answer, "shared": [], "repeated": [], **changes}

    return reply


def saying(**fields: Any) -> Reply:
    """Answer with these fields."""
    return lambda _frame, _arenas: fields


def test_an_answer_has_the_output_and_both_times(table: Table) -> None:
    answer = table.call(done((torch.ones(3), 5)))
    assert answer.output[0].tolist() == [1.0, 1.0, 1.0]
    assert answer.output[1] == 5
    assert answer.ns == 1000.0
    assert answer.wall_ns > 0
    assert table.caller.waited_s > 0


def test_the_input_arrives_as_it_is(table: Table) -> None:
    data = {"x": torch.arange(6.0).reshape(2, 3).t(), "n": 3}
    seen = []

    def reply(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        decoder = wire.Decoder(arenas["inputs"], frame["table"], no_records, dense=False)
        seen.append(decoder.value(frame["tree"]))
        return done(None)(frame, arenas) or {}

    table.call(reply, data)
    assert seen[0]["n"] == 3
    assert torch.equal(seen[0]["x"], data["x"])
    assert seen[0]["x"].stride() == data["x"].stride()


def test_a_time_cannot_be_longer_than_the_wall_clock(table: Table) -> None:
    answer = table.call(done(1, ns=1e15))
    assert answer.ns == answer.wall_ns < 1e12


@pytest.mark.parametrize("ns", [0.0, -1.0, math.nan, math.inf, 5, True, "1.0", None])
def test_a_time_that_is_none_is_refused(table: Table, ns: Any) -> None:
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
def test_a_failure_is_told_with_its_kind_and_some_of_its_text(table: Table, kind: str) -> None:
    with pytest.raises(CallFailed) as failure:
        table.call(saying(type="fail", kind=kind, text="x" * 100_000))
    assert failure.value.kind == kind
    assert 1000 < len(failure.value.text) < 20_000


def test_a_class_that_the_task_does_not_know_is_a_wrong_output_and_its_name_is_cut(table: Table) -> None:
    tree = {"k": "record", "t": ["submission", "x" * 100_000], "v": {}}
    with pytest.raises(CallFailed) as failure:
        table.call(saying(type="done", ns=1.0, tree=tree, table=[]))
    assert failure.value.kind == "output"
    assert len(failure.value.text) < 20_000


def test_a_profile_is_taken_when_it_was_asked_for(table: Table) -> None:
    answer = table.call(saying(type="profile", text="table", trace="trace"), profile=True)
    assert (answer.profile, answer.trace) == ("table", "trace")


def test_the_text_of_a_profile_has_a_limit(table: Table) -> None:
    answer = table.call(saying(type="profile", text="x" * 900_000, trace=""), profile=True)
    assert answer.profile is not None
    assert len(answer.profile) <= 512 << 10


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
            table.caller.call(list(range(60_000)), timeout_s=0.2, profile=False)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=judge)
    thread.start()
    thread.join(2.0)
    held = thread.is_alive()
    table.other.close()
    thread.join()
    assert not held
    assert isinstance(outcome[0], ChannelTimeout)


def test_a_frame_before_the_call_is_refused(table: Table) -> None:
    table.other.send({"type": "done"})
    with pytest.raises(BrokenProtocol, match="unexpected frame"):
        table.caller.call(1, timeout_s=0.0, profile=False)


def test_two_answers_to_one_call_are_noticed_at_the_next(table: Table) -> None:
    def twice(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
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

    def honest(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        kept.append(done(expected)(frame, arenas) or {})
        return kept[0]

    assert torch.equal(table.call(honest).output, expected)
    stale = table.call(lambda _frame, _arenas: kept[0]).output
    assert not stale.eq(expected).any()


def test_poison_is_another_one_each_time(table: Table) -> None:
    patterns = []

    def look(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        patterns.append(bytes(arenas["outputs"].bytes[:POISON_BYTES].tolist()))
        return done(1)(frame, arenas) or {}

    table.call(look)
    table.call(look)
    assert patterns[0] != patterns[1]
    assert len(set(patterns[0])) > 100


def test_memory_is_used_again_but_for_inputs_that_come_as_they_are(table: Table) -> None:
    sent = []

    def look(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        sent.append([each["arenas"] for each in table.frames])
        return done(1)(frame, arenas) or {}

    table.form = Form.of(torch.zeros(1), in_place=False)
    table.call(look, torch.zeros(1))
    table.call(look, torch.zeros(2))
    table.form = Form.of(torch.zeros(64 << 20), in_place=False)
    table.caller._result_bytes = 1 << 30
    table.call(look, torch.zeros(5))
    table.call(look, torch.zeros(1 << 20))
    table.call(look, torch.zeros(1 << 20))
    assert sent == [[["inputs"], ["outputs"]], [[], []], [[], ["outputs"]], [["inputs"]], [["inputs"]]]


@pytest.mark.parametrize("size", [64, 8 << 20])
def test_an_input_is_nowhere_before_its_call(table: Table, size: int) -> None:
    """Neither in what was given, masked, nor in what the contestant holds from earlier calls."""
    table.call(done(1), torch.full((size,), 1, dtype=torch.uint8))
    held = table.arenas["inputs"].bytes
    thread = threading.Thread(target=lambda: table.other.send({"id": table._next()["id"], "type": "given"}))
    is_masked = size < masks.LONGEST_ON_HOST
    if is_masked:
        thread.start()
    table.caller.give(0, torch.full((size,), 2, dtype=torch.uint8), timeout_s=5.0)
    if is_masked:
        thread.join()
        assert (held[:size] == 2).sum() < size / 8
    else:
        assert set(held[:size].tolist()) == {1}


def test_a_given_input_is_masked_in_every_bit(table: Table) -> None:
    counts = torch.zeros(8 * 8)
    for _ in range(64):
        table.call(done(1), torch.zeros(64, dtype=torch.uint8))
        table.uncover(table.frames[1]["seed"])
        words = table.arenas["inputs"].bytes[:64].view(torch.int64)
        counts += torch.tensor([[(int(word) >> bit) & 1 for bit in range(64)] for word in words]).sum(0)
    assert counts.min() > 150
    assert counts.max() < 362


def test_two_calls_with_one_input_share_no_mask(table: Table) -> None:
    seeds = set()
    for _ in range(5):
        table.call(done(1), torch.zeros(64))
        seeds.add(table.frames[1]["seed"])
        assert "seed" not in table.frames[0]
    assert len(seeds) == 5


def test_what_was_kept_of_an_answer_does_not_change_with_the_next(table: Table) -> None:
    table.form = Form.of(torch.ones(1000), in_place=False)
    kept = []

    def keep(value: float) -> None:
        thread = threading.Thread(target=table._serve, args=(done(torch.full((1000,), value)),))
        thread.start()
        table.caller.give(3, torch.zeros(4), table.form, timeout_s=5.0)
        kept.append(table.caller.go(3, "handshake", timeout_s=5.0, keep=True))
        thread.join()

    def no_time(value: float) -> Answer:
        pending = kept.pop(0)
        pending.reply["ns"] = None
        return table.caller.open(pending)

    keep(3.0)
    keep(4.0)
    assert no_time(3.0).output.unique().tolist() == [3.0]
    assert no_time(4.0).output.unique().tolist() == [4.0]


def test_a_time_that_nobody_asked_for_is_refused(table: Table) -> None:
    def reply(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        return done(1)(frame, arenas) or {}

    thread = threading.Thread(target=table._serve, args=(reply,))
    thread.start()
    table.caller.give(0, torch.zeros(4), timeout_s=5.0)
    pending = table.caller.go(0, "handshake", timeout_s=5.0)
    thread.join()
    with pytest.raises(BrokenProtocol, match="time where none is due"):
        table.caller.open(pending)


def test_calls_leave_no_descriptors_behind(table: Table) -> None:
    table.call(done(1), torch.zeros(1))
    before = len(os.listdir("/proc/self/fd"))
    for power in range(18, 22):
        table.call(done(1), torch.zeros(1 << power))
    assert len(os.listdir("/proc/self/fd")) == before


# Guard bands and shared memory


TWO = (torch.ones(3), torch.ones(100))


@pytest.mark.parametrize("place", [0, 255, 268, 511, 767, 1168, 1300, 1535])
def test_a_byte_beside_an_output_is_noticed(table: Table, place: int) -> None:
    """Two tensors: at 256 for 12 bytes, and at 768 for 400."""

    def beside(frame: dict[str, Any], arenas: dict[str, wire.Arena]) -> dict[str, Any]:
        answer = done(TWO)(frame, arenas) or {}
        arenas["outputs"].bytes[place] ^= 255
        return answer

    table.form = Form.of(TWO, in_place=False)
    with pytest.raises(GuardBroken, match="beside an output"):
        table.call(beside)


def test_an_answer_between_its_bands_is_taken(table: Table) -> None:
    table.form = Form.of(TWO, in_place=False)
    assert [each.tolist() for each in table.call(done(TWO)).output] == [[1.0] * 3, [1.0] * 100]


def test_what_an_answer_shares_is_told(table: Table) -> None:
    answer = table.call(done(TWO, shared=[[0, 1], [1, 1]], repeated=[[0, 1]]), TWO)
    assert answer.shared_inputs == (1,)
    assert answer.repeats_itself


@pytest.mark.parametrize(
    "changes",
    [
        {"shared": None},
        {"shared": [[0, 2]]},
        {"shared": [[2, 0]]},
        {"shared": [[-1, 0]]},
        {"shared": [[True, 0]]},
        {"shared": [[0]]},
        {"shared": [5]},
        {"shared": [[0, 0]] * 5000},
        {"repeated": {}},
        {"repeated": [[0, 9]]},
    ],
)
def test_sharing_that_is_none_is_refused(table: Table, changes: dict[str, Any]) -> None:
    with pytest.raises(BrokenProtocol, match="sharing"):
        table.call(done(TWO, **changes), TWO)


def test_an_output_beyond_the_limit_does_not_fit(table: Table) -> None:
    with pytest.raises(wire.TooLarge):
        done(torch.zeros(1 << 20))({}, {"outputs": adopted_outputs(table)})


def adopted_outputs(table: Table) -> wire.Arena:
    """Return the outputs' arena as the contestant sees it."""
    table.call(done(1))
    return table.arenas["outputs"]


def test_the_judges_copy_does_not_change_after_the_answer(table: Table) -> None:
    answer = table.call(done(torch.ones(100)))
    table.arenas["outputs"].bytes.zero_()
    assert answer.output.sum() == 100
