"""The table of points of an event, and that anyone can compute it again."""

from __future__ import annotations

import io
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import NOW, make_actor, make_board, make_case, make_report, make_stage, make_task
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.events import events
from kernelcup.app.events.points import PointsTable, points
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.results import freezes
from kernelcup.domain import NOBODY, OPERATOR, RankingBy, Role, Visibility
from kernelcup.domain.events import PointsBy, Ties
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound

SCRIPT = Path(__file__).parents[2] / "docs" / "how-to" / "event" / "points.py"


@pytest.fixture
def cup(db, clock) -> Judging:
    """An event of two leaderboards, the second of which counts twice."""
    make_event(db)
    for name, weight in (("double", 1.0), ("triple", 2.0)):
        make_board(db, name=name, event="spring", event_weight=weight)
    return Judging(db, clock)


def make_event(db, **settings: Any) -> None:
    events.create_event(
        db, make_actor(db, "grace", Role.CREATOR), "spring", EventChanges(**settings), now=NOW
    )


def rule(db, **settings: Any) -> None:
    events.update_event(db, OPERATOR, "spring", EventChanges(**settings), now=NOW)


def told(table: PointsTable) -> list[tuple[int, str, float]]:
    return [(row.place, row.user, row.total) for row in table.rows]


def table_of(db, clock, viewer=NOBODY) -> PointsTable:
    return points(db, viewer, "Spring", now=clock())


@pytest.fixture
def again(client, monkeypatch) -> Callable[[], dict[str, float]]:
    """Returns the sums that the script of the documentation finds as a guest."""
    monkeypatch.setattr(sys, "argv", ["points.py", "", "spring"])
    monkeypatch.setattr("urllib.request.urlopen", lambda url: io.BytesIO(client.get(url).content))

    def run() -> dict[str, float]:
        found: dict[str, float] = runpy.run_path(str(SCRIPT))["totals"]
        return found

    return run


def test_points_of_places_are_summed_with_weights(db, clock, cup, again) -> None:
    cup.judge(1000, "ada", board="double")
    cup.judge(2000, "bob", board="double")
    cup.judge(3000, "ada", board="triple")
    cup.judge(1000, "bob", board="triple")
    cup.judge(9000, "cyn", board="triple")
    assert told(table_of(db, clock)) == [(1, "bob", 68.0), (2, "ada", 61.0), (3, "cyn", 30.0)]
    assert again() == {"bob": 68.0, "ada": 61.0, "cyn": 30.0}


def test_a_script_of_fifty_lines_finds_the_same_sums(db, clock, cup, again) -> None:
    for user, ns in (("ada", 1000), ("bob", 1001), ("cyn", 3000)):
        timed = [make_case(ns * (1 + at), index=at, floor_ns=500.0, reference_ns=4000.0) for at in range(2)]
        cup.submit(user, board="double")
        cup.finish(cup.claim(), report=make_report([], stages=[make_stage(timed)]))
        cup.judge(ns, user, board="triple")
    assert len(SCRIPT.read_text().splitlines()) <= 50
    for by in PointsBy:
        rule(db, points_by=by)
        rows = table_of(db, clock).rows
        assert again() == {row.user: row.total for row in rows}, by
        assert all(row.total > 0 for row in rows)


def test_a_ratio_to_the_floor_is_the_geometric_mean_over_the_cases(db, clock) -> None:
    judging = Judging(db, clock)
    make_event(db, points_by=PointsBy.FLOOR, full_points=1000.0)
    make_board(db, event="spring", task=make_task(ranking_by=RankingBy.MEAN))
    timed = [make_case(1000, index=0, floor_ns=500.0), make_case(1000, index=1, floor_ns=20.0)]
    judging.submit("ada")
    judging.finish(judging.claim(), report=make_report([], stages=[make_stage(timed)]))
    assert told(table_of(db, clock)) == [(1, "ada", 100.0)]  # sqrt(0.5 x 0.02) = 0.1; a ratio of sums is 0.26


def test_kernels_that_cannot_be_told_apart_get_equal_points(db, clock, cup) -> None:
    for user, ns in (("ada", 1000.0), ("bob", 1000.0), ("cyn", 4000.0)):
        cup.judge(ns, user, board="double")
    for by, last in ((PointsBy.PLACE, 15.0), (PointsBy.LEADER, 25.0)):
        rule(db, points_by=by)
        rows = table_of(db, clock).rows
        assert [(row.place, row.total) for row in rows[:2]] == [(1, rows[0].total)] * 2
        assert rows[2].total == last


