"""Who is next: classes, turns between users, pauses."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from builders import make_board
from hand_judging import Judging, position
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.rules.queries import pauses
from kernelcup.domain import OPERATOR, PauseScope
from kernelcup.domain.answers import Pause
from kernelcup_harness.protocol import Mode


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, devices=["H100", "A100"])
    return Judging(db, clock)


def claim_all(judging: Judging, **overrides) -> list[int]:
    found = []
    while lease := judging.claim(**overrides):
        found.append(lease.job.submission_id)
    return found


def pause(judging: Judging, scope: PauseScope, key: str) -> None:
    with judging.db.write() as session:
        pauses.put(session, Pause(scope=scope, key=key, reason="repairs", since=judging.clock(), by="root"))


def test_ranked_comes_before_practice_and_both_before_a_rejudge(judging) -> None:
    again = judging.judge()
    rejudge_submission(judging.db, OPERATOR, again.id, now=judging.clock())
    practice = [judging.submit(mode=mode) for mode in (Mode.TEST, Mode.BENCHMARK, Mode.PROFILE)]
    ranked = judging.submit()
    assert claim_all(judging) == [ranked.id, *(each.id for each in practice), again.id]


def test_a_profile_waits_behind_practice(judging) -> None:
    profile = judging.submit("ada", mode=Mode.PROFILE).id
    practice = judging.submit("bob", mode=Mode.TEST).id
    assert claim_all(judging) == [practice, profile]


def test_users_take_turns_however_many_files_one_of_them_sends(judging) -> None:
    ada = [judging.submit("ada").id for _ in range(4)]
    bob = [judging.submit("bob").id for _ in range(2)]
    cyn = [judging.submit("cyn").id]
    assert claim_all(judging) == [ada[0], bob[0], cyn[0], ada[1], bob[1], ada[2], ada[3]]


def test_a_newcomer_does_not_wait_for_the_backlog_of_others(judging) -> None:
    ada = [judging.submit("ada").id for _ in range(6)]
    assert [judging.claim().job.submission_id for _ in range(3)] == ada[:3]
    bob = judging.submit("bob").id
    assert claim_all(judging) == [ada[3], bob, *ada[4:]]


def test_a_newcomer_does_not_overtake_with_turns_from_before_they_came(judging) -> None:
    ada = [judging.submit("ada").id for _ in range(3)]
    assert [judging.claim().job.submission_id for _ in range(2)] == ada[:2]
    bob = [judging.submit("bob").id for _ in range(3)]
    assert claim_all(judging) == [ada[2], *bob]


def test_a_job_that_waits_again_comes_first_and_pulls_no_newcomer_with_it(judging) -> None:
    ada = [judging.submit("ada").id for _ in range(4)]
    lost = judging.claim()
    assert [judging.claim().job.submission_id for _ in range(2)] == ada[1:3]
    bob = judging.submit("bob").id
    lifecycle.hand_back(judging.db, lost, reason="stopped", now=judging.clock())
    cyn = judging.submit("cyn").id
    assert claim_all(judging) == [ada[0], ada[3], bob, cyn]


def test_turns_on_one_device_do_not_count_on_another(judging) -> None:
    first = [judging.submit("ada", devices=["A100"]).id for _ in range(3)]
    ada, bob = judging.submit("ada").id, judging.submit("bob").id
    assert claim_all(judging) == [ada, bob]
    assert claim_all(judging, device="A100") == first


def test_several_devices_are_served_in_the_order_of_all_of_them(judging) -> None:
    practice = judging.submit("ada", mode=Mode.TEST).id
    ranked = judging.submit("bob", devices=["A100"]).id
    assert claim_all(judging, devices=["H100", "A100"]) == [ranked, practice]


def test_a_paused_device_is_not_claimed_from(judging) -> None:
    h100, a100 = judging.submit(), judging.submit(devices=["A100"])
    pause(judging, PauseScope.DEVICE, "h100")
    assert claim_all(judging, devices=["H100", "A100"]) == [a100.id]
    with judging.db.write() as session:
        pauses.remove(session, PauseScope.DEVICE, "h100")
    assert claim_all(judging) == [h100.id]


@pytest.mark.parametrize("scope", [PauseScope.SERVICE, PauseScope.LEADERBOARD])
def test_what_was_accepted_is_judged_though_no_more_is_taken(judging, scope) -> None:
    submission = judging.submit()
    pause(judging, scope, "" if scope is PauseScope.SERVICE else str(submission.leaderboard_id))
    assert claim_all(judging) == [submission.id]


def test_the_position_follows_the_order_and_not_the_arrival(judging) -> None:
    first, second = judging.job(judging.submit("ada")), judging.job(judging.submit("ada"))
    practice = judging.job(judging.submit("bob", mode=Mode.TEST))
    bob = judging.job(judging.submit("bob"))
    places = [position(judging.db, job) for job in (first, bob, second, practice)]
    assert places == [1, 2, 3, 4]


def test_the_queue_is_read_from_the_index_of_what_waits(judging) -> None:
    if judging.db.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL chooses by statistics")
    for query in (
        "SELECT id FROM jobs WHERE jobs.state = 'queued' AND device = ? ORDER BY priority, turn, id LIMIT 1",
        "SELECT mode FROM jobs WHERE jobs.state = 'queued' AND device = ? AND (priority, turn, id) < (1, 1, 1)",
        "SELECT min(turn) FROM jobs WHERE jobs.state = 'queued' AND device = ? AND priority = 0",
    ):
        with judging.db.read() as session:
            plan = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", ("H100",)).all()
        assert any("INDEX ix_jobs_queue" in row[3] for row in plan), plan
        assert not any("TEMP B-TREE" in row[3] for row in plan), plan


def test_what_runs_is_read_from_the_index_of_what_runs(judging) -> None:
    if judging.db.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL chooses by statistics")
    seen: list[tuple[str, tuple[str, ...]]] = []

    def note(_connection, _cursor, statement, values, *_rest) -> None:
        seen.append((statement, values))

    event.listen(judging.db.engine, "before_cursor_execute", note)
    assert lifecycle.reclaim(judging.db, now=judging.clock()) == []
    event.remove(judging.db.engine, "before_cursor_execute", note)
    ((query, values),) = [each for each in seen if "FROM jobs" in each[0]]
    with judging.db.read() as session:
        plan = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values).all()
    assert ["USING INDEX ix_jobs_running" in row[3] for row in plan] == [True]


def test_claiming_on_sqlite_sends_the_condition_of_the_index_as_text(judging) -> None:
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        seen.append(statement)

    judging.submit()
    event.listen(judging.db.engine, "before_cursor_execute", note)
    judging.claim()
    event.remove(judging.db.engine, "before_cursor_execute", note)
    (claiming,) = [statement for statement in seen if statement.startswith("UPDATE jobs")]
    assert "jobs.state = 'queued'" in claiming
