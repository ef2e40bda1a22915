"""What may disturb a time: data kept in the cache, a hot device, somebody else on it.

    python benchmarks/time_conditions.py FOLDER [--backend cuda] [--part persisting|hot|company|all]
        [--pairs 6] [--burn 15]

``persisting`` runs a submission that keeps its inputs in the L2 cache by an access-policy window, in
turns with the same one without. ``hot`` runs an honest one in turns cool and right after the GPU was busy
for --burn seconds, ``company`` one while another process uses the GPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import time_tasks as tasks
from time_common import Log, Warm, compact, environment, job, options, warm

from kernelcup_harness.protocol import Backend

SIZES, SIZES_ON_HOST = (2048, 3072), (64, 128)
HOT_PAIRS = 3
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
stream = torch.cuda.Stream()
answers = {}


def keep(tensors):
    begin = min(each.data_ptr() for each in tensors)
    end = max(each.data_ptr() + each.nbytes for each in tensors)
    window = Window(begin, end - begin, 1.0, 2, 0)
    handle = ctypes.c_void_p(stream.cuda_stream)
    answers["limit"] = driver.cuCtxSetLimit(6, ctypes.c_size_t(48 << 20))
    answers["window"] = driver.cuStreamSetAttribute(handle, 1, ctypes.byref(window))


def custom_kernel(data):
    a, b = data
    if torch.cuda.is_current_stream_capturing():
        return a + b
    now = torch.cuda.current_stream()
    if WINDOW:
        keep([a, b])
    stream.wait_stream(now)
    with torch.cuda.stream(stream):
        out = a + b
    now.wait_stream(stream)
    return out
"""


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, part="all", pairs=6, burn=15.0)
    log = Log(chosen, "conditions")
    parts = {"persisting": persisting, "hot": hot, "company": company}
    with warm(log.backend) as runners:
        for name, part in parts.items():
            if chosen.part in ("all", name) and not log.is_over:
                part(log, runners, chosen)
    return 0


def persisting(log: Log, runners: Warm, chosen: argparse.Namespace) -> None:
    """Run both in turns."""
    text = PERSISTING if log.backend is Backend.CUDA else tasks.TORCH_ADD
    for _ in log.missing(chosen.pairs, part="persisting", way="kept"):
        for way, window in (("plain", "False"), ("kept", "True")):
            one(log, runners, "persisting", way, text.replace("WINDOW", window))


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


def one(log: Log, runners: Warm, part: str, way: str, text: str) -> None:
    """Run one job and note it."""
    sizes = SIZES if log.backend is Backend.CUDA else SIZES_ON_HOST
    spec = job(f"{part}-{way}", tasks.ADD, text, sizes, backend=log.backend, rules={"stage_budget_s": 3.0})
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


if __name__ == "__main__":
    sys.exit(main())
