from __future__ import annotations

from pathlib import Path

import pytest
from task_builders import DROP, files_with, problems_of, task_yml, write_task

from kernelcup.domain import Language, RankingBy, StageLimits, TaskForm
from kernelcup.errors import InvalidTask, NotFound
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import CudaBuild, HarnessKind


def test_a_folder_becomes_a_task(tmp_path):
    task = load_task(write_task(tmp_path / "copy"))
    assert task.name == "copy"
    assert task.form is TaskForm.FOLDER
    assert task.lang is Language.PYTHON
    assert set(task.sources) == {"task.py", "reference.py"}
    assert task.submission_name == "submission.py"
    assert task.templates == {"Python": "def custom_kernel(data):\n    return data\n"}
    assert task.tests == [{"size": 4, "seed": 1}]
    assert task.limits == StageLimits(test_s=180, benchmark_s=180, ranked_s=180)
    assert task.harness is HarnessKind.STANDARD


def test_every_key_arrives(tmp_path):
    task = load_task(
        write_task(
            tmp_path / "all",
            templates={"Python": "template.py", "CuteDSL": "template.py"},
            hidden_tests=[{"size": 5, "seed": 3}],
            hidden_benchmarks=[{"size": 6, "seed": 4}],
            test_timeout=1,
            benchmark_timeout=2,
            ranked_timeout=3,
            ranking_by="geom",
            seed=7,
            libraries=["cutlass"],
            gpus=["H100", "A100"],
            harness="standard",
            near_twins=False,
            aliasing=True,
            prepare_timeout=30,
            waive_nulls={"copy_of_input": "the answer is the input"},
        )
    )
    assert set(task.templates) == {"Python", "CuteDSL"}
    assert task.hidden_tests == [{"size": 5, "seed": 3}]
    assert task.hidden_benchmarks == [{"size": 6, "seed": 4}]
    assert task.limits == StageLimits(test_s=1, benchmark_s=2, ranked_s=3)
    assert task.ranking_by is RankingBy.GEOM
    assert (task.seed, task.libraries, task.devices) == (7, ["cutlass"], ["H100", "A100"])
    assert (task.near_twins, task.aliasing, task.prepare_timeout) == (False, True, 30)
    assert task.waive_nulls == {"copy_of_input": "the answer is the input"}


def test_the_path_of_the_task_yml_will_do(tmp_path):
    folder = write_task(tmp_path / "copy")
    assert load_task(folder / "task.yml") == load_task(folder)


def test_equal_content_has_an_equal_hash_whatever_the_name(tmp_path):
    first, second = (load_task(write_task(tmp_path / name)) for name in ("a", "b"))
    other = load_task(write_task(tmp_path / "c", description="Other."))
    assert first.content_hash == second.content_hash != other.content_hash


@pytest.mark.parametrize(
    "keys",
    [
        {"near_twins": True},
        {"aliasing": False},
        {"non_finite": False},
        {"dtypes": None},
        {"waive_nulls": {}},
    ],
)
def test_a_key_that_says_what_holds_anyway_leaves_the_hash_as_it_was(tmp_path, keys):
    plain, said = load_task(write_task(tmp_path / "a")), load_task(write_task(tmp_path / "b", **keys))
    assert plain.content_hash == said.content_hash


@pytest.mark.parametrize(
    "keys",
    [
        {"near_twins": False},
        {"aliasing": True},
        {"non_finite": True},
        {"prepare_timeout": 30},
        {"dtypes": []},
        {"dtypes": ["float8_e5m2"]},
        {"waive_nulls": {"zeros": "so"}},
    ],
)
def test_a_key_that_says_something_else_makes_another_version(tmp_path, keys):
    plain, said = load_task(write_task(tmp_path / "a")), load_task(write_task(tmp_path / "b", **keys))
    assert plain.content_hash != said.content_hash


def test_case_values_keep_their_types(tmp_path):
    yml = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
tests:
  - {whole: 3, hex: 0x10, part: 0.5, small: 1e-3, yes: true, no: no, word: normal, quoted: "3", list: [9, 1]}
benchmarks:
  - {whole: -1}
