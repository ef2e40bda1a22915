"""Null submissions against tasks: good ones refuse them all, broken ones are found out."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from harness_runs import LONGEST_RUN_S

from builders import make_spec
from kernelcup.domain import Language
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.null_report import weigh
from kernelcup.tasks.scaffold import new_task
from kernelcup.tasks.shipped import shipped_tasks
from kernelcup_harness.clocks.budget import AFTERWARDS
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.isolation import sandbox
from kernelcup_harness.lint import null_submissions, task_lint
from kernelcup_harness.lint.messages import FROM_LINT, CasePlace, ReferenceTimed
from kernelcup_harness.lint.run import Gathered, next_message
from kernelcup_harness.protocol import Backend, CheckStyle, JobSpec, Mode, SourceTree, dumps, from_json
from kernelcup_harness.protocol.lint import CaseList, LintReport, Null, Severity
from kernelcup_harness.wire import values as wire
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import unpack_any

GENERATE = """\
import torch


def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))
"""
REFERENCE = "def ref_kernel(data):\n    return 3 * data.sin() + 0.5\n"
CHECK = """\
def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data), rtol=1e-5, atol=1e-6)
"""
SIZE = 320

Trial = Callable[..., LintReport]


class Recorder:
    """Stands where the runner's channel is, and believes as little."""

    def __init__(self, spec: JobSpec) -> None:
        self.gathered = Gathered(spec)

    def send(self, message: dict[str, Any]) -> None:
        self.gathered.take(unpack_any(FROM_LINT, json.loads(json.dumps(message))))


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """Try a task in this process; one test case of SIZE elements if nothing else is said."""

    def run(*parts: str, **overrides: Any) -> LintReport:
        (tmp_path / "reference.py").write_text("\n\n".join(parts))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "reference", raising=False)
        values = {"tests": [{"size": SIZE, "seed": 7}], "benchmarks": [], **overrides}
        spec = make_spec(**values)
        task = TaskCode("reference", spec.check_style, tmp_path)
        recorder = Recorder(spec)
        for case in task_lint.cases_of(spec):
            task_lint.CaseLint(task, case, recorder, spec).run()  # type: ignore[arg-type]
        monkeypatch.delitem(sys.modules, "reference")
        return recorder.gathered.report("")

    return run


def found(report: LintReport) -> set[str]:
    """Return the names of the nulls that were accepted, or noted where the judge refuses them by itself."""
    noted = {note.split(": ")[1] for note in report.notes if "the standard harness refuses it" in note}
    return noted | {finding.null.value for finding in report.findings}


def checker(body: str) -> str:
    """Return a checker that ends with an expression over ``output`` and ``right``."""
    lines = body.splitlines()
    inner = "".join(f"    {line}\n" for line in lines[:-1])
    return (
        "def check_implementation(data, output):\n"
        f"    right = ref_kernel(data)\n{inner}    return bool({lines[-1]})\n"
    )


def test_a_good_task_refuses_every_null(trial):
    report = trial(GENERATE, REFERENCE, CHECK)
    assert (report.fault, report.findings, report.notes) == ("", [], [])
    assert report.tried == 25


CONSTANT = {"zeros", "ones", "copy_of_input", "previous_answer", "other_seed"}
PARTS = {"one_percent_wrong", "last_tile_missing"}
EVERY = {null.value for null in Null}


def broken(rule: str, *nulls: str, ref: str = "", generate: str = GENERATE) -> tuple[list[str], set[str]]:
    """Return a task whose checker has this rule, and whose reference returns ``ref``; and what it accepts."""
    reference = f"def ref_kernel(data):\n    return {ref}\n" if ref else REFERENCE
    return [generate, reference, checker(rule) if rule else CHECK], set(nulls)


