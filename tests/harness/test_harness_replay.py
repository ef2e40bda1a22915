"""What travels from the contestant to the timer, and what the timer refuses: no GPU needed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import random
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutated

from kernelcup_harness import protocol
from kernelcup_harness.clocks.replay import cut_replays
from kernelcup_harness.device.nvidia import images
from kernelcup_harness.device.nvidia.driver import CopyNode, Driver, DriverError, KernelNode, LaunchAttribute
from kernelcup_harness.device.nvidia.rebuild import LARGEST_COPY, GraphBuilder
from kernelcup_harness.window import decoding, graph_data, steps
from kernelcup_harness.window.addresses import NOWHERE, WINDOW, disarmed
from kernelcup_harness.window.allocator import BLOCK, Heap
from kernelcup_harness.window.graph_data import (
    HEAD,
    BadGraph,
    Capture,
    Child,
    Copy,
    Empty,
    Function,
    Global,
    Graph,
    Image,
    Launch,
    Memset,
)
from kernelcup_harness.window.reasons import NotRebuilt
from properties import examples

EDGE = bytes(8)
RAN: dict[str, Any] = {
    "name": "",
    "image": "00",
    "launches": 1,
    "grid": [1, 1, 1],
    "block": [1, 1, 1],
    "registers": 1,
    "shared_bytes": 0,
    "local_bytes": 0,
}
"""A kernel that ran."""
MAPPED = 0x7F00_0000_0000
"""An address that the fake driver knows, outside of the window."""


def pointer(address: int) -> tuple[int, bytes]:
    return 0, address.to_bytes(8, "little")


def launch(*parameters: tuple[int, bytes], attributes: tuple[tuple[int, bytes], ...] = ()) -> Launch:
    return Launch(0, (4, 1, 1), (128, 1, 1), 0, parameters or (pointer(WINDOW),), attributes)


def copy(nbytes: int, source: int = WINDOW, target: int = WINDOW + (1 << 30)) -> Copy:
    return Copy((source, 0, 0, 0, nbytes, 1), (target, 0, 0, 0, nbytes, 1), nbytes, 1, 1)


def memset(target: int = WINDOW, width: int = 64) -> Memset:
    return Memset(target, 0, 7, 4, width, 1)


def capture(*nodes: Any, edges: tuple[tuple[int, int, bytes], ...] = ()) -> Capture:
    image = Image(b"\x7fELFcode", (Global("scale", b"\x00\x00\x80\x3f"),))
    return Capture((image,), (Function("f", 0, {8: 4096}),), (Graph(tuple(nodes), edges),))


FILL = 77
"""The harness's kernel that fills memory."""


