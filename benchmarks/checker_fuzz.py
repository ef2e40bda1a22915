"""Answers made to break checkers: none may end as anything but a verdict about the answer.

    PYTHONPATH=src python benchmarks/checker_fuzz.py [--sample N] [--seed 0] [--check-s 1.0]

Each task that ships gets checkers that use an answer as indices, counts, bounds, keys and the like, in front of its
own. Each of them is given answers of the right form with hostile values. Prints one JSON object: how many were tried,
were wrong, were right, and each one that ended as the task's or the machine's fault. Fails if there is one.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"KERNELCUP_BACKEND": "emulated", "KERNELCUP_EMULATED": "1", "CUDA_VISIBLE_DEVICES": ""}

import torch

from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup_harness.core import check
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.device import accelerators
from kernelcup_harness.judge import checker
from kernelcup_harness.judge.fork_server import ForkServer
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    Limits,
    Mode,
    SampleName,
    SourceTree,
    StageName,
)
from kernelcup_harness.run import startup
from kernelcup_harness.submission import languages
from kernelcup_harness.wire import values

EXAMPLES = Path(__file__).resolve().parents[1] / "src/kernelcup/tasks/examples"
MEMORY_BYTES = 2 << 30

FUZZED = """
import ctypes, itertools, os, sys, threading
import torch
from {module} import *
import {module} as its

def numbers(value):
    if isinstance(value, torch.Tensor):
        first = value.detach().cpu().reshape(-1)[:64].double().nan_to_num()
        return [int(each) for each in first.clamp(-2.0**62, 2.0**62).tolist()]
    if isinstance(value, dict):
        return [each for item in value.values() for each in numbers(item)]
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in numbers(item)]
    return [int(value)] if isinstance(value, (int, float)) and value == value and abs(value) < 1e300 else []

def uses(found, right):
    # The reference's own numbers are within these bounds, so that it passes.
    low, high = min(right, default=0), max(right, default=0)
    size = high - low + 1
    {use}

def check_implementation(data, output):
    if {style!r} == "output_reference":
        uses(numbers(data), numbers(output))
    else:
        expected = its.ref_kernel(copied(data))
        uses(numbers(output), numbers(output if expected is None else expected))
    return its.check_implementation(data, output)

