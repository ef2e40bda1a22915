"""Finals whose duels a test decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import update

from builders import make_report
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import comparisons, finals
from kernelcup.domain import OPERATOR, Final
from kernelcup.engine.database import Database
from kernelcup.tables import LeaderboardRow
from kernelcup_harness.protocol import DuelResult


def close(db: Database, board: str, now: datetime) -> None:
    """Let a leaderboard have closed a moment ago."""
    with db.write() as session:
        closed = now - timedelta(seconds=1)
        session.execute(update(LeaderboardRow).where(LeaderboardRow.name == board).values(deadline=closed))


def duel_of(ratio: float, width: float = 0.005) -> DuelResult:
    """Return a duel with an interval around a ratio."""
    low, high = ratio * math.exp(-width), ratio * math.exp(width)
    verdict = "faster" if high < 1 else "slower" if low > 1 else "tied"
    return DuelResult(ratio=ratio, low=low, high=high, verdict=verdict, blocks=20)


def pair_of(db: Database, comparison: int | None) -> tuple[int, int]:
    """Return the submissions of a duel."""
    assert comparison is not None
    found = comparisons.show(db, comparison, viewer=OPERATOR)
    assert found.first is not None
    assert found.second is not None
    return found.first, found.second


def hold(db: Database, board: str, device: str, times: Mapping[int, float], now: datetime) -> Final:
    """Play a machine on which submissions take these times until a final has ended; it must have begun."""
    while True:
        found = finals.show(db, board, device, now=now)
        assert found is not None
        if found.waiting is None:
            return found
        hold_one(db, found.waiting, device, times, now)


def hold_one(
    db: Database, comparison: int | None, device: str, times: Mapping[int, float], now: datetime
) -> None:
    """Play that machine for the duel that is in the queue."""
    first, second = pair_of(db, comparison)
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=[device], now=now)
    assert lease is not None
    assert lease.job.submission_id == comparison
    report = make_report(duel=duel_of(times[first] / times[second]))
    lifecycle.finish(db, lease, report=report, harness_hash="f" * 64, machine="m", now=now)
