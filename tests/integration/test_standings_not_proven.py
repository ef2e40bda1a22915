"""Results that are not proven stand below those that are, in every list."""

from __future__ import annotations

import importlib

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from builders import make_board, make_report
from hand_judging import Judging
from kernelcup import scoring
from kernelcup.domain import Score, Standing
from kernelcup.services.results.leader import beside
from kernelcup.services.results.standings import history, personal_best, standings
from kernelcup.services.submissions.submissions import show_submission
from kernelcup.storage.tables import BestRow
from kernelcup_harness.protocol import TrustLevel

POINT = 9


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def judge(judging: Judging, user: str, time_ns: float, trust: TrustLevel = TrustLevel.AUDITED) -> int:
    submission = judging.submit(user)
    judging.clock.advance(1.0)
    judging.finish(judging.claim(), report=make_report([time_ns], trust=trust))
    return submission.id


def places(judging: Judging) -> list[tuple[int, str, int, bool]]:
    found: list[Standing] = standings(judging.db, "double", "H100")
    return [(each.rank, each.user, round(each.score_s * 1e9), each.proven) for each in found]


@pytest.mark.first_contact(POINT, "a bounded result stands below all proven ones")
def test_a_result_that_is_not_proven_ranks_below_all_that_are(judging) -> None:
    judge(judging, "quick", 100, TrustLevel.BOUNDED)
    judge(judging, "quicker", 50, TrustLevel.BOUNDED)
    judge(judging, "slow", 5000)
    judge(judging, "fast", 1000)
    assert places(judging) == [
        (1, "fast", 1000, True),
        (2, "slow", 5000, True),
        (3, "quicker", 50, False),
        (4, "quick", 100, False),
    ]
    mine = personal_best(judging.db, "double", "H100", "quick")
    assert mine is not None
    assert (mine.rank, round(mine.score_s * 1e9)) == (4, 100)
    assert [round(each.score_s * 1e9) for each in history(judging.db, "double", "H100")][-2:] == [50, 100]


@pytest.mark.first_contact(
    POINT, "a user's proven result stands for them, although an unproven one is faster"
)
@pytest.mark.parametrize("first", [TrustLevel.BOUNDED, TrustLevel.AUDITED])
def test_a_proven_result_stands_for_its_user_before_a_faster_one_that_is_not(judging, first) -> None:
    times = {TrustLevel.BOUNDED: 100.0, TrustLevel.AUDITED: 1000.0}
    (second,) = set(times) - {first}
    for trust in (first, second):
        judge(judging, "ada", times[trust], trust)
    assert places(judging) == [(1, "ada", 1000, True)]


@pytest.mark.first_contact(POINT, "its author reads that it is not proven, and where it ranks")
def test_a_result_that_is_not_proven_says_so(judging) -> None:
    number = judge(judging, "ada", 100, TrustLevel.BOUNDED)
    view = show_submission(judging.db, number)
    (told,) = beside(judging.db, view).values()
    assert told.remark == "Not proven. It ranks below all results that are proven."


@pytest.mark.first_contact(POINT, "bests that an older version stored are put in that order by `db upgrade`")
def test_the_upgrade_sets_apart_what_is_not_proven(judging) -> None:
    judge(judging, "ada", 1000)
    unproven = judge(judging, "ada", 100, TrustLevel.BOUNDED)
    judge(judging, "bob", 2000)
    with judging.db.write() as session:
        row = show_submission(judging.db, unproven).jobs[0].run
        assert row is not None
        values = {"run_id": row.id, "submission_id": unproven, "score_s": 1e-7}
        session.execute(sa.update(BestRow).where(BestRow.score_s < 1.5e-6).values(**values))
    assert places(judging)[0][:3] == (1, "ada", 100)
    with judging.db.write() as session:
        context = MigrationContext.configure(session.connection())
        migration = importlib.import_module("kernelcup.storage.migrations.versions.0009_not_proven_apart")
        with Operations.context(context):
            migration.upgrade()
        assert migration.APART == scoring.APART
    assert places(judging) == [(1, "ada", 1000, True), (2, "bob", 2000, True)]


@pytest.mark.first_contact(POINT, "two results at the floor are no tie if only one of them is proven")
def test_an_unproven_result_at_the_floor_ties_with_no_proven_one() -> None:
    fast = Score(score_s=1e-6, at_floor=True)
    apart = Score(score_s=scoring.ranked_s(1e-6, "bounded"), at_floor=True)
    assert scoring.told_apart(fast, apart)
    assert not scoring.told_apart(apart, Score(score_s=scoring.ranked_s(2e-6, "bounded"), at_floor=True))
    assert scoring.measured_s(apart.score_s) == 1e-6
