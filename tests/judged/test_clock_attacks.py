"""Attacks on the clock: none is ranked with less than its honest twin, which counts.

They are judged on the processor here, by the judge's wall clock. Other tests run meanwhile and slow down now
the one and now the other, by half at times. So an attack that seems to gain is tried again, and all tries count.
Those that need a GPU, and what each gains there, are measured by ``benchmarks/clean_room_attacks.py``.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from statistics import geometric_mean

import pytest

sys.path.insert(0, str(Path(__file__).parent / "attacks"))

import corpus
from corpus import Attack
from judging import loaded, run_harness, what_was_said

from kernelcup_harness.protocol import Backend, CaseResult, Reason, RunReport, StageName, Verdict
from warm_harness import Run

ALL = corpus.clock_attacks()
ON_THE_PROCESSOR = [attack for attack in ALL if attack.needs == "cpu"]
FIRST = {attack.folder.name: attack for attack in reversed(ON_THE_PROCESSOR)}
TRIES = 12
MOST_GAIN = 0.3
"""More than jitter, less than any of them wants: half of the time, or all of it."""


def judge(attack: Attack, file: str, run: Run) -> RunReport:
    """Judge a file on the processor, by its real clock."""
    return run(corpus.job(attack, loaded(attack.task_folder), file, Backend.CPU, "attack"))


def ranked(report: RunReport) -> list[CaseResult]:
    """Return the timed cases of a run that came so far."""
    stage = report.stage_report(StageName.RANKED)
    return stage.cases if stage is not None else []


def score_ns(report: RunReport) -> float:
    assert report.verdict is Verdict.ACCEPTED, what_was_said(report)
    return geometric_mean(case.timing.score_ns for case in ranked(report) if case.timing is not None)


def share_of_twin(attack: Attack, run: Run) -> float | None:
    """Return an attack's time as a share of its honest twin's, None if it is refused."""
    report = judge(attack, attack.file, run)
    # An attack that never acted would prove nothing.
    assert "acted:" in report.stdout.text, what_was_said(report)
    assert report.verdict in attack.verdicts, what_was_said(report)
    if report.verdict is not Verdict.ACCEPTED:
        assert report.reason in attack.reasons, what_was_said(report)
        return None
    return score_ns(report) / score_ns(judge(attack, attack.honest, run))


@pytest.mark.jobs
@pytest.mark.parametrize("attack", ON_THE_PROCESSOR, ids=lambda attack: attack.name)
def test_an_attack_on_the_clock_gains_nothing(attack: Attack, warm: Run) -> None:
    # The first of each folder in fresh processes and a sandbox, as a launcher has them.
    run = run_harness if attack in FIRST.values() else warm
    shares: list[float] = []
    while not shares or geometric_mean(shares) < 1 - MOST_GAIN:
        assert len(shares) < TRIES, f"shares of its honest twin's time: {shares}"
        share = share_of_twin(attack, run)
        if share is None:
            return
        shares.append(share)


@pytest.mark.jobs
@pytest.mark.parametrize("attack", FIRST.values(), ids=lambda attack: attack.folder.name)
def test_its_honest_twin_counts(attack: Attack, warm: Run) -> None:
    report = judge(attack, attack.honest, warm)
    assert report.verdict is Verdict.ACCEPTED, what_was_said(report)
    assert report.quarantine == []


def test_every_attack_on_the_clock_says_what_it_tries() -> None:
    for attack in ALL:
        for file in (attack.file, attack.honest):
            assert ast.get_docstring(ast.parse(attack.text(file))), file
        assert attack.acts, attack.name
        assert attack.folder.name.startswith(f"{attack.id[0].lower()}{int(attack.id[1:]):02}_")
