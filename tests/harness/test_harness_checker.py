"""The process that checks answers: what an answer makes of a checker is the fault of the answer alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import SharedMemory
from harness_runs import SOURCE, quick_spec, run

from builders import make_spec
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import CHECK_S, CHECK_TIMES, Checks, Place
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.core.verdict import of_others
from kernelcup_harness.device import memory
from kernelcup_harness.protocol import (
    CheckStyle,
    JobSpec,
    Limits,
    Mode,
    Reason,
    RunReport,
    SampleName,
    StageName,
    Verdict,
)
from warm_harness import Run

ROOT = Path(__file__).parents[2]
CANNOT = "the checker cannot work with this output: "

ORDER = """\
import ctypes, os, sys, threading

import torch


def generate_input(size, seed):
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data):
    return data.argsort()


def check_implementation(data, output):
    found = output.tolist()
    {use}
    return torch.equal(ref_kernel(data), output)
"""
"""A task whose answer is an order: whole numbers from 0 to below the size."""
HONEST = "def custom_kernel(data):\n    return data.argsort()\n"
HUGE = "def custom_kernel(data):\n    return data.argsort() + (1 << 40)\n"
NEGATIVE = "def custom_kernel(data):\n    return data.argsort() - (1 << 40)\n"
WRONG = "def custom_kernel(data):\n    return data * 0\n"

USES = {
    "index": "[found[each] for each in found]",
    "index of a tensor": "data[output]",
    "scatter": "torch.zeros_like(data).scatter_(0, output, data)",
    "shape": "torch.zeros(max(found) + 1, 8)",
    "length": "[0] * (max(found) + 1)",
    "bits": "1 << max(found)",
    "zip": "list(zip(found, range(max(found) - len(found) + 1), strict=False if max(found) < 99 else True))",
    "sort": "sorted(found, key=list(range(len(found))).index)",
    "recursion": "down = lambda n: n and down(n - 1)\n    down(max(found))",
    "address": "table = (ctypes.c_ubyte * len(found))()\n"
    "    [ctypes.memset(ctypes.addressof(table) + each, 1, 1) for each in found]",
    "exit": "max(found) < 99 or sys.exit()",
    "abrupt exit": "max(found) < 99 or os._exit(0)",
    "prints": "for _ in range(min(max(found), 1000) // 99): print('x' * (1 << 20))\n    assert max(found) < 99",
    "children": "max(found) < 99 or os.fork() or threading.Event().wait()\n    assert max(found) < 99",
}
"""What a checker does with the numbers of an answer."""


def job(use: str, submission: str, **overrides: Any) -> JobSpec:
    """Return a job of a task whose checker uses the answer so."""
    values: dict[str, Any] = {
        "sources": {"reference.py": ORDER.format(use=use)},
        "mode": Mode.TEST,
        "tests": [{"size": 8, "seed": 5}],
        # The range of the reference's numbers would refuse most of these answers before.
        "wide_answers": True,
    }
    return quick_spec(submission, **(values | overrides))


def ends(report: RunReport) -> tuple[Verdict, Reason]:
    return report.verdict, report.reason


BY_SIZE = "    ".join(
    f"if len(found) == {size}:\n        " + use.replace("\n    ", "\n        ") + "\n"
    for size, use in enumerate(USES.values(), 8)
)
"""A checker that does each of these with the answers of one size."""


def test_answers_that_break_the_checker_are_wrong_and_the_right_ones_are_accepted(warm: Run) -> None:
    tests = [{"size": size, "seed": 5} for size, _ in enumerate(USES, 8)]
    hostile, honest = (warm(job(BY_SIZE, each, tests=tests)) for each in (HUGE, HONEST))
    assert ends(hostile) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    of_uses = dict(zip(USES, hostile.stages[-1].cases, strict=True))
    assert {use for use, case in of_uses.items() if not case.message.startswith(CANNOT)} == set()
    assert {case.verdict for case in of_uses.values()} == {Verdict.WRONG_ANSWER}
    assert honest.verdict is Verdict.ACCEPTED, honest.message
    assert len(honest.stages[-1].cases) == len(USES)


def test_a_crash_of_the_checker_in_the_sandbox_is_a_wrong_answer_with_its_differences() -> None:
    report = run(job(USES["address"], NEGATIVE)).report
    assert ends(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert report.message.startswith(f"{CANNOT}the task's check_implementation ended its process")
    (case,) = report.stages[-1].cases
    assert case.mismatch is not None
    assert case.mismatch.wrong == 8


@pytest.mark.parametrize(
    ("fails", "submission"),
    [("raise ValueError('broken')", HUGE), ("os._exit(0)", HONEST), ("return {'is': 'no verdict'}", HUGE)],
)
def test_a_checker_that_fails_on_the_references_answer_too_is_the_tasks_fault(
    warm: Run, fails: str, submission: str
) -> None:
    report = warm(job(fails, submission))
    assert ends(report) == (Verdict.INTERNAL_ERROR, Reason.TASK)
    assert "check_implementation" in report.message


WITH_POST_INIT = """\
import os
from dataclasses import dataclass

