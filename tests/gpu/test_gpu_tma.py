"""Kernels that make tensor maps with CUDA's driver: built against it, replayed, as leaderboard and as submission.

They need Hopper: a copy by the bulk copy engine, and a product by wgmma.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable

import pytest
import torch

from kernelcup_harness.protocol import (
    Backend,
    CudaBuild,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RunReport,
    SourceTree,
    StageName,
    Verdict,
)
from kernelcup_harness.run.runner import run_job
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from tma_boards import REFERENCES, reference, submission

IS_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not IS_HOPPER, reason="no Hopper GPU"),
    pytest.mark.skipif(find_nvcc(os.environ) is None, reason="no nvcc"),
]

LARGE = {"double": 4096, "product": 64}
"""Sizes of about a hundred microseconds: 256 MiB of floats, and a product of 4096."""


def judged(
    board: str, reference_how: str, submission_how: str, *, mode: Mode = Mode.LEADERBOARD, size: int = 16
) -> RunReport:
    """Judge a submission of a board; ``how`` is ``by_tma`` or ``plainly``."""
    name = REFERENCES[board]
    spec = JobSpec(
        job_id=f"tma-{board}-{submission_how}",
        mode=mode,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={name: reference(board, reference_how)},
        reference_module=name,
        private_files=[name],
        submission=SourceTree.of(submission(board, submission_how), "submission.cu"),
        cuda=CudaBuild(rtol=0.01, atol=0.01),
        tests=[{"size": 2, "seed": 3}],
        benchmarks=[{"size": size, "seed": 4}],
        rules=MeasureRules(min_samples=16, max_samples=24, stage_budget_s=3.0),
    )
    report = run_job(spec, lambda _event: None)
    said = [report.message, report.stderr.text, *(stage.message for stage in report.stages)]
    assert report.verdict is Verdict.ACCEPTED, "\n".join(said)
    return report


@pytest.mark.parametrize("board", list(REFERENCES))
@pytest.mark.parametrize(("reference_how", "submission_how"), [("plainly", "by_tma"), ("by_tma", "plainly")])
def test_a_kernel_with_tensor_maps_is_right_and_replayed(
    board: str, reference_how: str, submission_how: str
) -> None:
    report = judged(board, reference_how, submission_how)
    ranked = [
        case.timing for stage in report.stages if stage.name is StageName.RANKED for case in stage.cases
    ]
    assert ranked
    assert all(timing is not None and timing.audit is not None and timing.audit.captured for timing in ranked)


@pytest.mark.parametrize("board", list(REFERENCES))
def test_its_time_is_what_a_profiler_sees(board: str, record_property: Callable[[str, str], None]) -> None:
    (ranked,) = judged(board, "plainly", "by_tma", size=LARGE[board]).stages[-1].cases
    profiled = judged(board, "plainly", "by_tma", mode=Mode.PROFILE, size=LARGE[board])
    traces = [case.trace_gz64 for stage in profiled.stages for case in stage.cases if case.trace_gz64]
    events = json.loads(gzip.decompress(base64.b64decode(traces[0])))["traceEvents"]
    kernels = [each for each in events if each.get("cat") == "kernel" and "fill" not in each["name"]]
    seen_us = max(each["ts"] + each["dur"] for each in kernels) - min(each["ts"] for each in kernels)
    assert ranked.timing is not None
    assert ranked.timing.audit is not None
    timed_us = ranked.timing.score_ns / 1e3
    record_property("us", f"{ranked.timing.audit.level} {timed_us:.1f}, profiler {seen_us:.1f}")
    assert timed_us == pytest.approx(seen_us, rel=0.2, abs=3)
