"""What may disturb a time: data kept in the cache, a hot device, somebody else on it.

    python benchmarks/time_conditions.py FOLDER [--backend cuda] [--part kept|persisting|hint|hot|company|all]
        [--pairs 3] [--burn 15] [--processes 1]

``kept`` times, by the contestants' clock in a process of its own, a copy of 16 MiB and a sum that have as
much of the L2 cache set aside as there is and keep their inputs there by an access-policy window: of an input
that was there a moment ago, and of the same one after a gigabyte of others. ``persisting`` has such a copy of
16 and 32 MiB judged, in turns with the same one without, ``hint`` such a sum. ``hot`` runs an honest one in
turns cool and right after the GPU was busy for --burn seconds, ``company`` one while another process uses
the GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import time_tasks as tasks
from time_common import Log, Warm, compact, environment, job, options, warm

from kernelcup_harness.protocol import Backend

SIZES, SIZES_ON_HOST = (2048, 3072), (64, 128)
COPY_SIZES = (2896, 4096)
"""Of 2 bytes each: 16 and 32 MiB."""
HOT_PAIRS = 3
UNSEEN, LOOKED_AT, KEPT_ROUNDS = 64, 8, 40
"""Inputs of 16 MiB, those of which the times are kept, and how often there is a turn of each."""
LONGEST_S = 120
PERSISTING = """\
import ctypes

import torch

# struct CUaccessPolicyWindow, padded to the union that the driver takes
class Window(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("rest", ctypes.c_byte * 40),
    ]


driver = ctypes.CDLL("libcuda.so.1")
torch.zeros(1, device="cuda")
stream = torch.cuda.Stream()
most = ctypes.c_int()
if WINDOW:
    assert driver.cuDeviceGetAttribute(ctypes.byref(most), 108, 0) == 0
    # In a call it would wait for the device.
    assert driver.cuCtxSetLimit(6, ctypes.c_size_t(most.value)) == 0


def keep(tensors):
    begin = min(each.data_ptr() for each in tensors)
    end = max(each.data_ptr() + each.nbytes for each in tensors)
    window = Window(begin, end - begin, 1.0, 2, 0)
    assert driver.cuStreamSetAttribute(ctypes.c_void_p(stream.cuda_stream), 1, ctypes.byref(window)) == 0


def custom_kernel(data):
    if torch.cuda.is_current_stream_capturing():
        return computed(data)
    now = torch.cuda.current_stream()
    if WINDOW:
        keep(data if isinstance(data, tuple) else [data])
    stream.wait_stream(now)
    with torch.cuda.stream(stream):
        out = computed(data)
    now.wait_stream(stream)
    return out
"""
COPIED = """

def computed(data):
    # Not a copy to the driver, for which windows do not count.
    return data * 1
"""
ADDED = """

def computed(data):
    a, b = data
    return a + b