BROKEN = {
    "a tolerance of ten": broken(
        "torch.allclose(output, right, rtol=0, atol=10)", *CONSTANT, *PARTS, "lower_precision"
    ),
    "a look at the shape only": broken(
        "output.shape == right.shape", *EVERY - {"hostile_integers", "narrower_dtype"}
    ),
    "indices that may be anything": broken(
        "(output < len(data)).all()", "hostile_integers", "zeros", "other_seed", ref="data.argsort()"
    ),
    "items that are compared in pairs": broken(
        "all(torch.allclose(*pair, rtol=1e-5, atol=1e-6) for pair in zip(output, right))",
        "other_form",
        ref="[data + 1, data.exp()]",
    ),
    "what is expected in the answer's dtype": broken(
        "torch.allclose(output, right.to(output.dtype), rtol=1e-5, atol=1e-6)", "other_form", "narrower_dtype"
    ),
    "an answer that is always zero": broken(
        "", "zeros", "previous_answer", "other_seed", ref="torch.zeros_like(data)"
    ),
    "an answer that is always one": broken(
        "", "ones", "previous_answer", "other_seed", ref="torch.ones_like(data)"
    ),
    "an input that does not depend on the seed": broken(
        "",
        "previous_answer",
        "other_seed",
        generate="import torch\ndef generate_input(size, seed):\n    return torch.arange(size) / 7\n",
    ),
    "a look at the first elements": broken("torch.allclose(output[:64], right[:64])", *PARTS),
    "a last tile that is not looked at": broken(
        "torch.allclose(output[:-20], right[:-20])", "last_tile_missing"
    ),
    "a share of elements that may be wrong": broken(
        "torch.isclose(output, right).float().mean() > 0.98", "one_percent_wrong"
    ),
    "a comparison in half precision": broken(
        "torch.allclose(output.half(), right.half(), rtol=2e-3, atol=2e-3)", "lower_precision"
    ),
    "an input that may be handed back": broken(
        "torch.allclose(output, right) or torch.equal(output, data)", "copy_of_input"
    ),
    "answers that hardly differ": broken(
        "torch.allclose(output, right, rtol=1e-2)",
        *("previous_answer", "other_seed", "lower_precision"),
        ref="1000 + data.abs().clamp(0.1, 3) * torch.linspace(0, 1, data.numel())",
    ),
    "a part of the answer that is not looked at": broken(
        "torch.allclose(output['sum'], right['sum'], rtol=1e-5, atol=1e-6)",
        *(*CONSTANT, *PARTS, "uninitialised"),
        ref="{'sum': data + 2, 'exp': data.exp()}",
    ),
    "whole numbers with a tolerance": broken(
        "((output - right).abs() < 200).all()",
        *("previous_answer", "other_seed"),
        ref="data * 2 + 200",
        generate=GENERATE.replace("randn(size", "randint(0, 99, (size,)"),
    ),
    "errors that are counted": broken("not ((output - right).abs() > 1e-4).any()", "nan", "half_nan"),
    "a NaN that is never wrong": broken(
        "not ((output.float() - right.float()).abs().mean() > 0.6)",
        *("zeros", "uninitialised", "previous_answer", "other_seed", *PARTS),
        ref="data > 0.5",
    ),
}


EXACT = {
    "a last tile that is not looked at",
    "a share of elements that may be wrong",
    "a comparison in half precision",
    "an input that may be handed back",
    "errors that are counted",
    "an input that does not depend on the seed",
    "items that are compared in pairs",
    "what is expected in the answer's dtype",
}
"""Of these nothing else is said."""


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_task_is_found_out(trial, what):
    parts, nulls = BROKEN[what]
    report = trial(*parts)
    assert found(report) == nulls if what in EXACT else found(report) >= nulls
    places = {(f.list, f.index, f.parameters["size"]) for f in report.findings}
    # What the judge refuses by itself is no finding.
    assert places == ({(CaseList.TESTS, 0, SIZE)} if nulls - {"other_form", "nan", "half_nan"} else set())


