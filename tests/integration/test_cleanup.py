"""Old data is deleted by age; what results rest on stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from builders import make_actor, make_board
from hand_judging import Judging, decide, flagged
from kernelcup.app import upkeep
from kernelcup.app.people.audit_log import entries
from kernelcup.app.results.standings import standings
from kernelcup.app.submissions.submissions import get_code
from kernelcup.domain import OPERATOR, Submission
from kernelcup.errors import Forbidden, InvalidValue
from kernelcup.tables import EventRow
from kernelcup_harness.protocol import Mode

DAY = timedelta(days=1)


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def has_cases(judging: Judging, submission: Submission) -> bool:
    """Whether a submission's report is still whole."""
    run = judging.run(submission)
    assert run is not None
    return bool(run.report.stages)


def events(db) -> int:
    with db.read() as session:
        return session.scalar(select(func.count()).select_from(EventRow)) or 0


def clean(judging: Judging, days: int = 31, *, dry_run: bool = False) -> upkeep.CleanedUp:
    now = judging.clock()
    return upkeep.clean_up(judging.db, OPERATOR, before=now - days * DAY, dry_run=dry_run, now=now)


def test_an_old_report_keeps_verdict_and_times_and_loses_its_cases(judging) -> None:
    best = judging.judge(1000)
    slower = judging.judge(2000)
    judging.clock.now += 32 * DAY
    before = judging.run(slower)
    found = clean(judging)
    assert found.reports == 1
    assert has_cases(judging, best)
    assert not has_cases(judging, slower)
    after = judging.run(slower)
    assert (after.verdict, after.score, after.machine) == (before.verdict, before.score, before.machine)
    assert "custom_kernel" in get_code(judging.db, slower.id).text


def test_what_ranks_or_was_a_best_keeps_its_whole_report(judging) -> None:
    first = judging.judge(3000)
    second = judging.judge(2000)
    shown = standings(judging.db, "double", "H100")
    judging.clock.now += 32 * DAY
    assert clean(judging).reports == 0
    assert has_cases(judging, first)
    assert has_cases(judging, second)
    assert standings(judging.db, "double", "H100") == shown


def test_what_was_reviewed_keeps_its_whole_report(judging) -> None:
    submission, review = flagged(judging)
    decide(judging, review, "rejected")
    judging.clock.now += 32 * DAY
    assert clean(judging).reports == 0
    assert has_cases(judging, submission)


def test_events_of_jobs_that_wait_stay(judging) -> None:
    judging.judge(1000)
    waiting = judging.submit()
    judging.clock.now += 32 * DAY
    all_of_them = events(judging.db)
    removed = clean(judging).events
    with judging.db.read() as session:
        left = set(session.scalars(select(EventRow.submission_id)))
    assert (left, removed > 0, events(judging.db)) == ({waiting.id}, True, all_of_them - removed)
    judging.finish(judging.claim())  # and its viewers hear of its end


def test_young_data_stays(judging) -> None:
    judging.judge(1000)
    judging.judge(2000)
    judging.clock.now += 32 * DAY
    judging.judge(3000, "bob")
    judging.judge(4000, "bob")
    count = events(judging.db)
    found = clean(judging)
    assert (found.reports, 0 < found.events < count) == (1, True)
    assert entries(judging.db, OPERATOR, action="data.cleanup")[0].detail["reports"] == 1


def test_a_dry_run_counts_and_deletes_nothing(judging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "AT_ONCE", 2)
    for time_ns in (1000, 2000, 3000, 4000):
        judging.judge(time_ns)
    judging.clock.now += 32 * DAY
    before = events(judging.db), len(entries(judging.db, OPERATOR))
    would = clean(judging, dry_run=True)
    assert (events(judging.db), len(entries(judging.db, OPERATOR))) == before
    assert clean(judging) == would
    assert (would.reports, would.events) == (3, before[0])
    assert clean(judging) == upkeep.CleanedUp(before=would.before, reports=0, events=0, log=0)


def test_the_log_is_deleted_by_age(judging) -> None:
    made = len(entries(judging.db, OPERATOR))
    judging.clock.now += 32 * DAY
    assert clean(judging).log == made
    assert [entry.action for entry in entries(judging.db, OPERATOR)] == ["data.cleanup"]


def test_a_practice_run_loses_its_report_too(judging) -> None:
    tried = judging.judge(1000, mode=Mode.BENCHMARK)
    judging.clock.now += 32 * DAY
    assert clean(judging).reports == 1
    assert not has_cases(judging, tried)


def test_the_last_30_days_are_never_deleted_and_only_admins_delete(judging) -> None:
    with pytest.raises(InvalidValue, match="last 30 days"):
        clean(judging, days=29)
    with pytest.raises(Forbidden):
        upkeep.clean_up(
            judging.db, make_actor(judging.db, "ada"), before=judging.clock() - 99 * DAY, now=judging.clock()
        )


@pytest.mark.parametrize("text", ["180", "d", "-3d", "180 d", "6 months", "1e3d", "999999d"])
def test_an_age_is_a_number_of_days(text: str, clock) -> None:
    with pytest.raises(InvalidValue, match="no age in days"):
        upkeep.parse_age(text, clock())
