"""Which processes a job has, and what each of them is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness_runs import HONEST, quick_spec

from kernelcup_harness.protocol import Backend, JobSpec, Mode, Replay, SampleName, StageName, variables
from kernelcup_harness.run import compiling, standard, workers
from kernelcup_harness.run.record import Record

RIVAL = "def custom_kernel(data):\n    return data + data\n"


def job(mode: Mode, backend: Backend, **changes: Any) -> JobSpec:
    return quick_spec(HONEST, mode=mode, backend=backend, **changes)


def planned(spec: JobSpec, folder: Path) -> standard.StandardRun:
    """Return a run that has not started anything."""
    return standard.StandardRun(spec, b"", folder, Record(spec, "", lambda _event: None), boxed=False)


@pytest.fixture(autouse=True)
def _no_compiler_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.AskedCompilers, "_ask", lambda *_given: None)


CLOCKS = (workers.TIMER, workers.WITNESS)
WITH_RIVAL = (workers.RIVAL, workers.TIMER, workers.RIVAL_TIMER, workers.WITNESS)


@pytest.mark.parametrize(
    ("mode", "backend", "besides", "besides_with_rival"),
    [
        (Mode.TEST, Backend.CUDA, (), ()),
        (Mode.PROFILE, Backend.CUDA, (), ()),
        (Mode.BENCHMARK, Backend.CUDA, CLOCKS, CLOCKS),
        (Mode.LEADERBOARD, Backend.CUDA, CLOCKS, WITH_RIVAL),
        (Mode.LEADERBOARD, Backend.CPU, (), ()),
        (Mode.LEADERBOARD, Backend.EMULATED, (), ()),
    ],
)
def test_timed_jobs_of_a_gpu_have_a_timer_and_a_witness_and_ranked_ones_a_process_for_a_rival(
    tmp_path: Path,
    mode: Mode,
    backend: Backend,
    besides: tuple[str, ...],
    besides_with_rival: tuple[str, ...],
) -> None:
    assert planned(job(mode, backend), tmp_path)._roles == (workers.SUBMISSION, *besides)
    roles = planned(job(mode, backend, rival=RIVAL), tmp_path)._roles
    assert roles == (workers.SUBMISSION, *besides_with_rival)


@pytest.mark.parametrize(
    ("mode", "hidden", "has"),
    [
        (Mode.LEADERBOARD, {"hidden_tests": [{"size": 2}]}, True),
        (Mode.LEADERBOARD, {"hidden_benchmarks": [{"size": 2}]}, True),
        (Mode.LEADERBOARD, {}, False),
        (Mode.TEST, {"hidden_benchmarks": [{"size": 2}]}, False),
    ],
)
def test_a_job_that_meets_hidden_cases_has_a_process_for_them_with_the_same_code_and_build(
    tmp_path: Path, mode: Mode, hidden: dict[str, Any], has: bool
) -> None:
    run = planned(job(mode, Backend.CPU, **hidden), tmp_path)
    assert (workers.HIDDEN in run._roles) == has
    if has:
        assert run._share(workers.HIDDEN, None) == run._share(workers.SUBMISSION, None)


def test_a_sample_that_is_judged_again_needs_no_timer(tmp_path: Path) -> None:
    again = Replay(stage=StageName.RANKED, case=0, sample=SampleName(input=3))
    spec = job(Mode.LEADERBOARD, Backend.CUDA, replay=again)
    assert planned(spec, tmp_path)._roles == (workers.SUBMISSION,)


def test_each_process_is_given_its_own_code_only_and_the_clocks_none(tmp_path: Path) -> None:
    spec = job(
        Mode.LEADERBOARD,
        Backend.CUDA,
        rival=RIVAL,
        sources={"reference.py": "private", "helper.py": "public"},
    )
    run = planned(spec, tmp_path)
    shares = {role: run._share(role, None) for role in run._roles}
    assert shares[workers.TIMER].files == shares[workers.WITNESS].files == {}
    assert shares[workers.SUBMISSION].files == {"helper.py": "public", "submission.py": HONEST}
    assert shares[workers.RIVAL].files == {"helper.py": "public", "rival.py": RIVAL}


@pytest.mark.parametrize(("backend", "captures"), [(Backend.CUDA, True), (Backend.CPU, False)])
def test_processes_with_code_of_users_know_whether_calls_are_captured(
    tmp_path: Path, backend: Backend, captures: bool
) -> None:
    spec = job(Mode.LEADERBOARD, backend, rival=RIVAL, hidden_benchmarks=[{"size": 2}])
    run = planned(spec, tmp_path)
    told = {role for role in run._roles if variables.CLEAN_ROOM in run._share(role, None).environment}
    assert told == (set(workers.USER_CODE) if captures else set())


def test_the_clocks_run_no_code_of_users() -> None:
    clocks = {workers.TIMER, workers.RIVAL_TIMER, workers.WITNESS}
    assert not clocks & {*workers.USER_CODE}
    assert set(workers.ROLES) == {*workers.USER_CODE, *clocks}
    assert len(set(workers.USER_IDS.values())) == len(workers.USER_IDS) == len(workers.ROLES) + 1
