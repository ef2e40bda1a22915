"""A task's own harness in the older style: one process, which holds the result pipe and runs it all.

``python3 eval.py MODE CASES`` judges ``custom_kernel`` from ``submission.py`` over the cases in the
file CASES. Cases consist of integers and words. The checker says what is wrong, or nothing. Only the
last benchmark is ranked, by the host's clock, and there is no profile mode.
"""

import math
import os
import re
import statistics
import sys
import time

EXIT_USAGE = 2
EXIT_CUDA_FAILED = 110
EXIT_NO_PIPE = 111
EXIT_VALIDATION_FAILED = 112
EXIT_BAD_CASE = 113

RUNS = 10
PART = re.compile(r"\s*([a-zA-Z]+):\s*([a-zA-Z]+|[+-]?[0-9]+)\s*")


class CudaFailed(Exception):
    """The device reported an error, after which nothing can be trusted."""


def log(key, value):
    """Write one result line. A broken pipe ends the run: nobody would hear of the rest."""
    text = str(value).replace("\n", "\\n")
    try:
        os.write(int(os.environ["POPCORN_FD"]), f"{key}: {text}\n".encode())
    except OSError:
        sys.exit(EXIT_NO_PIPE)


def read_cases(path):
    """Return the lines and the cases in them; refuse sizes that no tensor can have."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    cases = []
    for line in lines:
        case = {}
        for part in line.split(";"):
            found = PART.fullmatch(part)
            if found is None:
                refuse(line, f"{part!r} cannot be read")
            case[found[1]] = found[2] if found[2].isalpha() else int(found[2])
        if case.get("size", 0) < 0:
            refuse(line, "the size is negative")
        cases.append(case)
    return lines, cases


def refuse(line, reason):
    print(f"bad case {line!r}: {reason}", file=sys.stderr)
    sys.exit(EXIT_BAD_CASE)


def call(custom_kernel, data):
    """Call the submission and wait for the device; tell the device's errors from all others."""
    import torch

    try:
        output = custom_kernel(data)
        torch.cuda.synchronize()
    except RuntimeError as error:
        if "CUDA error" in str(error):
            raise CudaFailed(str(error)) from error
        raise
    return output


def check(custom_kernel, case):
    """Return what is wrong with the answer to one case, nothing if it is right."""
    from reference import check_implementation, generate_input

    data = generate_input(**case)
    return check_implementation(data, call(custom_kernel, data.clone()))


def test(custom_kernel, lines, cases):
    log("test-count", len(cases))
    passed = True
    for i, (line, case) in enumerate(zip(lines, cases)):
        log(f"test.{i}.spec", line)
        try:
            error = check(custom_kernel, case)
        except CudaFailed as failure:
            log(f"test.{i}.status", "fail")
            log(f"test.{i}.error", failure)
            raise
        log(f"test.{i}.status", "fail" if error else "pass")
        if error:
            log(f"test.{i}.error", error)
            passed = False
    return passed


def benchmark(custom_kernel, lines, cases):
    from reference import generate_input

    log("benchmark-count", len(cases))
    for i, (line, case) in enumerate(zip(lines, cases)):
        log(f"benchmark.{i}.spec", line)
        error = check(custom_kernel, case)
        if error:
            log(f"benchmark.{i}.status", "fail")
            log(f"benchmark.{i}.error", error)
            return False
        data = generate_input(**case)
        times = []
        for _ in range(RUNS):
            began = time.perf_counter_ns()
            call(custom_kernel, data)
            times.append(time.perf_counter_ns() - began)
        deviation = statistics.stdev(times)
        log(f"benchmark.{i}.runs", RUNS)
        log(f"benchmark.{i}.mean", statistics.fmean(times))
        log(f"benchmark.{i}.std", deviation)
        log(f"benchmark.{i}.err", deviation / math.sqrt(RUNS))
        log(f"benchmark.{i}.best", min(times))
        log(f"benchmark.{i}.worst", max(times))
    return True


def leaderboard(custom_kernel, lines, cases):
    return benchmark(custom_kernel, lines[-1:], cases[-1:])


MODES = {"test": test, "benchmark": benchmark, "leaderboard": leaderboard}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in MODES:
        sys.exit(EXIT_USAGE)
    if "POPCORN_FD" not in os.environ:
        sys.exit(EXIT_NO_PIPE)
    lines, cases = read_cases(sys.argv[2])
    from utils import set_seed

    set_seed(int(os.environ.get("POPCORN_SEED", 42)))
    from submission import custom_kernel

    try:
        passed = MODES[sys.argv[1]](custom_kernel, lines, cases)
    except CudaFailed as failure:
        print(failure, file=sys.stderr)
        sys.exit(EXIT_CUDA_FAILED)
    log("check", "pass" if passed else "fail")
    sys.exit(0 if passed else EXIT_VALIDATION_FAILED)


if __name__ == "__main__":
    main()
