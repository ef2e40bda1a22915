"""Kernels that make tensor maps with CUDA's driver: built against it, replayed, as leaderboard and as submission.

They need Hopper: a copy by the bulk copy engine, and a product by wgmma. Not run yet on a GPU.
"""

from __future__ import annotations

import os

import pytest
import torch

from kernelcup_harness.protocol import (
    Backend,
    CudaBuild,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
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


@pytest.mark.parametrize("board", list(REFERENCES))
@pytest.mark.parametrize(("reference_how", "submission_how"), [("plainly", "by_tma"), ("by_tma", "plainly")])
def test_a_kernel_with_tensor_maps_is_right_and_replayed(
    board: str, reference_how: str, submission_how: str
) -> None:
    name = REFERENCES[board]
    spec = JobSpec(
        job_id=f"tma-{board}-{submission_how}",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={name: reference(board, reference_how)},
        reference_module=name,
        private_files=[name],
        submission=SourceTree.of(submission(board, submission_how), "submission.cu"),
        cuda=CudaBuild(rtol=0.01, atol=0.01),
        tests=[{"size": 2, "seed": 3}],
        benchmarks=[{"size": 16, "seed": 4}],
        rules=MeasureRules(min_samples=16, max_samples=24, stage_budget_s=3.0),
    )
    report = run_job(spec, lambda _event: None)
    said = [report.message, report.stderr.text, *(stage.message for stage in report.stages)]

    assert report.verdict is Verdict.ACCEPTED, "\n".join(said)
    ranked = [
        case.timing for stage in report.stages if stage.name is StageName.RANKED for case in stage.cases
    ]
    assert ranked
    assert all(timing is not None and timing.audit is not None and timing.audit.captured for timing in ranked)
