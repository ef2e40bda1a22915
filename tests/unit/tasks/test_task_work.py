from __future__ import annotations

import math

import pytest
from task_builders import problems_of, write_task

from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.manifest.work import BadExpression, Expression
from kernelcup.tasks.shipped import shipped_tasks
from kernelcup_harness.protocol import (
    Backend,
    DeviceFacts,
    HarnessKind,
    JobSpec,
    Mode,
    SourceTree,
    Work,
    dumps,
    loads,
)

CASE = {"m": 3, "n": 4, "half": 0.5, "flag": True, "name": "x", "shape": [1, 2]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * m * n", 24.0),
        ("(m + n) ** 2 - 1", 48.0),
        ("m / n", 0.75),
        ("m // 2 + n * half", 3.0),
        ("max(m, n, 7) - min(m, n)", 4.0),
        ("-m + 10", 7.0),
        ("flag * n", 4.0),
        ("4096", 4096.0),
        ("1e3", 1000.0),
        (" 2 * m ", 6.0),
        ("2 ** -1", 0.5),
    ],
)
def test_an_expression_comes_to_what_arithmetic_says(text, value):
    assert Expression(text).value(CASE) == value


@pytest.mark.parametrize("text", ["9" * 400, "size", "-size", "2 ** size", "min(size, 2)", "1e18 / 1e-300"])
def test_no_number_is_too_large_to_be_refused(text):
    with pytest.raises(BadExpression, match="more than"):
        Expression(text).value({"size": 10**400})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m n",
        "__import__('os')",
        "m.real",
        "shape[0]",
        "'a' * 3",
        "lambda: 1",
        "[m for m in (1, 2)]",
        "m if n else 1",
        "m < n",
        "m and n",
        "m % n",
        "m << 3",
        "~m",
        "min(m)",
        "min(*shape)",
        "max(m, n, key=abs)",
        "abs(m)",
        "min",
        "True",
        "None",
        "(m := 3)",
        "f'{m}'",
        "1j",
        "min(m, n)(3)",
        "+".join(["m"] * 200),
        "m" * 600,
        "(" * 300 + "m" + ")" * 300,
    ],
)
def test_anything_else_is_refused_and_never_run(text):
    with pytest.raises(BadExpression):
        Expression(text).value(CASE)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10 ** 19", "more than 1e"),
        ("9 ** 9 ** 9", "power"),
        ("m * 1e18", "more than 1e"),
        ("1e999", "more than 1e"),
        ("(-2) ** 0.5", "no real number"),
        ("0 ** -1", "no real number"),
        ("m / (n - 4)", "divides by zero"),
        ("m // (n - 4)", "divides by zero"),
        ("missing", "`missing`, which is no key of the case; it has m, n"),
        ("name * 2", "`name`, which is no number"),
        ("shape * 2", "`shape`, which is no number"),
    ],
)
def test_what_has_no_sensible_value_says_why(text, why):
    with pytest.raises(BadExpression, match=why.replace("(", r"\(").replace("*", r"\*")):
        Expression(text).value(CASE)


def test_work_is_worked_out_for_each_timed_case(tmp_path):
    task = load_task(
        write_task(
            tmp_path / "t",
            benchmarks=[{"size": 64, "seed": 2}, {"size": 128, "seed": 3}],
            hidden_benchmarks=[{"size": 32, "seed": 4}],
            work={"bytes": "8 * size", "written": "4 * size", "flops": "size ** 2", "precision": "fp16"},
        )
    )
    assert task.work == [
        Work(bytes=512, written=256, flops=4096, precision="fp16"),
        Work(bytes=1024, written=512, flops=16384, precision="fp16"),
    ]
    assert task.hidden_work == [Work(bytes=256, written=128, flops=1024, precision="fp16")]


def test_a_task_that_declares_nothing_has_none_and_keeps_its_hash(tmp_path):
    plain = load_task(write_task(tmp_path / "a"))
    assert (plain.work, plain.hidden_work) == ([], [])
    assert load_task(write_task(tmp_path / "b", work=None)).content_hash == plain.content_hash
    assert load_task(write_task(tmp_path / "c", work={"bytes": "size"})).content_hash != plain.content_hash


