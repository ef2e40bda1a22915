"""At equal times a result whose time is better proven stands before the others, for each reader of the places."""

from __future__ import annotations

import csv
import io

import pytest

import final_duels
from builders import NOW, make_board, make_report, make_submission
from database_kinds import DATABASES
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.news import stream
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals
from kernelcup.app.results.freezes import freeze
from kernelcup.app.results.queries import runs
from kernelcup.app.results.standings import personal_best, revision, standings, standings_apart
from kernelcup.app.results.table import history
from kernelcup.domain import NOBODY, OPERATOR, NewsKind, Ruling, TrustRule
from kernelcup_harness.protocol import TrustLevel

pytestmark = pytest.mark.parametrize("db_url", DATABASES, indirect=True)

ENTERED = {
    "ada": TrustLevel.SELF_MEASURED,
    "bob": TrustLevel.WALL_CLOCK,
    "cyn": TrustLevel.REPLAYED,
    "dan": TrustLevel.WITNESSED,
    "eve": TrustLevel.WITNESSED,
}
"""All with one time, in the order of their submissions."""
PLACES = ["dan", "eve", "cyn", "bob", "ada"]


@pytest.fixture
def judge(db, clock):
    """Return a function that submits and judges at once, and returns the submission's number."""
    make_board(db)

    def judged(user: str, trust: TrustLevel, time_ns: float = 1000.0) -> int:
        made = make_submission(db, user=user, now=clock(), content=f"# {user}\n".encode())
        lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=clock())
        report = make_report([time_ns], trust=trust)
        lifecycle.finish(db, lease, report=report, harness_hash="", machine="box", now=clock())
        clock.advance(1)
        return made.id

    return judged


@pytest.fixture
def entered(judge):
    """Have everybody's submission judged, and return their numbers."""
    return {user: judge(user, trust) for user, trust in ENTERED.items()}


def users(places) -> list[str]:
    return [each.user for each in places]


def test_the_standings_and_each_page_of_them_have_the_better_proven_first(db, entered) -> None:
    everybody = standings(db, "double", "H100")
    assert users(everybody) == PLACES
    assert {each.rank for each in everybody} == {1}
    pages = [standings(db, "double", "H100", limit=2, offset=at) for at in (0, 2, 4)]
    assert users(each for page in pages for each in page) == PLACES
    assert [personal_best(db, "double", "H100", user) for user in PLACES] == everybody


def test_a_shorter_time_stands_before_a_better_proven_one(db, judge, entered) -> None:
    judge("zoe", TrustLevel.SELF_MEASURED, 999.0)
    assert users(standings(db, "double", "H100"))[:2] == ["zoe", "dan"]


def test_the_frozen_and_the_recomputed_standings_have_the_same_order(db, clock, entered) -> None:
    freeze(db, OPERATOR, "double", clock(), now=clock())
    assert users(standings(db, "double", "H100", viewer=NOBODY)) == PLACES
    with db.write() as session:
        runs.choose_all(session, board_id=1, now=clock())
    assert users(standings(db, "double", "H100")) == PLACES


def test_a_users_best_is_the_better_proven_of_equal_times(db, clock, judge) -> None:
    first = judge("ada", TrustLevel.REPLAYED)
    before = revision(db, "double", "H100")
    second = judge("ada", TrustLevel.WITNESSED)
    judge("ada", TrustLevel.WITNESSED)
    judge("ada", TrustLevel.REPLAYED)
    assert personal_best(db, "double", "H100", "ada").submission_id == second
    assert [each.submission_id for each in history(db, "double", "H100")] == [second, first]
    assert revision(db, "double", "H100") != before
    with db.write() as session:
        runs.choose_all(session, board_id=1, now=clock())
    assert personal_best(db, "double", "H100", "ada").submission_id == second


def test_the_first_by_the_level_is_in_the_news(db, judge) -> None:
    for user, trust in (
        ("cyn", "replayed"),
        ("dan", "witnessed"),
        ("eve", "witnessed"),
        ("cyn", "witnessed"),
    ):
        judge(user, TrustLevel(trust))
    firsts = [each.user for each in stream.items(db, NOBODY) if each.kind is NewsKind.FIRST_PLACE]
    assert sorted(firsts) == ["cyn", "dan"]


def test_an_equal_time_that_is_better_proven_has_to_meet_the_leader(db, judge) -> None:
    update_board(db, OPERATOR, "double", now=NOW, changes=BoardChanges(duel=True))
    judge("cyn", TrustLevel.REPLAYED)
    judge("bob", TrustLevel.WALL_CLOCK)
    judge("dan", TrustLevel.WITNESSED)
    found = [(each.user, each.duel.value) for each in standings(db, "double", "H100")]
    assert found == [("cyn", ""), ("bob", ""), ("dan", "missed")]


def test_the_api_the_existing_client_and_the_table_of_the_page_have_this_order(client, db, entered) -> None:
    page = client.get("/api/v1/leaderboards/double/standings/H100").json()
    assert [each["user"] for each in page["items"]] == PLACES
    popcorn = client.get("/submissions/double/H100").json()
    assert [each["user_name"] for each in popcorn] == PLACES
    table = client.get("/b/double/standings.csv").text
    assert [each["user"] for each in csv.DictReader(io.StringIO(table))] == PLACES
    html = client.get("/b/double").text
    assert sorted(PLACES, key=lambda user: html.index(f"/u/{user}")) == PLACES


def test_results_that_the_leaderboard_does_not_rank_have_this_order(db, entered) -> None:
    update_board(db, OPERATOR, "double", now=NOW, changes=BoardChanges(trust=TrustRule.WITNESSED))
    assert users(standings(db, "double", "H100")) == PLACES[:2]
    assert users(standings_apart(db, "double", "H100", Ruling.LEVEL)) == PLACES[2:]


def test_a_tied_final_keeps_the_order_of_the_standings(db, clock, entered) -> None:
    final_duels.close(db, "double", clock())
    finals.start(db, OPERATOR, "double", now=clock())
    final = final_duels.hold(db, "double", "H100", dict.fromkeys(entered.values(), 1.0), clock())
    assert [(each.place, each.user) for each in final.places] == [(1, user) for user in PLACES]