def test_every_null_is_accepted_by_some_broken_task():
    assert set().union(*(nulls for _parts, nulls in BROKEN.values())) == EVERY


@pytest.mark.parametrize(
    ("rule", "nulls"),
    [
        ("not ((output - right).abs() > 1e-4).any()", {"nan", "half_nan"}),
        (
            "not ((output - right)[:9].abs() > 1e-4).any() or output.isinf().all()",
            {"nan", "infinite", "half_nan"},
        ),
        ("torch.allclose(output, right)", set()),
    ],
)
def test_a_checker_that_accepts_what_is_not_finite_is_found_out(trial, rule, nulls):
    assert found(trial(GENERATE, REFERENCE, checker(rule))) & {"nan", "infinite", "half_nan"} == nulls


def test_whole_numbers_are_asked_for_no_nan(trial):
    report = trial(GENERATE, "def ref_kernel(data):\n    return (data * 9).long()\n", checker("True"))
    assert not found(report) & {"nan", "infinite", "half_nan"}
    assert "zeros" in found(report)


def test_a_lower_precision_is_a_warning_and_all_else_an_error(trial):
    report = trial(*BROKEN["a tolerance of ten"][0])
    warnings = {f.null for f in report.findings if f.severity is Severity.WARNING}
    assert warnings == {Null.LOWER_PRECISION}


IDENTITY = "def ref_kernel(data):\n    return data\n"
SAME = "def check_implementation(data, output):\n    return torch.equal(ref_kernel(data), output)\n"


def test_a_copy_of_the_input_is_a_remark_where_the_reference_returns_its_input(trial):
    cases = {
        "tests": [{"size": 64, "seed": 7}, {"size": 65, "seed": 8}],
        "benchmarks": [{"size": 128, "seed": 1}],
    }
    report = trial(GENERATE, IDENTITY, SAME, **cases)
    assert {(each.null, each.severity) for each in report.findings} == {
        (Null.COPY_OF_INPUT, Severity.WARNING)
    }

    sometimes = "def ref_kernel(data):\n    return data if len(data) == 128 else data * 2\n"
    report = trial(GENERATE, sometimes, SAME, **cases)
    assert {(each.null, each.severity) for each in report.findings} == {(Null.COPY_OF_INPUT, Severity.ERROR)}


def test_the_tolerance_that_is_proposed_refuses_the_null(trial):
    loose = trial(GENERATE, REFERENCE, checker("torch.allclose(output, right, rtol=0, atol=0.05)"))
    (first, *_rest) = [f for f in loose.findings if f.null is Null.LOWER_PRECISION]
    rtol, atol = first.suggestion.partition("rtol=")[2].removesuffix(" would refuse it").split(", atol=")
    strict = checker(f"torch.allclose(output, right, rtol={float(rtol)}, atol={float(atol)})")
    assert first.how not in {f.how for f in trial(GENERATE, REFERENCE, strict).findings}


def test_a_checker_that_skips_elements_is_told_from_one_with_too_wide_a_tolerance(trial):
    told = "check_implementation.rtol, check_implementation.atol = 1e-5, 1e-6\n"
    report = trial(*BROKEN["a last tile that is not looked at"][0], told)
    assert "does not check every element" in report.findings[0].suggestion


def test_a_part_that_is_not_looked_at_is_named(trial):
    report = trial(*BROKEN["a part of the answer that is not looked at"][0])
    assert "all zeros, in output['exp'] only" in {f.how for f in report.findings}
    assert not any("output['sum']" in f.how for f in report.findings)


