"""``kernelcup task check --run``: null submissions from the command line, through to a person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelcup.cli.entry import execute

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
    assert execute(["task", "check", "--run", str(folder)]) == 3
    out = capsys.readouterr().out
    assert f"{folder}/task.yml:6:5: benchmarks.0: accepts `last_tile_missing`" in out
    assert "size=320, seed=2" in out


def test_as_json_everything_is_told_and_a_waiver_makes_it_pass(folder, capsys):
    waiver = "waive_nulls: {last_tile_missing: the tail is padding, ones: none}\n"
    (folder / "task.yml").write_text(YML + waiver)
    assert execute(["task", "check", "--run", "--json", str(folder)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["problems"] == []
    assert body["waived"] == [
        {"null": "last_tile_missing", "reason": "the tail is padding", "cases": ["benchmarks.0"]}
    ]
    assert [warning["key"] for warning in body["warnings"]] == ["waive_nulls.ones"]
    assert body["nulls_tried"] == 13


def test_without_run_no_null_is_tried(folder, capsys):
    assert execute(["task", "check", "--json", str(folder)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert set(body) == {"path", "problems", "tried", "warnings"}
    assert body["warnings"] == []
    assert body["tried"] == "every input and expected output was made once"


def test_a_task_that_is_judged_by_its_own_harness_is_not_tried(folder, capsys):
    place = Path(__file__).parents[2] / "judged/contract/typed_cases"
    assert execute(["task", "check", "--run", "--json", str(place)]) == 0
    assert "nothing was run" in json.loads(capsys.readouterr().out)["tried"]


def test_a_folder_that_ships_its_own_harness_is_tried_for_the_standard_one(folder, capsys):
    shipped = YML.replace(
        "lang: py", "  - {name: eval.py, source: eval.py}\nconfig: {main: eval.py}\nlang: py"
    )
    (folder / "task.yml").write_text(shipped)
    (folder / "eval.py").write_text("")
    assert execute(["task", "check", "--run", "--harness", "standard", str(folder)]) == 3
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


def test_large_seeds_that_make_poorer_inputs_are_told(folder, capsys):
    reference = REFERENCE.replace(
        'device="cuda")\n\n\ndef ref', 'device="cuda") * (seed % 2**31 == seed)\n\n\ndef ref'
    )
    assert reference != REFERENCE
    (folder / "reference.py").write_text(reference)
    assert execute(["task", "check", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "seeds_below: large seeds make poorer inputs" in out
    assert "write `seeds_below: 2147483648`" in out
