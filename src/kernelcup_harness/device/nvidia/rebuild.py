"""Captured graphs, rebuilt in the timer's process from data alone."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence

from kernelcup_harness.device.nvidia.driver import (
    DEVICE_MEMORY,
    CopyEnd,
    CopyNode,
    Driver,
    EdgeData,
    KernelNode,
    LaunchAttribute,
    MemsetNode,
    is_memory,
    u64,
)
from kernelcup_harness.device.nvidia.own_kernels import fill_node
from kernelcup_harness.protocol import RanKernel
from kernelcup_harness.window.addresses import NOWHERE, disarmed
from kernelcup_harness.window.graph_data import (
    Capture,
    Child,
    Copy,
    Graph,
    Image,
    Launch,
    Memset,
    Node,
    Rebuilt,
    shape,
)
from kernelcup_harness.window.reasons import NotRebuilt
from kernelcup_harness.window.steps import forms

KEPT = frozenset({2, 4, 5, 9, 10, 11, 14})
"""Launch attributes that a replay keeps: cooperative launch, cluster size and scheduling, memory-sync domains,
preferred cluster size, and the carve-out of shared memory."""
EDGES = frozenset({6, 7, 12})
"""Programmatic launches: they are edges of the graph."""
DROPPED = {
    1: "an access-policy window",
    3: "a synchronization policy",
    8: "a priority",
}
"""Launch attributes that a replay drops, and reports."""
REFUSED = {13: "may be changed by device code", 16: "is scheduled for the links to other GPUs"}
"""Launch attributes with which nothing is replayed."""
LEAST_MEMSET = 64 << 10
"""Memsets of fewer bytes are kernels of the harness: the driver's own for those up to 4 KiB are no kernels, so that the
hardware's counters do not see them."""
LARGEST_COPY = 256 << 20
"""Copies of more bytes are split: one node of 512 MiB takes a fifth longer than the same copy on a stream."""


RESOURCES = (1, 3, 4)
"""``CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES``, ``_LOCAL_SIZE_BYTES`` and ``_NUM_REGS``."""
MOST_RAN, LONGEST_RAN = 64, 300


