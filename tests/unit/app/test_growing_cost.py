"""What a request costs does not grow with what others, or the same person, did before.

Cost is counted in calls of functions, which is the same on every machine.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

import ranking_model
from builders import NOW, make_actor, make_board, make_submission
from database_kinds import make_database
from hand_judging import Judging
from kernelcup import scoring
from kernelcup.app.results import standings
from kernelcup.app.rules import limits
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, Standing
from kernelcup.engine.database import Database
from kernelcup_kernelbot.popcorn import leaderboards as popcorn


@pytest.fixture(params=["sqlite"])
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a SQLite database: what is counted is the same on both kinds."""
    yield from make_database(request, request.param, tmp_path)


def calls_of(what: Callable[[], Any]) -> int:
    """Return how many functions are called to do something once more."""
    what()  # what is remembered for next time does not count
    count = 0

    def note(_frame: Any, kind: str, _argument: Any) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(note)
    try:
        what()
    finally:
        sys.setprofile(None)
    return count


def steps_of(db: Database, what: Callable[[], Any]) -> int:
    """Return how many steps SQLite takes to do something."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    def watch(connection: Any, *_: Any) -> None:
        connection.set_progress_handler(step, 1)

    event.listen(db.engine, "checkout", watch)
    try:
        what()
    finally:
        event.remove(db.engine, "checkout", watch)
        db.engine.dispose()  # its connections would go on counting
    return count


def as_entry(each: Standing) -> scoring.Entry:
    """Return the entry that a standing was made of."""
    return scoring.Entry(
        user=each.user,
        score=each.score,
        submission_id=each.submission_id,
        submitted_at=each.submitted_at,
        file_name=each.file_name,
        trust=each.trust,
        comparable=each.comparable,
    )


def test_deleted_submissions_make_an_accept_no_dearer(db: Database) -> None:
    make_board(db)
    limits.add_limit(db, OPERATOR, text="100000/day", now=NOW)
    ada = make_actor(db, "ada")

    def submit() -> Any:
        return make_submission(db, user=ada)

    before = calls_of(submit)
    for _ in range(30):
        delete_submission(db, submit().id, by=ada, now=NOW)
    assert calls_of(submit) < 1.1 * before


def test_submission_count_costs_the_same_for_a_long_ranking(db: Database, clock) -> None:
    make_board(db)
    judging = Judging(db, clock)

    def count() -> dict[str, int]:
        return popcorn.count("double", "H100", db, NOBODY)

    judging.judge(user="user-0")
    short = calls_of(count)
    for number in range(1, 20):
        judging.judge(1000 + number, user=f"user-{number}")
    assert count() == {"count": 20}
    assert calls_of(count) < 1.3 * short


def test_a_far_page_costs_what_a_near_one_does(db: Database, clock, monkeypatch) -> None:
    from kernelcup.app.results import places

    make_board(db)
    judging = Judging(db, clock)
    for number in range(30):
        judging.judge(1000 + number % 7, user=f"user-{number}")
    monkeypatch.setattr(places, "NEAR", 5)
    near = calls_of(lambda: standings.standings(db, "double", "H100", viewer=NOBODY, limit=4))
    far = calls_of(lambda: standings.standings(db, "double", "H100", viewer=NOBODY, limit=4, offset=25))
    assert far < 1.3 * near


def test_remembered_ranks_follow_the_ranking(db: Database, clock, monkeypatch) -> None:
    from kernelcup.app.results import places

    make_board(db)
    judging = Judging(db, clock)
    for number in range(12):
        judging.judge(1000 + 60 * (number % 5), user=f"user-{number}")
        monkeypatch.setattr(places, "NEAR", 0)
        paged = [
            each
            for offset in range(0, number + 1, 2)
            for each in standings.standings(db, "double", "H100", limit=2, offset=offset)
        ]
        monkeypatch.setattr(places, "NEAR", 1000)
        assert paged == standings.standings(db, "double", "H100")


def test_remembered_parts_follow_each_change(db: Database, clock, monkeypatch) -> None:
    from kernelcup.app.results import places

    monkeypatch.setattr(places, "PART", 4)
    monkeypatch.setattr(places, "NEAR", 0)
    make_board(db)
    judging = Judging(db, clock)
    chance = random.Random(7)
    sent = []
    for step in range(18):
        if step % 5 == 4:
            delete_submission(db, sent.pop(chance.randrange(len(sent))).id, by=OPERATOR, now=NOW)
        else:
            sent.append(judging.judge(chance.randrange(1000, 1400, 5), user=f"user-{step}"))
        remembered = standings.standings(db, "double", "H100")
        recomputed = ranking_model.standings(as_entry(each) for each in remembered)
        assert [(each.rank, each.tied) for each in remembered] == [
            (each.rank, each.tied) for each in recomputed
        ]
        own = {
            each.user: standings.personal_best(db, "double", "H100", each.user) for each in remembered[::3]
        }
        assert all(own[each.user] == each for each in remembered[::3])


def test_a_change_costs_no_second_look_at_all_places(db: Database, clock, monkeypatch) -> None:
    from kernelcup.app.results import places
    from kernelcup.app.results.queries import standings as ranking

    monkeypatch.setattr(places, "PART", 4)
    monkeypatch.setattr(places, "NEAR", 2)
    make_board(db)
    judging = Judging(db, clock)
    for number in range(30):
        judging.judge(1000 + 10 * number, user=f"user-{number}")
    standings.standings(db, "double", "H100", limit=2, offset=26)
    judging.judge(1152, user="late")
    read = []
    original = ranking.scores

    def scores(*args: Any, **options: Any) -> Any:
        read.append(original(*args, **options))
        return read[-1]

    monkeypatch.setattr(ranking, "scores", scores)
    standings.standings(db, "double", "H100", limit=2, offset=26)
    mine = standings.personal_best(db, "double", "H100", "user-28")
    assert mine is not None
    assert mine.rank == 30
    assert sum(map(len, read)) < 12


def test_remembered_rankings_take_no_more_memory_than_they_may(db: Database, clock, monkeypatch) -> None:
    from kernelcup.app.results import places

    monkeypatch.setattr(places, "NEAR", 0)
    make_board(db, devices=["H100", "MI300"])
    judging = Judging(db, clock)
    devices = ("H100", "MI300")
    for number in range(6):
        for device in devices:
            judging.submit(f"user-{number}", devices=[device])
            judging.finish(judging.claim(device), 1000 + 50 * number)

    def sizes(cache: places.Places) -> list[int]:
        monkeypatch.setattr(places, "PLACES", cache)
        found = []
        for device in devices:
            assert [each.rank for each in standings.standings(db, "double", device)] == [1, 2, 3, 4, 5, 6]
            found.append(cache.size_bytes)
        return found

    one, both = sizes(places.Places())
    assert both == 2 * one > 0
    assert sizes(places.Places(most_bytes=both - 1)) == [one, one]


def test_a_result_costs_the_same_however_often_its_text_was_sent(
    sqlite_template: Path, tmp_path: Path, clock
) -> None:
    shutil.copy(sqlite_template, tmp_path / "test.db")
    with Database.open(f"sqlite:///{tmp_path / 'test.db'}") as db:
        make_board(db, devices=["H100", "MI300"])
        judging = Judging(db, clock)
        judging.judge(1000)

        def steps() -> int:
            judging.submit()
            lease = judging.claim()
            return steps_of(db, lambda: judging.finish(lease, 1001))

        before = steps()
        for number in range(60):
            judging.submit(f"user-{number}", devices=["MI300"])
        assert steps() < 1.1 * before