"""
    reference = "def generate_input(**kw): ...\ndef check_implementation(data, output): ...\n"
    task = load_task(write_task(tmp_path / "types", yml, {"reference.py": reference}))
    (case,) = task.tests
    assert case == {
        "whole": 3,
        "hex": 16,
        "part": 0.5,
        "small": 0.001,
        "yes": True,
        "no": "no",
        "word": "normal",
        "quoted": "3",
        "list": [9, 1],
    }
    assert {type(value) for value in case.values()} == {int, float, bool, str, list}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2**20", 1048576),
        ("2 ** 20", 1048576),
        ("3*2**10", 3072),
        ("1_024 * 4", 4096),
        ("1_048_576", 1048576),
        ("1e-5", 1e-5),
        ('"2**20"', "2**20"),
        ("2**20**2", "2**20**2"),
        ("2*x", "2*x"),
        ("2**-1", "2**-1"),
    ],
)
def test_numbers_are_read_as_authors_write_them(tmp_path, written, value):
    yml = f"""\
files:
  - {{name: submission.py, source: "@SUBMISSION@"}}
  - {{name: reference.py, source: reference.py}}
lang: py
benchmarks:
  - {{size: {written}, seed: 1}}
"""
    found = load_task(write_task(tmp_path / "numbers", yml)).benchmarks[0]["size"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("key", ["templates", "config", "tests", "libraries", "gpus", "seed", "description"])
def test_an_empty_value_counts_as_absent(tmp_path, key):
    assert load_task(write_task(tmp_path / "a", **{key: None})) == load_task(
        write_task(tmp_path / "a", **{key: DROP})
    )


@pytest.mark.parametrize(
    ("harness", "kind"),
    [(DROP, HarnessKind.OWN), ("own", HarnessKind.OWN), ("standard", HarnessKind.STANDARD)],
)
def test_a_shipped_main_means_the_own_harness_unless_told_otherwise(tmp_path, harness, kind):
    folder = write_task(
        tmp_path / "own",
        extra={"eval.py": "import reference\n"},
        files=files_with(("eval.py", "eval.py")),
        config={"main": "eval.py"},
        harness=harness,
    )
    task = load_task(folder)
    assert task.harness is kind
    assert task.main == "eval.py"


def test_the_standard_harness_needs_no_main(tmp_path):
    task = load_task(write_task(tmp_path / "a", config={"main": "eval.py"}, harness="standard"))
    assert task.main is None


def test_an_own_harness_may_do_without_reference(tmp_path):
    folder = write_task(
        tmp_path / "own",
        extra={"eval.py": ""},
        files=[{"name": "submission.py", "source": "@SUBMISSION@"}, {"name": "eval.py", "source": "eval.py"}],
        config={"main": "eval.py"},
        tests=[{"anything": 1}],
        benchmarks=[{"vocab_size": 32000}],
    )
    assert load_task(folder).benchmarks == [{"vocab_size": 32000}]


def test_own_utils_win(tmp_path):
    folder = write_task(
        tmp_path / "a", extra={"utils.py": "mine = 1\n"}, files=files_with(("utils.py", "utils.py"))
    )
    assert load_task(folder).sources["utils.py"] == "mine = 1\n"


def test_a_source_may_lie_beside_the_folder_and_be_renamed(tmp_path):
    (tmp_path / "eval_better.py").write_text("shared = 1\n")
    folder = write_task(tmp_path / "a", files=files_with(("eval.py", "../eval_better.py")))
    assert load_task(folder).sources["eval.py"] == "shared = 1\n"


def test_a_problem_set_that_lists_the_folder_is_the_root(tmp_path):
    (tmp_path / "set.yaml").write_text("problems: [{directory: linalg/eigh/, name: eigh}]")
    (tmp_path / "utils.py").write_text("far = 1\n")
    folder = write_task(tmp_path / "linalg" / "eigh", files=files_with(("utils.py", "../../utils.py")))
    assert load_task(folder).sources["utils.py"] == "far = 1\n"


def test_without_a_problem_set_the_parent_is_the_root(tmp_path):
    (tmp_path / "set.yaml").write_text("problems: [{directory: linalg/other, name: other}]")
    (tmp_path / "utils.py").write_text("far = 1\n")
    folder = write_task(tmp_path / "linalg" / "eigh", files=files_with(("utils.py", "../../utils.py")))
    (line,) = problems_of(folder)
    assert line.startswith("task.yml:1:")
    assert "files.3.source: `../../utils.py` leads out of the problem set's root" in line


def test_a_file_may_lie_in_a_sub_folder(tmp_path):
    folder = write_task(
        tmp_path / "a", extra={"deep/x.cuh": "// x\n"}, files=files_with(("include/x.cuh", "deep/x.cuh"))
    )
    assert load_task(folder).sources["include/x.cuh"] == "// x\n"


def test_functions_may_be_assigned_or_imported(tmp_path):
    reference = """\
from utils import make_match_reference
try:
    from inputs import make as generate_input
except ImportError:
    pass
