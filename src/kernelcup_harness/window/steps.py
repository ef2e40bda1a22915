"""A call, cut after each of its kernels: what a kernel adds to the time of those before it is its own time.

Kernels run in a row, in an order that the graph allows, and each graph begins where the call begins. So a kernel finds
the memory and the cache as in the call: one that waits for a counter, or reads indices that another has written, would
hang or fault by itself. Branches do not overlap, so the order in which a submission names them changes no time.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kernelcup_harness.window.graph_data import Capture, Child, Empty, Graph, Launch, Node
from kernelcup_harness.window.messages import MOST_STEPS as MOST_STEPS
from kernelcup_harness.window.messages import NO_KERNEL

MOST_NODES = 2_048
"""Most nodes of a call that is cut: each of its graphs has all nodes before its end."""
PLAIN_EDGE = bytes(8)

Form = tuple[int, tuple[int, int, int], tuple[int, int, int], int]
"""Function, grid, block and dynamic shared memory of a launch."""


class TooMany(ValueError):
    """A call has too many kernels to be cut."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The graphs of a cut call, the whole one first and the shortest last."""

    capture: Capture
    kernels: list[int]
    """For each step of the call, in order, the number of its form in :func:`forms`; -1 for copies and memsets."""


def cut(capture: Capture, place: int) -> Steps:
    """Cut a graph. Raise :class:`TooMany`, or ``IndexError`` if there is no such graph."""
    nodes = list(in_a_row(capture.graphs[place]))
    ends = [at for at, node in enumerate(nodes, 1) if at == len(nodes) or what(nodes[at]) != what(node)]
    if len(nodes) > MOST_NODES or len(ends) > MOST_STEPS:
        raise TooMany(f"a call of {len(nodes)} nodes in {len(ends)} steps is not cut")
    graphs = tuple(row(nodes[:end]) for end in reversed(ends))
    known = {form: number for number, form in enumerate(forms(graphs[0]))} if graphs else {}
    kinds = [what(nodes[end - 1]) for end in ends]
    kernels = [NO_KERNEL if kind is None else known[kind] for kind in kinds]
    return Steps(Capture(capture.images, capture.functions, graphs), kernels)


def forms(graph: Graph) -> dict[Form, int]:
    """Return how often each form of a kernel is launched, in the order of the first launches."""
    found: dict[Form, int] = {}
    for each in launches_of(graph):
        form = form_of(each)
        found[form] = found.get(form, 0) + 1
    return found


def form_of(launch: Launch) -> Form:
    """Return what is equal for repeated launches of a kernel."""
    return launch.function, launch.grid, launch.block, launch.shared_bytes


def launches_of(graph: Graph) -> Iterator[Launch]:
    """Yield the kernel nodes of a graph and of its child graphs."""
    for node in graph.nodes:
        if isinstance(node, Launch):
            yield node
        elif isinstance(node, Child):
            yield from launches_of(node.graph)


def what(node: Node) -> Form | None:
    """Return the form of a kernel, None for copies and memsets: equal neighbours are one step."""
    return form_of(node) if isinstance(node, Launch) else None


def in_a_row(graph: Graph) -> Iterator[Node]:
    """Yield the nodes that do something in an order that the edges allow, those of child graphs in their places."""
    after: dict[int, list[int]] = defaultdict(list)
    waits = [0] * len(graph.nodes)
    for begin, end, _ in graph.edges:
        after[begin].append(end)
        waits[end] += 1
    ready = [number for number, count in enumerate(waits) if not count]
    while ready:
        number = heapq.heappop(ready)
        node = graph.nodes[number]
        if isinstance(node, Child):
            yield from in_a_row(node.graph)
        elif not isinstance(node, Empty):
            yield node
        for each in after[number]:
            waits[each] -= 1
            if not waits[each]:
                heapq.heappush(ready, each)


def row(nodes: list[Node]) -> Graph:
    """Return a graph whose nodes follow each other."""
    return Graph(tuple(nodes), tuple((at, at + 1, PLAIN_EDGE) for at in range(len(nodes) - 1)))
