"""Leaderboards in CUDA C++ on a GPU: plain CUDA, cuBLAS, CUTLASS's own headers, and a harness of the task's own.

Needs torch, nvcc and pytest, nothing else of ours. CUTLASS's headers are looked for in ``CUTLASS_INCLUDE``, in
``.cutlass/include`` of the repository and among the installed packages (``nvidia-cutlass``); without them its test is
skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelcup_harness.protocol import (
    Backend,
    CudaBuild,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RankingBy,
    RunReport,
    SourceTree,
    StageName,
    Verdict,
)
from kernelcup_harness.run.runner import run_job
from kernelcup_harness.submission.cuda.libraries import find_nvcc

ROOT = Path(__file__).resolve().parents[2]
TASKS = ROOT / "src/kernelcup/tasks"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.skipif(find_nvcc(os.environ) is None, reason="no nvcc"),
]
RULES = MeasureRules(min_samples=16, max_samples=24, stage_budget_s=3.0)
VECTORS: dict[str, Any] = {
    "tests": [{"size": 1, "seed": 4242}, {"size": 1023, "seed": 5236}, {"size": 65537, "seed": 1001}],
    "benchmarks": [{"size": 1 << 20, "seed": 54352}, {"size": 1 << 24, "seed": 93246}],
}
MATRICES: dict[str, Any] = {
    "tests": [{"m": 64, "n": 64, "k": 64, "seed": 5236}, {"m": 200, "n": 136, "k": 72, "seed": 1001}],
    "benchmarks": [{"m": 1024, "n": 1024, "k": 1024, "seed": 54352}],
}
ODD: dict[str, Any] = {**MATRICES, "tests": [*MATRICES["tests"], {"m": 17, "n": 9, "k": 30, "seed": 3}]}
CLOSE = CudaBuild(rtol=0.02, atol=0.05)


def text(name: str) -> str:
    """Return a file of the shipped tasks."""
    return (TASKS / "examples" / name).read_text(encoding="utf-8")


def judged(
    board: str,
    submission: str,
    mode: Mode = Mode.TEST,
    *,
    sources: dict[str, str] | None = None,
    **changes: Any,
) -> RunReport:
    """Judge a submission by a leaderboard's ``reference.cu``."""
    spec = JobSpec(
        job_id=f"{board}-{mode.value}",
        mode=mode,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.cu": text(f"{board}/reference.cu"), **(sources or {})},
        reference_module="reference.cu",
        private_files=["reference.cu"],
        submission=SourceTree.of(submission, "submission.cu"),
        ranking_by=RankingBy.GEOM,
        rules=RULES,
        **changes,
    )
    return run_job(spec, lambda _event: None)


def said(report: RunReport) -> str:
    """Return all that a report says of a failure."""
    texts = [report.message, report.stderr.text]
    for stage in report.stages:
        texts += [stage.message, *(case.message for case in stage.cases)]
    return "\n".join(texts)


def is_replayed(report: RunReport) -> bool:
    """Return whether the calls of every ranked case were captured and replayed."""
    cases = [case for stage in report.stages if stage.name is StageName.RANKED for case in stage.cases]
    audits = [case.timing.audit if case.timing is not None else None for case in cases]
    return bool(audits) and all(audit is not None and audit.captured for audit in audits)


@pytest.mark.parametrize("file", ["template.cu", "solutions/vector_loads.cu"])
def test_a_right_vector_addition_is_replayed(file: str) -> None:
    report = judged("vectoradd_cuda", text(f"vectoradd_cuda/{file}"), Mode.LEADERBOARD, **VECTORS)
    assert report.verdict is Verdict.ACCEPTED, said(report)
    assert is_replayed(report), said(report)


@pytest.mark.parametrize(
    ("file", "verdict", "message"),
    [
        ("wrong_last_block.cu", Verdict.WRONG_ANSWER, r"elements are wrong"),
        ("fails_in_call.cu", Verdict.RUNTIME_ERROR, r"no vectors of 1"),
    ],
)
def test_a_wrong_vector_addition_is_not(file: str, verdict: Verdict, message: str) -> None:
    report = judged("vectoradd_cuda", text(f"vectoradd_cuda/solutions/{file}"), **VECTORS)
    assert report.verdict is verdict, said(report)
    assert re.search(message, said(report))


def test_a_second_job_compiles_the_reference_again_or_not_but_judges_the_same() -> None:
    first, second = (
        judged("vectoradd_cuda", text("vectoradd_cuda/template.cu"), **VECTORS) for _ in range(2)
    )
    assert (first.verdict, second.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED), said(first) + said(second)


@pytest.mark.parametrize("file", ["template.cu", "solutions/tensor_cores.cu"])
def test_a_matrix_product_with_cublas_and_one_with_tensor_cores_are_right(file: str) -> None:
    submission = text(f"matmul_cuda/{file}")
    report = judged("matmul_cuda", submission, Mode.LEADERBOARD, cuda=CLOSE, libraries=["cublas"], **ODD)
    assert report.verdict is Verdict.ACCEPTED, said(report)
    assert is_replayed(report), said(report)


