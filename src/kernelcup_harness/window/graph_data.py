"""A captured submission as data, sent from the contestant to the timer.

Encoded as a JSON head followed by the bytes of the images. The contestant may send anything: :func:`decode`
accepts only known content within limits, and raises :class:`BadGraph` with the path of the fault.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

MAGIC = b"kcgraph1"
HEAD = struct.Struct("<8sQ")
MOST_GRAPHS = 256
MOST_NODES = 20_000
MOST_EDGES = 100_000
MOST_FUNCTIONS = 4_096
MOST_IMAGES = 1_024
MOST_PARAMETER_BYTES = 32 << 10
MOST_GLOBAL_BYTES = 16 << 20
MOST_IMAGE_BYTES = 512 << 20
MOST_HEAD_BYTES = 256 << 20
MOST_DEPTH = 4
"""Deepest nesting of graphs."""
LONGEST_NAME = 8_192
EDGE_BYTES, ATTRIBUTE_BYTES = 8, 64
ADDRESSES = 1 << 63

T = TypeVar("T")


class BadGraph(ValueError):
    """An exported graph is not valid."""


@dataclass(frozen=True, slots=True)
class Global:
    """A variable of a module, with its value at the capture."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel's code.

    Args:
        name: Its mangled name in the image.
        image: The number of its image.
        attributes: Attributes that the submission may have set, by the driver's number.
    """

    name: str
    image: int
    attributes: dict[int, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel node.

    Args:
        function: The number of its function.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
        parameters: Offset and bytes of each parameter.
        attributes: Launch attributes, by the driver's number.
    """

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: tuple[tuple[int, bytes], ...]
    attributes: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Memset:
    """A memset node; sizes as in ``CUDA_MEMSET_NODE_PARAMS``."""

    target: int
    pitch: int
    value: int
    element_bytes: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy node from device memory to device memory; other copies are not supported.

    ``source`` and ``target`` are (address, x in bytes, y, z, pitch, height).
    """

    source: tuple[int, int, int, int, int, int]
    target: tuple[int, int, int, int, int, int]
    width: int
    height: int
    depth: int


@dataclass(frozen=True, slots=True)
class Empty:
    """A node that only orders others."""


@dataclass(frozen=True, slots=True)
class Child:
    """A graph within a graph."""

    graph: Graph


Node = Launch | Memset | Copy | Empty | Child


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, and the edges between them: from, to, and the driver's data of the edge."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Image:
    """A loaded module: its cubin, and the values of its variables."""

    code: bytes
    variables: tuple[Global, ...]


@dataclass(frozen=True, slots=True)
class Capture:
    """Everything that a timer needs to repeat the calls, one graph for each place."""

    images: tuple[Image, ...]
    functions: tuple[Function, ...]
    graphs: tuple[Graph, ...]


def encode(capture: Capture) -> bytes:
    """Return a capture as bytes."""
    head = {
        "images": [
            {"bytes": len(each.code), "variables": [[v.name, v.value.hex()] for v in each.variables]}
            for each in capture.images
        ],
        "functions": [
            {"name": each.name, "image": each.image, "attributes": sorted(each.attributes.items())}
            for each in capture.functions
        ],
        "graphs": [_graph_object(each) for each in capture.graphs],
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join([HEAD.pack(MAGIC, len(text)), text, *(each.code for each in capture.images)])


def decode(data: bytes) -> Capture:
    """Read a capture. Raise :class:`BadGraph`."""
    if len(data) < HEAD.size:
        raise BadGraph("too short")
    magic, length = HEAD.unpack_from(data)
    if magic != MAGIC or length > min(MOST_HEAD_BYTES, len(data) - HEAD.size):
        raise BadGraph("no captured graph")
    try:
        head = json.loads(data[HEAD.size : HEAD.size + length])
    except (ValueError, RecursionError) as error:
        raise BadGraph("its head is not JSON") from error
    top = _Reader(head, "capture", ("images", "functions", "graphs"))
    images = _images(top, data[HEAD.size + length :])
    functions = top.each("functions", MOST_FUNCTIONS, lambda value, path: _function(value, path, len(images)))
    graphs = top.each(
        "graphs", MOST_GRAPHS, lambda value, path: _graph(value, path, len(functions), MOST_DEPTH)
    )
    if sum(count_nodes(each) for each in graphs) > MOST_NODES:
        raise BadGraph(f"more than {MOST_NODES} nodes")
    return Capture(images, functions, graphs)


def count_nodes(graph: Graph) -> int:
    """Count the nodes of a graph and of its child graphs."""
    return sum(count_nodes(each.graph) if isinstance(each, Child) else 1 for each in graph.nodes)


def _graph_object(graph: Graph) -> dict[str, Any]:
    return {
        "nodes": [_node_object(each) for each in graph.nodes],
        "edges": [[begin, end, data.hex()] for begin, end, data in graph.edges],
    }


def _node_object(node: Node) -> dict[str, Any]:
    match node:
        case Launch():
            return {
                "kind": "launch",
                "function": node.function,
                "grid": node.grid,
                "block": node.block,
                "shared_bytes": node.shared_bytes,
                "parameters": [[offset, value.hex()] for offset, value in node.parameters],
                "attributes": [[number, value.hex()] for number, value in node.attributes],
            }
        case Memset():
            fields = ("target", "pitch", "value", "element_bytes", "width", "height")
            return {"kind": "memset"} | {name: getattr(node, name) for name in fields}
        case Copy():
            parts = ("source", "target", "width", "height", "depth")
            return {"kind": "copy"} | {name: getattr(node, name) for name in parts}
        case Child():
            return {"kind": "child", "graph": _graph_object(node.graph)}
        case Empty():
            return {"kind": "empty"}


class _Reader:
    """An object of the head with exactly the keys that it has to have."""

    def __init__(self, value: object, path: str, keys: Sequence[str]) -> None:
        if not isinstance(value, dict) or set(value) != set(keys):
            raise BadGraph(f"{path}: an object with {', '.join(keys)} is due")
        self._value = value
        self.path = path

    def number(self, key: str, most: int) -> int:
        """Return a whole number of at least 0."""
        return _number(self._value[key], f"{self.path}.{key}", most)

    def text(self, key: str) -> str:
        """Return a name."""
        return _name(self._value[key], f"{self.path}.{key}")

    def numbers(self, key: str, count: int, most: int) -> tuple[int, ...]:
        """Return ``count`` numbers."""
        path = f"{self.path}.{key}"
        found = _list(self._value[key], path, count)
        if len(found) != count:
            raise BadGraph(f"{path}: expected {count} numbers")
        return tuple(_number(each, path, most) for each in found)

    def each(self, key: str, most: int, read: Callable[[object, str], T]) -> tuple[T, ...]:
        """Return ``read`` applied to each element."""
        path = f"{self.path}.{key}"
        found = _list(self._value[key], path, most)
        return tuple(read(value, f"{path}[{place}]") for place, value in enumerate(found))

    def value(self, key: str) -> object:
        """Return an unchecked value."""
        return self._value[key]


def _list(value: object, path: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise BadGraph(f"{path}: expected a list of at most {most}")
    return value


def _number(value: object, path: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BadGraph(f"{path}: expected a number from 0 to {most}")
    return value


def _name(value: object, path: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or "\0" in value:
        raise BadGraph(f"{path}: expected a name")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadGraph(f"{path}: expected a name") from error
    return value


def _bytes(value: object, path: str, most: int) -> bytes:
    if not isinstance(value, str) or len(value) > 2 * most or not value.isascii():
        raise BadGraph(f"{path}: expected at most {most} bytes in hexadecimal digits")
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise BadGraph(f"{path}: expected bytes in hexadecimal digits") from error


def _pair(value: object, path: str, count: int = 2) -> list[Any]:
    found = _list(value, path, count)
    if len(found) != count:
        raise BadGraph(f"{path}: expected {count} values")
    return found


def _images(top: _Reader, code: bytes) -> tuple[Image, ...]:
    if len(code) > MOST_IMAGE_BYTES:
        raise BadGraph(f"more than {MOST_IMAGE_BYTES} bytes of code")
    heads = top.each("images", MOST_IMAGES, _image_head)
    found, begin = [], 0
    for nbytes, variables in heads:
        found.append(Image(code[begin : begin + nbytes], variables))
        begin += nbytes
    if begin != len(code):
        raise BadGraph("the code is not as long as its head states")
    return tuple(found)


def _image_head(value: object, path: str) -> tuple[int, tuple[Global, ...]]:
    reader = _Reader(value, path, ("bytes", "variables"))
    variables = reader.each("variables", MOST_FUNCTIONS, _variable)
    return reader.number("bytes", MOST_IMAGE_BYTES), variables


def _variable(value: object, path: str) -> Global:
    name, content = _pair(value, path)
    return Global(_name(name, path), _bytes(content, path, MOST_GLOBAL_BYTES))


def _function(value: object, path: str, images: int) -> Function:
    reader = _Reader(value, path, ("name", "image", "attributes"))
    pairs = reader.each("attributes", 32, lambda each, at: _pair(each, at))
    attributes = {
        _number(number, reader.path, 64): _number(setting, reader.path, 1 << 30) for number, setting in pairs
    }
    image = reader.number("image", max(0, images - 1))
    if not images:
        raise BadGraph(f"{path}: there is no image")
    return Function(reader.text("name"), image, attributes)


def _graph(value: object, path: str, functions: int, depth: int) -> Graph:
    if not depth:
        raise BadGraph(f"{path}: graphs lie too deep within each other")
    reader = _Reader(value, path, ("nodes", "edges"))
    nodes = reader.each("nodes", MOST_NODES, lambda each, at: _node(each, at, functions, depth))
    edges = reader.each("edges", MOST_EDGES, lambda each, at: _edge(each, at, len(nodes)))
    return Graph(nodes, edges)


def _edge(value: object, path: str, nodes: int) -> tuple[int, int, bytes]:
    begin, end, data = _pair(value, path, 3)
    content = _bytes(data, path, EDGE_BYTES)
    if len(content) != EDGE_BYTES or not nodes:
        raise BadGraph(f"{path}: an edge between two nodes is due")
    return _number(begin, path, nodes - 1), _number(end, path, nodes - 1), content


def _node(value: object, path: str, functions: int, depth: int) -> Node:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "launch":
        return _launch(value, path, functions)
    if kind == "memset":
        reader = _Reader(
            value, path, ("kind", "target", "pitch", "value", "element_bytes", "width", "height")
        )
        return Memset(
            target=reader.number("target", ADDRESSES),
            pitch=reader.number("pitch", ADDRESSES),
            value=reader.number("value", (1 << 32) - 1),
            element_bytes=reader.number("element_bytes", 4),
            width=reader.number("width", ADDRESSES),
            height=reader.number("height", ADDRESSES),
        )
    if kind == "copy":
        return _copy(value, path)
    if kind == "child":
        reader = _Reader(value, path, ("kind", "graph"))
        return Child(_graph(reader.value("graph"), f"{path}.graph", functions, depth - 1))
    if kind == "empty":
        _Reader(value, path, ("kind",))
        return Empty()
    raise BadGraph(f"{path}: a node of unknown kind")


def _copy(value: object, path: str) -> Copy:
    reader = _Reader(value, path, ("kind", "source", "target", "width", "height", "depth"))
    s0, s1, s2, s3, s4, s5 = reader.numbers("source", 6, ADDRESSES)
    t0, t1, t2, t3, t4, t5 = reader.numbers("target", 6, ADDRESSES)
    return Copy(
        (s0, s1, s2, s3, s4, s5),
        (t0, t1, t2, t3, t4, t5),
        *(reader.number(key, ADDRESSES) for key in ("width", "height", "depth")),
    )


def _launch(value: object, path: str, functions: int) -> Launch:
    keys = ("kind", "function", "grid", "block", "shared_bytes", "parameters", "attributes")
    reader = _Reader(value, path, keys)
    if not functions:
        raise BadGraph(f"{path}: there is no function")
    gx, gy, gz = reader.numbers("grid", 3, (1 << 31) - 1)
    bx, by, bz = reader.numbers("block", 3, 1 << 16)
    return Launch(
        function=reader.number("function", functions - 1),
        grid=(gx, gy, gz),
        block=(bx, by, bz),
        shared_bytes=reader.number("shared_bytes", 1 << 24),
        parameters=_parameters(reader),
        attributes=reader.each("attributes", 64, _attribute),
    )


def _parameters(reader: _Reader) -> tuple[tuple[int, bytes], ...]:
    found = reader.each("parameters", 4_096, _parameter)
    if found and max(offset + len(content) for offset, content in found) > MOST_PARAMETER_BYTES:
        raise BadGraph(f"{reader.path}: more than {MOST_PARAMETER_BYTES} bytes of parameters")
    return found


def _parameter(value: object, path: str) -> tuple[int, bytes]:
    offset, content = _pair(value, path)
    return _number(offset, path, MOST_PARAMETER_BYTES), _bytes(content, path, MOST_PARAMETER_BYTES)


def _attribute(value: object, path: str) -> tuple[int, bytes]:
    number, content = _pair(value, path)
    setting = _bytes(content, path, ATTRIBUTE_BYTES)
    if len(setting) != ATTRIBUTE_BYTES:
        raise BadGraph(f"{path}: {ATTRIBUTE_BYTES} bytes are due")
    return _number(number, path, 64), setting
