"""The mutation check: a defence whose text has changed would be left out silently."""

from __future__ import annotations

import re

import pytest
from test_docs import ROOT, load_script

MUTATIONS = load_script("mutation-check").MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_a_mutation_takes_away_is_there_once(mutation) -> None:
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1


def test_the_tests_that_notice_a_mutation_are_there() -> None:
    attacks = " ".join(each.name for each in (ROOT / "tests/judged/attacks").iterdir())
    for mutation in MUTATIONS:
        file, *chosen = mutation.tests
        text = (ROOT / file.partition("::")[0]).read_text(encoding="utf-8") + attacks
        named = [file.partition("::")[2]] if "::" in file else []
        words = re.split(r" (?:and|or) ", chosen[1]) if chosen[:1] == ["-k"] else named
        assert all(word.partition("[")[0] in text for word in words), mutation.name
