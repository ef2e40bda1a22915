"""The harness that KernelCup lends to tasks that name ``eval.py`` and do not ship their own.

``python3 eval.py MODE CASES`` judges ``custom_kernel`` from ``submission.py`` by ``reference.py``, over the
cases in the file CASES, one to a line, and writes ``key: value`` lines to the pipe that ``POPCORN_FD`` names.
MODE is ``test``, ``benchmark``, ``leaderboard`` or ``profile``. Copy this file into a task's folder and change
it: then that copy judges. Nothing of KernelCup is needed, only torch.

The pipe belongs to the parent; the worker, which imports the submission, does not inherit it. The submission
shares its process with the reference and the clock all the same: KernelCup calls such times self-measured.
"""

from __future__ import annotations

import base64
import math
import multiprocessing
import os
import random
import re
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool
from typing import Any

Case = dict[str, Any]

EXIT_USAGE = 2
EXIT_NO_PIPE = 111
EXIT_VALIDATION_FAILED = 112
EXIT_BAD_CASE = 113

LEAST_RUNS = 3
MOST_RUNS = 100
MOST_SECONDS = 10.0
"""For the calls of one case."""
RELATIVE_ERROR = 0.001
"""A mean with a smaller standard error needs no further calls."""

# ----------------------------------------------------------------------------------------- cases

KEY = re.compile(r"[a-zA-Z_]\w*")
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WORD = re.compile(r"\w+")
LIST = re.compile(r"\[(.*)\]")


class BadCase(Exception):
    """A line of the cases file cannot be read."""


def parse_value(text: str) -> Any:
    """Read a number, ``True`` or ``False``, a word, or a list of these in brackets."""
    if found := LIST.fullmatch(text):
        return [parse_value(item.strip(" '\"")) for item in found[1].split(",") if item.strip()]
    if text in ("True", "False"):
        return text == "True"
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text)
    if WORD.fullmatch(text):
        return text
    raise BadCase(f"{text!r} is no value")


def parse_case(line: str) -> Case:
    """Read ``key: value; key: value``."""
    case: Case = {}
    for part in line.split(";"):
        key, colon, value = part.partition(":")
        if not colon or not KEY.fullmatch(key.strip()):
            raise BadCase(f"{part!r} is not of the form 'key: value'")
        case[key.strip()] = parse_value(value.strip())
    return case


def read_cases(path: str, secret: str | None) -> tuple[list[str], list[Case]]:
    """Return the lines and the cases in them, their seeds mixed with the secret if there is one."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    cases = [parse_case(line) for line in lines]
    if secret is not None:
        for case in cases:
            if "seed" in case:
                case["seed"] = random.Random(f"{secret}/{case['seed']}").getrandbits(31)
    return lines, cases


# -------------------------------------------------------------------------------- in the worker


def clone(data: Any) -> Any:
    """Copy all tensors in a nest, so that the original stays as it was."""
    if isinstance(data, dict):
        return {key: clone(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        items = [clone(value) for value in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    return data.clone() if hasattr(data, "clone") else data


def check(data: Any, output: Any) -> tuple[bool, str]:
    """Return whether an output is right, and what the checker says about it.

    A checker answers with a boolean, a text (empty: right), or a pair of both.
    """
    from reference import check_implementation

    answer = check_implementation(data, output)
    if isinstance(answer, str):
        return not answer, answer
    good, text = answer if isinstance(answer, tuple) else (answer, "")
    return bool(good), text or ("" if good else "the checker rejects the output")


def has_gpu() -> bool:
    """Return whether there is a GPU; a torch that was built without CUDA can at most pretend to have one."""
    import torch

    return bool(torch.backends.cuda.is_built() and torch.cuda.is_available())


def settle() -> None:
    """Wait for the GPU, if there is one."""
    import torch

    if has_gpu():
        torch.cuda.synchronize()


def clear_cache() -> None:
    """Push the inputs out of the GPU's second-level cache."""
    import torch

    size = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
    torch.empty(2 * size, dtype=torch.uint8, device="cuda").zero_()


def run_test(case: Case) -> tuple[bool, str]:
    """Return whether the answer to a case is right, and what the checker says about it."""
    from reference import generate_input
    from submission import custom_kernel

    data = generate_input(**case)
    settle()
    output = custom_kernel(clone(data))
    settle()
    return check(data, output)


def run_benchmark(case: Case, recheck: bool) -> tuple[str, list[float]]:
    """Return what is wrong and the times of the calls in nanoseconds; one of the two is empty.

    With ``recheck`` each call gets an input of its own, and each output is checked.
    """
    from reference import generate_input
    from submission import custom_kernel

    good, text = run_test(case)
    if not good:
        return text, []
    case = dict(case)
    data = generate_input(**case)
    times: list[float] = []
    began = time.perf_counter()
    while not enough(times, time.perf_counter() - began):
        if recheck and "seed" in case:
            case["seed"] = random.Random(case["seed"]).getrandbits(31)
            data = generate_input(**case)
        output, ns = timed(custom_kernel, clone(data))
        times.append(ns)
        good, text = check(data, output) if recheck else (True, "")
        if not good:
            return text, []
    return "", times


