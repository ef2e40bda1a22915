"""Texts that are meant to keep the screen busy, to break it, or to hide something in the crowd."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcup.screen.findings import MAX_FINDINGS, MAX_PER_TAG, Tag
from kernelcup.screen.run import RULES_VERSION, screen

SIZE = 200_000
LONGEST_S = 10.0
"""Ten times what the slowest of these takes; whatever grows with the square of a text takes far longer."""
LARGE = {
    "statements": "a;" * (SIZE // 2),
    "assignments": "a=1\n" * (SIZE // 4),
    "attributes": "a" + ".a" * (SIZE // 2),
    "spaced attributes": "a . " * (SIZE // 4),
    "signs": "-" * SIZE,
    "brackets": "(" * SIZE,
    "sum": "1+" * (SIZE // 2) + "1",
    "lambdas": "lambda:" * (SIZE // 7),
    "conditions": "if a:\n b\n" + "elif a:\n b\n" * (SIZE // 11),
    "one string": f"'{'a' * SIZE}'",
    "strings": "'a'" * (SIZE // 3),
    "quotes": '"""a' + '\\"""' * (SIZE // 4),
    "f-strings": 'f"{a}{b}"\n' * (SIZE // 10),
    "forks": 'x = """#include <a>\n' + "fork() " * (SIZE // 7) + '"""',
    "broken lines": 'x = r"""void f();' + "fork\\\n()" * (SIZE // 8) + '"""',
    "calls": "exec(a)\n" * 12_000,
    "nested code": 'exec("""' + "eval(a) " * (SIZE // 8) + '""")',
    "doubling": "a0 = 'aaaaaaaaaaaaaaaa'\n"
    + "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 5000)),
    "aliases": "\n".join(f"a{i} = a{i + 1}" for i in range(15_000)) + "\nimport os",
    "far right": ("\t" * 160 + "x") * (SIZE // 161),
    "spaces": " " * SIZE,
    "numbers": "0x1, " * (SIZE // 5),
    "to reviewers": "ignore all previous " + "# " * (SIZE // 2),
    "surrogates": "\ud800" * SIZE,
    "nul": "\0" * SIZE,
}


# What is usual, what is the most that becomes a tree, and what only the patterns see.
MEGABYTE = {
    "lines": "    x = torch.empty_like(data, device='cuda')  # as large as the input\n" * 14_000,
    "one string": f"SOURCE = '#include <a>{'a + b; ' * 140_000}'",
    "calls": "f(a,b)\n" * 14_000 + "#" * 900_000,
}


@pytest.mark.parametrize("kind", MEGABYTE)
def test_a_megabyte_takes_no_longer_than_its_length_allows(kind):
    before = time.thread_time()
    screen(MEGABYTE[kind])
    assert time.thread_time() - before < LONGEST_S


@pytest.mark.parametrize("kind", LARGE)
def test_no_text_takes_more_time_than_its_length_allows(kind):
    before = time.thread_time()
    found = screen(LARGE[kind])
    screen(LARGE[kind], is_native=True)
    assert time.thread_time() - before < LONGEST_S
    assert len(found.findings) <= MAX_FINDINGS


@pytest.mark.parametrize(
    "text",
    ["exec(" * 50 + "a" + ")" * 50, "s='" + "eval(a) " * 40_000 + "'\n" + "exec(s)\n" * 10_000],
    ids=["nested calls", "a text that is run often"],
)
def test_nested_calls_and_texts_that_are_run_often_take_no_longer(text: str) -> None:
    lines = 380 if len(text) < 1000 else 1
    before = time.thread_time()
    screen("\n".join([text] * lines))
    assert time.thread_time() - before < LONGEST_S


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_makes_it_raise(text):
    assert screen(text).rules_version == RULES_VERSION
    screen(text, is_native=True)


PIECES = st.sampled_from(
    'import os|from ctypes import *|exec|eval(|getattr(|setattr(|torch.cuda.Event|.elapsed_time|=|f_back|\'x\'|"""'
    "|'''|(|)|[|]|{|}|:|,|\n|    |def f(a=exec):|class A(B):|lambda x:|f'{a}'|+|[::-1]|''.join([|chr(102)|\\|#|\0"
    "|sys.modules|['os']|__import__|.data_ptr()|id(x)|in cache|with a as b:|@a|*|**|b'\\xff'|bytes([1, 2])|.decode()"
    "|bytes.fromhex('zz')|base64.b64decode('a')|#include|fork(|cuda##a|\\\n|open(|'w'|vars(|globals()|:=|async|await".split(
        "|"
    )
)


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=300)
def test_no_heap_of_code_makes_it_raise(text):
    screen(text)
    screen(text, is_native=True)


def test_findings_are_bounded_and_the_rest_is_counted():
    found = screen("import os\n" + "os.environ\n" * 5000 + "os.system('id')\n")
    assert found.tags == ("subprocess", "environment")
    assert len(found.findings) == 1 + MAX_PER_TAG
    assert found.left_out == 5000 - MAX_PER_TAG


def test_all_tags_together_have_room():
    assert MAX_PER_TAG * len(Tag) <= MAX_FINDINGS


def test_grave_tags_come_first():
    found = screen("import os\nos.environ\nexec('x')\n")
    assert found.tags == ("dynamic_execution", "environment")


def test_a_text_that_is_too_large_for_a_tree_is_still_looked_at():
    assert set(screen("import socket\n" + "(a,b)\n" * 60_000).tags) == {"unparsable", "network"}


def test_constants_that_grow_without_bound_are_told():
    text = "a0 = 'aaaaaaaaaaaaaaaa'\n" + "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 40))
    assert "unparsable" not in screen("a = 'b' + 'c'").tags
    assert len(screen(text).findings) <= MAX_FINDINGS
