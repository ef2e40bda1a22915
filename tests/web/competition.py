"""A competition under way, for tests of pages and for their pictures: results are invented."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from builders import (
    NOW,
    REFERENCE,
    make_actor,
    make_audit,
    make_board,
    make_case,
    make_device,
    make_report,
    make_stage,
    make_submission,
    make_task,
)
from kernelcup.app.courses import membership
from kernelcup.app.machines import dispatchers
from kernelcup.app.queue import lifecycle
from kernelcup.domain import OPERATOR, CodePolicy, RankingBy, Role, Visibility
from kernelcup.engine.database import Database
from kernelcup_harness.protocol import DuelResult, RunReport, Timing, TrustLevel, Verdict, Work

TRITON = """\
import torch
import triton
import triton.language as tl


@triton.jit
def gray(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


def custom_kernel(data):
    return data * 2
"""
CUDA = '''\
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
__global__ void gray(const float4* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = 0.2989f * x[at].x;
}
"""


def custom_kernel(data):
    return data * 2
'''
PLAIN = """\
import torch


def custom_kernel(data):
    return data * 2
"""
STATEMENT = """\
Turn an RGB image into its luminance.

`Y = 0.2989 R + 0.5870 G + 0.1140 B`, for each pixel of a square image of 32-bit floats.

## Input and output

| Name | Shape | Type |
|---|---|---|
| `image` | `(size, size, 3)` | `float32` |
| `output` | `(size, size)` | `float32` |

```python
def custom_kernel(data):
    image, output = data
    output[...] = image @ weights
    return output
```
"""
PEOPLE = (
    ("grace", "tma_v9.py", 27.02, 0.12, TRITON),
    ("linus", "vec8.py", 27.05, 0.15, CUDA),
    ("ada", "gray_fused.py", 27.70, 0.04, TRITON),
    ("margaret", "half2.py", 28.95, 0.3, CUDA),
    ("barbara", "g3.py", 29.02, 0.4, TRITON),
    ("edsger", "planar.py", 29.04, 0.06, CUDA),
    ("donald", "simple.py", 35.30, 0.08, TRITON),
    ("ken", "compiled.py", 33.91, 0.21, PLAIN),
)
"""Who is on the board, with which file, in how many microseconds, give or take."""

REFERENCE_US, FLOOR_US = 108.5, 19.9


def gray_task() -> Any:
    """Return a task with a statement, cases and declared work."""
    return make_task(
        name="grayscale",
        description=STATEMENT,
        sources={"reference.py": REFERENCE},
        templates={"Triton": TRITON, "CUDA": CUDA},
        tests=[{"size": size, "seed": 1} for size in (16, 64, 513)],
        benchmarks=[{"size": size, "seed": 2} for size in (1024, 2048, 4096)],
        hidden_benchmarks=[{"size": 3333, "seed": 3}],
        work=[Work(bytes=12.0 * size**2, written=4.0 * size**2) for size in (1024, 2048, 4096)],
        hidden_work=[Work(bytes=12.0 * 3333**2, written=4.0 * 3333**2)],
        ranking_by=RankingBy.GEOM,
    )


def gray_report(
    us: float, spread_us: float = 0.05, *, reference_us: float = REFERENCE_US, **overrides: Any
) -> RunReport:
    """Return an accepted ranked report whose cases took so long."""
    chance = random.Random(round(us * 1000))
    cases = []
    for index, factor in enumerate((0.5, 1.0, 2.0, 1.0)):
        middle = us * 1000 * factor
        samples = [middle + 3000 * spread_us * chance.uniform(-1, 1) for _ in range(60)]
        timing = Timing(samples_ns=samples, audit=make_audit(middle))
        cases.append(
            make_case(
                None,
                index=index,
                parameters={"size": 1024 * (index + 1), "seed": 2},
                hidden=index == 3,
                timing=timing,
                reference_ns=reference_us * 1000 * factor,
                floor_ns=FLOOR_US / REFERENCE_US * reference_us * 1000 * factor,
            )
        )
    return make_report(stages=[make_stage(cases)], **overrides)


def judge(db: Database, report: RunReport, *, at: datetime, rival: int | None = None) -> None:
    """Judge the job that is next."""
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100", "MI300", "here"], now=at)
    assert lease is not None
    lifecycle.finish(
        db,
        lease,
        report=report,
        harness_hash="f",
        machine="gpu-1",
        now=at + timedelta(seconds=40),
        rival=rival,
    )


def enter(
    db: Database,
    user: str,
    us: float,
    spread_us: float = 0.05,
    *,
    file_name: str = "kernel.py",
    code: str = TRITON,
    at: datetime = NOW,
    board: str = "grayscale",
    device: str = "H100",
    rival: int | None = None,
    **report: Any,
) -> int:
    """Submit and judge, and return the submission's number."""
    made = make_submission(
        db,
        board=board,
        user=user,
        devices=[device],
        file_name=file_name,
        content=f"{code}# {us}\n".encode(),
        now=at,
    )
    judge(db, gray_report(us, spread_us, **report), at=at, rival=rival)
    return made.id


def fill(db: Database) -> None:
    """Fill a database: an open board with a history, a frozen one, a closed one with duels, one to come."""
    make_actor(db, "grace", role=Role.CREATOR)
    make_board(
        db,
        name="grayscale",
        task=gray_task(),
        devices=["H100", "MI300"],
        now=NOW - timedelta(days=16),
        deadline=NOW + timedelta(days=6),
        code_policy=CodePolicy.AFTER_DEADLINE,
    )
    begins = NOW - timedelta(days=15)
    chance = random.Random(1)
    for number in range(70):
        user = PEOPLE[chance.randrange(len(PEOPLE))]
        progress = number / 70
        us = 36 + 80 * (1 - progress) ** 2 * chance.uniform(0.4, 1.3) + 12 * chance.random()
        enter(
            db,
            user[0],
            us,
            file_name=f"try_{number}.py",
            code=user[4],
            at=begins + timedelta(hours=5 * number),
        )
    for number, (name, file, us, spread, code) in enumerate(reversed(PEOPLE)):
        enter(db, name, us, spread, file_name=file, code=code, at=NOW - timedelta(hours=9 - number))
    enter(
        db, "niklaus", 31.2, file_name="late.py", at=NOW - timedelta(minutes=50), trust=TrustLevel.WALL_CLOCK
    )
    enter(db, "linus", 41.0, device="MI300", code=CUDA, at=NOW - timedelta(hours=3))
    _failed(db)
    _others(db)
    served = [make_device(name=each) for each in ("H100", "MI300")]
    dispatchers.check_in(db, owner="test", devices=served, started_at=NOW, draining=False, now=NOW)


def _failed(db: Database) -> None:
    """Have ada's latest submission be wrong, and one of ken's wait."""
    make_submission(db, board="grayscale", user="ada", devices=["H100"], file_name="gray_vec16.py", now=NOW)
    wrong = make_stage(
        [make_case(None, verdict=Verdict.WRONG_ANSWER, message="16 of 1024 elements are wrong")]
    )
    report = make_report(
        verdict=Verdict.WRONG_ANSWER, stages=[wrong], message="case 0: 16 of 1024 elements are wrong"
    )
    judge(db, report, at=NOW)


def _others(db: Database) -> None:
    past = NOW - timedelta(days=40)
    make_board(
        db,
        name="prefixsum",
        task=make_task(name="prefixsum", description="Inclusive prefix sum of 32-bit floats."),
        now=past,
        deadline=past + timedelta(days=20),
        duel=True,
    )
    before = enter(db, "barbara", 51.0, board="prefixsum", at=past)
    first = enter(
        db, "grace", 50.0, board="prefixsum", at=past + timedelta(hours=1), rival=before, duel=_duel(0.98)
    )
    enter(db, "ken", 49.9, board="prefixsum", at=past + timedelta(hours=2), rival=first, duel=_duel(1.0))
    make_board(
        db,
        name="matmul-fp8",
        task=make_task(name="matmul-fp8", description="Blockwise scaled FP8 matrix product, bfloat16 out."),
        devices=["H100", "MI300"],
        now=NOW - timedelta(days=3),
        deadline=NOW + timedelta(days=30),
        freeze_at=NOW - timedelta(hours=2),
    )
    enter(db, "ada", 812.0, 2.0, reference_us=2900.0, board="matmul-fp8", at=NOW - timedelta(days=2))
    enter(db, "ken", 790.0, 2.0, reference_us=2900.0, board="matmul-fp8", at=NOW - timedelta(hours=1))
    make_board(
        db,
        name="top-k",
        task=make_task(name="top-k", description="The 64 largest of each row."),
        opens_at=NOW + timedelta(days=2),
        deadline=NOW + timedelta(days=20),
    )
    make_board(db, name="class-2026", task=gray_task(), visibility=Visibility.CLOSED, pseudonymous=True)
    membership.add_member(db, OPERATOR, "class-2026", "ada", pseudonym="fox", now=NOW)
    membership.add_member(db, OPERATOR, "class-2026", "ken", pseudonym="owl", now=NOW)
    enter(db, "ada", 33.0, board="class-2026", at=NOW - timedelta(hours=5))
    enter(db, "ken", 32.0, board="class-2026", at=NOW - timedelta(hours=4))


def _duel(ratio: float) -> DuelResult:
    chance = random.Random(5)
    ratios = [ratio * (1 + 0.004 * chance.uniform(-1, 1)) for _ in range(24)]
    low, high = ratio * 0.998, ratio * 1.002
    verdict = "faster" if high < 1 else "tied"
    return DuelResult(
        ratios=ratios, pairs=[12, 12], ratio=ratio, low=low, high=high, verdict=verdict, blocks=24
    )