def timed(custom_kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
    """Return a call's output and its time in nanoseconds, by the GPU's events if there is one."""
    import torch

    if not has_gpu():
        began = time.perf_counter_ns()
        return custom_kernel(data), float(max(1, time.perf_counter_ns() - began))
    clear_cache()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    output = custom_kernel(data)
    end.record()
    torch.cuda.synchronize()
    return output, start.elapsed_time(end) * 1e6


def enough(times: Sequence[float], seconds: float) -> bool:
    """Return whether the mean is known well enough, or measuring has taken long enough."""
    if len(times) < LEAST_RUNS:
        return False
    error = statistics.stdev(times) / math.sqrt(len(times))
    precise = error < RELATIVE_ERROR * statistics.fmean(times)
    return precise or len(times) >= MOST_RUNS or seconds > MOST_SECONDS


def run_profile(case: Case) -> str:
    """Return the profiler's table for one call."""
    from reference import generate_input
    from submission import custom_kernel
    from torch.profiler import profile

    data = generate_input(**case)
    custom_kernel(clone(data))
    settle()
    with profile() as recorded:
        custom_kernel(data)
        settle()
    return str(recorded.key_averages().table(row_limit=20))


# -------------------------------------------------------------------------------- in the parent


class Results:
    """Writes ``key: value`` lines to the pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self.file = open(descriptor, "w", encoding="utf-8")  # noqa: SIM115 - open until the end

    def log(self, key: str, value: object) -> None:
        """Write one line."""
        text = str(value).replace("\n", "\\n")
        print(f"{key}: {text}", file=self.file, flush=True)


def test(results: Results, pool: Pool, lines: list[str], cases: list[Case]) -> bool:
    """Check every case. Return whether all are right, as all modes do."""
    results.log("test-count", len(cases))
    passed = True
    for i, (line, case) in enumerate(zip(lines, cases, strict=True)):
        results.log(f"test.{i}.spec", line)
        good, text = pool.apply(run_test, (case,))
        results.log(f"test.{i}.status", "pass" if good else "fail")
        if text:
            results.log(f"test.{i}.{'message' if good else 'error'}", text)
        passed = passed and good
    return passed


def benchmark(
    results: Results, pool: Pool, lines: list[str], cases: list[Case], recheck: bool = False
) -> bool:
    """Time every case, on one input."""
    results.log("benchmark-count", len(cases))
    passed = True
    for i, (line, case) in enumerate(zip(lines, cases, strict=True)):
        results.log(f"benchmark.{i}.spec", line)
        fault, times = pool.apply(run_benchmark, (case, recheck))
        if fault:
            results.log(f"benchmark.{i}.status", "fail")
            results.log(f"benchmark.{i}.error", fault)
            passed = False
            if recheck:
                break
        else:
            for key, value in statistics_of(times).items():
                results.log(f"benchmark.{i}.{key}", value)
    return passed


def leaderboard(results: Results, pool: Pool, lines: list[str], cases: list[Case]) -> bool:
    """Time every case, on a new input for each call, and check each call."""
    return benchmark(results, pool, lines, cases, recheck=True)


def profile(results: Results, pool: Pool, lines: list[str], cases: list[Case]) -> bool:
    """Report the profile of one call for every case."""
    results.log("benchmark-count", len(cases))
    for i, (line, case) in enumerate(zip(lines, cases, strict=True)):
        report = pool.apply(run_profile, (case,)).encode()
        results.log(f"benchmark.{i}.spec", line)
        results.log(f"benchmark.{i}.report", base64.b64encode(report, b"+*").decode())
    return True


def statistics_of(times: Sequence[float]) -> dict[str, float]:
    """Return what the report shows of the times of a case."""
    deviation = statistics.stdev(times)
    return {
        "runs": len(times),
        "mean": statistics.fmean(times),
        "std": deviation,
        "err": deviation / math.sqrt(len(times)),
        "best": min(times),
        "worst": max(times),
    }


MODES = {"test": test, "benchmark": benchmark, "leaderboard": leaderboard, "profile": profile}


def main() -> int:
    """Judge, and return the exit code."""
    if len(sys.argv) != 3 or sys.argv[1] not in MODES:
        return EXIT_USAGE
    if "POPCORN_GPUS" in os.environ:
        sys.stderr.write("this eval.py uses one GPU; a task for several brings its own\n")
        return EXIT_USAGE
    if "POPCORN_FD" not in os.environ:
        return EXIT_NO_PIPE
    results = Results(int(os.environ.pop("POPCORN_FD")))
    secret = os.environ.pop("POPCORN_SEED", None)
    try:
        lines, cases = read_cases(sys.argv[2], secret)
    except BadCase:
        traceback.print_exc()
        return EXIT_BAD_CASE
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        passed = MODES[sys.argv[1]](results, pool, lines, cases)
    results.log("check", "pass" if passed else "fail")
    return 0 if passed else EXIT_VALIDATION_FAILED


if __name__ == "__main__":
    sys.exit(main())
