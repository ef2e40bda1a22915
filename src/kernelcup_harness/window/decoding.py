"""Reads captured graphs from data that may be forged: whatever breaks the rules is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from kernelcup_harness.window.graph_data import (
    ADDRESSES,
    ATTRIBUTE_BYTES,
    EDGE_BYTES,
    HEAD,
    LONGEST_NAME,
    MAGIC,
    MOST_DEPTH,
    MOST_EDGES,
    MOST_FUNCTIONS,
    MOST_GLOBAL_BYTES,
    MOST_GRAPHS,
    MOST_HEAD_BYTES,
    MOST_IMAGE_BYTES,
    MOST_IMAGES,
    MOST_NODES,
    MOST_PARAMETER_BYTES,
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
    Node,
    T,
    count_nodes,
)


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
