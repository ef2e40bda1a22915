"""Exports captured calls: reads the driver's graph in the contestant's process.

Nothing here is trusted: the timer replays the export, and the judge checks the answers of the replay.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from kernelcup_harness.device.nvidia.driver import (
    DEVICE_MEMORY,
    CopyNode,
    Driver,
    DriverError,
    EdgeData,
    KernelNode,
    LaunchAttribute,
    MemsetNode,
    is_memory,
    u64,
)
from kernelcup_harness.device.nvidia.images import Loaded, Symbols, symbols_of
from kernelcup_harness.window.addresses import disarmed
from kernelcup_harness.window.graph_data import (
    MOST_GLOBAL_BYTES,
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
    Node,
)

KERNEL, COPY, MEMSET, CHILD, EMPTY = 0, 1, 2, 4, 5
NODE_NAMES = {
    3: "a host function",
    6: "a wait for an event",
    7: "an event record",
    8: "an external semaphore",
    9: "an external semaphore",
    10: "a memory allocation",
    11: "a memory release",
    12: "a batch of memory operations",
    13: "a conditional node",
}
FUNCTION_ATTRIBUTES = (8, 9, 14)
"""Attributes that host code may have set: dynamic shared memory, its carve-out, and non-portable cluster sizes."""
LAUNCH_ATTRIBUTES = tuple(range(1, 19))
END = 0
BUFFER = 1
"""``CU_LAUNCH_PARAM_END`` and ``CU_LAUNCH_PARAM_BUFFER_POINTER``."""


class NotExported(RuntimeError):
    """A captured call has parts that cannot be repeated in another process; the text names them."""


class Exporter:
    """Reads captured graphs. Use one for all graphs of a submission: they share functions and images.

    Args:
        driver: With a current context.
        loaded: Every image that this process has loaded.
        inside: Addresses that the timer maps too.
    """

    def __init__(self, driver: Driver, loaded: Loaded, inside: Sequence[range]) -> None:
        self._driver = driver
        self._loaded = loaded
        self._inside = inside
        self.foreign: set[str] = set()
        """Kernels with parameters that look like addresses of other memory, which the timer does not map. They are
        exported as addresses that fault: the replay shows whether a kernel uses them."""
        self._symbols: dict[int, Symbols] = {}
        self._functions: dict[int, int] = {}
        self._found: list[Function] = []
        self._images: dict[int, int] = {}
        self._modules: dict[int, int] = {}

    def capture(self, graphs: Sequence[int]) -> Capture:
        """Export graphs by the driver's handles. Raise :class:`NotExported` or ``DriverError``."""
        found = tuple(self._graph(each) for each in graphs)
        images = tuple(Image(self._loaded.codes[place], self._variables(place)) for place in self._images)
        return Capture(images, tuple(self._found), found)

    def _graph(self, graph: int) -> Graph:
        handles = self._nodes(graph)
        numbers = {handle: place for place, handle in enumerate(handles)}
        nodes = tuple(self._node(handle) for handle in handles)
        return Graph(nodes, tuple(self._edges(graph, numbers)))

    def _nodes(self, graph: int) -> list[int]:
        count = ctypes.c_size_t()
        self._driver("cuGraphGetNodes", u64(graph), None, ctypes.byref(count))
        if not count.value:
            return []
        found = (u64 * count.value)()
        self._driver("cuGraphGetNodes", u64(graph), found, ctypes.byref(count))
        return list(found[: count.value])

    def _edges(self, graph: int, numbers: dict[int, int]) -> list[tuple[int, int, bytes]]:
        count = ctypes.c_size_t()
        self._driver("cuGraphGetEdges_v2", u64(graph), None, None, None, ctypes.byref(count))
        if not count.value:
            return []
        begins, ends = (u64 * count.value)(), (u64 * count.value)()
        data = (EdgeData * count.value)()
        self._driver("cuGraphGetEdges_v2", u64(graph), begins, ends, data, ctypes.byref(count))
        return [
            (numbers[begin], numbers[end], bytes(each))
            for begin, end, each in zip(begins, ends, data, strict=True)
        ]

    def _node(self, node: int) -> Node:
        kind = ctypes.c_int()
        self._driver("cuGraphNodeGetType", u64(node), ctypes.byref(kind))
        readers: dict[int, Callable[[int], Node]] = {
            KERNEL: self._launch,
            COPY: self._copy,
            MEMSET: self._memset,
            CHILD: self._child,
        }
        if kind.value == EMPTY:
            return Empty()
        if kind.value not in readers:
            name = NODE_NAMES.get(kind.value, f"a node of type {kind.value}")
            raise NotExported(f"{name} cannot be replayed")
        return readers[kind.value](node)

    def _child(self, node: int) -> Child:
        graph = u64()
        self._driver("cuGraphChildGraphNodeGetGraph", u64(node), ctypes.byref(graph))
        return Child(self._graph(graph.value))

    def _launch(self, node: int) -> Launch:
        found = KernelNode()
        self._driver("cuGraphKernelNodeGetParams_v2", u64(node), ctypes.byref(found))
        function = found.func or self._driver.handle("cuKernelGetFunction", u64(found.kern))
        number = self._function(function)
        return Launch(
            function=number,
            grid=tuple(found.grid),
            block=tuple(found.block),
            shared_bytes=found.shared_bytes,
            parameters=tuple(
                self._disarmed(each, self._found[number].name) for each in self._parameters(function, found)
            ),
            attributes=tuple(self._attributes(node)),
        )

    def _parameters(self, function: int, found: KernelNode) -> list[tuple[int, bytes]]:
        parameters = []
        buffer = self._buffer(found)
        for number in range(4_096):
            offset, nbytes = ctypes.c_size_t(), ctypes.c_size_t()
            code = self._driver.code(
                "cuFuncGetParamInfo",
                u64(function),
                ctypes.c_size_t(number),
                ctypes.byref(offset),
                ctypes.byref(nbytes),
            )
            if code:
                break
            source = found.params[number] if found.params else buffer + offset.value if buffer else 0
            if not source:
                raise NotExported("a kernel's parameters cannot be read")
            parameters.append((offset.value, ctypes.string_at(source, nbytes.value)))
        return parameters

    def _disarmed(self, parameter: tuple[int, bytes], name: str) -> tuple[int, bytes]:
        offset, value = parameter
        safe, places = disarmed(offset, value, self._is_foreign)
        if places:
            self.foreign.add(name)
        return offset, safe

    def _is_foreign(self, word: int) -> bool:
        return not any(word in each for each in self._inside) and is_memory(self._driver, word)

    @staticmethod
    def _buffer(found: KernelNode) -> int:
        """Return the address of parameters that were given as one buffer, 0 if there is none."""
        if not found.extra:
            return 0
        for place in range(0, 16, 2):
            if (found.extra[place] or END) == END:
                return 0
            if found.extra[place] == BUFFER:
                return int(found.extra[place + 1] or 0)
        return 0

    def _attributes(self, node: int) -> list[tuple[int, bytes]]:
        attributes = []
        for number in LAUNCH_ATTRIBUTES:
            value = LaunchAttribute()
            code = self._driver.code(
                "cuGraphKernelNodeGetAttribute", u64(node), ctypes.c_int(number), ctypes.byref(value)
            )
            if not code:
                attributes.append((number, bytes(value)))
        return attributes

    def _memset(self, node: int) -> Memset:
        found = MemsetNode()
        self._driver("cuGraphMemsetNodeGetParams", u64(node), ctypes.byref(found))
        return Memset(found.target, found.pitch, found.value, found.element_bytes, found.width, found.height)

    def _copy(self, node: int) -> Copy:
        found = CopyNode()
        self._driver("cuGraphMemcpyNodeGetParams", u64(node), ctypes.byref(found))
        for end in (found.source, found.target):
            if end.memory != DEVICE_MEMORY and not (end.memory == 4 and end.device):
                raise NotExported("a copy from or to the host's memory cannot be replayed")
        ends = [
            (end.device, end.x_bytes, end.y, end.z, end.pitch, end.height)
            for end in (found.source, found.target)
        ]
        return Copy(ends[0], ends[1], found.width, found.height, found.depth)

    def _function(self, function: int) -> int:
        if function in self._functions:
            return self._functions[function]
        name = ctypes.c_char_p()
        self._driver("cuFuncGetName", ctypes.byref(name), u64(function))
        mangled = (name.value or b"").decode(errors="replace")
        module = self._driver.handle("cuFuncGetModule", u64(function))
        image = self._image(module, mangled)
        attributes = {}
        for number in FUNCTION_ATTRIBUTES:
            value = ctypes.c_int()
            if not self._driver.code("cuFuncGetAttribute", ctypes.byref(value), number, u64(function)):
                attributes[number] = value.value
        settings = {number: value for number, value in attributes.items() if value > 0}
        self._found.append(Function(mangled, self._images.setdefault(image, len(self._images)), settings))
        self._modules.setdefault(image, module)
        return self._functions.setdefault(function, len(self._functions))

    def _image(self, module: int, name: str) -> int:
        """Return the image of a function: by its module's handle, else the only image that has its name."""
        known = self._loaded.by_module.get(module)
        if known is not None and name in self._symbols_of(known).kernels:
            return known
        places = [
            place for place in range(len(self._loaded.codes)) if name in self._symbols_of(place).kernels
        ]
        if len(places) > 1:
            # Modules that were never loaded by handle are loaded once each; the last one is in use.
            taken = set(self._loaded.by_module.values())
            places = [place for place in places if place not in taken] or places
        if not places:
            raise NotExported(f"the code of kernel {name[:200]} was not seen when it was loaded")
        return places[-1]

    def _symbols_of(self, place: int) -> Symbols:
        if place not in self._symbols:
            self._symbols[place] = symbols_of(self._loaded.codes[place])
        return self._symbols[place]

    def _variables(self, place: int) -> tuple[Global, ...]:
        found = []
        for name, nbytes in self._symbols_of(place).variables.items():
            if nbytes > MOST_GLOBAL_BYTES:
                raise NotExported(f"variable {name[:200]} of {nbytes} bytes is too large to be replayed")
            value = read_variable(self._driver, self._modules[place], name)
            if value is not None:
                found.append(Global(name, value))
        return tuple(found)


def read_variable(driver: Driver, module: int, name: str) -> bytes | None:
    """Return the value of a module's variable; None if the driver does not disclose it."""
    address, nbytes = u64(), ctypes.c_size_t()
    place = (ctypes.byref(address), ctypes.byref(nbytes), u64(module), name.encode())
    if driver.code("cuModuleGetGlobal_v2", *place) or not 0 < nbytes.value <= MOST_GLOBAL_BYTES:
        return None
    value = ctypes.create_string_buffer(nbytes.value)
    try:
        driver("cuMemcpyDtoH_v2", value, address, nbytes)
    except DriverError:
        return None
    return value.raw
