"""Times of the clean room's kinds of calls in an ordinary process: CUDA events on a cold cache, and the profiler.

    python benchmarks/clean_room_bias.py FOLDER [--seconds 200] [--runs 3] [--only triton,aten]

Writes one JSON line a kind and process, with raw samples, to ``FOLDER/clean-room-bias.jsonl``, and goes on where it
stopped. Each run is one process without anything of ours: PyTorch's own allocator, four inputs in turns, 256 MiB
written before each call, two events around it. A call is measured as it is made, with its launches queued behind a
kernel that waits, and as a graph of its own where it can be captured. The time of an empty kernel between two events is
taken off, as the clean room takes off that of an empty graph. ``benchmarks/show.py`` compares.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from clean_room_cases import CASES
from clean_room_jobs import REPLAYED, Lines
from time_common import environment, options

from kernelcup_harness.protocol import Backend

NAME = "clean-room-bias.jsonl"
SAMPLES, EMPTIES, PLACES = 60, 60, 4
SWEEP_BYTES = 256 << 20
HIDING_CYCLES = 1_000_000
LONGEST_S = 240.0
GRAPHS = ("own_graph", "overhead", "max")
"""Kinds with graphs of their own come last: a capture that fails may leave PyTorch unable to capture others."""


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, runs=3, only="")
    until = time.monotonic() + chosen.seconds
    lines = Lines(chosen.folder, Backend.CUDA, NAME)
    names = chosen.only.split(",") if chosen.only else sorted(REPLAYED, key=lambda name: name in GRAPHS)
    for run in range(chosen.runs):
        missing = [name for name in names if lines.count(name=name) <= run]
        if missing and time.monotonic() < until:
            one_process(lines, missing, until)
    return 0


def one_process(lines: Lines, names: list[str], until: float) -> None:
    """Measure kinds in one fresh process, and note each line that it prints."""
    seconds = min(LONGEST_S, max(10.0, until - time.monotonic()))
    command = [sys.executable, __file__, "inside", ",".join(names), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if not text.startswith("{"):
                continue
            found = json.loads(text)
            lines.add(**found)
            print(told(found), flush=True)


def told(found: dict[str, Any]) -> str:
    """Return a line's medians in words."""
    if "failed" in found:
        return f"{found['name']}: {found['failed']}"
    figures = {key: found[key] for key in ("events_ns", "graph_ns", "profiler_ns") if found[key]}
    empty = statistics.median(found["empty_ns"])
    parts = [
        f"{key} {(statistics.median(each) - (0.0 if key == 'profiler_ns' else empty)) / 1e3:.2f}"
        for key, each in figures.items()
    ]
    return f"{found['name']}: {', '.join(parts)} us; empty {empty / 1e3:.2f}"


# --- inside a process of its own


def inside(names: list[str], seconds: float) -> None:
    """Measure kinds until the time is up, and print a line for each."""
    until = time.monotonic() + seconds
    for name in names:
        if time.monotonic() > until:
            return
        try:
            found = measured(name)
        except Exception as error:  # one kind must not cost the others their time
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"name": name, **found}), flush=True)


def measured(name: str) -> dict[str, Any]:
    """Return the raw times of one kind, in nanoseconds."""
    import torch

    case = CASES[name]
    data = [inputs(case, seed) for seed in range(PLACES)]
    call = case.build()
    for _ in range(3):
        for each in data:
            call(*each)
    torch.cuda.synchronize()
    calls = [lambda each=each: call(*each) for each in data]
    clock = Events()
    empty = [clock.time(lambda: torch.cuda._sleep(0)) for _ in range(EMPTIES)]
    events = [clock.time(calls[number % PLACES]) for number in range(SAMPLES)]
    profiler = profiled(calls)
    graphs = captured(calls)
    replays = [clock.time(graphs[number % PLACES].replay) for number in range(SAMPLES)] if graphs else []
    return {"events_ns": events, "graph_ns": replays, "profiler_ns": profiler, "empty_ns": empty}


def inputs(case: Any, seed: int) -> list[Any]:
    """Return an input like those of the jobs."""
    import torch

    chance = torch.Generator("cuda").manual_seed(seed)
    made = []
    for shape, name in case.inputs:
        dtype = getattr(torch, name)
        if dtype.is_floating_point:
            made.append(torch.randn(shape, generator=chance, device="cuda").to(dtype))
        else:
            made.append(torch.randint(0, 256, shape, generator=chance, device="cuda").to(dtype))
    return made


class Events:
    """Two events around a call, whose launches are queued while the device is still busy with the sweep."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._sweep = torch.empty(SWEEP_BYTES, dtype=torch.uint8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time(self, call: Any) -> float:
        """Return the nanoseconds of a call."""
        self._torch.cuda.synchronize()
        self._torch.cuda._sleep(HIDING_CYCLES)
        self._sweep.fill_(1)
        self._begin.record()
        call()
        self._end.record()
        self._torch.cuda.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e6


def captured(calls: list[Any]) -> list[Any]:
    """Return a graph of each call, none if they cannot be captured."""
    import torch

    graphs = []
    try:
        for call in calls:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
            graphs.append(graph)
            graph.replay()
        torch.cuda.synchronize()
    except Exception:
        torch.cuda.synchronize()
        return []
    return graphs


def profiled(calls: list[Any]) -> list[float]:
    """Return the profiler's time of each call, from the start of its first kernel to the end of its last one."""
    import torch
    from torch.profiler import ProfilerActivity

    # Read, as the judge's: what a sweep writes would be written back during the call.
    sweep = torch.zeros(SWEEP_BYTES // 8, dtype=torch.int64, device="cuda")
    mark = torch.empty(1, dtype=torch.float64, device="cuda")
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for number in range(SAMPLES // 2):
            torch.cuda.synchronize()
            sweep.sum()
            torch.cuda._sleep(HIDING_CYCLES)
            calls[number % PLACES]()
            torch.cuda.synchronize()
            # A copy to the host tells one call from the next.
            mark.to("cpu")
    return spans(recorded)


def spans(recorded: Any) -> list[float]:
    """Return the time of each group of operations between the kernel that waits and the copy behind the call."""
    import torch

    kind = torch.autograd.DeviceType.CUDA
    events = sorted(
        (each for each in recorded.events() if each.device_type == kind),
        key=lambda each: each.time_range.start,
    )
    found: list[float] = []
    group: list[Any] | None = None
    for each in events:
        if "spin_kernel" in each.name and group is None:
            group = []
        elif "Memcpy DtoH" in each.name:
            if group:
                found.append(1e3 * (max(e.time_range.end for e in group) - group[0].time_range.start))
            group = None
        elif group is not None:
            group.append(each)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(sys.argv[2].split(","), float(sys.argv[3]))
    else:
        sys.exit(main())
