from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError

import pytest

from kernelcup.screen import kernelguard
from kernelcup.screen.findings import MAX_FINDINGS, Finding
from kernelcup.screen.kernelguard import KernelGuard, with_opinion
from kernelcup.screen.run import RULES_VERSION, screen

CHEAT = """\
import torch
E = torch.cuda.Event
E.elapsed_time = lambda self, other: 0.001

def custom_kernel(data):
    return data
"""


class Opinion:
    """Finds the same in every text."""

    name = "fake 1.0"

    def __init__(self, count: int = 1) -> None:
        self._count = count

    def findings(self, text: str) -> list[Finding]:
        """Return as many findings as were asked for."""
        finding = Finding(tag="fake:odd", line=0, column=0, source="", explanation="Odd.")
        return [finding] * self._count


@pytest.fixture
def guard():
    guard = KernelGuard.if_installed()
    if guard is None:
        pytest.skip("kernelguard is not installed")
    return guard


def test_its_patterns_become_tags_with_its_name(guard):
    found = guard.findings(CHEAT)
    assert "kernelguard:timer_monkeypatch" in {finding.tag for finding in found}
    assert all(finding.tag.startswith("kernelguard:") and finding.explanation for finding in found)


def test_an_honest_text_gets_none(guard):
    assert guard.findings("import torch\n\n\ndef custom_kernel(data):\n    return torch.add(*data)\n") == []


def test_surrogates_and_nul_reach_it(guard):
    assert all(finding.tag.startswith("kernelguard:") for finding in guard.findings("x = '\ud800\0'\n"))


def test_past_its_time_it_is_ended_and_that_is_a_finding():
    before = time.monotonic()
    (finding,) = KernelGuard("0", limit_s=0.01).findings(CHEAT)
    assert finding.tag == "kernelguard:no_answer"
    assert time.monotonic() - before < 60


def test_without_enough_memory_it_gives_no_answer():
    (finding,) = KernelGuard("0", memory_bytes=1024**2).findings(CHEAT)
    assert finding.tag == "kernelguard:no_answer"


def test_without_the_package_there_is_no_second_opinion(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(kernelguard, "version", missing)
    assert KernelGuard.if_installed() is None


def test_a_second_opinion_stands_behind_our_findings_and_in_the_version():
    both = with_opinion(screen(CHEAT), CHEAT, Opinion())
    assert both.tags == ("timer_patch", "fake:odd")
    assert both.rules_version == f"{RULES_VERSION}, fake 1.0"


def test_without_a_second_opinion_nothing_changes():
    assert with_opinion(screen(CHEAT), CHEAT, None) == screen(CHEAT)


def test_a_second_opinion_gets_the_room_that_is_left():
    both = with_opinion(screen(CHEAT), CHEAT, Opinion(1000))
    assert len(both.findings) == MAX_FINDINGS
    assert both.left_out == 1001 - MAX_FINDINGS
