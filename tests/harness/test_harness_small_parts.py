"""Seeds, the rule of enough, patterns in memory, the task's own code, and the record of a run."""

from __future__ import annotations

import math
import random
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import make_case, make_spec
from kernelcup_harness.clocks.samples import FEWEST_TO_STOP, enough
from kernelcup_harness.core.answer import end_of
from kernelcup_harness.core.task import TaskCode, TaskFault, seed_everything, verdict_text
from kernelcup_harness.protocol import (
    Backend,
    CheckStyle,
    MeasureRules,
    Reason,
    StageName,
    Verdict,
    dumps,
    loads,
    seeds,
)
from kernelcup_harness.protocol import RunReport as Report
from kernelcup_harness.run.record import Record, signal_name
from kernelcup_harness.wire import guards
from kernelcup_harness.wire.guards import POISON_BYTES
from kernelcup_harness.wire.job_messages import MachineFacts
from kernelcup_harness.wire.messages import CaseEnds, SampleTaken, StageBegins, StageEnds
from kernelcup_harness.wire.values import GUARD_BYTES, BadTree

SECRET = bytes(range(32))


# Seeds


def test_a_drawn_secret_has_256_bits_and_is_never_the_same() -> None:
    drawn = {seeds.draw_secret() for _ in range(50)}
    assert len(drawn) == 50
    assert {len(secret) for secret in drawn} == {32}


@given(st.binary(min_size=32, max_size=32), st.integers(0, 1000), st.integers(0, 1000))
def test_a_derived_seed_has_63_bits_and_is_repeatable(secret: bytes, case: int, sample: int) -> None:
    seed = seeds.derive_seed(secret, "ranked", case, sample)
    assert 0 <= seed < 2**63
    assert seed == seeds.derive_seed(secret, "ranked", case, sample)


def test_every_place_and_every_secret_has_a_seed_of_its_own() -> None:
    places = [("ranked", case, sample) for case in range(30) for sample in range(30)]
    places += [("own",), ("ranked", 1), ("ranked", 11)]
    found = {seeds.derive_seed(secret, *place) for place in places for secret in (SECRET, b"\1" * 32)}
    assert len(found) == 2 * len(places)


# Enough


RULES = MeasureRules(min_samples=3, max_samples=30, relative_error=0.01)


@pytest.mark.parametrize(
    ("samples", "elapsed_s", "expected"),
    [
        pytest.param([], 0.0, False, id="none yet"),
        pytest.param([1.0, 1.0], 99.0, False, id="below the minimum even when the time is up"),
        pytest.param([1.0] * FEWEST_TO_STOP, 0.0, True, id="equal samples"),
        pytest.param([1.0] * (FEWEST_TO_STOP - 1), 0.0, False, id="so few may be equal by chance"),
        pytest.param([1.0] * 3, 5.0, True, id="few equal samples when the time is up"),
        pytest.param([1e3, 2e3, 3e3], 0.0, False, id="spread samples"),
        pytest.param([1e3, 2e3, 3e3], 5.0, True, id="spread samples when the time is up"),
        pytest.param([1e3, 2e3] * 15, 0.0, True, id="the maximum"),
        pytest.param([1e5, 1.005e5, 0.995e5, 1e5] * 5, 0.0, True, id="an interval below the share"),
        pytest.param([1e5, 1.1e5, 0.9e5, 1e5] * 5, 0.0, False, id="an interval above the share"),
        pytest.param([1e3, 1.02e3, 0.98e3, 1e3] * 5, 0.0, True, id="an interval of a few nanoseconds"),
    ],
)
def test_a_case_is_sampled_until_it_is_enough(samples: list[float], elapsed_s: float, expected: bool) -> None:
    assert enough(samples, elapsed_s, RULES, budget_s=5.0) is expected


def test_without_a_wanted_error_only_count_and_time_end_a_case() -> None:
    rules = MeasureRules(min_samples=2, max_samples=5, relative_error=0.0)
    assert not enough([1.0] * 4, 0.0, rules, budget_s=5.0)
    assert enough([1.0] * 5, 0.0, rules, budget_s=5.0)


# The checker's answer


ANSWERS: list[tuple[Any, str]] = [
    *((each, "") for each in (True, "", (True, "all is well"), (True, None), torch.tensor(True))),
    *((each, "off by one") for each in ("off by one", (False, "off by one"))),
    *(((False, ["first", "second"]), "first\nsecond"), ((torch.tensor([False]), "no"), "no")),
]


