"""Why calls are not recorded, without a device. What a device records is in ``tests/gpu``."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

import pytest

from kernelcup_harness import audits, graphs
from kernelcup_harness.protocol import NotCaptured

KERNEL, INVALID = 0, 1


class FakeDriver:
    """Graphs by their handles, as lists of nodes: a kind, or the handle of a graph within.

    It keeps three rules of the driver: a handle that it does not know is refused, no more nodes are written than
    there is room for, and a list without any room is refused (seen on an H100).
    """

    def __init__(self, **graphs_by_name: list[int | str]) -> None:
        self.handles = {name: number for number, name in enumerate(graphs_by_name, 1)}
        self._graphs = {self.handles[name]: nodes for name, nodes in graphs_by_name.items()}
        self._nodes = {
            100 * handle + place: node
            for handle, nodes in self._graphs.items()
            for place, node in enumerate(nodes)
        }

    def cuGraphGetNodes(self, graph: Any, found: Any, count: Any) -> int:  # noqa: N802
        """Write the number of nodes, or as many of their handles as there is room for."""
        if graph.value not in self._graphs:
            return INVALID
        wanted = len(self._graphs[graph.value])
        if found is not None:
            if not count._obj.value:
                return INVALID
            wanted = min(wanted, count._obj.value)
            for place in range(wanted):
                found[place] = 100 * graph.value + place
        count._obj.value = wanted
        return 0

    def cuGraphNodeGetType(self, node: Any, kind: Any) -> int:  # noqa: N802
        """Write what kind of node it is."""
        if node.value not in self._nodes:
            return INVALID
        what = self._nodes[node.value]
        kind._obj.value = graphs.CHILD_NODE if isinstance(what, str) else what
        return 0

    def cuGraphChildGraphNodeGetGraph(self, node: Any, child: Any) -> int:  # noqa: N802
        """Write the handle of the graph within."""
        if not isinstance(self._nodes.get(node.value), str):
            return INVALID
        child._obj.value = self.handles[str(self._nodes[node.value])]
        return 0


def test_the_fake_driver_refuses_what_it_does_not_know() -> None:
    driver, number, handle = FakeDriver(one=[KERNEL]), ctypes.c_int(), ctypes.c_void_p()
    count = ctypes.c_size_t()
    assert driver.cuGraphGetNodes(ctypes.c_void_p(7), None, ctypes.byref(count)) == INVALID
    assert driver.cuGraphNodeGetType(ctypes.c_void_p(7), ctypes.byref(number)) == INVALID
    assert driver.cuGraphChildGraphNodeGetGraph(ctypes.c_void_p(100), ctypes.byref(handle)) == INVALID


def test_the_fake_driver_writes_no_more_nodes_than_there_is_room_for() -> None:
    driver, count, room = FakeDriver(one=[KERNEL] * 3), ctypes.c_size_t(2), (ctypes.c_void_p * 3)()
    assert driver.cuGraphGetNodes(ctypes.c_void_p(1), room, ctypes.byref(count)) == 0
    assert (count.value, list(room)) == (2, [100, 101, None])


def test_the_fake_driver_refuses_a_list_without_room() -> None:
    driver, count, room = FakeDriver(one=[]), ctypes.c_size_t(0), (ctypes.c_void_p * 0)()
    assert driver.cuGraphGetNodes(ctypes.c_void_p(1), room, ctypes.byref(count)) == INVALID


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"one": []}, False),
        ({"one": [KERNEL, 1, 2, 5]}, False),
        ({"one": [KERNEL, graphs.HOST_NODE]}, True),
        ({"one": [KERNEL, "inner"], "inner": [KERNEL]}, False),
        ({"one": [KERNEL, "inner"], "inner": ["last"], "last": [KERNEL, graphs.HOST_NODE]}, True),
    ],
)
def test_functions_of_the_host_are_found_in_a_graph(
    recorded: dict[str, list[int | str]], expected: bool
) -> None:
    driver = FakeDriver(**recorded)
    assert graphs.has_host_function(driver.handles["one"], driver) is expected


def test_a_driver_that_does_not_say_what_was_recorded_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="cannot read the recording: error 1"):
        graphs.has_host_function(7, FakeDriver(one=[KERNEL]))


def test_calls_are_not_recorded_once_jax_has_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax_plugins.xla_cuda13", ModuleType("jax_plugins.xla_cuda13"))
    called = []
    with pytest.raises(graphs.NotRecorded) as refused:
        graphs.CudaRecorder().record([lambda: called.append(1)])
    assert (refused.value.reason, called) == (NotCaptured.RUNTIME, [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CUDA error: operation not permitted when stream is capturing\nCUDA kernel errors might", "waits"),
        ("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU", "waits"),
        ("cudaErrorStreamCaptureUnsupported: operation not permitted", "waits"),
        ("Cannot prepare for replay during capturing stage. during CUDA graph capture. If you", "waits"),
        ("CUDA error: operation would make the legacy stream depend on a capturing one", "elsewhere"),
        ("cudaErrorStreamCaptureImplicit", "elsewhere"),
        ("CUDA error: capturing stream has unjoined work", "elsewhere"),
        ("dependency created on uncaptured work in another stream", "elsewhere"),
        ("division by zero", "unknown"),
    ],
)
def test_what_kept_calls_from_being_recorded_is_known_by_its_message(text: str, reason: str) -> None:
    assert graphs.reason_of(RuntimeError(text)) == reason
    assert reason == NotCaptured.UNKNOWN or reason in audits.WHY_NOT


def test_every_reason_but_the_unknown_one_has_words() -> None:
    assert audits.WHY_NOT.keys() == set(NotCaptured) - {NotCaptured.UNKNOWN}


def test_the_reason_is_what_was_raised_first() -> None:
    first = RuntimeError("operation not permitted when stream is capturing")
    second = RuntimeError("operation failed due to a previous error during capture")
    second.__context__ = first
    assert graphs.reason_of(second) == NotCaptured.WAITS


def test_an_exception_that_fails_itself_or_is_its_own_context_has_no_known_reason() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise SystemExit

    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert graphs.reason_of(Broken()) == graphs.reason_of(first) == NotCaptured.UNKNOWN
