from __future__ import annotations

import os
import re

import pytest
from task_builders import DROP, KEYS, files_with, problems_of, task_files, task_yml, write_task, write_zip

from kernelcup.errors import InvalidTask
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.problem_set import check_path

SUBMISSION = {"name": "submission.py", "source": "@SUBMISSION@"}


def test_all_problems_come_at_once_with_line_and_column(tmp_path):
    yml = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: task.py, source: gone.py}
lang: py
test: [{size: 1}]
ranking_by: median
benchmarks:
  - {size: 1, seed: 2}
  - {sice: 1, seed: 2}
  - {size: 1, size: 2, seed: .inf}
templates: {Triton: none.py}
test_timeout: -5
"""
    folder = write_task(tmp_path / "bad", yml)
    lines = [re.sub(r"(allowed|its parameters) are .*", "...", line) for line in problems_of(folder)]
    assert lines == [
        "task.yml:4:29: files.2.source: `gone.py` does not exist",
        "task.yml:6:1: test: unknown key; did you mean `tests`? ...",
        "task.yml:7:13: ranking_by: must be 'last', 'mean', 'geom' or 'speedup'",
        "task.yml:10:5: benchmarks.1: `size` is missing, which `generate_input` requires",
        "task.yml:10:6: benchmarks.1.sice: is no parameter of `generate_input`; did you mean `size`? ...",
        "task.yml:11:15: benchmarks.2.size: duplicate key; it is on line 11 already",
        "task.yml:11:30: benchmarks.2.seed: must be a whole number, not a number with a fraction",
        "task.yml:12:21: templates.Triton: `none.py` does not exist",
        "task.yml:13:15: test_timeout: must be greater than 0",
    ]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"files": DROP}, "files: is required and missing"),
        ({"files": []}, "files: needs exactly one entry with the source `@SUBMISSION@`"),
        (
            {"files": [*KEYS["files"], {**SUBMISSION, "name": "two.py"}]},
            "only one file can be `@SUBMISSION@`",
        ),
        (
            {"files": KEYS["files"][1:]},
            "needs exactly one entry with the source `@SUBMISSION@`, and has none",
        ),
        (
            {"files": files_with(("task.py", "reference.py"))},
            "files.3.name: `task.py` is the name of files.1",
        ),
        (
            {"files": files_with(("submission.py", "task.py"))},
            "`submission.py` is the name of files.0 already",
        ),
        ({"files": files_with(("task.py/x", "task.py"))}, "`task.py` is a file and cannot be a folder too"),
        ({"files": files_with(("../x.py", "task.py"))}, "files.3.name: `../x.py` is not plain"),
        ({"files": files_with(("/x.py", "task.py"))}, "files.3.name: `/x.py` is absolute"),
        ({"files": files_with(("x.py", "/etc/passwd"))}, "files.3.source: `/etc/passwd` is absolute"),
        ({"files": files_with(("x.py", "../../x.py"))}, "leads out of the problem set's root"),
        ({"files": files_with(("x.py", "."))}, "is not a regular file"),
        ({"files": files_with(("x.py", "x" * 300))}, "more than 255"),
        ({"files": files_with(("x.py", "ü" * 200))}, "cannot be read"),
        ({"files": [*KEYS["files"], {"name": "x.py"}]}, "files.3.source: is required and missing"),
        ({"files": [*KEYS["files"], 3]}, "files.3: must be a mapping with the keys `name`, `source`"),
        ({"files": [{**SUBMISSION, "name": "my-kernel.py"}, *KEYS["files"][1:]]}, "must be a module such as"),
        ({"files": [SUBMISSION]}, "files: lists no `reference.py`, which the standard harness needs"),
        ({"lang": "rust"}, "lang: must be 'py' or 'cu'"),
        ({"templates": {"Python": "../../../x"}}, "templates.Python: `../../../x` leads out"),
        ({"benchmarks": DROP}, "benchmarks: a ranking needs at least one benchmark"),
        ({"tests": [3]}, "tests.0: must be a mapping such as"),
        (
            {"tests": [{"size": {"a": 1}, "seed": 1}]},
            "tests.0.size: must be true or false, a number, text, or a",
        ),
        ({"tests": [{"size": [[1]], "seed": 1}]}, "tests.0.size.0: must be true or false, a number or text"),
        ({"tests": [{"size": 2**63, "seed": 1}]}, "tests.0.size: does not fit into 64 bits"),
        ({"tests": [{"a-b": 1, "size": 1}]}, "tests.0.a-b: must be an identifier"),
        (
            {"tests": [{"size": 1, "sed": 1}]},
            "tests.0.sed: is no parameter of `generate_input`; did you mean `seed`",
        ),
        ({"hidden_tests": [{"x": 1}]}, "hidden_tests.0: `size` is missing"),
        ({"multi_gpu": True}, "tests.0: needs `world_size`"),
        ({"multi_gpu": True, "tests": [{"world_size": 0}]}, "world_size: must be a positive whole number"),
        ({"multi_gpu": 1}, "multi_gpu: must be true or false, not a whole number"),
        ({"test_timeout": 0}, "test_timeout: must be greater than 0"),
        ({"ranked_timeout": 86401}, "ranked_timeout: must be at most 86400"),
        ({"benchmark_timeout": 1.5}, "must be a whole number, not a number with a fraction"),
        ({"gpus": "H100"}, "gpus: must be a list, not text"),
        ({"accepts": ["py", "rust"]}, "accepts.1: must be 'py' or 'cu'"),
        (
            {"lang": "cu", "accepts": ["py"], "config": {"sources": ["task.py"]}},
            "accepts.0: `py` cannot be judged",
        ),
        ({"harness": "mine"}, "harness: must be 'standard' or 'own'"),
        ({"harness": "own"}, "harness: `own` needs `config.main`"),
        ({"config": {"main": "eval.py"}}, "config.main: `eval.py` is not among `files`"),
        ({"config": {"main": "submission.py"}}, "config.main: `submission.py` is the submission"),
        ({"config": {"mian": "eval.py"}}, "config.mian: unknown key; did you mean `main`?"),
        ({"lang": "cu"}, "config.sources: names no file with `main`"),
        ({"lang": "cu", "config": {"sources": ["x.cu"]}}, "config.sources.0: `x.cu` is not among `files`"),
        ({"lang": "cu", "config": {"sources": ["task.py"], "defines": {"a-b": 1}}}, "must be an identifier"),
        ({"lang": "cu", "config": {"sources": ["task.py"], "compile_flags": ["O3"]}}, "must start with `-`"),
        (
            {"lang": "cu", "harness": "standard"},
            "files: list none of reference.cu, reference.cuh, reference.cpp",
        ),
        (
            {"lang": "cu", "config": {"include_dirs": ["/usr"]}},
            "include_dirs.0: `/usr` is no folder of `files`",
        ),
        (
            {"prepare_timeout": 9, "lang": "cu", "files": [{"name": "s.cu", "source": "@SUBMISSION@"}]},
            "prepare_timeout: is for submissions in Python: the C interface has no `prepare`",
        ),
        (
            {"prepare_timeout": 9, "harness": "own", "config": {"main": "task.py"}},
            "prepare_timeout: only the standard harness calls `prepare`: write `harness: standard`",
        ),
        ({"lang": "cu", "config": {"rtol": -1}}, "config.rtol: must be at least 0"),
        (
            {"lang": "cu", "config": {"compile_flags": ["-fplugin=x"]}},
            "`-fplugin=x` loads code into the compiler",
        ),
    ],
)
def test_a_wrong_key_is_refused_with_what_is_allowed(tmp_path, keys, words):
    lines = problems_of(write_task(tmp_path / "bad", **keys))
    assert any(words in line for line in lines), lines
    assert all(re.match(r"\S+:\d+:\d+: ", line) for line in lines)


@pytest.mark.parametrize(
    ("yml", "words"),
    [
        (b"files: [", "task.yml:1:9: is not YAML"),
        (b"a: 1\n\tb: 2\n", "task.yml:2:1: is not YAML"),
        (b"a: *none\n", "task.yml:1:4: is not YAML: found undefined alias 'none'"),
        (b"a: \x07\n", "task.yml:1:4: is not YAML: a control character"),
        (b"lang: py\nname: caf\xe9\n", "task.yml:2:10: is not UTF-8: byte 0xe9 at offset 18"),
        (b"", "task.yml:1:1: is empty"),
        (b"- 1\n", "task.yml:1:1: must be a mapping with the keys `files`"),
        (b"[" * 1000, "is nested too deeply"),
        (b"lang: py\nseed: !!python/object:os.system {}\n", "task.yml:2:7: seed: has the tag"),
        (b"lang: py\nlang: cu\n", "task.yml:2:1: lang: duplicate key; it is on line 1 already"),
        (b"<<: {lang: py}\n", "merge keys"),
        (b"1: x\n", "task.yml:1:1: a key must be text"),
        (b'description: "\\0"\n', "description: holds a character that is not allowed"),
        (b"seed: !!int x\n", "seed: is no int"),
        (b"seed: " + b"9" * 5000, "seed: does not fit into 64 bits"),
        (b"seed: 2**63", "seed: does not fit into 64 bits"),
        (b"seed: 9**99*9**99", "seed: does not fit into 64 bits"),
        (b"a: 1\n---\nb: 2\n", "is not YAML"),
        (b"#" * (300 << 10), "task.yml:1:1: is larger than 256 KiB"),
    ],
)
def test_unreadable_yaml_is_one_of_the_problems(tmp_path, yml, words):
    assert any(words in line for line in problems_of(write_task(tmp_path / "bad", yml)))


def test_an_alias_bomb_is_refused(tmp_path):
    levels = [f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    yml = "\n".join(["k0: &a0 [1, 2, 3]", *levels])
    assert any("more than 10,000 values" in line for line in problems_of(write_task(tmp_path / "bomb", yml)))


def test_values_are_counted_before_all_are_read(tmp_path):
    yml = "tests: [" + "1," * 100_000 + "]"
    (line,) = problems_of(write_task(tmp_path / "bad", yml))
    assert line == "task.yml:1:20003: is not YAML: has more than 10,000 values"


def test_python_files_are_small_together(tmp_path):
    half = "#" * 140_000 + "\n"
    names = {"first.py": half, "second.py": half}
    folder = write_task(tmp_path / "bad", extra=names, files=files_with(*((name, name) for name in names)))
    assert problems_of(folder) == [
        "second.py:1:1: is larger than 256 KiB with the other files, too large for Python"
    ]


def test_a_source_that_is_not_utf8_names_the_offset(tmp_path):
    folder = write_task(tmp_path / "bad", extra={"task.py": b"# ok\n# \xff\n"})
    assert problems_of(folder) == [
        "task.py:2:3: is not UTF-8: byte 0xff at offset 7; only UTF-8 text is allowed; other files belong into `data`"
    ]


def test_a_source_with_a_nul_byte_is_refused(tmp_path):
    folder = write_task(tmp_path / "bad", extra={"task.py": b"# ok\n# \0\n"})
    assert problems_of(folder) == [
        "task.py:2:1: has a NUL byte; only UTF-8 text is allowed; other files belong into `data`"
    ]


def test_a_syntax_error_is_found_where_it_is(tmp_path):
    (tmp_path / "shared.py").write_text("x = 1\ny = = 2\n")
    folder = write_task(tmp_path / "bad", files=files_with(("shared.py", "../shared.py")))
    assert problems_of(folder) == ["../shared.py:2:5: is not Python: invalid syntax"]


@pytest.mark.parametrize("target", ["reference.py", "../secret.py", "/etc/passwd"])
def test_a_linked_file_is_refused(tmp_path, target):
    (tmp_path / "secret.py").write_text("key = 1\n")
    folder = write_task(tmp_path / "bad", files=files_with(("x.py", "x.py")))
    (folder / "x.py").symlink_to(target)
    (line,) = problems_of(folder)
    assert "files.3.source: `x.py` is or goes through a link" in line


def test_a_linked_folder_is_refused(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.py").write_text("key = 1\n")
    folder = write_task(tmp_path / "bad", files=files_with(("x.py", "in/x.py")))
    (folder / "in").symlink_to(tmp_path / "outside")
    assert "is or goes through a link" in problems_of(folder)[0]


def test_a_linked_task_yml_is_refused(tmp_path):
    folder = write_task(tmp_path / "bad")
    (folder / "task.yml").rename(tmp_path / "elsewhere.yml")
    (folder / "task.yml").symlink_to("../elsewhere.yml")
    assert problems_of(folder) == ["task.yml:1:1: is or goes through a link, and links are not followed"]


def test_a_named_pipe_does_not_hold_up_the_loader(tmp_path):
    folder = write_task(tmp_path / "bad", files=files_with(("x.py", "x.py")))
    os.mkfifo(folder / "x.py")
    assert "is not a regular file" in problems_of(folder)[0]


def test_a_large_file_is_refused(tmp_path):
    folder = write_task(
        tmp_path / "bad", extra={"x.bin": b"x" * (5 << 20) + b"x"}, files=files_with(("x.bin", "x.bin"))
    )
    assert "`x.bin` is larger than 5 MiB" in problems_of(folder)[0]


def test_a_large_python_file_is_refused(tmp_path):
    folder = write_task(tmp_path / "bad", extra={"task.py": "#" * (1 << 20) + "\n"})
    assert problems_of(folder) == ["task.py:1:1: is larger than 256 KiB, too large for Python"]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("def check_implementation(data, output): ...", "has no top-level `generate_input`"),
        ("def generate_input(size, seed): ...", "has no top-level `check_implementation`"),
        (
            "def generate_input(size, seed): ...\ndef check_implementation(data): ...",
            "reference.py:2:1: cannot be called as `check_implementation(data, output)`",
        ),
        (
            "def generate_input(size, /, seed): ...\ncheck_implementation = None",
            "`size` can only be given by position",
        ),
        (
            "class A:\n    def generate_input(size, seed): ...\ncheck_implementation = None",
            "has no top-level `generate_input`",
        ),
        (
            "def generate_input(size, *, dtype, seed): ...\ncheck_implementation = None",
            "tests.0: `dtype` is missing, which `generate_input` requires",
        ),
    ],
)
def test_a_reference_that_the_harness_cannot_use_is_refused(tmp_path, reference, words):
    lines = problems_of(write_task(tmp_path / "bad", extra={"reference.py": reference}))
    assert any(words in line for line in lines), lines


@pytest.mark.parametrize(
    "reference",
    [
        "def generate_input(**keys): ...\ncheck_implementation = None",
        "if 1:\n    def generate_input(size=1, seed=2): ...\ncheck_implementation = None",
        "@wrapped\ndef generate_input(): ...\ncheck_implementation = None",
        "import torch\n@torch.no_grad()\ndef generate_input(seed, size): ...\ncheck_implementation = None",
        "from elsewhere import generate_input, check_implementation",
        "generate_input, check_implementation = make()",
    ],
)
def test_a_reference_that_may_fit_is_accepted(tmp_path, reference):
    assert problems_of(write_task(tmp_path / "good", extra={"reference.py": reference})) == []


def test_problems_in_a_zip_name_the_zip(tmp_path):
    path = write_zip(tmp_path / "t.zip", task_files("copy/", lang="rust"))
    with pytest.raises(InvalidTask) as caught:
        load_task(path)
    assert str(caught.value).startswith("t.zip/copy/task.yml:1:")


def test_check_path_returns_the_problems_and_nothing_when_fine(tmp_path):
    assert check_path(write_task(tmp_path / "good")) == ()
    (problem,) = check_path(write_task(tmp_path / "bad", benchmarks=[]))
    assert problem.file == str(tmp_path / "bad" / "task.yml")
    assert problem.key == "benchmarks"
    assert problem.line == 1
    assert problem.column == task_yml(benchmarks=[]).index('"benchmarks"') + 1