@pytest.mark.parametrize(("answer", "text"), ANSWERS)
def test_the_forms_of_a_checkers_answer(answer: Any, text: str) -> None:
    assert verdict_text(answer) == text


@pytest.mark.parametrize("answer", [False, (False, ""), (False, None), torch.tensor(False)])
def test_a_refusal_without_words_gets_some(answer: Any) -> None:
    assert verdict_text(answer)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, "None"),
        ({"ok": False}, "dict"),
        ((False, "off by one", 3), r"tuple \(bool, str, int\)"),
        ((False, {"error": 1}), r"tuple \(bool, dict\)"),
        (({"ok": False}, "off by one"), "dict"),
        (([], "off by one"), "list"),
        (["wrong"], "list"),
        ([], "list"),
        (0, "int"),
        (1.0, "float"),
        (torch.tensor(1.0), r"Tensor of dtype torch.float32 and shape \[\]"),
        (torch.tensor([True, False]), r"Tensor of dtype torch.bool and shape \[2\]"),
    ],
)
def test_an_answer_that_is_none_of_the_forms_is_the_tasks_fault(answer: Any, kind: str) -> None:
    with pytest.raises(TaskFault, match=f"check_implementation returned {kind}; return a bool, a text"):
        verdict_text(answer)


def test_truth_values_of_numpy_count() -> None:
    numpy = pytest.importorskip("numpy")
    assert verdict_text(numpy.bool_(True)) == ""
    assert verdict_text((numpy.bool_(False), "off by one")) == "off by one"


# The creator's code


GENERATOR = "def generate_input(size, seed):\n    return (size, seed)\n"
KERNEL = "def ref_kernel(data):\n    return data\n"
CHECKER = "def check_implementation(data, output):\n    return data == output\n"

TaskMaker = Callable[..., TaskCode]


