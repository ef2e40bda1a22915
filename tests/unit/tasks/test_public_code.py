"""The judging code that everybody may read."""

from __future__ import annotations

import ast

import pytest

from kernelcup.domain import Language
from kernelcup.tasks.public_code import OVERVIEW, our_code, source_of


@pytest.mark.parametrize("language", Language)
def test_the_overview_is_short_valid_python_and_comes_first(language: Language) -> None:
    found = our_code(language)
    first, text = next(iter(found.items()))
    assert first == OVERVIEW
    assert len(text.splitlines()) <= 300
    names = {each.name for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)}
    assert {"_call", "attempt", "fault", "make_input", "sample"} <= names


def test_each_language_shows_how_its_submissions_are_loaded() -> None:
    texts = [our_code(language)[OVERVIEW] for language in (Language.PYTHON, Language.CUDA)]
    assert ["submission/python.py" in text for text in texts] == [True, False]
    assert "submission/cuda/library.py" in texts[1]


def test_a_function_that_is_gone_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"no function Judge\.gone"):
        source_of("class Judge:\n    def here(self):\n        pass\n", "Judge.gone")
