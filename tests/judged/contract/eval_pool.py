"""A task's own harness in the newer style: the submission runs in the one worker of a pool.

``python3 eval.py MODE CASES`` judges ``custom_kernel`` from ``submission.py`` over the cases in the
file CASES, one to a line, and writes ``key: value`` lines to the pipe that ``POPCORN_FD`` names. The
pipe belongs to the parent; the worker, which imports the submission, is not given it.
"""

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

EXIT_USAGE = 2
EXIT_NO_PIPE = 111
EXIT_VALIDATION_FAILED = 112
EXIT_BAD_CASE = 113

MAX_RUNS = 20
MAX_SECONDS = 5.0
RELATIVE_ERROR = 0.001

# ----------------------------------------------------------------------------------------- cases

KEY = re.compile(r"[a-zA-Z_]\w*")
INTEGER = re.compile(r"[+-]?[0-9]+")
WORD = re.compile(r"[a-zA-Z]+")
LIST = re.compile(r"\[(.*)\]")


class BadCase(Exception):
    """A line of the cases file cannot be read."""


def parse_value(text):
    """Read an integer, ``True`` or ``False``, a word, or a list of these in brackets."""
    if found := LIST.fullmatch(text):
        return [parse_value(item.strip()) for item in found[1].split(",") if item.strip()]
    if text in ("True", "False"):
        return text == "True"
    if INTEGER.fullmatch(text):
        return int(text)
    if WORD.fullmatch(text):
        return text
    raise BadCase(f"{text!r} is no value")


def parse_case(line):
    """Read ``key: value; key: value``."""
    case = {}
    for part in line.split(";"):
        key, colon, value = part.partition(":")
        if not colon or not KEY.fullmatch(key.strip()):
            raise BadCase(f"{part!r} is not of the form 'key: value'")
        case[key.strip()] = parse_value(value.strip())
    return case


def read_cases(path, secret):
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


def clone(data):
    """Copy all tensors in a nest, so that the original stays as it was."""
    if isinstance(data, dict):
        return {key: clone(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(clone(value) for value in data)
    return data.clone() if hasattr(data, "clone") else data


def run_test(case):
    """Return whether the submission is right about a case, and what the checker says."""
    import torch
    from reference import check_implementation, generate_input
    from submission import custom_kernel

    data = generate_input(**case)
    torch.cuda.synchronize()
    output = custom_kernel(clone(data))
    torch.cuda.synchronize()
    return check_implementation(data, output)


def run_benchmark(case, recheck):
    """Return what is wrong and the times of the calls in nanoseconds; one of the two is empty.

    With ``recheck`` each call gets an input of its own, and each output is checked.
    """
    import torch
    from reference import check_implementation, generate_input
    from submission import custom_kernel
    from utils import clear_l2_cache

    good, message = run_test(case)
    if not good:
        return message, []
    case = dict(case)
    data = generate_input(**case)
    times = []
    began = time.perf_counter()
    while not enough(times, time.perf_counter() - began):
        if recheck and "seed" in case:
            case["seed"] = random.Random(case["seed"]).getrandbits(31)
            data = generate_input(**case)
        given = clone(data)
        clear_l2_cache()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        output = custom_kernel(given)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e6)
        if recheck:
            good, message = check_implementation(data, output)
            if not good:
                return message, []
    return "", times


def enough(times, seconds):
    """Whether the mean is known well enough, or measuring has taken long enough."""
    if len(times) < 3:
        return False
    error = statistics.stdev(times) / math.sqrt(len(times))
    precise = error < RELATIVE_ERROR * statistics.fmean(times)
    return precise or len(times) >= MAX_RUNS or seconds > MAX_SECONDS


def run_profile(case):
    """Return the profiler's table for one call."""
    import torch
    from reference import generate_input
    from submission import custom_kernel
    from torch.profiler import profile

    data = generate_input(**case)
    custom_kernel(clone(data))
    torch.cuda.synchronize()
    with profile() as recorded:
        custom_kernel(data)
        torch.cuda.synchronize()
    return recorded.key_averages().table(row_limit=20)


# -------------------------------------------------------------------------------- in the parent


class Results:
    """Writes ``key: value`` lines to the pipe."""

    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        self.file = open(descriptor, "w", encoding="utf-8")

    def log(self, key, value):
        text = str(value).replace("\n", "\\n")
        print(f"{key}: {text}", file=self.file, flush=True)


def test(results, pool, lines, cases):
    results.log("test-count", len(cases))
    passed = True
    for i, (line, case) in enumerate(zip(lines, cases)):
        results.log(f"test.{i}.spec", line)
        good, message = pool.apply(run_test, (case,))
        results.log(f"test.{i}.status", "pass" if good else "fail")
        if message:
            results.log(f"test.{i}.{'message' if good else 'error'}", message)
        passed = passed and good
    return passed


def benchmark(results, pool, lines, cases, recheck=False):
    results.log("benchmark-count", len(cases))
    passed = True
    for i, (line, case) in enumerate(zip(lines, cases)):
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


def leaderboard(results, pool, lines, cases):
    return benchmark(results, pool, lines, cases, recheck=True)


def profile(results, pool, lines, cases):
    results.log("benchmark-count", len(cases))
    for i, (line, case) in enumerate(zip(lines, cases)):
        report = pool.apply(run_profile, (case,)).encode()
        results.log(f"benchmark.{i}.spec", line)
        results.log(f"benchmark.{i}.report", base64.b64encode(report, b"+*").decode())
    return True


def statistics_of(times):
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


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in MODES:
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