def test_a_matrix_product_that_drops_some_of_k_is_wrong() -> None:
    submission = text("matmul_cuda/solutions/wrong_drops_rest_of_k.cu")
    report = judged("matmul_cuda", submission, cuda=CLOSE, libraries=["cublas"], **ODD)
    assert report.verdict is Verdict.WRONG_ANSWER, said(report)


@cache
def cutlass() -> Path | None:
    """Return the folder of CUTLASS's headers, None if they are not here."""
    named = os.environ.get("CUTLASS_INCLUDE")
    package = importlib.util.find_spec("cutlass_library")
    places = [Path(named)] if named else []
    places.append(ROOT / ".cutlass/include")
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "source/include")
    return next((place for place in places if (place / "cutlass/cutlass.h").is_file()), None)


def headers_of(submission: Path, folder: Path) -> dict[str, str]:
    """Return the headers of ``folder`` that a file needs, as the files of a task."""
    interface = ROOT / "src/kernelcup_harness/submission/cuda/kernelcup.h"
    nvcc = find_nvcc(os.environ)
    assert nvcc is not None
    argv = [
        nvcc,
        "-std=c++20",
        "-M",
        "-I",
        str(folder),
        "-include",
        str(interface),
        "-x",
        "cu",
        str(submission),
    ]
    listed = (
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout.replace("\\\n", " ").split()
    )
    found = {Path(name).resolve() for name in listed if Path(name).resolve().is_relative_to(folder.resolve())}
    return {
        f"include/{each.relative_to(folder.resolve())}": each.read_text("utf-8") for each in sorted(found)
    }


@pytest.mark.parametrize("name", ["cutlass_gemm.cu", "cutlass_tma_gemm.cu"])
def test_a_matrix_product_with_cutlass_headers_that_the_task_ships_is_right(name: str) -> None:
    folder = cutlass()
    if folder is None:
        pytest.skip("no headers of CUTLASS")
    if "tma" in name and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("no Hopper GPU")
    place = Path(__file__).parent / name
    report = judged(
        "matmul_cuda",
        place.read_text(encoding="utf-8"),
        Mode.LEADERBOARD,
        sources=headers_of(place, folder),
        cuda=CudaBuild(include_dirs=["include"], rtol=0.02, atol=0.05),
        **MATRICES,
    )
    assert report.verdict is Verdict.ACCEPTED, said(report)
    assert is_replayed(report), said(report)


@pytest.mark.parametrize(
    ("file", "verdict", "message"),
    [
        ("template.cu", Verdict.ACCEPTED, ""),
        ("solutions/wrong_last_element.cu", Verdict.WRONG_ANSWER, "element 127"),
        ("solutions/does_not_compile.cu", Verdict.COMPILE_ERROR, "answer"),
    ],
)
def test_the_harness_of_a_task_runs_as_its_author_wrote_it(file: str, verdict: Verdict, message: str) -> None:
    shared = {name: (TASKS / "shared" / name).read_text("utf-8") for name in ("eval.cu", "utils.h")}
    own = {name: text(f"identity_cuda/{name}") for name in ("task.h", "reference.cuh")}
    spec = JobSpec(
        job_id="identity-own",
        mode=Mode.LEADERBOARD if verdict is Verdict.ACCEPTED else Mode.TEST,
        backend=Backend.CUDA,
        harness=HarnessKind.OWN,
        sources={**shared, **own},
        submission=SourceTree.of(text(f"identity_cuda/{file}"), "submission.cu"),
        main="eval.cu",
        cuda=CudaBuild(sources=["submission.cu"]),
        tests=[{"seed": 4242, "size": 128}, {"seed": 5236, "size": 129}],
        benchmarks=[{"seed": 54352, "size": 1 << 20}],
        ranking_by=RankingBy.GEOM,
    )
    report = run_job(spec, lambda _event: None)
    assert report.verdict is verdict, said(report)
    assert message in said(report)


def cases_of(task: str, key: str) -> list[dict[str, int]]:
    """Return the cases of a list of a shipped ``task.yml``, which has one on each line."""
    listed = re.search(rf"^{key}:\n((?:  - .*\n)+)", text(f"{task}/task.yml"), re.MULTILINE)
    assert listed is not None
    return [
        {name: int(value) for name, value in re.findall(r"(\w+): (\d+)", line)}
        for line in listed[1].splitlines()
    ]


@pytest.mark.parametrize("file", ["template.cu", "template_triton.py", "template.py"])
@pytest.mark.parametrize("task", ["rmsnorm_residual", "causal_attention", "moe_gate", "fp8_matmul"])
def test_a_template_of_an_example_is_right_in_every_language(task: str, file: str) -> None:
    sources = {name: text(f"{task}/{name}") for name in ("reference.py", "task.py")}
    spec = JobSpec(
        job_id=f"{task}-{file}",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={**sources, "utils.py": (TASKS / "shared/utils.py").read_text("utf-8")},
        private_files=["reference.py"],
        submission=SourceTree.of(text(f"{task}/{file}"), f"submission{Path(file).suffix}"),
        tests=cases_of(task, "tests"),
        benchmarks=cases_of(task, "benchmarks"),
        ranking_by=RankingBy.GEOM,
        rules=RULES,
    )
    report = run_job(spec, lambda _event: None)
    assert report.verdict is Verdict.ACCEPTED, said(report)
