"""A captured submission as data, sent from the contestant to the timer.

Encoded as a JSON head followed by the bytes of the images. The contestant may send anything: :func:`decode`
accepts only known content within limits, and raises :class:`BadGraph` with the path of the fault.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kernelcup_harness.protocol import RanKernel

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
SHAPE = 32
"""Characters of a shape."""
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


def count_nodes(graph: Graph) -> int:
    """Count the nodes of a graph and of its child graphs."""
    return sum(count_nodes(each.graph) if isinstance(each, Child) else 1 for each in graph.nodes)


def shape(graph: Graph) -> str:
    """Return what graphs have in common that do the same elsewhere: kinds, functions, grids, sizes, and edges."""
    return hashlib.sha256(repr(_shape(graph)).encode()).hexdigest()[:SHAPE]


def _shape(graph: Graph) -> tuple[object, ...]:
    nodes: list[object] = []
    for node in graph.nodes:
        match node:
            case Launch():
                nodes.append((node.function, node.grid, node.block, node.shared_bytes, node.attributes))
            case Memset():
                nodes.append((node.element_bytes, node.width, node.height))
            case Copy():
                nodes.append(("copy", node.width, node.height, node.depth))
            case Child():
                nodes.append(_shape(node.graph))
            case Empty():
                nodes.append(())
    return tuple(nodes), sorted(graph.edges)


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


@dataclass(slots=True)
class Rebuilt:
    """Graphs that can be launched, the attributes that they lack, and parameters with addresses that lead nowhere."""

    executables: list[int]
    nodes: list[int]
    """The number of nodes of each that do something, with those of child graphs."""
    shapes: list[str] = field(default_factory=list)
    """The :func:`shape` of each."""
    dropped: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    ran: list[RanKernel] = field(default_factory=list)
    """The kernels of the first graph."""
    steps: list[int] = field(default_factory=list)
    """Of a call that was cut: see :class:`kernelcup_harness.window.steps.Steps`."""