@pytest.fixture
def make_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskMaker:
    """Write a reference module of a name that is used once, and load it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(text: str, style: CheckStyle = CheckStyle.DATA_OUTPUT) -> TaskCode:
        name = f"reference_{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(text)
        return TaskCode(name, style, tmp_path)

    return make


def test_a_task_generates_computes_and_checks(make_code: TaskMaker) -> None:
    code = make_code(GENERATOR + KERNEL + CHECKER)
    data = code.generate({"size": 3, "seed": 1}, 2**63 - 1)
    assert data == (3, 2**63 - 1)
    assert code.has_reference
    assert code.expected(data) == data
    assert code.check(data, data) == ""
    assert code.check(data, (4, 4))


def test_a_generator_without_a_seed_draws_from_seeded_generators(make_code: TaskMaker) -> None:
    text = "import random, torch\ndef generate_input(size):\n"
    text += "    return random.random(), torch.rand(size).tolist()\n"
    code = make_code(text + CHECKER)
    first, again, other = (code.generate({"size": 3}, seed) for seed in (2**63 - 1, 2**63 - 1, 5))
    assert first == again
    assert first != other


def test_numpy_is_seeded_where_it_is_loaded() -> None:
    numpy = pytest.importorskip("numpy")
    seed_everything(2**63 - 1)
    first = numpy.random.random(), random.random(), float(torch.rand(()))
    seed_everything(2**63 - 1)
    assert first == (numpy.random.random(), random.random(), float(torch.rand(())))


def test_a_reference_that_returns_nothing_works_in_place(make_code: TaskMaker) -> None:
    code = make_code(GENERATOR + CHECKER + "def ref_kernel(data):\n    data.append(1)\n")
    assert code.expected([0]) == [0, 1]
    assert code.in_place


def test_the_older_style_compares_with_the_references_output(make_code: TaskMaker) -> None:
    text = "def ref_kernel(data):\n    return [-x for x in data]\n"
    text += "def check_implementation(user_output, reference_output):\n"
    text += "    return user_output == reference_output\n"
    code = make_code(GENERATOR + text, CheckStyle.OUTPUT_REFERENCE)
    assert code.check([1], [-1]) == ""
    assert code.check([1], [1])


def test_the_older_style_needs_a_reference(make_code: TaskMaker) -> None:
    with pytest.raises(TaskFault, match="ref_kernel"):
        make_code(GENERATOR + CHECKER, CheckStyle.OUTPUT_REFERENCE)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import there_is_no_such_module", "there_is_no_such_module"),
        ("def broken(:", "SyntaxError"),
        ("import sys\nsys.exit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        (CHECKER, "generate_input"),
        (GENERATOR, "check_implementation"),
        (GENERATOR + "check_implementation = 5", "check_implementation"),
    ],
)
def test_a_module_that_is_no_task_is_the_tasks_fault(make_code: TaskMaker, text: str, named: str) -> None:
    with pytest.raises(TaskFault, match=named):
        make_code(text)


@pytest.mark.parametrize(
    "body", ["raise SystemExit(0)", "raise ValueError('no')", "import sys; sys.exit('text')", "1 / 0"]
)
def test_whatever_the_creators_functions_raise_is_the_tasks_fault(make_code: TaskMaker, body: str) -> None:
    text = f"def generate_input(size, seed):\n    {body}\n"
    text += f"def ref_kernel(data):\n    {body}\n"
    text += f"def check_implementation(data, output):\n    {body}\n"
    code = make_code(text)
    calls: dict[str, Callable[[], Any]] = {
        "generate_input": lambda: code.generate({"size": 1}, 1),
        "ref_kernel": lambda: code.expected(1),
        "check_implementation": lambda: code.check(1, 1),
    }
    for name, call in calls.items():
        with pytest.raises(TaskFault, match=name):
            call()


def test_arguments_that_the_generator_does_not_take_are_the_tasks_fault(make_code: TaskMaker) -> None:
    code = make_code("def generate_input(size):\n    return size\n" + CHECKER)
    with pytest.raises(TaskFault, match="unexpected keyword"):
        code.generate({"size": 1, "depth": 2}, 1)


def test_the_tolerance_is_the_one_that_the_checker_names(make_code: TaskMaker) -> None:
    assert make_code(GENERATOR + CHECKER).tolerance is None
    named = "check_implementation.rtol, check_implementation.atol = 1, 0.5\n"
    assert make_code(GENERATOR + CHECKER + named).tolerance == (1.0, 0.5)


def test_only_classes_of_the_tasks_own_files_are_made(make_code: TaskMaker, tmp_path: Path) -> None:
    text = "import dataclasses, subprocess, torch\n@dataclasses.dataclass\nclass Mine:\n    a: int = 0\n"
    code = make_code(GENERATOR + CHECKER + text)
    (module,) = (path.stem for path in tmp_path.glob("reference_*.py"))
    assert code.record_type(module, "Mine").__name__ == "Mine"
    for place, name in [
        ("os", "stat_result"),
        ("subprocess", "Popen"),
        ("kernelcup_harness.protocol", "RunReport"),
        ("no_such_module", "Mine"),
        (module, "subprocess.Popen"),
        (module, "subprocess.CompletedProcess"),
        (module, "torch.nn.Module"),
        (module, "dataclasses.Field"),
    ]:
        with pytest.raises(BadTree):
            code.record_type(place, name)


# The record


def recorded(**overrides: Any) -> tuple[Record, list[dict[str, Any]]]:
    """Return an empty record and the list of what it tells."""
    told: list[dict[str, Any]] = []
    return Record(make_spec(**overrides), "c0ffee", told.append), told


def report_of(record: Record) -> Report:
    return record.report(secret=SECRET, duration_s=1.5)


def ended(name: StageName) -> StageEnds:
    return StageEnds(
        name=name,
        verdict=Verdict.ACCEPTED,
        reason=Reason.NONE,
        message="",
        role="submission",
        met_hidden=False,
        lost=False,
    )


def test_a_record_becomes_a_report_that_survives_json() -> None:
    record, told = recorded()
    record.take(MachineFacts(environment={"torch": "2", "load": math.inf}))
    record.take(StageBegins(name=StageName.IMPORT, limit_s=9.0, cases=0, total=0))
    record.take(ended(StageName.IMPORT))
    record.take(StageBegins(name=StageName.TEST, limit_s=8.0, cases=2, total=2))
    record.take(SampleTaken(stage=StageName.TEST, case=0, samples=1))
    record.take(CaseEnds(stage=StageName.TEST, case=make_case(2000.0)))
    record.take(ended(StageName.TEST))
    report = report_of(record)
    assert report.verdict is Verdict.ACCEPTED
    assert report.stage is None
    assert [stage.name for stage in report.stages] == [StageName.IMPORT, StageName.TEST]
    assert report.stages[1].planned_cases == 2
    assert (report.seed_commitment, report.secret_seed) == ("c0ffee", SECRET.hex())
    assert loads(Report, dumps(report)) == report
    kinds = [event["event"] for event in told]
    assert kinds == ["stage", "stage_end", "stage", "sample", "case", "stage_end"]
    assert told[4] == {
        "event": "case",
        "stage": "test",
        "case": 0,
        "verdict": "accepted",
        "hidden": False,
        "score_ns": 2000.0,
    }


def test_the_first_stage_that_is_not_accepted_names_the_verdict() -> None:
    record, _ = recorded()
    record.begin(StageName.IMPORT, 1.0, 0)
    record.end(Verdict.ACCEPTED, Reason.NONE, "")
    record.begin(StageName.TEST, 1.0, 1)
    record.case(make_case(None, verdict=Verdict.WRONG_ANSWER, message="case"))
    record.end(Verdict.WRONG_ANSWER, Reason.DIFFERS, "case")
    report = report_of(record)
    assert (report.verdict, report.stage, report.message) == (Verdict.WRONG_ANSWER, StageName.TEST, "case")


def test_a_stage_that_is_cut_off_keeps_its_cases() -> None:
    record, _ = recorded()
    record.begin(StageName.TEST, 1.0, 5)
    record.case(make_case())
    record.fail(StageName.IMPORT, Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, "too slow")
    (stage,) = report_of(record).stages
    assert (stage.name, stage.verdict) == (StageName.TEST, Verdict.TIME_LIMIT_EXCEEDED)
    assert (len(stage.cases), stage.planned_cases) == (1, 5)


def test_a_run_without_stages_is_an_error_of_ours() -> None:
    record, _ = recorded()
    assert report_of(record).verdict is Verdict.INTERNAL_ERROR


def test_a_stage_that_begins_anew_replaces_itself() -> None:
    record, _ = recorded()
    record.begin(StageName.IMPORT, 1.0, 0)
    record.begin(StageName.IMPORT, 2.0, 0)
    record.end(Verdict.ACCEPTED, Reason.NONE, "")
    (stage,) = report_of(record).stages
    assert stage.limit_s == 2.0


@pytest.mark.parametrize(("backend", "comparable"), [(Backend.EMULATED, False), (Backend.CPU, True)])
def test_times_of_an_emulated_device_are_not_comparable(backend: Backend, comparable: bool) -> None:
    record, _ = recorded(backend=backend)
    assert report_of(record).comparable is comparable


def test_every_signal_has_a_name() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(40) == "signal 40"


# Where an answer ends, and what its memory holds


@pytest.mark.parametrize(
    ("table", "end"),
    [
        pytest.param([], POISON_BYTES, id="at least the pattern"),
        pytest.param(None, POISON_BYTES, id="no table"),
        pytest.param([5, {"offset": "x", "nbytes": 1}, {"offset": 1}], POISON_BYTES, id="no entries"),
        pytest.param([{"offset": 8192, "nbytes": 4}], 8192 + 256 + GUARD_BYTES, id="the last tensor's band"),
        pytest.param(
            [{"offset": 8192, "nbytes": 4}, {"offset": 256, "nbytes": 4}],
            8192 + 256 + GUARD_BYTES,
            id="the last tensor, in any order",
        ),
        pytest.param([{"offset": -(1 << 70), "nbytes": 1}], POISON_BYTES, id="before the memory"),
        pytest.param([{"offset": 1 << 70, "nbytes": 1}], 1 << 20, id="the end of the memory"),
        pytest.param([{"offset": True, "nbytes": 1 << 16}], POISON_BYTES, id="no number"),
    ],
)
def test_only_the_part_of_the_memory_that_holds_an_answer_is_copied(table: Any, end: int) -> None:
    assert end_of(table, 1 << 20) == end


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 3 * 4096, 50_000])
def test_a_pattern_is_repeated_to_the_last_byte(size: int) -> None:
    pattern = torch.randint(0, 256, (POISON_BYTES,), dtype=torch.uint8)
    by_host, by_torch = torch.zeros(size + 1, dtype=torch.uint8), torch.zeros(size + 1, dtype=torch.uint8)
    guards.repeat_on_host(by_host[:size], pattern)
    guards.repeat(by_torch[:size], pattern)
    assert torch.equal(by_host, by_torch)
    assert by_host[size] == 0
    assert guards.holds(by_host[:size], pattern)


@pytest.mark.parametrize("place", [0, 4095, 4096, 9_999])
def test_a_pattern_of_which_one_byte_was_written_does_not_hold(place: int) -> None:
    pattern = torch.randint(0, 256, (POISON_BYTES,), dtype=torch.uint8)
    memory = torch.zeros(10_000, dtype=torch.uint8)
    guards.repeat(memory, pattern)
    memory[place] ^= 1
    assert not guards.holds(memory, pattern)