class FakeDriver:
    """The driver's functions that a rebuild calls: counts what is made, knows one image's layout."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.copies: list[tuple[int, int, int]] = []
        self.set: list[int] = []
        self.parameters: list[bytes] = []
        self.filled: list[list[int]] = []
        self._handles = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> int:
        self.calls.append(name)
        answer = getattr(self, f"_{name}", None)
        if answer is not None:
            return int(answer(*arguments))
        if arguments and hasattr(arguments[0], "_obj"):
            self._handles += 1
            arguments[0]._obj.value = self._handles
        return 0

    def _cuGetErrorName(self, _code: int, text: Any) -> int:  # noqa: N802
        text._obj.value = b"CUDA_ERROR_OF_THIS_TEST"
        return 0

    def _cuModuleGetGlobal_v2(self, address: Any, nbytes: Any, *_: Any) -> int:  # noqa: N802
        address._obj.value, nbytes._obj.value = MAPPED, 4
        return 0

    def _cuFuncGetParamInfo(self, _function: Any, number: Any, offset: Any, nbytes: Any) -> int:  # noqa: N802
        offset._obj.value, nbytes._obj.value = 0, 8
        return 1 if number.value else 0

    def _cuGraphAddKernelNode_v2(self, made: Any, *arguments: Any) -> int:  # noqa: N802
        node: KernelNode = arguments[-1]._obj
        if node.func == FILL:
            self.filled.append([ctypes.c_uint64.from_address(node.params[at]).value for at in range(4)])
        elif node.params:
            self.parameters.append(ctypes.string_at(node.params[0], 8))
        made._obj.value = 1
        return 0

    def _cuPointerGetAttribute(self, kind: Any, _what: int, address: Any) -> int:  # noqa: N802
        kind._obj.value = 2
        return (
            0 if address.value - MAPPED in range(1 << 20) or address.value - WINDOW in range(8 << 30) else 1
        )

    def _cuGraphKernelNodeGetAttribute(self, *_: Any) -> int:  # noqa: N802
        return 0

    def _cuGraphKernelNodeSetAttribute(self, _node: Any, number: Any, _value: Any) -> int:  # noqa: N802
        self.set.append(number.value)
        return 0

    def _cuGraphAddMemcpyNode(self, made: Any, *arguments: Any) -> int:  # noqa: N802
        _, _, count, wanted, _ = arguments
        self._handles += 1
        made._obj.value = self._handles
        node: CopyNode = wanted._obj
        self.copies.append((node.source.device, node.width, count.value))
        return 0


def build(made: Capture, driver: FakeDriver | None = None) -> tuple[Any, FakeDriver]:
    fake = driver or FakeDriver()
    window = [range(WINDOW, WINDOW + (8 << 30))]
    return GraphBuilder(Driver(fake), 1, window, FILL).build(made), fake


def test_a_capture_is_the_same_after_its_journey() -> None:
    attribute = (2, bytes([1]) + bytes(63))
    child = Child(Graph((memset(), Empty()), ((0, 1, EDGE),)))
    made = capture(
        launch(attributes=(attribute,)), copy(5), child, Empty(), edges=((0, 1, EDGE), (1, 2, EDGE))
    )

    assert decoding.decode(graph_data.encode(made)) == made


@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (1_024, 1), ((64 << 10) // 4 - 1, 1), (1, 2), (256, 4), (1_000, 16)]
)
def test_a_small_memset_is_a_kernel_which_the_hardware_counts(width: int, height: int) -> None:
    """Rows without gaps are one."""
    pitch = 4 * width if height > 1 else 0
    made, fake = build(capture(Memset(WINDOW, pitch, 7, 4, width, height)))
    assert fake.filled == [[WINDOW, 7, 4, 4 * width * height]]
    assert made.nodes == [1]


@pytest.mark.parametrize("node", [memset(width=(64 << 10) // 4), Memset(WINDOW, 4096, 7, 4, 64, 2)])
def test_a_large_memset_is_one_of_the_driver(node: Memset) -> None:
    made, fake = build(capture(node))
    assert fake.filled == []
    assert fake.calls.count("cuGraphAddMemsetNode") == 1
    assert made.nodes == [1]


OTHERS = {
    "a grid": replace(launch(), grid=(5, 1, 1)),
    "a block": replace(launch(), block=(64, 1, 1)),
    "shared memory": replace(launch(), shared_bytes=4),
    "an attribute": launch(attributes=((2, bytes(64)),)),
    "a memset": memset(),
    "a copy": copy(5),
    "nothing": Empty(),
    "a graph": Child(Graph((launch(),), ())),
}


def test_graphs_have_one_shape_only_if_they_do_the_same_with_other_memory() -> None:
    one = Graph((launch(), copy(9), memset(), Empty()), ((0, 1, EDGE), (1, 2, EDGE)))
    elsewhere = Graph(
        (launch(pointer(WINDOW + 4096)), copy(9, WINDOW + 64), memset(WINDOW + 64), Empty()), one.edges[::-1]
    )
    others = [Graph((other, *one.nodes[1:]), one.edges) for other in OTHERS.values()]
    others += [Graph(one.nodes, one.edges[:1]), Graph((*one.nodes[:1], copy(8), *one.nodes[2:]), one.edges)]
    shapes = {graph_data.shape(each) for each in others}
    assert graph_data.shape(one) == graph_data.shape(elsewhere)
    assert graph_data.shape(one) not in shapes
    assert len(shapes) == len(others)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda head: head.pop("images"), "capture: an object with"),
        (lambda head: head["functions"][0].update(image=1), "capture.functions[0].image"),
        (lambda head: head["functions"][0].update(name="a\0b"), "capture.functions[0].name"),
        (lambda head: head["functions"][0].update(name="\ud800"), "capture.functions[0].name"),
        (lambda head: head["graphs"][0]["nodes"][0].update(function=7), "nodes[0].function"),
        (lambda head: head["graphs"][0]["nodes"][0].update(grid=[1, 1]), "nodes[0].grid"),
        (lambda head: head["graphs"][0]["nodes"][0].update(grid=[1, 1, True]), "nodes[0].grid"),
        (lambda head: head["graphs"][0]["nodes"][0].update(kind="host"), "a node of unknown kind"),
        (lambda head: head["graphs"][0]["nodes"][0].update(parameters=[[0, "zz"]]), "hexadecimal"),
        (lambda head: head["graphs"][0]["nodes"][0].update(parameters=[[32767, "0000"]]), "of parameters"),
        (lambda head: head["graphs"][0].update(edges=[[0, 9, "00" * 8]]), "edges[0]"),
        (lambda head: head["graphs"][0].update(edges=[[0, 0, "00"]]), "edges[0]"),
        (lambda head: head["images"][0].update(bytes=3), "not as long as its head states"),
        (lambda head: head["images"][0].update(variables=[["x"]]), "variables[0]"),
    ],
)
def test_a_malformed_capture_is_refused_with_its_place(change: Any, said: str) -> None:
    data = graph_data.encode(capture(launch()))
    length = HEAD.unpack_from(data)[1]
    head = json.loads(data[HEAD.size : HEAD.size + length])
    change(head)
    text = json.dumps(head).encode()
    broken = HEAD.pack(graph_data.MAGIC, len(text)) + text + data[HEAD.size + length :]

    with pytest.raises(BadGraph) as refused:
        decoding.decode(broken)

    assert said in str(refused.value)


def test_graphs_that_lie_too_deep_are_refused() -> None:
    graph = Graph((Empty(),), ())
    for _ in range(graph_data.MOST_DEPTH):
        graph = Graph((Child(graph),), ())

    with pytest.raises(BadGraph, match="too deep"):
        decoding.decode(graph_data.encode(replace(capture(), graphs=(graph,))))


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.jobs)])
def test_mutated_captures_raise_nothing_but_what_is_meant_for_them(count: int) -> None:
    chance = random.Random(21)
    attribute = (2, bytes([1]) + bytes(63))
    child = Child(Graph((memset(), Empty()), ((0, 1, EDGE),)))
    made = capture(launch(attributes=(attribute,)), copy(5), child, Empty(), edges=((0, 1, EDGE),))
    data = graph_data.encode(made)
    length = HEAD.unpack_from(data)[1]
    head, code = json.loads(data[HEAD.size : HEAD.size + length]), data[HEAD.size + length :]
    refused = 0
    for number in range(count):
        if number % 2:
            text = json.dumps(mutated(chance, head)).encode()
            hostile = HEAD.pack(graph_data.MAGIC, len(text)) + text + code
        else:
            broken = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            hostile = bytes(broken[: chance.randrange(len(broken)) if chance.random() < 0.1 else None])
        try:
            found = decoding.decode(hostile)
        except BadGraph:
            refused += 1
        else:
            # What is let through is complete: it says the same again, and is rebuilt or refused by name.
            assert decoding.decode(graph_data.encode(found)) == found
            with contextlib.suppress(NotRebuilt, DriverError):
                build(found)
    assert refused > 0.7 * count


@pytest.mark.parametrize(
    ("most", "said"),
    [
        ("MOST_NODES", "capture.graphs\\[0\\].nodes"),
        ("MOST_EDGES", "edges"),
        ("MOST_FUNCTIONS", "variables"),
        ("MOST_GRAPHS", "graphs"),
        ("MOST_IMAGES", "images"),
        ("MOST_IMAGE_BYTES", "bytes of code"),
        ("MOST_HEAD_BYTES", "no captured graph"),
        ("MOST_PARAMETER_BYTES", "parameters"),
        ("MOST_GLOBAL_BYTES", "variables"),
    ],
)
def test_more_than_a_cap_allows_is_refused(monkeypatch: pytest.MonkeyPatch, most: str, said: str) -> None:
    data = graph_data.encode(capture(launch(), Empty(), edges=((0, 1, EDGE),)))
    decoding.decode(data)
    monkeypatch.setattr(decoding, most, 0)

    with pytest.raises(BadGraph, match=said):
        decoding.decode(data)


def test_a_graph_is_made_again_with_its_code_variables_and_settings() -> None:
    attribute = (4, bytes([2]) + bytes(63))

    made, fake = build(capture(launch(attributes=(attribute,)), memset(), Empty(), edges=((0, 1, EDGE),)))

    assert len(made.executables) == 1
    assert fake.set == [4]
    for name in ("cuModuleLoadData", "cuMemcpyHtoD_v2", "cuFuncSetAttribute", "cuGraphAddDependencies_v2"):
        assert name in fake.calls


def test_only_nodes_that_do_something_are_counted_those_of_child_graphs_too() -> None:
    # A call with more dispatches than such nodes begins with a preamble, which its time has to include.
    child = Child(Graph((launch(), Empty(), Child(Graph((memset(), memset()), ())), launch()), ()))
    made, _ = build(capture(launch(), Empty(), Empty(), child))

    assert made.nodes == [5]


NEWER = {
    "cluster size": 4,
    "cluster scheduling": 5,
    "map of memory-sync domains": 9,
    "memory-sync domain": 10,
    "preferred cluster size": 11,
}


@pytest.mark.parametrize("number", NEWER.values(), ids=NEWER)
def test_a_launch_attribute_of_a_newer_chip_is_replayed(number: int) -> None:
    content = struct.pack("<III", 2, 1, 1).ljust(64, b"\0")
    sent = graph_data.encode(capture(launch(attributes=((number, content),))))
    made, fake = build(decoding.decode(sent))
    assert (fake.set, made.dropped) == ([number], [])


@pytest.mark.parametrize("number", [6, 7, 12])
def test_a_programmatic_launch_is_an_edge_and_no_attribute(number: int) -> None:
    made, fake = build(capture(launch(attributes=((number, bytes([1]) + bytes(63)),))))

    assert (fake.set, made.dropped) == ([], [])


def test_a_tensor_map_is_carried_byte_by_byte() -> None:
    tensor_map = struct.pack("<16Q", WINDOW + 4096, *range(15))
    sent = graph_data.encode(capture(launch((64, tensor_map))))

    (node,) = decoding.decode(sent).graphs[0].nodes

    assert isinstance(node, Launch)
    assert node.parameters == ((64, tensor_map),)


def test_an_access_policy_window_is_dropped_and_named() -> None:
    made, fake = build(capture(launch(attributes=((1, bytes([1]) + bytes(63)),))))

    assert made.dropped == ["an access-policy window of kernel f"]
    assert not fake.set


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (launch((0, b"1234")), "has other parameters here"),
        (launch(attributes=((13, bytes([1]) + bytes(63)),)), "changed by device code"),
        (launch(attributes=((16, bytes([1]) + bytes(63)),)), "scheduled for the links"),
        (launch(attributes=((18, bytes([1]) + bytes(63)),)), "has launch attribute 18"),
        (copy(64, source=MAPPED), "a copy of memory outside"),
        (copy(64, target=WINDOW + (8 << 30) - 32), "a copy of memory outside"),
        (memset(target=MAPPED), "a memset of memory outside"),
        (memset(width=8 << 30), "a memset of memory outside"),
        (Memset(WINDOW, 0, 7, 3, 1, 1), "elements"),
    ],
)
def test_what_reaches_outside_of_the_window_is_refused_by_name(node: Any, said: str) -> None:
    with pytest.raises(NotRebuilt, match=said):
        build(capture(node))


def test_an_address_of_the_timers_own_memory_leads_nowhere_and_is_named() -> None:
    made, fake = build(capture(launch(pointer(MAPPED + 0x1230)), launch(pointer(WINDOW + 8))))

    assert [int.from_bytes(each, "little") for each in fake.parameters] == [
        NOWHERE.start + 0x1230,
        WINDOW + 8,
    ]
    assert made.foreign == ["byte 0 of the parameters of kernel f"]


def test_an_address_that_led_nowhere_when_exported_is_named_too() -> None:
    made, _ = build(capture(launch(pointer(NOWHERE.start + 5))))

    assert made.foreign == ["byte 0 of the parameters of kernel f"]


def test_only_words_that_are_foreign_addresses_change_and_their_lower_half_is_kept() -> None:
    words = [MAPPED + 7, WINDOW, 3, 1 << 40]
    value = b"live" + b"".join(word.to_bytes(8, "little") for word in words) + b"end"

    safe, places = disarmed(4, value, lambda word: word == MAPPED + 7)

    assert places == [8]
    assert safe == value.replace(
        (MAPPED + 7).to_bytes(8, "little"), (NOWHERE.start + 7).to_bytes(8, "little")
    )


def test_a_variable_of_another_size_is_refused() -> None:
    made = capture(launch())
    image = replace(made.images[0], variables=(Global("scale", b"12345678"),))

    with pytest.raises(NotRebuilt, match="another size"):
        build(replace(made, images=(image,)))


def test_a_copy_that_graphs_make_slowly_is_split() -> None:
    _, fake = build(capture(copy(2 * LARGEST_COPY + 100), edges=()))

    assert [(width, waits) for _, width, waits in fake.copies] == [
        (LARGEST_COPY, 0),
        (LARGEST_COPY, 1),
        (100, 1),
    ]
    assert [source - WINDOW for source, _, _ in fake.copies] == [0, LARGEST_COPY, 2 * LARGEST_COPY]


def test_a_refusal_of_the_driver_is_told_with_its_call() -> None:
    fake = FakeDriver()
    fake._cuGraphCreate = lambda *_: 2  # type: ignore[attr-defined]

    with pytest.raises(DriverError, match="cuGraphCreate: CUDA_ERROR_OF_THIS_TEST"):
        build(capture(launch()), fake)


def test_the_structures_are_as_large_as_the_drivers() -> None:
    assert ctypes.sizeof(KernelNode) == 72
    assert ctypes.sizeof(CopyNode) == 200
    assert ctypes.sizeof(LaunchAttribute) == 64


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9_000)), max_size=60))
def test_a_heap_never_gives_the_same_memory_twice(steps: list[tuple[bool, int]]) -> None:
    heap = Heap(WINDOW, 64 * BLOCK)
    taken: dict[int, int] = {}
    for give_back, nbytes in steps:
        if give_back and taken:
            address = sorted(taken)[nbytes % len(taken)]
            heap.give_back(address)
            del taken[address]
            continue
        address = heap.take(nbytes)
        if address:
            spans = [range(each, each + size) for each, size in taken.items()]
            assert not any(address in span or address + nbytes - 1 in span for span in spans)
            assert address >= WINDOW
            assert address + nbytes <= WINDOW + 64 * BLOCK
            taken[address] = nbytes
    for address in taken:
        heap.give_back(address)
    assert heap.take(64 * BLOCK) == WINDOW


def test_a_full_heap_gives_nothing() -> None:
    heap = Heap(WINDOW, BLOCK)

    assert heap.take(1) == WINDOW
    assert heap.take(1) == 0
    heap.give_back(12345)
    assert heap.take(1) == 0


def elf(names: list[str], variables: dict[str, int]) -> bytes:
    """A little image: a section for each kernel, and variables in ``.nv.global``."""
    sections = ["", ".shstrtab", ".symtab", ".strtab", ".nv.global", *(f".text.{name}" for name in names)]
    strings, places = b"", []
    for section in sections:
        places.append(len(strings))
        strings += section.encode() + b"\0"
    symbols, texts = b"", b"\0"
    for name, size in variables.items():
        symbols += images.SYMBOL.pack(len(texts), 1, 0, 4, 0, size)
        texts += name.encode() + b"\0"
    contents = {1: strings, 2: symbols, 3: texts}
    body, headers = b"", b""
    for number, place in enumerate(places):
        content = contents.get(number, b"")
        kind, entry = (2, images.SYMBOL.size) if number == 2 else (1, 0)
        headers += images.SECTION.pack(place, kind, 0, 0, 64 + len(body), len(content), 3, 0, 1, entry)
        body += content
    head = bytearray(64)
    head[:4] = b"\x7fELF"
    struct.pack_into("<Q", head, 0x28, 64 + len(body))
    struct.pack_into("<HHH", head, 0x3A, 64, len(sections), 1)
    return bytes(head) + body + headers


def test_names_of_kernels_and_variables_are_read_from_an_image() -> None:
    found = images.symbols_of(elf(["f", "g"], {"scale": 4}))

    assert found.kernels == {"f", "g"}
    assert found.variables == {"scale": 4}


@settings(max_examples=examples(200))
@given(st.integers(4, 2_000), st.binary(min_size=1, max_size=8))
def test_a_broken_image_has_no_names(place: int, noise: bytes) -> None:
    data = bytearray(elf(["f"], {"scale": 4}))
    place %= len(data)
    data[place : place + len(noise)] = noise
    images.symbols_of(bytes(data))


def kernel(number: int) -> Launch:
    return Launch(number, (4, 1, 1), (128, 1, 1), 0, (pointer(WINDOW),), ())


def whole(*nodes: Any, edges: tuple[tuple[int, int], ...] = ()) -> Capture:
    """A capture of one graph of kernels of four functions."""
    functions = tuple(Function(name, 0, {}) for name in "abcd")
    return Capture((Image(b"", ()),), functions, (Graph(nodes, tuple((*each, EDGE) for each in edges)),))


def functions_of(graph: Graph) -> list[int | str]:
    assert graph.edges == tuple((at, at + 1, EDGE) for at in range(len(graph.nodes) - 1))
    return [each.function if isinstance(each, Launch) else "data" for each in graph.nodes]


def test_a_call_is_cut_after_each_kernel_in_an_order_that_its_edges_allow() -> None:
    inner = Graph((kernel(1), Empty(), kernel(2)), ((2, 1, EDGE), (1, 0, EDGE)))
    found = steps.cut(whole(kernel(0), Child(inner), memset(), edges=((2, 1), (1, 0))), 0)

    # The memset is the last node, and the first to run; in the child the second kernel runs first.
    assert [functions_of(each) for each in found.capture.graphs] == [
        ["data", 2, 1, 0],
        ["data", 2, 1],
        ["data", 2],
        ["data"],
    ]
    assert found.kernels == [-1, 0, 1, 2]
    assert [form[0] for form in steps.forms(found.capture.graphs[0])] == [2, 1, 0]


def test_launches_of_one_form_in_a_row_are_one_step() -> None:
    edges = tuple((at, at + 1) for at in range(4))
    found = steps.cut(whole(kernel(0), kernel(0), kernel(1), kernel(0), kernel(0), edges=edges), 0)
    assert found.kernels == [0, 1, 0]
    assert [len(each.nodes) for each in found.capture.graphs] == [5, 3, 2]


@pytest.mark.parametrize("count", [steps.MOST_STEPS + 1, steps.MOST_NODES + 1])
def test_a_call_of_too_many_kernels_is_not_cut(count: int) -> None:
    nodes = [kernel(at % 2 if count < 1000 else 0) for at in range(count)]
    with pytest.raises(steps.TooMany):
        steps.cut(whole(*nodes), 0)


def test_the_share_of_a_kernel_is_what_it_adds_to_the_time_of_those_before_it() -> None:
    ran = [protocol.RanKernel(**{**RAN, "name": name}) for name in "ab"]

    def shares(steps: list[int], ends_ns: list[float]) -> list[float | None]:
        return [each.share for each in cut_replays.shared(ran, cut_replays.spent(2, steps, ends_ns))]

    assert shares([0, -1, 1, 0], [2_000.0, 10_000.0, 15_000.0, 18_000.0]) == [0.5, 0.5]
    # A step whose end seems to come before that of an earlier one takes no time.
    assert shares([0, 1, 0], [2_000.0, 1_900.0, 2_500.0]) == [1.0, 0.0]
    with pytest.raises(cut_replays.NoShares):
        shares([-1, 0], [5_000.0, 5_000.0])


@pytest.mark.parametrize(
    ("kernels_ns", "in_row_ns", "call_ns", "longer"),
    [
        (8_000.0, 9_000.0, 10_000.0, 1.0),
        (8_000.0, 10_000.0, 10_000.0, 1.0),
        (8_000.0, 14_000.0, 10_000.0, 2.0),  # four of eight overlap, or were waited for in a row alone
        (8_000.0, 30_000.0, 10_000.0, 80.0),
    ],
)
def test_kernels_in_a_row_are_compared_with_the_call_that_was_timed(
    kernels_ns: float, in_row_ns: float, call_ns: float, longer: float
) -> None:
    assert cut_replays.drawn_out(kernels_ns, in_row_ns, call_ns) == longer
