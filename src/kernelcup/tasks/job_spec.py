"""Build the job for the harness from a task and a submission."""

from __future__ import annotations

from dataclasses import replace

from kernelcup.domain import Language, Task, TaskForm
from kernelcup.errors import InvalidValue
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup.tasks.private_files import private_files
from kernelcup_harness.protocol import (
    Backend,
    CheckStyle,
    DeviceFacts,
    HarnessKind,
    JobSpec,
    Limits,
    MeasureRules,
    Mode,
)

# Without a GPU a call takes long and its time does not count: a few samples are enough.
FOLDER_RULES = MeasureRules()
FOLDER_RULES_WITHOUT_GPU = MeasureRules(max_samples=20, case_budget_s=1.5)
# The older service checked ten inputs, warmed up ten times and timed a hundred calls.
SINGLE_FILE_RULES = MeasureRules(checks=10, warmups=10, min_samples=100, max_samples=100, relative_error=0.0)
SINGLE_FILE_RULES_WITHOUT_GPU = MeasureRules(
    checks=10, warmups=10, min_samples=16, max_samples=100, relative_error=0.0, case_budget_s=10.0
)
# An interpreted kernel may take seconds: a case has a score from two samples on.
EMULATED_SAMPLES = 5


def build_job_spec(
    task: Task,
    *,
    job_id: str,
    submission: str,
    mode: Mode,
    backend: Backend,
    harness: HarnessKind | None = None,
    secret_seed: str | None = None,
    build_scope: str = "",
    device: DeviceFacts | None = None,
    seeds_below: int | None = None,
) -> JobSpec:
    """Return the job that judges ``submission``; if ``harness`` is None, the task chooses it.

    ``build_scope`` names the user whose compiled files it may reuse, empty for none. ``device`` has the device's
    figures; a launcher that knows the GPU replaces them with that GPU's own. ``seeds_below`` bounds seeds if the
    task itself does not.

    Raise ``InvalidValue`` where the task cannot be judged that way.
    """
    chosen = harness or task.harness
    _refuse(task, chosen)
    ranked = mode is Mode.LEADERBOARD
    return JobSpec(
        job_id=job_id,
        mode=mode,
        backend=backend,
        harness=chosen,
        sources=task.sources,
        submission=submission,
        submission_name=task.submission_name,
        private_files=private_files(task),
        main=task.main,
        check_style=_check_style(task),
        tests=task.tests,
        benchmarks=task.benchmarks,
        hidden_tests=task.hidden_tests if ranked else [],
        hidden_benchmarks=task.hidden_benchmarks if ranked else [],
        ranking_by=task.ranking_by,
        limits=_limits(task),
        rules=_rules(task.form, backend),
        public_seed=task.seed,
        seeds_below=seeds_below if task.seeds_below is None else task.seeds_below,
        secret_seed=secret_seed,
        multi_gpu=task.multi_gpu,
        near_twins=task.near_twins,
        aliasing=task.aliasing,
        non_finite=task.non_finite,
        same_dtype=task.same_dtype,
        build_scope=build_scope,
        work=task.work,
        hidden_work=task.hidden_work if ranked else [],
        device=device,
        reference_s=task.reference_s,
    )


def _refuse(task: Task, harness: HarnessKind) -> None:
    if task.lang is Language.CUDA:
        raise InvalidValue("CUDA C++ tasks (`lang: cu`) cannot be judged yet: only Python tasks can")
    if harness is HarnessKind.OWN and task.main is None:
        raise InvalidValue(f"the task {task.name} brings no harness of its own: `config.main` names none")
    if harness is HarnessKind.STANDARD and REFERENCE not in task.sources:
        raise InvalidValue(f"the task {task.name} has no {REFERENCE}, which the standard harness needs")


def _check_style(task: Task) -> CheckStyle:
    return CheckStyle.OUTPUT_REFERENCE if task.form is TaskForm.SINGLE_FILE else CheckStyle.DATA_OUTPUT


def _limits(task: Task) -> Limits:
    return Limits(
        test_s=task.limits.test_s, benchmark_s=task.limits.benchmark_s, ranked_s=task.limits.ranked_s
    )


def _rules(form: TaskForm, backend: Backend) -> MeasureRules:
    has_gpu = backend is Backend.CUDA
    if form is TaskForm.SINGLE_FILE:
        rules = SINGLE_FILE_RULES if has_gpu else SINGLE_FILE_RULES_WITHOUT_GPU
    else:
        rules = FOLDER_RULES if has_gpu else FOLDER_RULES_WITHOUT_GPU
    return replace(rules, min_samples=EMULATED_SAMPLES) if backend is Backend.EMULATED else rules