check_implementation = make_match_reference(lambda data: data)
"""
    folder = write_task(
        tmp_path / "a",
        extra={"reference.py": reference, "inputs.py": "def make(size, seed=0): ...\n"},
        files=files_with(("utils.py", "utils.py"), ("inputs.py", "inputs.py")),
    )
    assert load_task(folder).tests == [{"size": 4, "seed": 1}]


def test_the_harness_fills_seed_and_rank(tmp_path):
    reference = "def generate_input(size, world_size, rank, seed): ...\ncheck_implementation = None\n"
    case = {"size": 1, "world_size": 8}
    folder = write_task(
        tmp_path / "a", extra={"reference.py": reference}, multi_gpu=True, tests=[case], benchmarks=[case]
    )
    assert load_task(folder).multi_gpu


def test_a_cuda_task_loads(tmp_path):
    folder = write_task(
        tmp_path / "cuda",
        extra={"eval.cu": "int main() {}\n", "task.h": "\n", "include/x.h": "\n"},
        lang="cu",
        files=[
            {"name": "submission.cu", "source": "@SUBMISSION@"},
            {"name": "eval.cu", "source": "eval.cu"},
            {"name": "task.h", "source": "task.h"},
            {"name": "include/x.h", "source": "include/x.h"},
        ],
        config={
            "sources": ["eval.cu", "submission.cu"],
            "include_dirs": ["include"],
            "defines": {"TILE": 16, "NAME": "x"},
            "compile_flags": ["-O3"],
        },
        templates={"CUDA": "template.py"},
    )
    task = load_task(folder)
    assert task.lang is Language.CUDA
    assert task.submission_name == "submission.cu"
    assert (task.main, task.harness) == ("eval.cu", HarnessKind.OWN)
    assert task.cuda == CudaBuild(
        sources=["eval.cu", "submission.cu"],
        include_dirs=["include"],
        defines={"TILE": "16", "NAME": "x"},
        compile_flags=["-O3"],
    )


def test_nothing_there_is_not_found(tmp_path):
    with pytest.raises(NotFound, match="there is no"):
        load_task(tmp_path / "absent")


def test_a_folder_without_a_task_yml_is_refused(tmp_path):
    with pytest.raises(InvalidTask, match=r"task\.yml:1:1: does not exist; a task folder needs"):
        load_task(tmp_path)


@pytest.mark.parametrize(("name", "words"), [("set.yaml", "problem set"), ("notes.txt", "is no task")])
def test_other_files_are_refused_with_what_would_do(tmp_path, name, words):
    (tmp_path / name).write_text(task_yml())
    with pytest.raises(InvalidTask, match=words):
        load_task(tmp_path / name)


PRINTED = """\
# What files are involved in leaderboard evaluation
files:
- {"name": "submission.py", "source": "@SUBMISSION@"}
- {"name": "task.py", "source": "task.py"}
- {"name": "utils.py", "source": "utils.py"}
- {"name": "reference.py", "source": "reference.py"}
- {"name": "eval.py", "source": "eval.py"}

# Leaderboard language
lang: "py"


# Description of leaderboard task
description:
Identity kernel in Python.

# Compilation flag for what to target as main
config:
main: "eval.py"

# An example to provide to participants for writing a leaderboard submission
templates:
Python: "template.py"

tests:
- {"size": 128, "seed": 5236}
- {"size": 129, "seed": 1001}
- {"size": 256, "seed": 5531}

benchmarks:
- {"size": 1024, "seed": 54352}
- {"size": 4096, "seed": 6256}
- {"size": 16384, "seed": 6252}
- {"size": 65536, "seed": 125432}
"""
"""The `task.yml` of `identity-py` as a page of the older service prints it: without its indentation."""


def test_the_printed_task_of_identity_py_loads(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "identity-py", PRINTED))
    assert task.description == "Identity kernel in Python."
    assert list(task.templates) == ["Python"]
    assert (task.main, task.harness) == ("eval.py", HarnessKind.STANDARD)
    assert [len(task.tests), len(task.benchmarks)] == [3, 4]
    assert "def custom_kernel" not in task.sources["eval.py"]
    assert "POPCORN_FD" in task.sources["eval.py"]


def test_a_lent_harness_judges_where_it_is_asked_for(tmp_path: Path) -> None:
    folder = write_task(
        tmp_path / "a", files=files_with(("eval.py", "eval.py")), config={"main": "eval.py"}, harness="own"
    )
    task = load_task(folder)
    assert (task.main, task.harness) == ("eval.py", HarnessKind.OWN)