"""


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, part="all", pairs=3, burn=15.0, processes=1)
    log = Log(chosen, "conditions")
    parts = {"kept": kept, "persisting": persisting, "hint": hint, "hot": hot, "company": company}
    with warm(log.backend) as runners:
        for name, part in parts.items():
            if chosen.part in ("all", name) and not log.is_over:
                part(log, runners, chosen)
    return 0


def kept(log: Log, _runners: Warm, chosen: argparse.Namespace) -> None:
    """Time inputs that were there and ones that were not, in a process of its own."""
    if log.backend is not Backend.CUDA:
        return
    for _ in log.missing(chosen.processes, part="kept"):
        done = subprocess.run(
            [sys.executable, __file__, "--inside"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=LONGEST_S,
            check=True,
        )
        log.add(part="kept", found=json.loads(done.stdout.splitlines()[-1]))
        log.say("kept")


def persisting(log: Log, runners: Warm, chosen: argparse.Namespace) -> None:
    """Run a copy that keeps its input, and one that does not, in turns."""
    with_and_without(log, runners, chosen, "persisting", tasks.COPY, PERSISTING + COPIED)


def hint(log: Log, runners: Warm, chosen: argparse.Namespace) -> None:
    """Run a sum with a window and one without in turns.

    What is gained here is gained with inputs that were never seen before, too: a kernel that reads by a window
    drives less of what was written out of the cache.
    """
    with_and_without(log, runners, chosen, "hint", tasks.ADD, PERSISTING + ADDED)


def with_and_without(
    log: Log, runners: Warm, chosen: argparse.Namespace, part: str, task: str, text: str
) -> None:
    """Run a submission with its window and without in turns."""
    if log.backend is not Backend.CUDA:
        text = COPIED if task is tasks.COPY else ADDED
        text += "\n\ncustom_kernel = computed\n"
    for _ in log.missing(chosen.pairs, part=part, way="kept"):
        for way, window in (("plain", "False"), ("kept", "True")):
            one(log, runners, part, way, text.replace("WINDOW", window), task)


def hot(log: Log, runners: Warm, chosen: argparse.Namespace) -> None:
    """Run before and after a burn, three times: single runs differ by two hundredths."""
    for number in log.missing(HOT_PAIRS, part="hot", way="hot"):
        if runners.left < 2:
            runners.fill(2 * (HOT_PAIRS - number))
        one(log, runners, "hot", "cool", tasks.TORCH_ADD)
        with burning(log.backend):
            time.sleep(chosen.burn)
        one(log, runners, "hot", "hot", tasks.TORCH_ADD)


def company(log: Log, runners: Warm, _chosen: argparse.Namespace) -> None:
    """Run beside a process that uses the GPU."""
    for _ in log.missing(1, part="company", way="company"):
        runners.fill(2)
        one(log, runners, "company", "alone", tasks.TORCH_ADD)
        with burning(log.backend):
            one(log, runners, "company", "company", tasks.TORCH_ADD)


@contextmanager
def burning(backend: Backend) -> Iterator[None]:
    """Have another process use the GPU; without one, nothing."""
    if backend is not Backend.CUDA:
        yield
        return
    command = [sys.executable, str(Path(__file__).with_name("calibrate_device.py")), "--inside", "burn"]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert other.stdout is not None
        if other.stdout.readline().strip() != "burning":
            raise RuntimeError("the process that should use the GPU did not start")
        yield
    finally:
        other.kill()
        other.wait()


def one(log: Log, runners: Warm, part: str, way: str, text: str, task: str = tasks.ADD) -> None:
    """Run one job and note it."""
    sizes = COPY_SIZES if task is tasks.COPY else SIZES
    if log.backend is not Backend.CUDA:
        sizes = SIZES_ON_HOST
    spec = job(f"{part}-{way}", task, text, sizes, backend=log.backend, rules={"stage_budget_s": 3.0})
    if not runners.left:
        runners.fill(4)
    seconds, report = runners.run(spec)
    log.add(
        part=part,
        way=way,
        seconds=seconds,
        canary_expected_ns=spec.device.canary_ns if spec.device is not None else 0.0,
        canary_tolerance=spec.device.canary_tolerance if spec.device is not None else 0.0,
        report=compact(report),
    )
    log.say(f"{part} {way}: {seconds:.2f} s {report['verdict']} {report['message'][-300:]}")


# --- inside a process of its own


def inside() -> dict[str, Any]:
    """Return nanoseconds of calls by what is computed, by what is set aside, and by whether the input was there."""
    import torch

    from kernelcup_harness.l2 import Persisting
    from kernelcup_harness.timing import CudaClock

    clock = CudaClock()
    both = [torch.randn(2, COPY_SIZES[0], COPY_SIZES[0], device="cuda").half() for _ in range(UNSEEN // 2)]
    # Two in one piece of memory, as a window has to be.
    pairs = [(each[0], each[1]) for each in both]
    inputs = [each for pair in pairs for each in pair]
    found: dict[str, Any] = {}
    for what, text, data in (("copy", COPIED, inputs), ("sum", ADDED, pairs)):
        found[what] = {}
        for way, window in (("plain", "False"), ("kept", "True"), ("undefended", "True")):
            space: dict[str, Any] = {}
            exec((PERSISTING + text).replace("WINDOW", window), space)
            # What an attacker would do away with.
            clock._persisting = Persisting() if way != "undefended" else Undefended()  # type: ignore[assignment]
            found[what][way] = seen_and_unseen(clock, space["custom_kernel"], data)
            Persisting().reset()
    return found


class Undefended:
    """Takes nothing back."""

    def reset(self) -> None:
        """Do nothing."""


def seen_and_unseen(clock: Any, kernel: Any, data: list[Any]) -> dict[str, list[float]]:
    """Return what calls take whose input was in the last one, and ones whose input was not for long."""
    found: dict[str, list[float]] = {"seen": [], "unseen": []}
    for number in range(KEPT_ROUNDS + 1):
        for place, each in enumerate(data):
            unseen, seen = (clock.time(lambda each=each: kernel(each))[1] for _ in range(2))
            # The first round is a warm-up; of the others a few are enough.
            if number and place < LOOKED_AT:
                found["unseen"].append(unseen)
                found["seen"].append(seen)
    return found


if __name__ == "__main__":
    if "--inside" in sys.argv:
        print(json.dumps(inside()))
    else:
        sys.exit(main())
