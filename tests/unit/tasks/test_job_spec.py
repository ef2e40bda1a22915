from __future__ import annotations

import pytest

from kernelcup.domain import Language, RankingBy, StageLimits, Task, TaskForm
from kernelcup.errors import InvalidValue
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup_harness.protocol import (
    Backend,
    CheckStyle,
    CudaBuild,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    SourceTree,
    dumps,
    loads,
)

SOURCES = {"reference.py": "", "task.py": "", "utils.py": ""}


def task(**overrides) -> Task:
    return Task(**{"name": "t", "sources": SOURCES, "benchmarks": [{"size": 1}], **overrides})


def spec(of: Task, **overrides) -> JobSpec:
    defaults = {
        "job_id": "7",
        "submission": SourceTree.of("x = 1", "mine.py"),
        "mode": Mode.TEST,
        "backend": Backend.CUDA,
    }
    return build_job_spec(of, **{**defaults, **overrides})


def test_a_spec_carries_the_task_and_the_submission():
    made = spec(
        task(
            tests=[{"size": 2}],
            limits=StageLimits(test_s=1, benchmark_s=2, ranked_s=3),
            ranking_by=RankingBy.GEOM,
            seed=5,
            multi_gpu=True,
        ),
        secret_seed="ab" * 32,
    )
    assert (made.job_id, made.submission) == ("7", SourceTree.of("x = 1", "submission.py"))
    assert made.sources == SOURCES
    assert (made.tests, made.benchmarks) == ([{"size": 2}], [{"size": 1}])
    assert (made.limits.test_s, made.limits.benchmark_s, made.limits.ranked_s) == (1, 2, 3)
    assert (made.ranking_by, made.public_seed, made.secret_seed) == ("geom", 5, "ab" * 32)
    assert made.multi_gpu
    assert made.harness is HarnessKind.STANDARD
    assert made.check_style is CheckStyle.DATA_OUTPUT


def test_a_spec_survives_its_journey():
    made = spec(task())
    assert loads(JobSpec, dumps(made)) == made


def test_what_the_task_says_of_its_data_reaches_the_judge():
    assert (spec(task()).near_twins, spec(task()).aliasing) == (True, False)
    made = spec(task(near_twins=False, aliasing=True, non_finite=True, dtypes=["int32"], prepare_timeout=9))
    assert (made.near_twins, made.aliasing) == (False, True)
    assert (made.non_finite, made.dtypes, made.prepare_s) == (True, ["int32"], 9)


def test_only_ranked_jobs_have_the_rule_about_own_kernels():
    ruled = task(own_share=0.9)
    assert spec(ruled, mode=Mode.LEADERBOARD).own_share == 0.9
    assert spec(ruled, mode=Mode.BENCHMARK).own_share is None


@pytest.mark.parametrize("mode", Mode)
def test_hidden_cases_go_along_only_when_it_counts(mode):
    made = spec(task(hidden_tests=[{"size": 3}], hidden_benchmarks=[{"size": 4}]), mode=mode)
    counts = mode is Mode.LEADERBOARD
    assert made.hidden_tests == ([{"size": 3}] if counts else [])
    assert made.hidden_benchmarks == ([{"size": 4}] if counts else [])


@pytest.mark.parametrize(
    ("form", "backend", "rules"),
    [
        (TaskForm.FOLDER, Backend.CUDA, MeasureRules()),
        (TaskForm.FOLDER, Backend.CPU, MeasureRules(max_samples=20, case_budget_s=1.5)),
        (TaskForm.FOLDER, Backend.EMULATED, MeasureRules(min_samples=5, max_samples=20, case_budget_s=1.5)),
        (
            TaskForm.SINGLE_FILE,
            Backend.CUDA,
            MeasureRules(checks=10, warmups=10, min_samples=100, max_samples=100, relative_error=0.0),
        ),
        (
            TaskForm.SINGLE_FILE,
            Backend.EMULATED,
            MeasureRules(
                checks=10, warmups=10, min_samples=5, max_samples=100, relative_error=0.0, case_budget_s=10
            ),
        ),
    ],
)
def test_form_and_backend_set_the_rules(form, backend, rules):
    assert spec(task(form=form), backend=backend).rules == rules


def test_the_times_of_the_reference_reach_the_judge():
    assert spec(task(reference_s=[0.5, 1.5])).reference_s == [0.5, 1.5]
    assert task(reference_s=[0.5]).content_hash == task().content_hash


def test_a_single_file_is_checked_against_the_reference_output():
    single = task(form=TaskForm.SINGLE_FILE, sources={"reference.py": ""}, tests=[{}], benchmarks=[{}])
    made = spec(single)
    assert made.check_style is CheckStyle.OUTPUT_REFERENCE
    assert made.private_files == ["reference.py"]


def test_the_harness_can_be_chosen():
    own = task(sources={**SOURCES, "eval.py": ""}, main="eval.py", harness=HarnessKind.OWN)
    assert spec(own).harness is HarnessKind.OWN
    assert spec(own, harness=HarnessKind.STANDARD).harness is HarnessKind.STANDARD


@pytest.mark.parametrize(
    ("overrides", "harness", "words"),
    [
        ({}, HarnessKind.OWN, "brings no harness of its own"),
        ({"sources": {"eval.py": ""}, "main": "eval.py"}, HarnessKind.STANDARD, "has no reference.py"),
        ({"lang": Language.CUDA, "cuda": CudaBuild()}, None, "has no reference.cu or"),
    ],
)
def test_what_cannot_be_judged_is_refused(overrides, harness, words):
    with pytest.raises(InvalidValue, match=words):
        spec(task(**overrides), harness=harness)


@pytest.mark.parametrize(
    ("sources", "templates", "private"),
    [
        ({}, {}, ["reference.py"]),
        ({"eval.py": "import reference"}, {}, ["eval.py", "reference.py"]),
        ({"reference.py": "from answer import f", "answer.py": ""}, {}, ["answer.py", "reference.py"]),
        (
            {"reference.py": "import a", "a.py": "import deep.b", "deep/b.py": ""},
            {},
            ["a.py", "deep/b.py", "reference.py"],
        ),
        ({"reference.py": "import a", "a.py": "", "task.py": "import a"}, {}, ["reference.py"]),
        ({"reference.py": "import a", "a.py": ""}, {"Python": "from a import x"}, ["reference.py"]),
        ({"reference.py": "import utils, task"}, {"Python": "import reference"}, ["reference.py"]),
        ({"reference.py": "import a", "a.py": "", "b.py": "import a"}, {}, ["reference.py"]),
        ({"data.json": "{}"}, {"Python": "not python ("}, ["reference.py"]),
        pytest.param(
            {"reference.py": "import a" + "\n#" * (300 << 9), "a.py": ""},
            {},
            ["a.py", "reference.py"],
            id="a reference that 0.1.0 took, larger than a task's files may be today",
        ),
    ],
)
def test_what_only_the_judge_needs_is_private(sources, templates, private):
    main = "eval.py" if "eval.py" in sources else None
    made = spec(task(sources={**SOURCES, **sources}, templates=templates, main=main))
    assert made.private_files == private
