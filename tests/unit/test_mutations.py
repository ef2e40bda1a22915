"""The mutation check: a defence whose text has changed would be left out silently."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def script() -> ModuleType:
    """Return the script, which has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader("mutation_check", str(ROOT / "scripts/mutation-check"))
    spec = importlib.util.spec_from_loader("mutation_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutation_check"] = module
    loader.exec_module(module)
    return module


def test_what_a_mutation_takes_away_is_there_once() -> None:
    for mutation in script().mutations():
        assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1, mutation.name


def test_the_tests_that_notice_a_mutation_are_there() -> None:
    attacks = " ".join(each.name for each in (ROOT / "tests/judged/attacks").iterdir())
    for mutation in script().mutations():
        file, *chosen = shlex.split(mutation.tests)
        text = (ROOT / file.partition("::")[0]).read_text(encoding="utf-8") + attacks
        named = [file.partition("::")[2]] if "::" in file else []
        words = re.split(r" (?:and|or) ", chosen[1]) if chosen[:1] == ["-k"] else named
        assert all(word.partition("[")[0] in text for word in words), mutation.name
