"""Texts from outside are parsed by many threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelcup import python_parser


@pytest.fixture
def _restless() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_restless")
def test_many_threads_parse_at_once() -> None:
    deep = "x = " + "(" * 60 + "1" + ")" * 60 + "\n"
    texts = [deep * 20, "def f(a):\n    return [a for _ in a]\n" * 50]
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(python_parser.parse, texts * 40))
    assert {len(tree.body) for tree in trees} == {20, 50}


def test_odd_escapes_warn_nobody() -> None:
    assert len(python_parser.parse("x = '\\d'").body) == 1


def test_what_is_no_python_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        python_parser.parse("def")
    with pytest.raises(SyntaxError):
        python_parser.parse_expression("1 +")
