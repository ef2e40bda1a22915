"""What the API and the existing client's addresses tell of times that a leaderboard does not rank."""

from __future__ import annotations

from test_popcorn_older_clocks import enter

from builders import NOW, make_wall_report
from kernelcup.domain import OPERATOR, TrustRule
from kernelcup.services.boards.changes import BoardChanges, update_board


def wall_clock(client, person, db, board, finish) -> None:
    """Let only replayed times rank, and have one by the wall clock and a replayed one judged."""
    update_board(db, OPERATOR, board.name, now=NOW, changes=BoardChanges(trust=TrustRule.REPLAYED))
    enter(client, person, lambda: finish(make_wall_report()), "ada")
    enter(client, person, finish, "bob")


def test_times_by_the_wall_clock_follow_the_ranking_without_a_rank(client, person, db, board, finish) -> None:
    wall_clock(client, person, db, board, finish)
    found = client.get("/submissions/double/H100").json()
    assert [(each["rank"], each["user_name"], each.get("note")) for each in found] == [
        (1, "bob", None),
        (None, "ada", "by the wall clock; not ranked: this leaderboard ranks replayed times only"),
    ]


def test_the_api_has_times_by_the_wall_clock_apart(client, person, db, board, finish) -> None:
    wall_clock(client, person, db, board, finish)
    page = client.get("/api/v1/leaderboards/double/standings/H100").json()
    assert [each["user"] for each in page["items"]] == ["bob"]
    assert [(each["user"], each["trust"]) for each in page["unranked"]] == [("ada", "wall clock")]