IN_PLACE = """\
def ref_kernel(data):
    data["x"].mul_(3).add_(1)


def check_implementation(data, output):
    want = 3 * data["x"] + 1
    return torch.allclose(output["x"], want, rtol=1e-5, atol=1e-6)
"""
MATCH = """\
from kernelcup.tasks.shared.utils import make_match_reference
check_implementation = make_match_reference(ref_kernel)
"""
GOOD = {
    "in place": [
        GENERATE.replace("return ", "x = ") + '    return {"x": x, "scale": torch.ones(3)}\n',
        IN_PLACE,
    ],
    "several outputs": [
        GENERATE,
        "def ref_kernel(data):\n    return [data * 2 + 1, {'i': (data * 100).long() + 3, 'b': data > 0}]\n",
        MATCH,
    ],
    "a part that is the same each time": [
        GENERATE,
        "def ref_kernel(data):\n    return data.exp(), torch.ones(4), 5\n",
        MATCH,
    ],
    "numbers": [
        GENERATE,
        "def ref_kernel(data):\n    return float(data.sum()) + 100, int(data.argmax()), 'text', None\n",
        (
            "def check_implementation(data, output):\n"
            "    right = ref_kernel(data)\n"
            "    return abs(output[0] - right[0]) < 1e-6 and output[1] == right[1]\n"
        ),
    ],
    "a record": [
        "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: object\n    b: object\n",
        GENERATE,
        "def ref_kernel(data):\n    return Pair(data.exp(), data.sum())\n",
        checker("torch.allclose(output.a, right.a) and torch.allclose(output.b, right.b)"),
    ],
    "double precision": [
        GENERATE.replace("randn(size", "randn(size, dtype=torch.double"),
        REFERENCE,
        checker("torch.allclose(output, right, rtol=1e-12, atol=1e-13)"),
    ],
    "complex numbers": [
        GENERATE.replace("randn(size", "randn(size, dtype=torch.complex64"),
        "def ref_kernel(data):\n    return torch.fft.fft(data)\n",
        checker("torch.allclose(output, right, rtol=1e-4, atol=1e-4)"),
    ],
    "eight bits": [
        GENERATE.replace("randn(size", "randint(0, 256, (size,), dtype=torch.uint8"),
        "def ref_kernel(data):\n    return 255 - data // 3\n",
        checker("torch.equal(output, right)"),
    ],
    "a checker that spoils what it gets": [
        GENERATE,
        REFERENCE,
        checker("ok = torch.allclose(output, right)\noutput.zero_(), data.zero_()\nok"),
    ],
    "a checker that fails on what is wrong": [
        GENERATE,
        REFERENCE,
        (
            "def check_implementation(data, output):\n"
            "    torch.testing.assert_close(output, ref_kernel(data))\n    return True\n"
        ),
    ],
    "an input that shares memory": [
        GENERATE.replace("return ", "x = ") + "    return x, x.flip(0), x\n",
        "def ref_kernel(data):\n    return data[0] * 5 + data[1]\n",
        checker("torch.allclose(output, right)"),
    ],
    "an input in other shapes": [
        GENERATE.replace("return ", "x = ") + "    return x.reshape(2, -1), x[:1], torch.arange(160)\n",
        "def ref_kernel(data):\n    return (data[0] * data[1]).t() + 1\n",
        checker("torch.allclose(output, right)"),
    ],
}


@pytest.mark.parametrize("name", sorted(wire.DTYPES))
def test_nulls_can_be_made_of_every_kind_of_element(name):
    dtype = wire.DTYPES[name]
    # Bytes that are true as a boolean and finite as any number.
    value = torch.ones(200 * dtype.itemsize, dtype=torch.uint8).view(dtype)
    for make in (
        torch.zeros_like,
        null_submissions.uninitialised,
        null_submissions.one_percent_wrong,
        null_submissions.last_tile_missing,
    ):
        made = null_submissions.rebuilt(value, lambda _path, leaf, make=make: make(leaf), "output")
        assert (made.shape, made.dtype) == (value.shape, value.dtype)
        assert not null_submissions.is_equal(value, made)
    ((_, leaf),) = null_submissions.leaves(value, "output")
    for how, other in null_submissions.other_forms(leaf).items():
        made = null_submissions.rebuilt(value, lambda _path, _leaf, other=other: other, "output")
        assert (made.numel() == 0) is (how == "empty")
        assert not null_submissions.is_equal(value, made)
    for hostile in null_submissions.hostile_integers(leaf).values():
        assert (hostile.shape, hostile.dtype) == (leaf.shape, leaf.dtype)
    assert null_submissions.is_equal(value, null_submissions.private(value))