def test_the_rule_for_ties_decides_between_equal_sums(db, clock, cup) -> None:
    update_board(db, OPERATOR, "triple", changes=BoardChanges(event_weight=1.0), now=NOW)
    rule(db, place_points="10,5,5")
    for board, order in (("double", ("ada", "bob", "cyn")), ("triple", ("bob", "cyn", "ada"))):
        for at, user in enumerate(order):
            cup.judge(1000 * (at + 1), user, board=board)
    assert told(table_of(db, clock)) == [(1, "ada", 15.0), (1, "bob", 15.0), (3, "cyn", 10.0)]
    rule(db, ties=Ties.PLACES)
    assert told(table_of(db, clock)) == [(1, "bob", 15.0), (2, "ada", 15.0), (3, "cyn", 10.0)]


def test_a_guest_sees_the_points_of_the_freeze_and_the_organiser_the_live_ones(
    db, clock, cup, client, again
) -> None:
    cup.judge(2000, "ada", board="double")
    freezes.freeze(db, OPERATOR, "double", now=clock())
    clock.advance(1)
    cup.judge(1000, "bob", board="double")
    assert told(table_of(db, clock)) == [(1, "ada", 25.0)]
    assert again() == {"ada": 25.0}
    assert "As of the freeze" in client.get("/e/spring").text
    grace = make_actor(db, "grace", Role.CREATOR)
    assert told(table_of(db, clock, grace)) == [(1, "bob", 25.0), (2, "ada", 18.0)]
    freezes.unveil(db, OPERATOR, "double", now=clock())
    assert told(table_of(db, clock)) == [(1, "bob", 25.0), (2, "ada", 18.0)]


def test_a_pseudonym_is_not_summed_with_an_account_of_its_name(db, clock, cup) -> None:
    cup.judge(1000, "ada", board="double")
    update_board(db, OPERATOR, "triple", changes=BoardChanges(pseudonymous=True), now=NOW)
    cup.judge(1000, "bob", board="triple")
    names = [row.user for row in table_of(db, clock).rows]
    assert len(names) == 2
    assert "bob" not in names


def test_a_closed_board_gives_points_to_those_who_see_it(db, clock, cup) -> None:
    update_board(db, OPERATOR, "double", changes=BoardChanges(visibility=Visibility.CLOSED), now=NOW)
    cup.judge(1000, "ada", board="triple")
    assert [column.leaderboard for column in table_of(db, clock).columns] == ["triple"]
    assert len(table_of(db, clock, OPERATOR).columns) == 2


def test_an_event_is_made_changed_and_deleted_by_its_creator_alone(db, clock) -> None:
    grace, eve = make_actor(db, "grace", Role.CREATOR), make_actor(db, "eve", Role.CREATOR)
    events.create_event(db, grace, "spring", EventChanges(text="Hello, $x^2$."), now=NOW)
    make_board(db, creator=grace)
    with pytest.raises(Conflict):
        events.create_event(db, eve, "SPRING", now=NOW)
    with pytest.raises(Forbidden, match="managed by grace"):
        events.update_event(db, eve, "spring", EventChanges(title="Mine"), now=NOW)
    with pytest.raises(Forbidden, match="ask them to add"):
        make_board(db, name="other", creator=eve, event="spring")
    with pytest.raises(InvalidValue, match="none larger than the one before"):
        events.update_event(db, grace, "spring", EventChanges(place_points="1,2"), now=NOW)
    assert events.add_board(db, grace, "spring", "double", weight=3.0, now=NOW).event_weight == 3.0
    assert events.update_event(db, grace, "spring", EventChanges(title="Spring"), now=NOW).title == "Spring"
    with pytest.raises(InvalidValue, match="Nothing was deleted"):
        events.delete_event(db, grace, "spring", confirm="", now=NOW)
    events.delete_event(db, grace, "spring", confirm="spring", now=NOW)
    with pytest.raises(NotFound):
        events.show_event(db, grace, "spring")


def test_the_page_shows_the_text_with_mathematics_and_the_prizes(db, client, cup) -> None:
    rule(db, title="Spring cup", text="Be *fast*: $x^2$", prizes=["An H100"])
    cup.judge(1000, "ada", board="double")
    page = client.get("/e/spring").text
    assert "<h1>Spring cup</h1>" in page
    assert "<em>fast</em>" in page
    assert "<math" in page
    assert "An H100" in page