class GraphBuilder:
    """Rebuilds graphs.

    Args:
        driver: With a current context.
        context: The handle of that context.
        window: The addresses that a submission may use.
        fill: The harness's kernel that fills memory.
    """

    def __init__(self, driver: Driver, context: int, window: Sequence[range], fill: int) -> None:
        self._driver = driver
        self._fill = fill
        self._context = context
        self._window = window
        self._functions: list[int] = []
        self._names: list[str] = []
        self._dropped: set[str] = set()
        self._foreign: set[str] = set()

    def build(self, capture: Capture) -> Rebuilt:
        """Load the images and make every graph. Raise :class:`NotRebuilt` or ``DriverError``."""
        modules = [self._load(each) for each in capture.images]
        for each in capture.functions:
            function = self._driver.handle(
                "cuModuleGetFunction", u64(modules[each.image]), each.name.encode()
            )
            for number, value in each.attributes.items():
                self._driver.code("cuFuncSetAttribute", u64(function), number, value)
            self._functions.append(function)
            self._names.append(each.name)
        made = [self._graph(each) for each in capture.graphs]
        return Rebuilt(
            executables=[self._instantiate(graph) for graph, _ in made],
            nodes=[count for _, count in made],
            shapes=[shape(each) for each in capture.graphs],
            ran=self._ran(capture),
            dropped=sorted(self._dropped),
            foreign=sorted(self._foreign),
        )

    def _ran(self, capture: Capture) -> list[RanKernel]:
        """Return the kernels of the first graph, each form once, in the order of their first launch."""
        launches = forms(capture.graphs[0]) if capture.graphs else {}
        found = []
        for (number, grid, block, shared_bytes), count in list(launches.items())[:MOST_RAN]:
            code = capture.images[capture.functions[number].image].code
            static, local, registers = (self._attribute(number, each) for each in RESOURCES)
            found.append(
                RanKernel(
                    name=self._names[number][:LONGEST_RAN],
                    image=hashlib.sha256(code).hexdigest()[:16],
                    launches=count,
                    grid=list(grid),
                    block=list(block),
                    registers=registers,
                    shared_bytes=static + shared_bytes,
                    local_bytes=local,
                )
            )
        return found

    def _attribute(self, number: int, attribute: int) -> int:
        """Return a function's attribute by the driver's number; 0 if the driver does not say."""
        value = ctypes.c_int()
        place = (ctypes.byref(value), attribute, u64(self._functions[number]))
        return 0 if self._driver.code("cuFuncGetAttribute", *place) else value.value

    def _load(self, image: Image) -> int:
        module = self._driver.handle("cuModuleLoadData", image.code + b"\0")
        for each in image.variables:
            address, nbytes = u64(), ctypes.c_size_t()
            place = (ctypes.byref(address), ctypes.byref(nbytes), u64(module), each.name.encode())
            self._driver("cuModuleGetGlobal_v2", *place)
            if nbytes.value != len(each.value):
                raise NotRebuilt(f"variable {each.name[:200]} has another size here")
            self._driver("cuMemcpyHtoD_v2", address, each.value, nbytes)
        return module

    def _instantiate(self, graph: int) -> int:
        executable = self._driver.handle("cuGraphInstantiateWithFlags", u64(graph), ctypes.c_ulonglong(0))
        self._driver("cuGraphUpload", u64(executable), u64(0))
        return executable

    def _graph(self, data: Graph) -> tuple[int, int]:
        """Return a graph and the number of its nodes that do something, those of child graphs among them."""
        graph = self._driver.handle("cuGraphCreate", 0)
        made = [self._node(graph, each) for each in data.nodes]
        nodes = [each for each, _ in made]
        for begin, end, content in data.edges:
            # A copy that was split is a chain of nodes: edges lead to its first and from its last.
            self._edge(graph, nodes[begin][-1], nodes[end][0], content)
        return graph, sum(count for _, count in made)

    def _edge(self, graph: int, begin: int, end: int, content: bytes) -> None:
        edge = EdgeData.from_buffer_copy(content)
        pair = ((u64 * 1)(begin), (u64 * 1)(end))
        self._driver("cuGraphAddDependencies_v2", u64(graph), *pair, ctypes.byref(edge), ctypes.c_size_t(1))

    def _node(self, graph: int, node: Node) -> tuple[list[int], int]:
        made, count = u64(), 1
        place = (ctypes.byref(made), u64(graph), None, ctypes.c_size_t(0))
        if isinstance(node, Launch):
            return [self._launch(graph, node)], 1
        if isinstance(node, Copy):
            copies = self._copies(graph, node)
            return copies, len(copies)
        if isinstance(node, Memset):
            self._check_memset(node)
            row, rows = node.width * node.element_bytes, max(1, node.height)
            # Rows without a gap between them are one: the driver makes no kernel of these either.
            if (rows == 1 or node.pitch == row) and row * rows < LEAST_MEMSET:
                filling, alive = fill_node(
                    self._fill, node.target, node.value, node.element_bytes, row * rows
                )
                self._driver("cuGraphAddKernelNode_v2", *place, ctypes.byref(filling))
                del alive
                return [made.value], 1
            wanted = MemsetNode(
                node.target, node.pitch, node.value, node.element_bytes, node.width, node.height
            )
            self._driver("cuGraphAddMemsetNode", *place, ctypes.byref(wanted), u64(self._context))
        elif isinstance(node, Child):
            inner, count = self._graph(node.graph)
            self._driver("cuGraphAddChildGraphNode", *place, u64(inner))
        else:
            count = 0
            self._driver("cuGraphAddEmptyNode", *place)
        return [made.value], count

    def _launch(self, graph: int, node: Launch) -> int:
        function, name = self._functions[node.function], self._names[node.function]
        self._check_parameters(function, node, name)
        parameters = [(offset, self._disarmed(offset, value, name)) for offset, value in node.parameters]
        nbytes = max((offset + len(value) for offset, value in parameters), default=0)
        block = ctypes.create_string_buffer(max(1, nbytes))
        for offset, value in parameters:
            ctypes.memmove(ctypes.addressof(block) + offset, value, len(value))
        pointers = (ctypes.c_void_p * max(1, len(parameters)))(
            *(ctypes.addressof(block) + offset for offset, _ in parameters)
        )
        wanted = KernelNode(
            func=function,
            grid=node.grid,
            block=node.block,
            shared_bytes=node.shared_bytes,
            params=ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p)),
        )
        made = u64()
        place = (ctypes.byref(made), u64(graph), None, ctypes.c_size_t(0))
        self._driver("cuGraphAddKernelNode_v2", *place, ctypes.byref(wanted))
        for number, content in node.attributes:
            self._set_attribute(made.value, number, content, name)
        return made.value

    def _check_parameters(self, function: int, node: Launch, name: str) -> None:
        """Compare the layout of the parameters with the image's."""
        for number, (offset, value) in enumerate(node.parameters):
            there, nbytes = ctypes.c_size_t(), ctypes.c_size_t()
            place = (u64(function), ctypes.c_size_t(number), ctypes.byref(there), ctypes.byref(nbytes))
            code = self._driver.code("cuFuncGetParamInfo", *place)
            if code or (there.value, nbytes.value) != (offset, len(value)):
                raise NotRebuilt(f"kernel {name[:200]} has other parameters here")

    def _disarmed(self, offset: int, value: bytes, name: str) -> bytes:
        """Return a parameter without addresses of the timer's own memory, and note those that lead nowhere."""
        safe, places = disarmed(offset, value, self._is_foreign)
        self._foreign |= {f"byte {place} of the parameters of kernel {name[:200]}" for place in places}
        return safe

    def _is_foreign(self, word: int) -> bool:
        return word in NOWHERE or (not self._is_inside(word) and is_memory(self._driver, word))

    def _set_attribute(self, node: int, number: int, content: bytes, name: str) -> None:
        usual = LaunchAttribute()
        place = (u64(node), ctypes.c_int(number))
        if self._driver.code("cuGraphKernelNodeGetAttribute", *place, ctypes.byref(usual)):
            return
        if bytes(usual) == content:
            return
        if number in KEPT:
            wanted = LaunchAttribute.from_buffer_copy(content)
            self._driver("cuGraphKernelNodeSetAttribute", *place, ctypes.byref(wanted))
        elif number in DROPPED:
            self._dropped.add(f"{DROPPED[number]} of kernel {name[:200]}")
        elif number not in EDGES:
            raise NotRebuilt(f"kernel {name[:200]} {REFUSED.get(number, f'has launch attribute {number}')}")

    def _check_memset(self, node: Memset) -> None:
        if node.element_bytes not in (1, 2, 4):
            raise NotRebuilt("a memset of elements that are not 1, 2 or 4 bytes")
        row = node.width * node.element_bytes
        end = node.target + (max(1, node.height) - 1) * max(node.pitch, row) + row
        self._check_inside(node.target, end, "a memset")

    def _copies(self, graph: int, node: Copy) -> list[int]:
        ends = [_copy_end(each) for each in (node.source, node.target)]
        for end in ends:
            last = end.end(node.width, max(1, node.height), max(1, node.depth))
            self._check_inside(end.device, last, "a copy")
        if node.height > 1 or node.depth > 1 or node.width <= LARGEST_COPY:
            whole = CopyNode(*ends, node.width, node.height, node.depth)
            return [self._copy(graph, whole, after=None)]
        source, target = (end.device + end.x_bytes for end in ends)
        nodes: list[int] = []
        for begin in range(0, node.width, LARGEST_COPY):
            width = min(LARGEST_COPY, node.width - begin)
            parts = [_copy_end((at + begin, 0, 0, 0, width, 1)) for at in (source, target)]
            part = CopyNode(*parts, width, 1, 1)
            nodes.append(self._copy(graph, part, after=nodes[-1] if nodes else None))
        return nodes

    def _copy(self, graph: int, wanted: CopyNode, *, after: int | None) -> int:
        made = u64()
        earlier = (u64 * 1)(after or 0)
        count = ctypes.c_size_t(0 if after is None else 1)
        place = (ctypes.byref(made), u64(graph), earlier, count)
        self._driver("cuGraphAddMemcpyNode", *place, ctypes.byref(wanted), u64(self._context))
        return made.value

    def _check_inside(self, begin: int, end: int, what: str) -> None:
        if not any(begin in each and begin <= end <= each.stop for each in self._window):
            raise NotRebuilt(f"{what} of memory outside of the window")

    def _is_inside(self, address: int) -> bool:
        return any(address in each for each in self._window)


def _copy_end(data: tuple[int, int, int, int, int, int]) -> CopyEnd:
    device, x_bytes, y, z, pitch, height = data
    return CopyEnd(x_bytes=x_bytes, y=y, z=z, memory=DEVICE_MEMORY, device=device, pitch=pitch, height=height)