@pytest.mark.parametrize("what", GOOD)
def test_good_tasks_of_all_kinds_pass(trial, what):
    report = trial(*GOOD[what])
    assert (report.fault, report.findings) == ("", [])
    assert report.tried >= 8


def test_no_right_answer_is_found_in_the_place_for_the_output(trial):
    given = GENERATE.replace("return ", "made = ") + "    return made, torch.empty(size)\n"
    writes = "def ref_kernel(data):\n    data[1][...] = 3 * data[0].sin() + 0.5\n    return data[1]\n"
    check = checker("torch.allclose(output, right, rtol=1e-5, atol=1e-6)")
    cases = [{"size": SIZE, "seed": seed} for seed in range(12)]
    assert trial(given, writes, check, tests=cases).findings == []
    constant = writes.replace("3 * data[0].sin()", "0 * data[0]")
    assert "copy_of_input" not in found(trial(given, constant, check, tests=cases))


def test_doing_nothing_is_the_copy_that_a_task_in_place_must_refuse(trial):
    lenient = "def check_implementation(data, output):\n    return bool((output['x'].abs() < 99).all())\n"
    report = trial(GOOD["in place"][0], IN_PLACE, lenient)
    assert "input['x']" in {f.how for f in report.findings if f.null is Null.COPY_OF_INPUT}
    assert not any("scale" in f.how for f in report.findings if f.null is Null.ZEROS)


def test_an_older_task_is_tried_in_its_own_way(trial):
    check = "def check_implementation(output, right):\n    return torch.allclose(output, right, atol=ATOL)\n"
    style = {"check_style": CheckStyle.OUTPUT_REFERENCE, "tests": [{}]}
    generate = "import torch\ndef generate_input():\n    return torch.randn(99)\n"
    assert trial(generate, REFERENCE, check.replace("ATOL", "1e-6"), **style).findings == []
    assert found(trial(generate, REFERENCE, check.replace("ATOL", "9"), **style)) >= {"zeros", "other_seed"}


NO_REFERENCE = """\
def check_implementation(data, output):
    return output.shape == data.shape and RULE
"""


def test_without_a_reference_what_can_be_made_is_tried_and_the_rest_is_named(trial):
    sorts = "bool(torch.equal(output, data.sort().values))"
    good = trial(GENERATE, NO_REFERENCE.replace("RULE", sorts))
    assert (good.findings, good.tried) == ([], 8)
    assert "previous_answer" in good.notes[0]
    assert "no `ref_kernel`" in good.notes[0]
    order = "bool((output.diff() >= 0).all())"
    assert found(trial(GENERATE, NO_REFERENCE.replace("RULE", order))) == {"zeros", "ones", "within_range"}


SOFTMAX = """\
import torch


def generate_input(size, seed):
    return 4 * torch.randn(8, size, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data):
    return torch.softmax(data, -1)


def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data), rtol=1e-4, atol=1e-8)
"""


def test_a_test_for_an_edge_may_have_but_one_answer(trial):
    report = trial(SOFTMAX, tests=[{"size": 1, "seed": 1}, {"size": 64, "seed": 2}])
    assert report.findings == []
    assert any("tests.0: ones: all ones: is right here, other cases refuse it" in n for n in report.notes)


def test_what_is_timed_may_not(trial):
    report = trial(SOFTMAX, tests=[{"size": 64, "seed": 2}], benchmarks=[{"size": 1, "seed": 1}])
    assert found(report) == {"ones", "previous_answer", "other_seed"}
    assert {(f.list, f.index) for f in report.findings} == {(CaseList.BENCHMARKS, 0)}