def test_a_case_may_say_otherwise_and_its_parameters_stay_clean(tmp_path):
    task = load_task(
        write_task(
            tmp_path / "t",
            benchmarks=[{"size": 64, "seed": 2}, {"size": 64, "seed": 3, "work": {"bytes": "size"}}],
            work={"bytes": "4 * size", "flops": "size"},
        )
    )
    assert task.work == [Work(bytes=256, flops=64), Work(bytes=64, flops=64)]
    assert task.benchmarks[1] == {"size": 64, "seed": 3}


YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: task.py, source: task.py}
  - {name: reference.py, source: reference.py}
lang: py
benchmarks:
  - {size: 64, seed: 2}
  - {size: 0, seed: 2}
work:
  %s
"""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("bytes: 4 * sise", "task.yml:10:10: work.bytes: has `sise`, which is no key of the case; it has size"),
        ("bytes: 4 * size", "task.yml:10:10: work.bytes: comes to 0 in benchmarks.1; it must be more than 0"),
        ("flops: size - 65", "task.yml:10:10: work.flops: comes to -1 in benchmarks.0; it must be more than 0"),
        ("flops: 1 / size", "task.yml:10:10: work.flops: divides by zero, in benchmarks.1"),
        ("bytes: 1e19", "task.yml:10:10: work.bytes: comes to more than 1e+18, in benchmarks.0"),
        ("bytes: .nan", "task.yml:10:10: work.bytes: has `nan`, which is no key"),
        ("bytes: open('x')", "task.yml:10:10: work.bytes: has `open('x')`, which is not allowed; allowed are"),
        ("bites: 4", "task.yml:10:3: work.bites: unknown key; did you mean `bytes`?"),
        ("{}", "task.yml:10:3: work: must say at least one of bytes, written, flops"),
        ("precision: fp17", "task.yml:10:14: work.precision: must be 'fp64', 'fp32'"),
        ("bytes: [4]", "task.yml:10:10: work.bytes: must be text, not a list"),
        ("bytes: true", "task.yml:10:10: work.bytes: must be text, not a boolean"),
    ],
)  # fmt: skip
def test_each_fault_is_told_once_with_its_place(tmp_path, line, problem):
    (told,) = problems_of(write_task(tmp_path / "t", yml=YML % line))
    assert told.startswith(problem)


def test_work_of_a_case_that_is_not_timed_is_refused(tmp_path):
    folder = write_task(tmp_path / "t", tests=[{"size": 4, "seed": 1, "work": {"bytes": "size"}}])
    (told,) = problems_of(folder)
    assert "tests.0.work: belongs into benchmarks and hidden_benchmarks" in told


def test_a_job_carries_the_work_and_the_device(tmp_path):
    task = load_task(
        write_task(tmp_path / "t", hidden_benchmarks=[{"size": 8, "seed": 4}], work={"bytes": "size"})
    )
    facts = DeviceFacts(copy_bytes_per_s=3e12, calibration_id="7")

    def spec(mode: Mode) -> JobSpec:
        return build_job_spec(
            task, job_id="1", submission=SourceTree.of(""), mode=mode, backend=Backend.CUDA, device=facts
        )

    made = spec(Mode.LEADERBOARD)
    assert (made.work, made.hidden_work, made.device) == ([Work(bytes=64)], [Work(bytes=8)], facts)
    assert spec(Mode.BENCHMARK).hidden_work == []
    assert loads(JobSpec, dumps(made)) == made


@pytest.mark.parametrize("name", sorted(shipped_tasks()))
def test_what_a_shipped_task_declares_is_no_more_than_its_tensors_hold(name):
    task = load_task(shipped_tasks()[name])
    if task.harness is not HarnessKind.STANDARD or not task.work:
        # Of these the input is the answer, or there are no keys to say anything about.
        assert name not in ("grayscale", "matmul", "prefixsum", "softmax", "vectoradd")
        return
    for case, work in zip(task.benchmarks, task.work, strict=True):
        sizes = [value for key, value in case.items() if key != "seed"]
        assert work.bytes is not None
        # Of at most three tensors of at most two of the keys, four bytes an element.
        assert 0 < work.bytes <= 3 * 4 * math.prod(sorted(sizes * 2)[-2:])
