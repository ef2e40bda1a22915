"""Submissions whose reports have all that a page can show; their figures are invented."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from builders import NOW, make_audit, make_case, make_report, make_stage, make_submission
from kernelcup.app.queue import lifecycle
from kernelcup.domain import Submission
from kernelcup.engine.database import Database
from kernelcup_harness.protocol import (
    CapturedOutput,
    CaseResult,
    Counters,
    Difference,
    Finding,
    Mismatch,
    Mode,
    RanKernel,
    Reason,
    RunReport,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
    Work,
    from_json,
)

CALLS = Path(__file__).parents[1] / "data/profiles/calls-h100.json"
RAN = RanKernel(
    name="_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi",
    image="0123456789abcdef",
    launches=3,
    grid=[4096, 1, 1],
    block=[128, 1, 1],
    registers=32,
    shared_bytes=0,
    local_bytes=0,
    share=0.42,
    origin="ATen",
)

CODE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def gray(source, target, n, BLOCK: tl.constexpr):
    # three planes, one pass: 12 bytes in, 4 out
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.load(source + 3 * at, mask=at < n)
    g = tl.load(source + 3 * at + 1, mask=at < n)
    b = tl.load(source + 3 * at + 2, mask=at < n)
    tl.store(target + at, 0.2989 * r + 0.5870 * g + 0.1140 * b, mask=at < n)


def custom_kernel(data):
    image, out = data
    n = out.numel()
    gray[(triton.cdiv(n, 1024),)](image, out, n, BLOCK=1024)
    return out
"""
SIZES = {512: 3050.0, 1024: 7590.0, 2048: 24130.0, 4096: 87090.0, 8192: 337400.0}
ENVIRONMENT = {
    "device": "NVIDIA H100 80GB HBM3",
    "driver": "570.86.15",
    "torch": "2.13.0",
    "triton": "3.7.1",
    "python": "3.11.7",
    "sandbox": {"kind": "bubblewrap"},
}
PHASES = {"start": 0.2, "import": 0.9, "test": 0.7, "ranked/claims": 1.4, "end": 0.1}


def ranked(*, level: TrustLevel = TrustLevel.WITNESSED, factor: float = 1.0, **overrides: Any) -> RunReport:
    """Return an accepted ranked run of five cases."""
    wall = level is TrustLevel.WALL_CLOCK
    chance = random.Random(7)
    cases = [
        _timed(index, size, ns * factor, level, chance, wall=wall)
        for index, (size, ns) in enumerate(SIZES.items())
    ]
    values: dict[str, Any] = {
        "stages": [
            make_stage(tests(10), name=StageName.TEST, duration_s=0.7),
            make_stage(cases, duration_s=1.4),
        ],
        "environment": ENVIRONMENT,
        "phases": PHASES,
        "duration_s": 3.4,
        "trust": level,
    }
    return make_report(**(values | overrides))


def _timed(
    index: int, size: int, ns: float, level: TrustLevel, chance: random.Random, *, wall: bool
) -> CaseResult:
    samples = [ns * (1 + chance.gauss(0, 0.005)) for _ in range(60)]
    audit = dataclasses.replace(make_audit(ns), level=level)
    if index == 4:
        text = "The interval is wide: the device’s clock fell once."
        audit = dataclasses.replace(audit, findings=[Finding(code="wide_interval", text=text)])
    return make_case(
        index=index,
        parameters={"height": size, "width": size, "seed": 5236 + index},
        timing=Timing(samples_ns=samples, audit=audit, overhead_ns=ns * 0.3 if wall else None),
        work=Work(bytes=12.0 * size * size, written=4.0 * size * size),
        floor_ns=ns * (0.41 + 0.13 * index),
        reference_ns=ns * 3.92,
        checks=60,
    )


def tests(count: int) -> list[CaseResult]:
    """Return cases that passed."""
    return [
        make_case(
            None, index=index, parameters={"height": 16 * index + 1, "width": 33, "seed": index}, checks=1
        )
        for index in range(count)
    ]


