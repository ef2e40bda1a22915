"""``kernelcup task check``: null submissions from the command line, through to a person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import make_report
from kernelcup.cli.author.task_solutions import Candidate, fault_of
from kernelcup.cli.entry import execute
from kernelcup_harness.protocol import Verdict

YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
benchmarks:
  - {size: 320, seed: 2}
"""
REFERENCE = """\
import torch


def generate_input(size, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data):
    return 2 * data + 1


def check_implementation(data, output):
    if output is None:
        return "no answer"
    return torch.allclose(output[:-20], ref_kernel(data)[:-20], rtol=1e-5, atol=1e-6)
"""
CONFIG = '[[devices]]\nname = "emulated"\nbackend = "emulated"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task whose checker leaves out the last tile."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "kernelcup.toml").write_text(CONFIG)
    monkeypatch.setenv("KERNELCUP_HOME", str(home))
    monkeypatch.setenv("KERNELCUP_RUNTIME", str(tmp_path / "locks"))
    folder = tmp_path / "leaky"
    folder.mkdir()
    (folder / "task.yml").write_text(YML)
    (folder / "reference.py").write_text(REFERENCE)
    return folder


def test_a_null_that_is_accepted_is_a_problem_with_its_case(folder, capsys):
    assert execute(["task", "check", str(folder)]) == 3
    out = capsys.readouterr().out
    assert f"{folder}/task.yml:6:5: benchmarks.0: accepts `last_tile_missing`" in out
    assert "size=320, seed=2" in out


