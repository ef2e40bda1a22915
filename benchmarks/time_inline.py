"""CUDA C++ that names no stream, as submissions to the existing platform are: is it captured, and what does it score?

    python benchmarks/time_inline.py FOLDER [--repeats 3]

One sum, compiled by ``load_inline`` in the job's build step: launched on no stream (``none``), on PyTorch's current
one (``current``), and by PyTorch itself (``torch``). Each job is cold, in the sandbox.
"""

from __future__ import annotations

import sys
from typing import Any

import time_tasks as tasks
from time_common import ROOT, Log, compact, job, options, ranked, run_cold

SIZES = (512, 1024, 2048, 4096)
CURRENT = (ROOT / "tests/gpu/vectoradd/with_inline_cuda.py").read_text(encoding="utf-8")
NAMED, INCLUDED = ", 0, at::cuda::getCurrentCUDAStream()", "#include <ATen/cuda/CUDAContext.h>\n"
WAYS = {
    "none": CURRENT.replace(NAMED, "").replace(INCLUDED, ""),
    "current": CURRENT,
    "torch": tasks.TORCH_ADD,
}


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, repeats=3)
    log = Log(chosen, "inline")
    for number in range(chosen.repeats):
        for way, text in WAYS.items():
            if log.count(way=way) > number or log.is_over:
                continue
            spec = job(f"inline-{way}", tasks.ADD, text, SIZES, backend=log.backend, tests=SIZES[:1])
            seconds, report = run_cold(spec)
            log.add(way=way, seconds=seconds, report=compact(report))
            log.say(f"{way}: {seconds:.1f} s {said(report)}")
    return 0


def said(report: dict[str, Any]) -> str:
    """Return a report in short: what each case scored, and how."""
    audits = [
        case["timing"]["audit"] for case in ranked(report) if case["timing"] and case["timing"]["audit"]
    ]
    scores = [
        f"{'captured' if each['captured'] else 'eager'} {each['score_ns'] / 1e3:.2f}" for each in audits
    ]
    codes = sorted({finding["code"] for each in audits for finding in each["findings"]})
    return f"{report['verdict']} {report['trust']} {scores} {codes} {report['message'][-300:]}"


if __name__ == "__main__":
    sys.exit(main())
