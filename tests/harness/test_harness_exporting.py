"""The contestant's part of the clean room without a GPU: memory, frames, and reasons by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch

from kernelcup_harness.contestant.window_calls import Room
from kernelcup_harness.device.nvidia import hands, own_graphs
from kernelcup_harness.submission import forms
from kernelcup_harness.window import addresses, layout, reasons
from kernelcup_harness.window.layout import CannotLie, Layout, TooMany, described
from kernelcup_harness.window.messages import Access, Attach, Attached, CapturePlaces, SharedRegion
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire import decode, values


class Hands:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.inside = False
        self.capturing = False
        self.memory = torch.zeros(1 << 20, dtype=torch.uint8)

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        return self.memory[address - addresses.WINDOW :][:nbytes]

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        self.log.append(("attach", address, nbytes))

    def use_heap(self, address: int, nbytes: int) -> None:
        self.log.append(("heap", address, nbytes))

    def in_use(self) -> AbstractContextManager[None]:
        @contextmanager
        def using() -> Any:
            self.inside = True
            try:
                yield
            finally:
                self.inside = False

        return using()

    def is_capturing(self) -> bool:
        return self.capturing

    def capture(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        return [[call() for _ in range(3)][-1] for call in calls]

    def export(self) -> tuple[bytes, WhyNot | None]:
        return b"exported", None


def opened() -> tuple[Room, Hands]:
    """A room with a heap."""
    hands = Hands()
    room = Room(hands, lambda: [os.open("/dev/null", os.O_RDONLY)], forms.nothing)
    region = SharedRegion(address=addresses.WINDOW, bytes=4096, access=Access.WRITE, heap=True)
    assert room.answers[Attach](Attach(regions=[region])) == Attached()
    return room, hands


def test_memory_of_a_call_lies_in_the_window_once_there_is_a_heap() -> None:
    hands = Hands()
    room, seen = Room(hands, list, forms.nothing), []
    kernel = room.kept(lambda _data: seen.append(hands.inside))
    kernel(None)
    room, hands_of_room = opened()
    kernel = room.kept(lambda _data: seen.append(hands_of_room.inside))
    kernel(None)
    hands_of_room.capturing = True
    kernel(None)

    # While a graph is captured its own pool is in use, and no other may be.
    assert seen == [False, True, False]


def test_a_call_that_finds_the_window_full_is_made_outside_of_it() -> None:
    room, hands = opened()

    def kernel(_data: Any) -> str:
        if hands.inside:
            raise torch.OutOfMemoryError
        return "made"

    assert room.kept(kernel)(None) == "made"


def test_each_call_has_tensors_of_its_own_over_the_memory_of_its_place() -> None:
    room, hands = opened()
    seen: list[torch.Tensor] = []
    room.kept(lambda data: seen.append(data) or data * 2)
    data = torch.arange(8, dtype=torch.int32)
    laid = Layout(data, places=2, writable=set(), device="cpu")
    tables = [[{**each, "offset": 1_024 * at} for each in laid.table] for at in range(2)]
    for at in range(2):
        hands.memory[1_024 * at :][:32] = (data + at).view(torch.uint8)
    reply = room.answers[CapturePlaces](CapturePlaces(tree=laid.tree, tables=tables, in_place=False))

    assert [each.tolist() for each in seen] == [[*range(8)]] * 3 + [[*range(1, 9)]] * 3
    assert len({id(each) for each in seen}) == 6
    assert [each["table"][0]["shape"] for each in reply.answers] == [[8], [8]]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("operation not permitted when stream is capturing", WhyNot.WAITS),
        ("operation would make the legacy stream depend on a capturing blocking stream", WhyNot.OTHER_STREAM),
        ("what the submission says itself", WhyNot.UNKNOWN),
    ],
)
def test_why_a_call_was_not_captured_is_a_name(said: str, reason: WhyNot) -> None:
    assert hands.of_error(RuntimeError(said)) is reason


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("a host function cannot be replayed", WhyNot.HOST_FUNCTION),
        ("a memory allocation cannot be replayed", WhyNot.ALLOCATES),
        ("a wait for an event cannot be replayed", WhyNot.NODE),
        ("a copy from or to the host's memory cannot be replayed", WhyNot.HOST_COPY),
        ("the code of kernel f was not seen when it was loaded", WhyNot.UNSEEN_CODE),
        ("variable x of 99999999 bytes is too large to be replayed", WhyNot.MEMORY),
    ],
)
def test_why_a_call_was_not_exported_is_a_name(said: str, reason: WhyNot) -> None:
    assert hands.of_export(said) is reason


def test_whose_memory_a_kernel_is_called_with_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(hands.sys.modules, "cupy", raising=False)
    assert hands.of_foreign(["_Z43distribution_elementwise_grid_stride_kernel"]) is WhyNot.RANDOM
    assert hands.of_foreign(["mine"]) is WhyNot.FOREIGN_POINTER
    monkeypatch.setitem(hands.sys.modules, "cupy", None)  # type: ignore[arg-type]
    assert hands.of_foreign(["mine"]) is WhyNot.OWN_ALLOCATOR


def test_each_reason_but_the_unknown_one_has_its_words() -> None:
    assert set(reasons.WORDS) == set(WhyNot) - {WhyNot.UNKNOWN}
    assert "could not be captured" in NotReplayed(WhyNot.UNKNOWN).text


def test_inputs_of_a_place_do_not_overlap_and_those_to_write_have_bands() -> None:
    data = (torch.zeros(1_000), {"out": torch.zeros(333), "n": 3}, [torch.zeros(5)])
    laid = Layout(data, places=4, writable={1}, device="cpu")
    spans = [span for at in range(4) for span in laid.spans(at)]

    assert all(not set(a) & set(b) for number, a in enumerate(spans) for b in spans[:number])
    bands = [range(begin, begin + size) for at in range(4) for begin, size in laid.bands(at)]
    assert len(bands) == 8
    assert all(not set(band) & set(span) for band in bands for span in spans)
    assert min(band.start for band in bands) == layout.WRITABLE
    assert laid.writable_bytes % addresses.GRANULE == 0
    assert max(band.stop for band in bands) <= layout.WRITABLE + laid.writable_bytes


def test_a_tensor_that_stands_in_an_input_twice_lies_there_once() -> None:
    both = torch.zeros(16)
    laid = Layout([both, both], places=1, writable={1}, device="cpu")

    assert len(laid.entries) == 1
    assert laid.entries[0].writable
    assert laid.spans(0)[0] == laid.spans(0)[1]


def answer(address: int, count: int, **changes: Any) -> dict[str, Any]:
    """A contestant's description of one tensor of bytes."""
    entry = {"dtype": "uint8", "shape": [count], "nbytes": count, "device": "cpu", "address": address}
    return {"tree": {"k": "tensor", "i": 0}, "table": [{**entry, **changes}]}