def test_hidden_cases_are_tried_too(trial):
    cases = {"hidden_tests": [{"size": 5, "seed": 1}], "hidden_benchmarks": [{"size": 6, "seed": 1}]}
    report = trial(GENERATE, REFERENCE, checker("True"), tests=[], **cases)
    assert {(f.list, f.parameters["size"]) for f in report.findings} == {
        (CaseList.HIDDEN_TESTS, 5),
        (CaseList.HIDDEN_BENCHMARKS, 6),
    }


def test_luck_on_one_input_is_no_finding(trial):
    # One sign: any constant is right every other time.
    sign = "def ref_kernel(data):\n    return (data.sum() > 0).long()\n"
    cases = [{"size": 3, "seed": seed} for seed in range(6)]
    report = trial(GENERATE, sign, checker("torch.equal(output, right)"), tests=cases)
    assert len(report.findings) < len(cases)


def test_a_checker_that_refuses_the_reference_is_a_fault(trial):
    with pytest.raises(TaskFault, match="the checker refuses the output of ref_kernel"):
        trial(GENERATE, REFERENCE, checker("False"))


AT = {"list": "tests", "index": 0}
CASE = {"type": "case", "at": AT, "asked": ["zeros"], "tried": 1, "notes": []}
ACCEPTED = {
    "type": "accepted",
    "at": AT,
    "null": "zeros",
    "how": "",
    "part": "",
    "right": False,
    "suggestion": "",
}


STRANGE: list[dict[str, Any]] = [
    *({}, {"type": "report"}, {"type": "seeds", "below": 1, "poor": False, "why": ""}),
    *({**CASE, "at": {"list": "tests", "index": each}} for each in (1, -1, True)),
    *({**CASE, "asked": each} for each in (["none"], 7)),
    *({**CASE, "notes": each} for each in (5, [""] * 21)),
    *({**CASE, "at": {"list": "files", "index": 0}}, {**CASE, "tried": "1"}),
    *({**ACCEPTED, "how": "x" * 2001}, {**ACCEPTED, "null": []}),
    {"type": "fault", "text": "", "at": {"list": "benchmarks", "index": 0}},
]


@pytest.mark.parametrize("frame", STRANGE)
def test_what_no_honest_trial_says_ends_it(frame):
    gathered = Gathered(make_spec(tests=[{"size": 1}]))
    with pytest.raises(BrokenProtocol):
        gathered.take(unpack_any(FROM_LINT, frame))


def test_a_case_is_counted_once():
    gathered = Gathered(make_spec(tests=[{"size": 1}]))
    gathered.take(unpack_any(FROM_LINT, CASE))
    with pytest.raises(BrokenProtocol):
        gathered.take(unpack_any(FROM_LINT, CASE))


def test_parameters_come_from_the_job():
    gathered = Gathered(make_spec(tests=[{"size": 1}]))
    gathered.take(unpack_any(FROM_LINT, ACCEPTED))
    (finding,) = gathered.report("").findings
    assert finding.parameters == {"size": 1}


def test_a_trial_is_given_up_at_the_deadline_even_while_it_talks():
    ours, theirs = socket.socketpair()
    child: Any = SimpleNamespace(process=SimpleNamespace(pid=os.getpid()))
    Channel(theirs, max_bytes=100).send({"type": "end"})
    with theirs, pytest.raises(ChannelTimeout):
        next_message(Channel(ours, max_bytes=100), child, 0.0, 1 << 60)
    ours.close()


def test_a_trial_that_takes_too_much_memory_is_killed():
    ours, theirs = socket.socketpair()
    killed: list[str] = []

    def kill(reason: str) -> None:
        killed.append(reason)
        theirs.close()

    child: Any = SimpleNamespace(process=SimpleNamespace(pid=os.getpid()), kill=kill)
    with pytest.raises(ChannelClosed):
        next_message(Channel(ours, max_bytes=100), child, math.inf, 1)
    assert killed == ["memory"]
    ours.close()


