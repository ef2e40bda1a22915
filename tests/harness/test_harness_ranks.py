"""Whole jobs on several emulated GPUs, one process each, and what submissions and tasks do wrong there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness_runs import QUICK, RANKED

import kernelcup.tasks
from builders import make_spec
from kernelcup_harness.protocol import (
    DuelVerdict,
    JobSpec,
    Limits,
    Mode,
    Reason,
    RunReport,
    SourceTree,
    StageName,
    StageReport,
    TrustLevel,
    Verdict,
)
from warm_harness import Run

FOLDER = Path(kernelcup.tasks.__file__).parent / "examples/all_reduce"
REFERENCE = (FOLDER / "reference.py").read_text("utf-8")
GOOD = (FOLDER / "template.py").read_text("utf-8")
HEAD = "import os, signal, time, torch\nimport torch.distributed as dist\n"
SUM = "    total = x.clone()\n    dist.all_reduce(total)\n    return total\n"


def job(submission: str = GOOD, world_sizes: tuple[int, ...] = (2,), **overrides: Any) -> JobSpec:
    """Return a job with a test for each number of ranks."""
    tests = [{"size": 100, "world_size": size, "seed": at} for at, size in enumerate(world_sizes)]
    values: dict[str, Any] = {
        "sources": {"reference.py": REFERENCE, "task.py": (FOLDER / "task.py").read_text("utf-8")},
        "private_files": ["reference.py"],
        "submission": submission,
        "multi_gpu": True,
        "rules": QUICK,
        "limits": Limits(test_s=60.0, ranked_s=60.0),
        "tests": tests,
        "benchmarks": [{"size": 64, "world_size": 2, "seed": 9}],
    }
    return make_spec(**(values | overrides))


def kernel(*lines: str) -> str:
    """Return a submission that does this in rank 1, and a right sum in each rank after it."""
    body = "".join(f"        {line}\n" for line in lines)
    return f"{HEAD}def custom_kernel(x):\n    if dist.get_rank() == 1:\n{body}{SUM}"


def said(report: RunReport) -> tuple[Verdict, Reason]:
    return report.verdict, report.reason


def stage_of(report: RunReport, name: StageName = StageName.TEST) -> StageReport:
    return next(stage for stage in report.stages if stage.name is name)


def test_ranks_come_and_go_within_a_job(warm: Run) -> None:
    report = warm(job(world_sizes=(2, 1, 2)))
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message
    assert [case.verdict for case in stage_of(report).cases] == [Verdict.ACCEPTED] * 3


@pytest.mark.jobs
def test_four_ranks_know_their_devices(warm: Run) -> None:
    line = (
        "    print('%d of %d on %s' % (dist.get_rank(), torch.cuda.device_count(), x.device), flush=True)\n"
    )
    report = warm(job(f"{HEAD}def custom_kernel(x):\n{line}{SUM}", world_sizes=(4,), benchmarks=[]))
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message
    assert all(f"{rank} of 4 on cuda:{rank}" in report.stdout.text for rank in range(4))
    assert report.environment["ranks"]["count"] == 4


def test_a_wrong_answer_of_one_rank_is_the_cases(warm: Run) -> None:
    report = warm(job(kernel("dist.all_reduce(x.clone())", "return x + 1"), world_sizes=(2, 1)))
    assert said(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    wrong, right = stage_of(report).cases
    assert wrong.message.startswith("GPU rank 1: element 0 is ")
    assert (wrong.verdict, right.verdict) == (Verdict.WRONG_ANSWER, Verdict.ACCEPTED)


@pytest.mark.jobs
def test_ranks_that_return_other_shapes_are_named(warm: Run) -> None:
    report = warm(job(kernel("dist.all_reduce(x.clone())", "return x[:3].clone()")))
    assert said(report) == (Verdict.WRONG_ANSWER, Reason.FORM)
    assert stage_of(report).cases[0].message == "GPU rank 1: output has shape [3]; expected [100]"


@pytest.mark.jobs
def test_a_rank_that_raises_ends_the_run_of_those_that_wait_for_it(warm: Run) -> None:
    report = warm(job(kernel("raise ValueError('no such rank')")))
    assert said(report) == (Verdict.RUNTIME_ERROR, Reason.EXCEPTION)
    assert report.message.startswith("in case 0: GPU rank 1: Traceback")
    assert "ValueError: no such rank" in report.message
    assert report.message.endswith("GPU rank 0 had not returned")


@pytest.mark.jobs
def test_a_rank_that_dies_by_a_signal_is_named(warm: Run) -> None:
    report = warm(job(kernel("os.kill(os.getpid(), signal.SIGSEGV)")))
    assert said(report) == (Verdict.RUNTIME_ERROR, Reason.EXITED)
    assert "the submission's process was ended by SIGSEGV, in case 0 (GPU rank 1" in report.message


@pytest.mark.jobs
def test_a_rank_that_kills_another_ends_the_run(warm: Run) -> None:
    lines = ["group = [None, None]", "dist.all_gather_object(group, os.getpid())", "victim = group[0]"]
    body = "".join(f"    {line}\n" for line in lines)
    kills = "    if dist.get_rank() == 1:\n        os.kill(victim, signal.SIGKILL)\n"
    report = warm(job(f"{HEAD}def custom_kernel(x):\n{body}{kills}{SUM}"))
    assert said(report) == (Verdict.RUNTIME_ERROR, Reason.KILLED)
    assert "SIGKILL, in case 0 (GPU rank 0" in report.message


@pytest.mark.jobs
def test_a_rank_that_hangs_ends_with_its_stage_and_says_who_had_returned(warm: Run) -> None:
    hangs = kernel("time.sleep(1000)").replace("    total = x", "    return x * 2\n    total = x")
    report = warm(job(hangs, limits=Limits(test_s=10.0)))
    assert report.verdict is Verdict.TIME_LIMIT_EXCEEDED
    assert report.reason in (Reason.TIME, Reason.BUSY)  # as the machine is
    text = report.message + stage_of(report).message
    assert "GPU rank 0 had returned, GPU rank 1 had not returned" in text


@pytest.mark.jobs
def test_a_rank_that_takes_all_memory_ends_the_run(warm: Run) -> None:
    takes = kernel("kept = [torch.ones(1 << 26) for _ in range(64)]")
    report = warm(job(takes, limits=Limits(test_s=60.0, memory_bytes=3 << 29)))
    assert said(report) == (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.HOST_MEMORY), report.message


def checked_by(body: str) -> dict[str, str]:
    head = REFERENCE[: REFERENCE.index("    expected = ref_kernel(data)")]
    return {**job().sources, "reference.py": head + body}


@pytest.mark.jobs
def test_a_checker_that_raises_in_one_rank_is_the_tasks_fault(warm: Run) -> None:
    bad = "    if dist.get_rank() == 1:\n        raise ValueError('which rank?')\n    return True, ''\n"
    report = warm(job(sources=checked_by(bad)))
    assert said(report) == (Verdict.INTERNAL_ERROR, Reason.TASK)
    assert "GPU rank 1: the task's check_implementation failed" in report.message
    assert "which rank?" in report.message


@pytest.mark.jobs
def test_an_answer_that_the_checker_cannot_work_with_is_wrong(warm: Run) -> None:
    bad = "    if output[0] > 5:\n        raise ValueError('too large')\n    return True, ''\n"
    large = kernel("dist.all_reduce(x.clone())", "return x + 10")
    report = warm(job(large, sources=checked_by(bad)))
    assert said(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS), report.message
    text = stage_of(report).cases[0].message
    assert text.startswith("the checker cannot work with this output: GPU rank 1: ")
    assert "too large" in text


def test_a_ranked_run_times_each_case_and_judges_hidden_ones(warm: Run) -> None:
    hidden = [{"size": 33, "world_size": 2, "seed": 4}]
    spec = job(mode=Mode.LEADERBOARD, rules=RANKED, hidden_tests=hidden, hidden_benchmarks=hidden)
    report = warm(spec)
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message
    timed = [case.timing for case in stage_of(report, StageName.RANKED).cases]
    assert all(timing is not None and min(timing.samples_ns) > 0 for timing in timed)
    assert report.trust is TrustLevel.WALL_CLOCK
    assert {stage.name.value for stage in report.stages} >= {"test", "ranked"}
    assert all(stage.planned_cases == len(stage.cases) for stage in report.stages)


@pytest.mark.jobs
def test_a_duel_on_several_gpus_is_not_held_and_the_run_ranks_by_its_times(warm: Run) -> None:
    rival = SourceTree(files={"rival.py": GOOD}, entry="rival.py")
    report = warm(job(mode=Mode.LEADERBOARD, rules=RANKED, rival=rival))
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message
    told = report.duel.verdict, report.duel.rival_message
    assert told == (DuelVerdict.NOT_HELD, "calls on several GPUs are not compared in turns")


@pytest.mark.jobs
def test_a_submission_that_is_wrong_in_hidden_cases_alone_is_not_accepted(warm: Run) -> None:
    submission = GOOD.replace("    return total", "    return total + (len(data) == 33)")
    hidden = [{"size": 33, "world_size": 2, "seed": 4}]
    report = warm(job(submission, mode=Mode.LEADERBOARD, rules=RANKED, hidden_tests=hidden))
    assert said(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)


@pytest.mark.jobs
def test_shapes_that_are_drawn_from_the_seed_are_judged(warm: Run) -> None:
    drawn = REFERENCE.replace("    return torch.randn(size,", "    return torch.randn(size + seed % 7,")
    assert drawn != REFERENCE
    sources = {**job().sources, "reference.py": drawn}
    report = warm(job(mode=Mode.LEADERBOARD, rules=RANKED, sources=sources))
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message


@pytest.mark.jobs
@pytest.mark.parametrize("mode", [Mode.BENCHMARK, Mode.PROFILE])
def test_benchmarks_and_profiles_run_in_all_ranks(warm: Run, mode: Mode) -> None:
    report = warm(job(mode=mode))
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message