def wrong(**overrides: Any) -> RunReport:
    """Return a test run whose fourth case is wrong in the last elements of its last rows."""
    tiles = [[0] * 48 for _ in range(24)]
    tiles[23][47], tiles[23][46], tiles[22][47] = 300, 16, 4
    first = [
        Difference(position=[999, 984 + at], expected=f"{0.48213 + at / 10:.5f}", actual="0")
        for at in range(5)
    ]
    mismatch = Mismatch(
        where="output",
        wrong=320,
        total=1_000_000,
        largest_error=0.9821,
        first=first,
        rule="|actual - expected| > 0.0001 + 0.0001 * |expected|",
        shape=[1000, 1000],
        tiles=tiles,
    )
    bad = make_case(
        None,
        index=3,
        parameters={"height": 1000, "width": 1000, "seed": 5236},
        verdict=Verdict.WRONG_ANSWER,
        reason=Reason.DIFFERS,
        message="output: not close",
        mismatch=mismatch,
    )
    stage = make_stage(
        [*tests(3), bad], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER, planned_cases=10, duration_s=0.4
    )
    values: dict[str, Any] = {
        "mode": Mode.TEST,
        "verdict": Verdict.WRONG_ANSWER,
        "stage": StageName.TEST,
        "reason": Reason.DIFFERS,
        "message": "case 3: output: not close",
        "stages": [stage],
        "environment": ENVIRONMENT,
        "phases": {"start": 0.2, "import": 0.9, "test": 0.4},
        "stdout": CapturedOutput(text="block 0\nblock 1\n", total_bytes=16),
    }
    return make_report(**(values | overrides))


def broken(**overrides: Any) -> RunReport:
    """Return a run that did not compile."""
    log = (
        'main.cu(12): error: identifier "tid" is undefined\n'
        '      out[tid] = in[tid] * 2;\n          ^\n\n1 error detected in the compilation of "main.cu".\n'
    )
    values: dict[str, Any] = {
        "mode": Mode.TEST,
        "verdict": Verdict.COMPILE_ERROR,
        "stage": StageName.IMPORT,
        "reason": Reason.COMPILE,
        "message": log,
        "stages": [make_stage([], name=StageName.IMPORT, verdict=Verdict.COMPILE_ERROR, message=log)],
        "environment": ENVIRONMENT,
        "phases": {"start": 0.2, "build": 2.1},
        "stderr": CapturedOutput(text="warning: unused variable\n", total_bytes=25),
    }
    return make_report(**(values | overrides))


TABLE = """\
-----------------------  ------------  ------------  ------------  ------------
                   Name    Self CUDA %     Self CUDA    CUDA total    # of Calls
-----------------------  ------------  ------------  ------------  ------------
                   gray        98.21%      24.130us      24.130us             1
            aten::empty         1.79%       0.440us       0.440us             1
-----------------------  ------------  ------------  ------------  ------------
Self CUDA time total: 24.570us
"""


TRACE = b'{"traceEvents": [{"cat": "kernel", "name": "_Z3fooPf", "ts": 5, "dur": 12, "tid": 7}]}'


def profiled() -> RunReport:
    """Return a profile run."""
    trace = base64.b64encode(gzip.compress(TRACE, mtime=0)).decode()
    case = make_case(
        None, parameters={"height": 2048, "width": 2048, "seed": 7}, profile=TABLE, trace_gz64=trace
    )
    return make_report(
        mode=Mode.PROFILE,
        stages=[make_stage([case], name=StageName.PROFILE, duration_s=3.2)],
        environment=ENVIRONMENT,
        phases={"start": 0.2, "import": 0.9, "profile": 3.2},
        counters=from_json(Counters, json.loads(CALLS.read_text())["aten"]),
        ran=[RAN],
    )


def judged(db: Database, report: RunReport, **overrides: Any) -> Submission:
    """Store a submission of ada's and its result."""
    submission = make_submission(db, **({"mode": report.mode, "content": CODE.encode()} | overrides))
    finish(db, report)
    return submission


def finish(db: Database, report: RunReport) -> None:
    """Judge what is next on the H100."""
    lease = lifecycle.claim_next(
        db, owner="test", lease_s=60, devices=["H100"], now=NOW + timedelta(seconds=0.3)
    )
    assert lease is not None
    lifecycle.finish(
        db, lease, report=report, harness_hash="f", machine="h100-3", now=NOW + timedelta(seconds=3.7)
    )