import torch


@dataclass
class Rows:
    count: int
    values: torch.Tensor

    def __post_init__(self):
        self.names = [f"row {number}" for number in range(self.count)] if self.count < 99 else os._exit(0)


def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data):
    return Rows(count=len(data), values=data * 2)


def check_implementation(data, output):
    right = ref_kernel(data)
    return output.names == right.names and torch.allclose(output.values, right.values)
"""


@pytest.mark.parametrize("sizes", [(8, 9), (8, 8, 9)])
def test_a_record_of_a_private_file_is_made_where_it_does_no_harm(warm: Run, sizes: tuple[int, ...]) -> None:
    first, *others = [{"size": size, "seed": 6} for size in sizes]
    report = warm(
        job(
            "",
            "def custom_kernel(data):\n"
            "    return {'count': 10**15 if len(data) == 9 else len(data), 'values': data * 2}\n",
            sources={"reference.py": WITH_POST_INIT},
            mode=Mode.TEST if len(others) == 1 else Mode.LEADERBOARD,
            limits=Limits(test_s=12.0, ranked_s=12.0),
            tests=[first, *others[:1]],
            benchmarks=others[1:],
        )
    )
    assert [case.verdict for stage in report.stages for case in stage.cases] == [
        *[Verdict.ACCEPTED] * (len(sizes) - 1),
        Verdict.WRONG_ANSWER,
    ], report.message


WITHOUT_REFERENCE = ORDER.replace("def ref_kernel(data):\n    return data.argsort()\n\n\n", "").replace(
    "ref_kernel(data)", "data.argsort()"
)


@pytest.mark.parametrize("use", ["index", "abrupt exit"])
def test_an_answer_that_breaks_the_checker_of_a_task_without_a_reference_is_wrong(
    warm: Run, use: str
) -> None:
    assert "ref_kernel" not in WITHOUT_REFERENCE
    sources = {"reference.py": WITHOUT_REFERENCE.format(use=USES[use])}
    for submission, verdict in ((HUGE, Verdict.WRONG_ANSWER), (HONEST, Verdict.ACCEPTED)):
        assert warm(job("", submission, sources=sources)).verdict is verdict


def test_what_a_broken_check_leaves_behind_is_not_held_against_the_reference(warm: Run) -> None:
    use = "torch.set_default_dtype(torch.float64)\n    [found[each] for each in found]\n"
    use += "    torch.set_default_dtype(torch.float32)"
    fails_afterwards = f"assert torch.get_default_dtype() is torch.float32\n    {use}"
    assert ends(warm(job(fails_afterwards, HUGE))) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert warm(job(fails_afterwards, HONEST)).verdict is Verdict.ACCEPTED


def test_a_checker_that_draws_numbers_draws_others_than_the_generator(warm: Run) -> None:
    draws = ORDER.replace("torch.Generator().manual_seed(seed)", "None").format(
        use="return not torch.equal(torch.randperm(len(data)), data)"
    )
    assert warm(
        job("", HONEST, sources={"reference.py": draws}, tests=[{"size": 99, "seed": 5}])
    ).verdict is (Verdict.ACCEPTED)


BATCH = """\
from dataclasses import dataclass

