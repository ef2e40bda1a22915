"""Repeat one sample of a finished run from its revealed seed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kernelcup.app.boards.queries import task_versions
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results.queries import runs
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import Task
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    HarnessKind,
    JobSpec,
    Replay,
    RunReport,
    SampleName,
    SourceTree,
    StageName,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundRun:
    """A run's report with the task and the code that it was made from."""

    run_id: int
    report: RunReport
    submission_id: int
    device: str
    task: Task
    """The version that the run was judged against, which may not be the leaderboard's current one."""
    code: SourceTree


def find_run(db: Database, run_id: int) -> FoundRun:
    """Return a finished run. Raise ``NotFound``."""
    with db.read() as session:
        run = runs.find(session, run_id)
        job = None if run is None else jobs.find(session, run.job_id)
        if run is None or job is None:
            raise NotFound(f"There is no run {run_id}.")
        return FoundRun(
            run_id=run.id,
            report=run.report,
            submission_id=job.submission_id,
            device=job.device,
            task=task_versions.load(session, run.task_hash),
            code=submissions.code(session, job.submission_id),
        )


def replay_job(
    found: FoundRun,
    *,
    case: int,
    backend: Backend,
    stage: StageName | None = None,
    input_number: int | None = None,
    twin: bool = False,
) -> JobSpec:
    """Return a job that calls a run's submission again on one of its inputs.

    Args:
        case: Index of the case in its stage.
        stage: The stage; None means the stage in which the run ended, or else the last one.
        input_number: The number of the case's input; None means the input that failed, or else the first one.
        twin: Change the same element as the first twin in the run. Only with ``input_number``.

    Raises:
        InvalidValue: The run does not have the case, or was not judged by the standard harness.
    """
    report = found.report
    if report.harness is not HarnessKind.STANDARD:
        raise InvalidValue(
            "only runs of the standard harness can be replayed: a task's own harness draws new inputs each time"
        )
    if not report.secret_seed:
        raise InvalidValue(f"run {found.run_id} has no revealed seed, since it never began")
    chosen = stage or _stage(found)
    sample = SampleName(input=input_number, twin=twin) if input_number is not None else None
    spec = build_job_spec(
        found.task,
        job_id=f"replay-{found.run_id}",
        submission=found.code,
        mode=report.mode,
        backend=backend,
        harness=report.harness,
        secret_seed=report.secret_seed,
    )
    # Use the bound of that run: its leaderboard may have another one by now.
    spec = dataclasses.replace(spec, seeds_below=report.seeds_below)
    if report.stage_report(chosen) is None:
        has = ", ".join(stage.name.value for stage in report.stages if stage.cases) or "none with cases"
        raise InvalidValue(
            f"--stage {chosen.value}: run {found.run_id} does not have this stage; it has {has}"
        )
    _check_case(spec, chosen, case)
    wanted = sample or _failed_on(report, chosen, case) or SampleName(input=0)
    return dataclasses.replace(spec, replay=Replay(stage=chosen, case=case, sample=wanted))


def _stage(found: FoundRun) -> StageName:
    report = found.report
    if report.stage not in (None, StageName.IMPORT):
        assert report.stage is not None
        return report.stage
    with_cases = [stage.name for stage in report.stages if stage.cases]
    if not with_cases:
        raise InvalidValue(f"run {found.run_id} ended before its first case: {report.verdict.value}")
    return with_cases[-1]


def _failed_on(report: RunReport, stage: StageName, index: int) -> SampleName | None:
    result = _result(report, stage, index)
    return None if result is None else result.failed_on


def _result(report: RunReport, stage: StageName, index: int) -> CaseResult | None:
    found = report.stage_report(stage)
    return next((case for case in found.cases if case.index == index), None) if found else None


def _check_case(spec: JobSpec, stage: StageName, case: int) -> None:
    tests = len(spec.tests) + len(spec.hidden_tests)
    benchmarks = len(spec.benchmarks) + len(spec.hidden_benchmarks)
    count = tests if stage is StageName.TEST else benchmarks
    if not 0 <= case < count:
        raise InvalidValue(f"--case {case}: the {stage.value} stage has cases 0 to {count - 1}")
