"""What a score says against what the profiler sees: six kernels, captured and eager, and spin kernels.

    python benchmarks/time_bias.py FOLDER [--backend cuda] [--repeats 2]

The profiler (CUPTI, through torch.profiler) looks on in a process of its own, while the same calls are
made on a cold cache. Each of the six is one kernel, so its time there is what a call takes. As in a job
another process works on the GPU between two calls (there it is the judge, who checks answers): that empties
the caches of instructions as well, and a large kernel takes half a microsecond longer. The kernels' times
without such a neighbour are stored beside these.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import time_tasks as tasks
from time_common import Log, compact, environment, job, options, warm

from kernelcup_harness.protocol import Backend

KINDS = (1, 2, 3, 4, 5, 6)
CALLS = 40
SPIN_CYCLES = (0, 10_000, 20_000, 50_000, 100_000, 200_000)
EAGER = tasks.TORCH_SIX.replace("CAPTURED = True", "CAPTURED = False")
LONGEST_S = 120


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, repeats=2)
    log = Log(chosen, "bias")
    jobs = [
        (way, job(f"six-{way}", tasks.SIX, text, KINDS, backend=log.backend, tests=(1, 4, 6)))
        for way, text in (("captured", tasks.TORCH_SIX), ("eager", EAGER))
    ]
    with warm(log.backend) as runners:
        for number in range(chosen.repeats):
            if log.backend is Backend.CUDA and log.count(way="profiler") <= number and not log.is_over:
                log.add(way="profiler", **profiled())
                log.say("profiler")
            for way, spec in jobs:
                if log.count(way=way) > number or log.is_over:
                    continue
                if not runners.left:
                    runners.fill(2)
                seconds, report = runners.run(spec)
                log.add(way=way, seconds=seconds, report=compact(report))
                log.say(f"{way}: {seconds:.2f} s {report['verdict']} {report['message'][-200:]}")
    return 0


def profiled() -> dict[str, Any]:
    """Return what the profiler says, from a fresh process."""
    command = [sys.executable, __file__, "--inside"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=LONGEST_S, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- inside a process of its own


def inside() -> dict[str, Any]:
    """Profile the six kernels and the spin kernels; nanoseconds of each call."""
    import torch

    task: dict[str, Any] = {}
    exec(tasks.SIX, task)
    calls: list[tuple[str, Any]] = []
    for kind in KINDS:
        data = [task["generate_input"](kind, seed) for seed in range(4)]
        calls.append((f"kind {kind}", [lambda each=each: task["ref_kernel"](each) for each in data]))
    calls += [(f"spin {n}", [lambda n=n: torch.cuda._sleep(n)]) for n in SPIN_CYCLES]
    with neighbour() as turn:
        return {
            name: {
                "profiler_ns": seen(each, turn),
                "alone_ns": seen(each, lambda: None),
                "events_ns": by_events(each),
            }
            for name, each in calls
        }


@contextmanager
def neighbour() -> Iterator[Callable[[], None]]:
    """Have another process; what is given makes it work on the GPU for a moment, as a judge does."""
    command = [sys.executable, __file__, "--neighbour"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        to, answers = other.stdin, other.stdout

        def turn() -> None:
            to.write("turn\n")
            to.flush()
            if not answers.readline():
                raise RuntimeError("the neighbour is gone")

        turn()
        yield turn
        to.close()


def be_neighbour() -> None:
    """Compare two matrices for each line that comes."""
    import torch

    a = torch.randn(1024, 1024, device="cuda")
    b = a.clone()
    for _line in sys.stdin:
        torch.allclose(a, b)
        torch.cuda.synchronize()
        print("done", flush=True)


def by_events(calls: list[Any]) -> list[float]:
    """Return what two events around each call read, on a cold cache."""
    import torch

    from kernelcup_harness.timing import CudaClock

    clock = CudaClock()
    torch.cuda.synchronize()
    return [clock.time(calls[number % len(calls)])[1] for number in range(CALLS)]


def seen(calls: list[Any], between: Callable[[], None]) -> list[float]:
    """Return how long the profiler sees each call's kernels, from the first's start to the last's end."""
    import torch
    from torch.profiler import ProfilerActivity

    from kernelcup_harness import l2

    persisting = l2.Persisting()
    sweep = torch.empty(l2.sweep_bytes(), dtype=torch.uint8, device="cuda")
    mark = torch.empty(1, dtype=torch.float64, device="cuda")
    for _ in range(10):
        calls[0]()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
        for number in range(CALLS):
            torch.cuda.synchronize()
            between()
            persisting.reset()
            sweep.fill_(1)
            calls[number % len(calls)]()
            torch.cuda.synchronize()
            # A copy tells one call from the next.
            mark.to("cpu")
    return spans(recorded)


def spans(recorded: Any) -> list[float]:
    """Return the time of each group of kernels between a sweep and the copy behind it."""
    import torch

    kind = torch.autograd.DeviceType.CUDA
    events = sorted(
        (each for each in recorded.events() if each.device_type == kind),
        key=lambda each: each.time_range.start,
    )
    found: list[float] = []
    group: list[Any] | None = None
    for each in events:
        if "Fill" in each.name and group is None:
            group = []
        elif "Memcpy" in each.name or "memcpy" in each.name:
            if group:
                found.append(1e3 * (group[-1].time_range.end - group[0].time_range.start))
            group = None
        elif group is not None:
            group.append(each)
    return found


if __name__ == "__main__":
    if "--neighbour" in sys.argv:
        be_neighbour()
    elif "--inside" in sys.argv:
        print(json.dumps(inside()))
    else:
        sys.exit(main())