def whole_run(spec: JobSpec) -> LintReport:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernelcup_harness", "--lint", "-"],
        input=dumps(spec),
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_S,
        check=True,
    )
    return from_json(LintReport, json.loads(done.stdout)["lint"])


def whole(*parts: str, **overrides: Any) -> LintReport:
    """Try a task of one small test case as a launcher does."""
    values = {"tests": [{"size": 64, "seed": 3}], "benchmarks": [], **overrides}
    return whole_run(make_spec(sources={"reference.py": "\n\n".join(parts)}, **values))


@pytest.mark.skipif(sandbox.kind() is not sandbox.Kind.BUBBLEWRAP, reason="needs bubblewrap")
def test_the_trial_runs_in_the_judges_sandbox():
    inside = "import os\nassert os.getcwd() == '/job', os.getcwd()\nassert not os.path.exists('/root/.ssh')\n"
    report = whole(inside + GENERATE, REFERENCE, CHECK)
    assert (report.fault, report.findings, report.tried) == ("", [], 25)


ON_HOST = """\
def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator), torch.rand(size, device="cuda")


def ref_kernel(data):
    return {reference}


def check_implementation(data, output):
    return torch.allclose(ref_kernel(data), output)
"""


@pytest.mark.parametrize(
    "reference",
    ["data[0] + data[1] + 1", pytest.param("data[0].cuda() + data[1] + 1", marks=pytest.mark.jobs)],
)
def test_an_input_that_is_made_on_the_host_is_named_with_its_line(reference: str) -> None:
    mixes = "cuda()" not in reference
    report = whole("import torch", ON_HOST.format(reference=reference), backend=Backend.EMULATED)

    said = report.fault if mixes else report.notes[0]
    assert "reference.py:5" in said, report
    assert ("found at least two devices, cuda:0 and cpu!" in said) is mixes
    assert mixes or "input[0], made in reference.py:5, is on the host" in said


ARGSORT = "def ref_kernel(data):\n    return data.argsort()\n"


def test_a_checker_that_raises_on_hostile_integers_has_refused_them(trial):
    check = (
        "def check_implementation(data, output):\n    return torch.equal(data[output], data.sort().values)\n"
    )
    report = trial(GENERATE, ARGSORT, check)
    assert (report.fault, report.findings) == ("", [])
    assert report.tried == 20


TORCH = ", and with another state of PyTorch's generator"
AT_RANDOM = {
    "dropout": ("torch.nn.functional.dropout(data, 0.5, training=True)", TORCH),
    "noise from torch": ("data + torch.rand(data.shape)", TORCH),
    "noise from numpy": ("data + numpy.random.rand()", ""),
    "noise from random": ("data + random.random()", ""),
    "the number of the call": ("data + next(CALLS)", TORCH),
}


@pytest.mark.parametrize("what", AT_RANDOM)
def test_a_reference_that_answers_at_random_is_found_out(trial, what):
    value, why = AT_RANDOM[what]
    modules = "import itertools\nimport random\nimport numpy\nCALLS = itertools.count()\n"
    reference = f"{modules}def ref_kernel(data):\n    return {value}\n"
    with pytest.raises(TaskFault) as found:
        trial(GENERATE, reference, CHECK)
    assert str(found.value) == f"ref_kernel gives different answers to the same input (call 1 and 2{why})"


@pytest.mark.parametrize(
    "value",
    [
        "data * 3",
        "data + 1e-9 * torch.rand(data.shape)",
        "data[torch.randperm(len(data)).sort().indices] * 0 + 5",
    ],
)
def test_a_reference_whose_answers_the_checker_takes_for_each_other_passes(trial, value):
    reference = f"def ref_kernel(data):\n    return {value}\n"
    assert trial(GENERATE, reference, CHECK).fault == ""