def copied(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    return type(value)(map(copied, value)) if type(value) in (list, tuple) else value
"""
USES = {
    "index of a list": "[list(range(size))[each - low] for each in found]",
    "index of a tensor": "torch.zeros(size)[torch.tensor([each - low for each in found], dtype=torch.long)]",
    "scatter": "torch.zeros(size).index_add_(0, torch.tensor([e - low for e in found]), torch.ones(len(found)))",
    "address": "table = (ctypes.c_ubyte * size)(); "
    "[ctypes.string_at(ctypes.addressof(table) + each - low, 1) for each in found]",
    "write to an address": "table = (ctypes.c_ubyte * size)(); "
    "[ctypes.memset(ctypes.addressof(table) + each - low, 1, 1) for each in found]",
    "count of a loop": "sum(1 for each in found for _ in range(abs(each) - max(map(abs, right), default=0)))",
    "bound of a loop": "n = max(map(abs, found), default=0) - max(map(abs, right), default=0)\n"
    "    while n > 0: n += 1",
    "shape": "torch.ones(max(1, max(found, default=0) - low), 4)",
    "negative shape": "torch.ones(min(found, default=0) - low)",
    "length of a list": "[0] * max(1, max(found, default=0) - low)",
    "length of a text": "'x' * (max(found, default=0) - high) * 8",
    "bits": "1 << max(0, max(found, default=0) - high)",
    "power": "10 ** max(0, max(found, default=0) - high)",
    "zip": "list(zip(range(max(0, len(set(found)) - len(set(right)))), (), strict=True))",
    "keys": "[dict.fromkeys(right)[each] or sorted(right).index(each) for each in found]",
    "sort": "sorted(found, key=lambda each: right.index(each))",
    "recursion": "def down(n): return n and down(n - 1)\n    [down(abs(each - high)) for each in found if each > high]",
    "permutations": "list(itertools.permutations(range(max(0, len(set(found) - set(right))))))",
    "exit": "[sys.exit(each) for each in found if each > high or each < low]",
    "abrupt exit": "[os._exit(3) for each in found if each > high or each < low]",
    "signal": "[os.kill(os.getpid(), 11) for each in found if each > high or each < low]",
    "waits": "[threading.Event().wait() for each in found if each > high or each < low]",
    "threads": "[threading.Thread(target=threading.Event().wait).start() for each in found if each > high]",
    "children": "[os.fork() or threading.Event().wait() for each in found[:3] if each > high]",
    "prints": "[print('x' * (1 << 20)) for each in found if each > high for _ in range(100)]",
    "bincount": "torch.bincount(torch.tensor([each - low for each in found] or [0]))",
    "state": "torch.set_default_dtype(torch.float64 if found != right else torch.float32); "
    "assert found == right; torch.set_default_dtype(torch.float32)",
}
"""What a checker does with the numbers of an answer, given those of the right one."""
HOSTILE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "huge": lambda right: torch.full_like(right, largest(right.dtype)),
    "least": lambda right: torch.full_like(right, least(right.dtype)),
    "minus one": lambda right: torch.full_like(right, -1 if least(right.dtype) < 0 else 1),
    "zeros": torch.zeros_like,
    "one off": lambda right: right + torch.ones_like(right),
    "a million": lambda right: torch.full_like(right, min(1_000_000, largest(right.dtype))),
    "random bits": lambda right: bits(right),
}
"""Answers of the right form, made of a tensor of the right one."""


def largest(dtype: torch.dtype) -> Any:
    """Return the largest number of a dtype."""
    return 1 if dtype is torch.bool else (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max


def least(dtype: torch.dtype) -> Any:
    """Return the least number of a dtype."""
    return 0 if dtype is torch.bool else (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).min


def bits(right: torch.Tensor) -> torch.Tensor:
    """Return random finite numbers of any size."""
    made = torch.randint(0, 256, (max(1, right.numel() * right.element_size()),), dtype=torch.uint8)
    found = made[: right.numel() * right.element_size()].view(torch.uint8)
    found = (found & 1).bool() if right.dtype is torch.bool else found.view(right.dtype)
    return (
        found.reshape(right.shape).nan_to_num() if right.is_floating_point() else found.reshape(right.shape)
    )


def main() -> int:
    """Try all, or a sample, and print what came of it. Return 1 if an answer was anyone else's fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check-s", type=float, default=1.0)
    options = parser.parse_args()
    check.CHECK_S = checker.CHECK_S = options.check_s
    began, chance = time.monotonic(), random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        # Before anything of a task is imported, as in the judge.
        server = ForkServer(checker.serve)
        accelerators.here().start()
        tasks = dict(shipped())
        tries = list(itertools.product(tasks, USES, ["right", *HOSTILE]))
        if options.sample:
            tries = sorted(chance.sample(tries, options.sample))
        outcomes, faults = Counter[str](), []
        for name, use, answer in tries:
            outcome = tried(server, tasks[name], use, answer)
            expected = answer != "right" or outcome == "right"
            outcomes[outcome if outcome in ("right", "wrong") else "fault"] += 1
            if outcome not in ("right", "wrong") or not expected:
                faults.append([name, use, answer, outcome])
                print(*faults[-1], file=sys.stderr, flush=True)
    took_s = round(time.monotonic() - began, 1)
    print(json.dumps({"tasks": len(tasks), "tries": len(tries), **outcomes, "s": took_s, "faults": faults}))
    return 1 if faults else 0


def shipped() -> Iterator[tuple[str, JobSpec]]:
    """Yield the tasks that ship, need no compiler, and are checked in a process of its own, as jobs."""
    for folder in sorted(EXAMPLES.iterdir()):
        single = folder / "reference_code.py"
        if folder.name.endswith("_cuda") or not (single.exists() or (folder / "task.yml").exists()):
            continue
        task = load_task(single if single.exists() else folder)
        if task.multi_gpu:
            continue  # the judge of each GPU rank checks these itself, within a group
        spec = build_job_spec(
            task,
            job_id="fuzz",
            submission=SourceTree.of("def custom_kernel(data): ..."),
            mode=Mode.TEST,
            backend=Backend.EMULATED,
            harness=HarnessKind.STANDARD,
        )
        yield folder.name, spec


def tried(server: ForkServer, spec: JobSpec, use: str, answer: str) -> str:
    """Return what becomes of an answer: right, wrong, or whose fault it is instead."""
    path, modules = list(sys.path), set(sys.modules)
    text = FUZZED.format(module=spec.reference_module, style=spec.check_style.value, use=USES[use])
    startup.lay_out({**spec.sources, "fuzzed.py": text})
    process = checker.CheckerProcess(server, lambda: 60.0, lends=False)
    try:
        task = TaskCode("fuzzed", spec.check_style, Path.cwd(), load=languages.task_functions)
        process.load(
            dataclasses.replace(spec, reference_module="fuzzed", limits=Limits(memory_bytes=MEMORY_BYTES))
        )
        checks = Checks(task, bytes(32), spec, checker=process, explain=process.explain)
        place, sample = Place(StageName.TEST, 0, spec.tests[0]), SampleName(input=0)
        right = checks.expected(checks.make_input(place, sample))
        change = HOSTILE.get(answer, torch.clone)
        output = values.with_tensors(right, lambda each: values.contiguous(change(each).to(each.dtype)))
        fault = checks.fault(place, sample, checks.make_input(place, sample), Answer(output=output))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        process.end()
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(Path.cwd())):
                del sys.modules[name]
    return "right" if fault is None else "wrong"


if __name__ == "__main__":
    raise SystemExit(main())