import torch


@dataclass
class Batch:
    values: torch.Tensor
    names: list
    scale: float
"""
RECORDS = """\
import torch
from task import Batch


def generate_input(size, seed):
    made = torch.randn(size, 3, generator=torch.Generator().manual_seed(seed))
    return Batch(made.t(), [made, made[:, 1], "three"], 0.5)


def ref_kernel(data):
    return {"sum": data.values * data.scale, "views": (data.names[1].expand(2, -1), data.names[2])}


def check_implementation(data, output):
    assert isinstance(data, Batch)
    assert data.values.stride() == (1, 3)
    expected = ref_kernel(data)
    return torch.equal(output["sum"], expected["sum"]) and output["views"][1] == "three"
"""


def test_the_checker_gets_inputs_as_they_were_made(warm: Run) -> None:
    answer = (
        "def custom_kernel(data):\n"
        "    return {'sum': data.values * data.scale, 'views': (data.names[1].expand(2, -1), 'three')}\n"
    )
    sources = {"reference.py": RECORDS, "task.py": BATCH}
    assert warm(job("", answer, sources=sources)).message == ""
    wrong = warm(job("", answer.replace("scale", "scale * 2"), sources=sources))
    assert ends(wrong) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)


# Time


class Slow:
    """A checker that takes as long as it is said to take; longer than its limit, it fails."""

    def __init__(self, takes_s: Callable[[Any], float], clock: list[float]) -> None:
        self.takes_s, self.clock = takes_s, clock
        self.limits_s: list[float] = []

    def check(self, given: Any, output: Any, *, seed: int, limit_s: float) -> str:
        self.limits_s.append(limit_s)
        takes_s = self.takes_s(output)
        self.clock[0] += min(takes_s, limit_s)
        if takes_s > limit_s:
            raise TaskFault("it takes too long")
        return "" if torch.equal(given * 2, output) else "not the double"


PLACE, FIRST = Place(StageName.TEST, 0, {"size": 4, "seed": 1}), SampleName(input=0)


@pytest.fixture
def doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], float]], Any]:
    """Return what makes checks of a task that doubles, by a checker that takes a while."""
    text = "import torch\ndef generate_input(size, seed): return torch.ones(size)\n"
    text += "def ref_kernel(data): return data * 2\ndef check_implementation(data, output): ...\n"
    (tmp_path / "doubling.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    clock = [0.0]
    monkeypatch.setattr("kernelcup_harness.core.check.time.monotonic", lambda: clock[0])

    def make(takes_s: Callable[[Any], float]) -> Any:
        slow = Slow(takes_s, clock)
        checks = Checks(
            TaskCode("doubling", CheckStyle.DATA_OUTPUT, tmp_path), bytes(32), make_spec(), checker=slow
        )

        def fault(output: torch.Tensor) -> Any:
            return checks.fault(PLACE, FIRST, checks.make_input(PLACE, FIRST), Answer(output=output))

        return fault, slow

    yield make
    sys.modules.pop("doubling", None)


def test_a_check_without_end_is_a_wrong_answer(doubled: Any) -> None:
    fault, slow = doubled(lambda output: float("inf") if output[0] > 2 else 0.1)
    assert fault(torch.full((4,), 9.0)).text == f"{CANNOT}it takes too long"
    assert slow.limits_s == [CHECK_S, float("inf"), CHECK_S]
    assert fault(torch.full((4,), 2.0)) is None


def test_a_slow_check_has_as_much_time_as_follows_from_the_references(doubled: Any) -> None:
    fault, slow = doubled(lambda _output: 30.0)
    assert fault(torch.full((4,), 2.0)) is None
    assert slow.limits_s == [CHECK_S, float("inf"), CHECK_TIMES * 30.0]
    # It is measured once.
    assert fault(torch.full((4,), 1.0)).text.endswith("not the double")
    assert slow.limits_s[3:] == [CHECK_TIMES * 30.0]


def test_a_checker_that_was_slow_once_costs_no_right_answer(doubled: Any) -> None:
    times_s = [11.0, 0.1, 0.1]
    fault, _ = doubled(lambda _output: times_s.pop(0))
    assert fault(torch.full((4,), 2.0)) is None


def test_a_check_without_end_of_the_references_answer_is_the_tasks_fault(doubled: Any) -> None:
    fault, slow = doubled(lambda _output: float("inf"))
    slow.check, real = (
        lambda *given, **options: real(*given, **(options | {"limit_s": min(options["limit_s"], 60.0)})),
        slow.check,
    )
    with pytest.raises(TaskFault):
        fault(torch.full((4,), 2.0))


def test_memory_that_lacks_for_the_references_answer_too_is_blamed_on_who_holds_it() -> None:
    device = SharedMemory()
    reservation = memory.Reservation(device)
    fault = TaskFault("no more")
    fault.__cause__ = torch.OutOfMemoryError("no more")
    for held, verdict in ((60, Verdict.MEMORY_LIMIT_EXCEEDED), (20, Verdict.INTERNAL_ERROR)):
        device.theirs = held
        blamed = of_others(fault, reservation)
        assert blamed is not None
        assert blamed.verdict is verdict


# A sample of what benchmarks/checker_fuzz.py tries


@pytest.mark.jobs
def test_no_answer_of_a_sample_ends_as_the_fault_of_a_shipped_task() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/checker_fuzz.py"), "--sample", "60", "--check-s", "0.3"]
    done = subprocess.run(
        command,
        env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tries"] == 60
    assert found["wrong"] > 30
    assert found["right"] > 2


# A wrong answer stays one

LATER = {
    "time": "    time.sleep(60)\n",
    "end": "    os._exit(3)\n",
    "channel": "    os.closerange(3, 100)\n    return data\n",
    "error": "    raise ValueError\n",
    "memory": "    raise torch.OutOfMemoryError\n",
}
FIRST_WRONG = "import os, time\nimport torch\n\n\ndef custom_kernel(data):\n"


@pytest.mark.parametrize(
    "later", [pytest.param(each, marks=[] if each == "end" else pytest.mark.jobs) for each in LATER]
)
def test_a_stage_with_a_wrong_answer_ends_so_whatever_follows(warm: Run, later: str) -> None:
    tests = [{"size": size, "seed": 5} for size in (8, 9)]
    text = f"{FIRST_WRONG}    if len(data) == 8:\n        return data * 0\n{LATER[later]}"
    report = warm(job("", text, tests=tests, limits=Limits(test_s=2.0)))
    assert ends(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert report.stages[-1].cases[0].mismatch is not None
    alone = f"{FIRST_WRONG}    if len(data) == 8:\n        return data.argsort()\n{LATER[later]}"
    assert warm(job("", alone, tests=tests, limits=Limits(test_s=2.0))).verdict is not Verdict.WRONG_ANSWER


def test_a_wrong_answer_is_not_undone_by_a_fault_of_the_task(warm: Run) -> None:
    tests = [{"size": size, "seed": 5} for size in (8, 9)]
    broken = "assert len(found) == 8"
    report = warm(job(broken, WRONG, tests=tests))
    assert ends(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert ends(warm(job(broken, HONEST, tests=tests))) == (Verdict.INTERNAL_ERROR, Reason.TASK)


# An exception's name


def test_an_exception_that_is_named_like_a_compilers_is_an_exception(warm: Run) -> None:
    named = (
        "class CompilationError(Exception): ...\n\n\ndef custom_kernel(data):\n    raise CompilationError\n"
    )
    assert ends(warm(job("", named))) == (Verdict.RUNTIME_ERROR, Reason.EXCEPTION)
    assert ends(warm(job("", f"{named}\nraise CompilationError\n"))) == (Verdict.RUNTIME_ERROR, Reason.IMPORT)


def test_an_exception_of_an_installed_compiler_is_a_compile_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from kernelcup_harness.contestant.main import is_of_compiler

    (tmp_path / "a_compiler.py").write_text("class CompilationError(Exception): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import a_compiler  # type: ignore[import-not-found]

    assert is_of_compiler(a_compiler.CompilationError)
    monkeypatch.chdir(tmp_path)
    assert not is_of_compiler(a_compiler.CompilationError)
    assert not is_of_compiler(ValueError)
