"""Remedies that can be taken out: each text to replace is in the sources once, and what comes out of it is Python."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import without_remedy


@pytest.mark.parametrize("name", without_remedy.REMEDIES)
def test_a_remedy_can_be_taken_out(name: str) -> None:
    changed = without_remedy.edited(without_remedy.SOURCE, without_remedy.REMEDIES[name])

    assert changed
    for path, text in changed.items():
        assert text != path.read_text(encoding="utf-8")
        ast.parse(text)


def test_all_remedies_can_be_taken_out_together() -> None:
    edits = tuple(edit for each in without_remedy.REMEDIES.values() for edit in each)

    assert without_remedy.edited(without_remedy.SOURCE, edits)


def test_a_text_that_is_gone_is_no_silent_copy() -> None:
    with pytest.raises(LookupError, match="0 times"):
        without_remedy.edited(without_remedy.SOURCE, (("clocks/trace.py", "no such text", ""),))


def test_a_copy_lacks_the_remedy(tmp_path: Path) -> None:
    without_remedy.main("memsets+latest", str(tmp_path))

    rebuild = tmp_path / "src/kernelcup_harness/device/nvidia/rebuild.py"
    assert "LEAST_MEMSET = 0\n" in rebuild.read_text(encoding="utf-8")