@pytest.mark.jobs
def test_as_json_everything_is_told_and_a_waiver_makes_it_pass(folder, capsys):
    waiver = "waive_nulls: {last_tile_missing: the tail is padding, ones: none}\n"
    (folder / "task.yml").write_text(YML + waiver)
    assert execute(["task", "check", "--json", str(folder)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["problems"] == []
    assert body["waived"] == [
        {"null": "last_tile_missing", "reason": "the tail is padding", "cases": ["benchmarks.0"]}
    ]
    assert [warning["key"] for warning in body["warnings"]] == ["waive_nulls.ones"]
    assert body["nulls_tried"] == 25


def test_with_no_run_nothing_is_tried(folder, capsys):
    assert execute(["task", "check", "--no-run", "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(folder), "problems": [], "tried": ""}


OWN = """\
import os

from submission import custom_kernel

with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as out:
    status = "pass" if custom_kernel(1) == 1 else "fail"
    out.write(f"test-count: 1\\ntest.0.status: {status}\\ncheck: {status}\\n")
"""


@pytest.fixture
def own(folder: Path) -> Path:
    """The task with a harness of its own, a template, and solutions."""
    listed = YML.replace(
        "lang: py", "  - {name: eval.py, source: eval.py}\nconfig: {main: eval.py}\nlang: py"
    )
    more = "templates: {Python: template.py}\ntests: [{size: 1, seed: 1}]\n"
    (folder / "task.yml").write_text(listed + more)
    (folder / "eval.py").write_text(OWN)
    right, wrong = ("def custom_kernel(data):\n    return " + value for value in ("data\n", "0\n"))
    (folder / "template.py").write_text(right)
    for name, text in (("correct/a.py", right), ("wrong/b.py", wrong)):
        (folder / "solutions" / name).parent.mkdir(parents=True)
        (folder / "solutions" / name).write_text(text)
    return folder


@pytest.mark.jobs
def test_templates_and_solutions_are_judged_by_the_harness_that_the_task_chooses(own, capsys):
    assert execute(["task", "check", "--json", str(own)]) == 0
    tried = json.loads(capsys.readouterr().out)["tried"]
    assert tried.endswith("template Python: accepted; correct/a.py: accepted; wrong/b.py: wrong_answer")


@pytest.mark.jobs
def test_a_template_that_does_not_run_is_a_problem(own, capsys):
    (own / "template.py").write_text("def custom_kernel(data):\n    return undefined\n")
    assert execute(["task", "check", str(own)]) == 3
    assert "template Python: gets runtime_error; a template has to run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verdict", "message", "is_fault"),
    [
        (Verdict.ACCEPTED, "", False),
        (Verdict.WRONG_ANSWER, "", False),
        (Verdict.RUNTIME_ERROR, "NotImplementedError: write your kernel here", False),
        (Verdict.RUNTIME_ERROR, "NameError: name 'x' is not defined", True),
        (Verdict.COMPILE_ERROR, "expected ';'", True),
        (Verdict.TIME_LIMIT_EXCEEDED, "", True),
    ],
)
def test_a_template_may_leave_out_the_answer_and_has_to_run(verdict, message, is_fault):
    template = Candidate(name="template Python", text="", place="task", is_template=True)
    assert bool(fault_of(template, make_report(verdict=verdict, message=message))) is is_fault


@pytest.mark.jobs
def test_a_solution_with_another_verdict_than_its_name_says_is_a_problem(own, capsys):
    (own / "solutions/wrong/b.py").write_text((own / "template.py").read_text())
    (own / "solutions/correct/a.py").write_text("def custom_kernel(data):\n    return 0\n")
    assert execute(["task", "check", str(own)]) == 3
    out = capsys.readouterr().out
    assert f"{own}/solutions/wrong/b.py:1:1: wrong/b.py: is accepted, though" in out
    assert (
        f"{own}/solutions/correct/a.py:1:1: correct/a.py: gets wrong_answer where accepted is expected" in out
    )


@pytest.mark.jobs
def test_a_value_that_cannot_be_carried_is_named_with_its_line(folder, capsys):
    changed = REFERENCE.replace("    return 2 * data + 1", "    return {1}")
    (folder / "reference.py").write_text(changed.replace("torch.allclose", "True or torch.allclose"))
    assert execute(["task", "check", str(folder)]) == 3
    out = capsys.readouterr().out
    assert f"{folder}/reference.py:9:1: the task's output: a builtins.set cannot be carried" in out
    assert "docs/reference/task-format.md#values" in out


def test_a_folder_that_ships_its_own_harness_is_tried_for_the_standard_one(folder, capsys):
    shipped = YML.replace(
        "lang: py", "  - {name: eval.py, source: eval.py}\nconfig: {main: eval.py}\nlang: py"
    )
    (folder / "task.yml").write_text(shipped)
    (folder / "eval.py").write_text("")
    assert execute(["task", "check", "--harness", "standard", str(folder)]) == 3
    out = capsys.readouterr().out
    assert "benchmarks.0: accepts `last_tile_missing`" in out


def test_what_the_standard_harness_misses_is_a_problem(folder, capsys):
    (folder / "reference.py").write_text("def other(): ...\n")
    (folder / "eval.py").write_text("")
    shipped = YML.replace(
        "lang: py", "  - {name: eval.py, source: eval.py}\nconfig: {main: eval.py}\nlang: py"
    )
    (folder / "task.yml").write_text(shipped)
    assert execute(["task", "check", "--no-run", str(folder)]) == 0
    assert execute(["task", "check", "--no-run", "--harness", "standard", str(folder)]) == 3
    assert f"{folder}/reference.py:1:1: has no top-level `generate_input`" in capsys.readouterr().out


def test_a_generator_that_fails_names_its_case(folder, capsys):
    (folder / "task.yml").write_text(YML + "  - {size: -1, seed: 2}\n")
    assert execute(["task", "check", str(folder)]) == 3
    out = capsys.readouterr().out
    assert f"{folder}/task.yml:7:5: benchmarks.1: the task's generate_input failed" in out


@pytest.mark.jobs
def test_large_seeds_that_make_poorer_inputs_are_told(folder, capsys):
    reference = REFERENCE.replace("[:-20]", "").replace(
        'device="cuda")\n\n\ndef ref', 'device="cuda") * (seed % 2**31 == seed)\n\n\ndef ref'
    )
    assert reference != REFERENCE
    (folder / "reference.py").write_text(reference)
    assert execute(["task", "check", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "seeds_below: large seeds make poorer inputs" in out
    assert "write `seeds_below: 2147483648`" in out


AT_RANDOM = """\
import torch


def generate_input(size, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)
    return torch.rand(8, size, device="cuda", generator=g)


def ref_kernel(x):
    return torch.nn.functional.dropout(x, p=0.5, training=True)


def check_implementation(data, output):
    return torch.allclose(ref_kernel(data), output)
"""


def test_a_reference_that_answers_at_random_is_named_with_its_line(folder, capsys):
    (folder / "reference.py").write_text(AT_RANDOM)
    assert execute(["task", "check", str(folder)]) == 3
    assert (
        f"{folder}/reference.py:9:1: ref_kernel gives different answers to the same input (call 1 and 2, and with "
        "another state of PyTorch's generator)\n"
    ) in capsys.readouterr().out


RAGGED = """\
import torch


def generate_input(size, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)
    lengths = torch.randint(1, 9, (size,), generator=g, device="cuda")
    values = torch.randn(int(lengths.sum()), generator=g, device="cuda")
    scale = torch.full((1,), 0.5, device="cuda")
    return {"values": values, "scale": scale, "offsets": torch.cumsum(lengths, 0) - lengths, "lengths": lengths}


def ref_kernel(data):
    pairs = zip(data["offsets"].tolist(), data["lengths"].tolist())
    return torch.stack([data["values"][o : o + n].sum() * data["scale"][0] for o, n in pairs])


def check_implementation(data, output):
    return isinstance(output, torch.Tensor) and torch.allclose(output, ref_kernel(data), rtol=1e-4, atol=1e-4)
"""
BY_LENGTHS = """\
import torch


def custom_kernel(data):
    rows = data["values"].split(data["lengths"].tolist())
    return torch.stack([row.sum() for row in rows]) * data["scale"]
"""


@pytest.fixture
def ragged(folder: Path) -> Path:
    """A task whose offsets and lengths have to agree, with a solution that reads the lengths alone."""
    (folder / "task.yml").write_text(YML + "tests: [{size: 20, seed: 1}]\n")
    (folder / "reference.py").write_text(RAGGED)
    (folder / "solutions").mkdir()
    (folder / "solutions/correct.py").write_text(BY_LENGTHS)
    return folder


@pytest.mark.jobs
def test_a_solution_that_is_excused_on_integers_that_have_to_agree_is_told_so(ragged, capsys):
    assert execute(["task", "check", "--json", str(ragged)]) == 0
    tried = json.loads(capsys.readouterr().out)["tried"]
    assert (
        "correct.py: accepted; a wrong answer to an input that differs from an earlier one in one element of `data['"
        in tried
    )
    assert "near_twins: false" in tried


@pytest.mark.jobs
def test_a_solution_that_does_not_read_a_tensor_is_told_which_and_what_to_do(ragged, capsys):
    (ragged / "solutions/correct.py").write_text(BY_LENGTHS.replace('data["scale"]', "0.5"))
    assert execute(["task", "check", str(ragged)]) == 3
    out = capsys.readouterr().out
    assert "correct.py: gets wrong_answer where accepted is expected: on an input that differs" in out
    assert "one element of `data['scale']` (at [0]: 0.5 -> 0.25): the checker rejects the output" in out
    assert "write `near_twins: false`" in out


@pytest.mark.jobs
def test_a_task_without_near_twins_asks_its_solutions_for_none(ragged, capsys):
    (ragged / "task.yml").write_text((ragged / "task.yml").read_text() + "near_twins: false\n")
    (ragged / "solutions/correct.py").write_text(BY_LENGTHS.replace('data["scale"]', "0.5"))
    assert execute(["task", "check", "--json", str(ragged)]) == 0
    assert json.loads(capsys.readouterr().out)["tried"].endswith("correct.py: accepted")
