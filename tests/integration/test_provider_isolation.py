"""Leaderboards that rank what a provider isolated, where no sandbox of ours stood."""

from __future__ import annotations

import pytest

from builders import make_board, make_report, make_task
from hand_judging import Judging
from kernelcup.app.queue import assignment
from kernelcup.app.results.standings import standings
from kernelcup.cli.show.ranking import trust_text
from kernelcup.domain import Leaderboard
from kernelcup.reporting.report import blocks
from kernelcup.reporting.rules import rules_of
from kernelcup_harness.protocol import Backend

MODAL = {"isolation": "provider: a container of Modal (gVisor) for this job alone, without a network"}


def board(db, *, takes_it: bool) -> Leaderboard:
    """Return a leaderboard that takes a provider's isolation, or does not."""
    return make_board(db, devices=["H100"], provider_isolation=takes_it)


@pytest.mark.parametrize("takes_it", [True, False])
def test_a_job_says_whether_its_leaderboard_takes_a_providers_isolation(db, clock, takes_it: bool) -> None:
    made, judging = board(db, takes_it=takes_it), Judging(db, clock)
    judging.submit("ada")
    prepared = assignment.prepare(db, judging.claim("H100"), Backend.CUDA, launcher=None, now=clock())
    assert prepared.provider_isolation is takes_it
    assert any(name == "Isolation" for name, _ in rules_of(made, make_task())) is takes_it


def test_a_result_that_a_provider_isolated_is_marked_beside_its_level(db, clock) -> None:
    board(db, takes_it=True)
    judging = Judging(db, clock)
    reports = {"ada": make_report([1000.0], environment=MODAL), "bob": make_report([2000.0])}
    for user, report in reports.items():
        judging.submit(user)
        judging.finish(judging.claim("H100"), report=report)
    marked, unmarked = standings(db, "double", "H100")
    assert (trust_text(marked), trust_text(unmarked)) == ("witnessed, isolation: provider", "witnessed")
    texts = [
        getattr(block, "text", "") for block in blocks(reports["ada"], ranking_by=make_task().ranking_by)
    ]
    assert any(text.endswith("witnessed, isolation: provider)") for text in texts)
