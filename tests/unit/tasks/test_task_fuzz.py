from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from task_builders import KEYS, task_yml, write_task

from kernelcup.errors import InvalidTask, Problem
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.manifest.python_source import BrokenSource, find, parse
from kernelcup.tasks.manifest.yaml_text import read_yaml
from properties import examples

BLOCK = b"""\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - name: reference.py
    source: reference.py
lang: py
description: |
  Text.
  - more
config: {}
templates: {Python: template.py}
tests: &cases
  - {size: 1, seed: 0x2}
benchmarks: *cases
seed: 1
"""
TRICKS = [b"&a ", b"*a", b"!!", b"!x ", b"? ", b": ", b"- ", b"{", b"}", b"[", b"|", b">", b"'", b'"', b"%"]
TRICKS += [
    b"\n",
    b"\t",
    b"\0",
    b"\xff",
    b"<<: ",
    b"~",
    b".nan",
    b"9" * 30,
    b"---\n",
    b"2020-13-45",
    b"..",
    b"/",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    content = bytearray(draw(st.sampled_from([BLOCK, task_yml().encode()])))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        content[start:end] = draw(st.one_of(st.sampled_from(TRICKS), st.binary(max_size=4)))
    return bytes(content)


def load_or_refuse(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problems = refusal(write_task(Path(folder) / "t", content))
    assert problems is None or problems
    for problem in problems or ():
        assert problem.line >= 1
        assert problem.column >= 1
        assert str(problem).encode()


def refusal(path: Path) -> tuple[Problem, ...] | None:
    """The problems, or None when it loads; any other error goes through."""
    try:
        load_task(path)
    except InvalidTask as error:
        return error.problems
    return None


@settings(max_examples=examples(200))
@given(mutated())
def test_a_mutated_task_yml_raises_nothing_but_invalid_task(content):
    load_or_refuse(content)


@settings(max_examples=examples(1000))
@given(st.binary(max_size=200))
@example(b"a: 2020-13-45\n")
@example(b"a: !!timestamp foo\n")
@example(b"a: *x\nb: &x 1\n")
@example(b"a: &x 1\nb: &x 2\n")
@example(b"? {a: 1}\n: 2\n")
def test_arbitrary_bytes_raise_nothing_but_invalid_task(content):
    load_or_refuse(content)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100))
@given(st.dictionaries(st.sampled_from([*KEYS, "config", "seed", "gpus", "harness", "multi_gpu"]), VALUES))
def test_any_value_for_any_key_raises_nothing_but_invalid_task(keys):
    load_or_refuse(json.dumps({**KEYS, **keys}).encode())


@settings(max_examples=examples(1000))
@given(st.text(alphabet="abc:-[]{}*&!#|>'\",\n \t", max_size=60))
def test_every_value_has_a_position(text):
    document = read_yaml(text.encode())
    lines = text.split("\n")
    for line, _column in [*document.values.values(), *document.keys.values()]:
        assert 1 <= line <= len(lines) + 1


@pytest.mark.parametrize(
    "text",
    [
        "-" * 100_000 + "1",
        "(" * 5000,
        "a" + ".b" * 20_000,
        "1" + "+1" * 20_000,
        "if a: 1\n" + "elif a: 1\n" * 3000,
        "x = '\\d'",
        "if a:\n 1\n",
    ],
    ids=lambda text: text[:8],
)
def test_odd_python_is_read_or_refused(text):
    tree = parse(text)
    if not isinstance(tree, BrokenSource):
        assert find({"reference.py": tree}, "reference.py", "generate_input") is None
