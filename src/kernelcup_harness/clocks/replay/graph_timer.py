"""Times calls of the task's own code as those of a submission are timed: graphs, on a cold cache, by the same counters.

A graph leaves out Python, launches and the gaps between kernels that launching causes. A baseline that was called
would have them, so a submission would be faster than it by doing nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.timed_replays import (
    LONGEST_WATCHED_NS,
    MOST_ROUNDS,
    ROUND_NS,
    WATCH_NS,
)
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.clocks.replay.witnessed import Round, Witness
from kernelcup_harness.device.port import Captured

MOST_WATCHED_BYTES = 1 << 30
"""Of the inputs of one watch."""
TINY_CALLS = 16
TINY_NS = 1_300.0
"""What a kernel that writes one number takes by the witness. An empty graph is no measure: its launch does nothing."""
TimeNs = Callable[[Callable[[], Any]], float]
Capture = Callable[[Callable[[Any], Any], Callable[[], Any]], Captured]


class GraphTimer:
    """Times calls by the witness, or by events less what they show beyond the time of a tiny kernel.

    Args:
        witness: None without one.
        time_ns: Times something on the device, with a cold cache and the launches queued before.
        capture: Makes a graph of a call and what makes its input; raises ``RuntimeError`` if it cannot be captured.
    """

    def __init__(
        self,
        witness: Witness | None,
        time_ns: TimeNs,
        capture: Capture,
    ) -> None:
        self._witness = witness
        self._time_ns = time_ns
        self._capture = capture
        self._beyond_ns: float | None = None

    def times_ns(
        self, call: Callable[[Any], Any], makes: Iterator[Callable[[], Any]], about_ns: float
    ) -> Iterator[list[float]]:
        """Yield the times of a few calls after the other, each on a new input; nothing if none can be captured.

        Args:
            call: What is timed; it was called before, so nothing is compiled.
            makes: What make the inputs.
            about_ns: What a call takes, roughly.
        """
        rounds = max(1, min(MOST_ROUNDS, int(WATCH_NS // (ROUND_NS + about_ns))))
        while True:
            graphs: list[Captured] = []
            try:
                while len(graphs) < rounds and sum(each.nbytes for each in graphs) <= MOST_WATCHED_BYTES:
                    graphs.append(self._capture(call, next(makes)))
            except RuntimeError:
                return
            yield self._watched_ns(graphs) if self._sees(about_ns) else self._events_ns(graphs)

    def _sees(self, about_ns: float) -> bool:
        return self._witness is not None and about_ns <= LONGEST_WATCHED_NS

    def _watched_ns(self, graphs: list[Captured]) -> list[float]:
        assert self._witness is not None
        witness = self._witness

        def round_of(graph: Captured) -> Round:
            def before() -> None:
                graph.restore()
                witness.sweep()
                torch.cuda.synchronize()

            def call() -> None:
                graph.replay()
                torch.cuda.synchronize()

            return Round(nodes=graph.nodes, before=before, call=call, after=lambda: None)

        try:
            return witness.watch([round_of(each) for each in graphs], lambda: None)
        except (trace.NothingSeen, TimerFailed):
            # Its counters do not work here now, and no submission's times will be by them.
            self._witness = None
            return self._events_ns(graphs)

    def _events_ns(self, graphs: list[Captured]) -> list[float]:
        if self._beyond_ns is None:
            tiny = self._capture(lambda data: data.fill_(1), lambda: torch.empty(1, device="cuda"))
            events_ns = [self._time_ns(tiny.replay) for _ in range(TINY_CALLS)]
            self._beyond_ns = statistics.median(events_ns) - TINY_NS
        found = []
        for graph in graphs:
            graph.restore()
            found.append(self._time_ns(graph.replay) - self._beyond_ns)
        return found