def read(reply: Any, most_bytes: int = 1 << 20) -> layout.Described:
    """Read a description, with a heap of 4096 bytes."""
    inside = [range(addresses.WINDOW, addresses.WINDOW + 4096)]
    return described(reply, inside=inside, device="cpu", most_bytes=most_bytes, most=4)


@pytest.mark.parametrize(
    "reply",
    [
        answer(addresses.WINDOW - 1, 16),
        answer(addresses.WINDOW + 4090, 16),
        answer(0, 16),
        answer(addresses.WINDOW, 16, device="cuda:0"),
    ],
)
def test_an_answer_outside_of_the_window_is_refused(reply: Any) -> None:
    with pytest.raises(CannotLie):
        read(reply)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {"table": "x"},
        answer(-1, 16),
        answer(addresses.WINDOW, 16, nbytes="16"),
        answer(addresses.WINDOW, 16, shape=[-1]),
        answer(addresses.WINDOW, 16, shape=5),
        answer(addresses.WINDOW, 16, shape=[1] * 100),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(reply: Any) -> None:
    with pytest.raises(values.BadTree):
        read(reply)


def test_an_answer_of_too_many_tensors_or_bytes_is_refused() -> None:
    with pytest.raises(TooMany, match="5 tensors"):
        read({"tree": {}, "table": answer(addresses.WINDOW, 1)["table"] * 5})
    with pytest.raises(values.TooLarge):
        read(answer(addresses.WINDOW, 4000), most_bytes=1_000)


def test_what_is_read_of_an_answer_is_a_copy() -> None:
    memory = torch.arange(64, dtype=torch.uint8)
    found = read(answer(addresses.WINDOW + 8, 16))
    copies = layout.AnswerMemory(found, lambda address, nbytes: memory[address - addresses.WINDOW :][:nbytes])
    value = decode.Decoder(copies, found.table, decode.importing_record_type, dense=True).value(found.tree)
    memory.zero_()

    assert value.tolist() == [*range(8, 24)]


def test_compiling_is_kept_from_graphs_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[str] = []
    monkeypatch.setattr(own_graphs, "compile_without_graphs", lambda: times.append("kept"))
    compiled = own_graphs.without_graphs_once(lambda model, mode=None: (model, mode))

    assert times == []
    assert [compiled("a"), compiled("b", mode="max-autotune")] == [("a", None), ("b", "max-autotune")]
    assert times == ["kept"]