@pytest.mark.dear("a process imports torch")
def test_what_was_found_before_the_end_is_kept():
    size = "    if data.numel() == 5:\n        import os\n        os._exit(3)\n"
    ends = f"def check_implementation(data, output):\n{size}    return True\n"
    report = whole(GENERATE, REFERENCE, ends, tests=[{"size": 4, "seed": 1}, {"size": 5, "seed": 1}])
    assert "ended with code 3" in report.fault
    assert {finding.index for finding in report.findings} == {0}


def test_a_task_that_cannot_be_imported_is_reported():
    assert "import of reference.py failed" in whole("import nothing_of_that_name").fault


def shipped() -> list[Any]:
    """Return all tasks in Python; a run for each waits for `make test-jobs`."""
    names = [name for name, place in shipped_tasks().items() if load_task(place).lang is Language.PYTHON]
    return [pytest.param(name, marks=pytest.mark.jobs) for name in names]


@pytest.mark.parametrize("name", [*shipped(), "new"])
def test_the_tasks_that_ship_and_the_one_to_start_from_accept_no_null(name, tmp_path):
    if name == "new":
        new_task(tmp_path / "mine")
    place = shipped_tasks().get(name, tmp_path / "mine")
    task = load_task(place)
    # Tests and one benchmark meet all that a checker does; the other benchmarks are as much again, only larger.
    task = dataclasses.replace(task, benchmarks=task.benchmarks[:1])
    spec = build_job_spec(
        task, job_id="lint", submission=SourceTree.of(""), mode=Mode.LEADERBOARD, backend=Backend.EMULATED
    )
    outcome = weigh(task, whole_run(spec), place)
    assert (outcome.errors, outcome.warnings) == ([], [])


def test_what_a_call_of_the_reference_takes_is_measured_for_timed_cases() -> None:
    report = whole(
        GENERATE,
        REFERENCE,
        CHECK,
        benchmarks=[{"size": 8, "seed": 1}, {"size": 9, "seed": 1}],
        hidden_benchmarks=[{"size": 10, "seed": 1}],
    )
    assert len(report.reference_s) == 3
    assert all(0 < each < 10 for each in report.reference_s)


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    gathered = Gathered(make_spec())
    with pytest.raises(BrokenProtocol):
        gathered.take(timed(reference_s=seconds))


def timed(index: int = 0, **parts: float) -> ReferenceTimed:
    at = CasePlace(list=CaseList.BENCHMARKS, index=index)
    return ReferenceTimed(at=at, **{"inputs_s": 0.1, "reference_s": 0.1, "check_s": 0.1, **parts})


def test_what_a_ranked_stage_takes_follows_from_the_clocks_budgets() -> None:
    spec = make_spec(benchmarks=[{"size": 1}, {"size": 2}, {"size": 3}], backend=Backend.CUDA)
    gathered = Gathered(spec)
    gathered.take(timed(inputs_s=2.0))
    gathered.take(timed(1, inputs_s=0.0, reference_s=0.0, check_s=0.0))
    report = gathered.report("")
    assert report.reference_s == pytest.approx([2.2, 0.0])
    assert report.calls_s == pytest.approx(
        {"generate_input": 48.0, "ref_kernel": 2.4, "check_implementation": 2.4}
    )
    # The quick one and the one that was not measured have their shares.
    assert report.stage_s == pytest.approx(AFTERWARDS * (24 * 2.2 + 2 * spec.rules.stage_budget_s / 3))


def test_emulated_calls_tell_nothing_of_a_ranked_stage() -> None:
    gathered = Gathered(make_spec(benchmarks=[{"size": 1}], backend=Backend.EMULATED))
    gathered.take(timed())
    assert gathered.report("").stage_s == 0.0
