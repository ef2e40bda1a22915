from __future__ import annotations

import json
import subprocess
from importlib.metadata import PackageNotFoundError

import pytest

from kernelcup.screen import kernelguard
from kernelcup.screen.findings import MAX_FINDINGS
from kernelcup.screen.kernelguard import KernelGuard

CHEAT = """\
import torch
E = torch.cuda.Event
E.elapsed_time = lambda self, other: 0.001

def custom_kernel(data):
    return data
"""


@pytest.fixture
def guard():
    guard = KernelGuard.if_installed()
    if guard is None:
        pytest.skip("kernelguard is not installed")
    return guard


def test_its_patterns_become_tags_with_its_name(guard):
    found = guard(CHEAT).findings
    assert "kernelguard:timer_monkeypatch" in {finding.tag for finding in found}
    assert all(finding.tag.startswith("kernelguard:") and finding.explanation for finding in found)


def test_an_honest_text_gets_none(guard):
    assert guard("import torch\n\n\ndef custom_kernel(data):\n    return torch.add(*data)\n").findings == ()


def test_surrogates_and_nul_reach_it(guard):
    assert all(finding.tag.startswith("kernelguard:") for finding in guard("x = '\ud800\0'\n").findings)


def test_past_its_time_it_is_ended_and_that_is_a_finding():
    (finding,) = KernelGuard("0", limit_s=0.01)(CHEAT).findings
    assert finding.tag == "no_answer"


def test_without_enough_memory_it_gives_no_answer():
    (finding,) = KernelGuard("0", memory_bytes=1024**2)(CHEAT).findings
    assert finding.tag == "no_answer"


def test_without_the_package_there_is_no_second_opinion(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(kernelguard, "version", missing)
    assert KernelGuard.if_installed() is None


def test_at_most_so_many_findings_are_kept_and_the_rest_is_counted(monkeypatch):
    many = json.dumps([["a", "b", "c"]] * (MAX_FINDINGS + 3))
    answer = subprocess.CompletedProcess([], 0, stdout=many.encode())
    monkeypatch.setattr(kernelguard.subprocess, "run", lambda *_, **__: answer)
    found = KernelGuard("0")(CHEAT)
    assert (len(found.findings), found.left_out) == (MAX_FINDINGS, 3)
    assert (found.rules_version, found.tags) == ("kernelguard 0", ("kernelguard:a",))
