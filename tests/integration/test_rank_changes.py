"""Whose rank an update changes: what is said before is what happens, and saying it changes nothing."""

from __future__ import annotations

import pytest

from builders import NOW, make_actor, make_board, make_report, make_submission, make_task
from kernelcup.app.boards import boards
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.rank_changes import rank_changes
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.news import stream
from kernelcup.app.people import audit_log
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.rejudge import rejudge_board
from kernelcup.app.results.standings import count_waiting, standings
from kernelcup.domain import NOBODY, OPERATOR, NewsKind, Role, TrustRule
from kernelcup.errors import Forbidden
from kernelcup_harness.protocol import TrustLevel

REPLAYED = BoardChanges(trust=TrustRule.REPLAYED)


@pytest.fixture
def judged(db, clock):
    """Return a function that submits and judges at once."""
    make_board(db, devices=["H100", "A100"])

    def judge(
        user: str, time_ns: float, *, device: str = "H100", trust: TrustLevel = TrustLevel.REPLAYED
    ) -> None:
        make_submission(db, user=user, devices=[device], now=clock())
        lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=[device], now=clock())
        assert lease is not None
        report = make_report([time_ns], trust=trust)
        lifecycle.finish(db, lease, report=report, harness_hash="", machine="box", now=clock())
        clock.advance(1)

    return judge


def ranks(db, device: str = "H100") -> dict[str, int]:
    return {place.user: place.rank for place in standings(db, "double", device)}


def moves(db, **wanted) -> list[tuple[str, int | None, int | None]]:
    found = rank_changes(db, OPERATOR, "double", now=NOW, **wanted)
    return [(each.user, each.old_rank, each.new_rank) for device in found for each in device.moves]


def test_users_without_a_place_since_the_task_changed_are_counted_and_told_until_judged_again(
    db, judged, clock
) -> None:
    judged("ada", 2000)
    judged("bob", 3000)
    judged("eve", 1000, device="A100")
    assert count_waiting(db, "double", "H100") == 0
    update_board(db, OPERATOR, "double", task=make_task(tests=[{"size": 32, "seed": 1}]), now=clock())
    judged("bob", 2500)
    assert (ranks(db), count_waiting(db, "double", "H100")) == ({"bob": 1}, 1)
    told = [(item.kind, item.text) for item in stream.items(db, make_actor(db, "ada"))]
    lost = "Your result in double on H100 lost its rank when the leaderboard was changed."
    assert (NewsKind.RANK_LOST, lost) in told
    assert NewsKind.RANK_LOST not in [item.kind for item in stream.items(db, NOBODY)]
    rejudge_board(db, OPERATOR, "double", device="H100", now=clock())
    while lease := lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=clock()):
        lifecycle.finish(db, lease, report=make_report([2000]), harness_hash="", machine="box", now=clock())
    assert (set(ranks(db)), count_waiting(db, "double", "H100")) == ({"ada", "bob"}, 0)
    assert count_waiting(db, "double", "A100") == 1


def test_who_keeps_a_place_under_other_rules_is_told_nothing(db, judged, clock) -> None:
    judged("ada", 2000)
    update_board(db, OPERATOR, "double", changes=REPLAYED, now=clock())
    assert NewsKind.RANK_LOST not in [item.kind for item in stream.items(db, make_actor(db, "ada"))]


def test_a_stricter_rule_names_those_who_leave_and_those_who_move(db, judged) -> None:
    judged("eve", 1000, trust=TrustLevel.SELF_MEASURED)
    judged("ada", 2000, trust=TrustLevel.SELF_MEASURED)
    judged("bob", 3000)
    judged("ada", 4000)
    judged("cyn", 5000)
    assert ranks(db) == {"eve": 1, "ada": 2, "bob": 3, "cyn": 4}
    (found,) = rank_changes(db, OPERATOR, "double", now=NOW, changes=REPLAYED)
    assert (found.device, found.entries, found.leaving, found.changing) == ("H100", 4, 1, 3)
    told = [(each.user, each.old_rank, each.new_rank) for each in found.moves]
    assert told == [("eve", 1, None), ("bob", 3, 1), ("cyn", 4, 3)]
    assert [round(each.score_s * 1e9) for each in found.moves] == [1000, 3000, 5000]
    update_board(db, OPERATOR, "double", changes=REPLAYED, now=NOW)
    assert ranks(db) == {"bob": 1, "ada": 2, "cyn": 3}
    assert moves(db, changes=BoardChanges(trust=TrustRule.ANY)) == [
        ("bob", 1, 3),
        ("cyn", 3, 4),
        ("eve", None, 1),
    ]


def test_looking_changes_nothing(db, judged) -> None:
    judged("eve", 1000, trust=TrustLevel.SELF_MEASURED)
    before = boards.get_board(db, "double"), ranks(db), audit_log.entries(db, OPERATOR)
    assert moves(db, changes=REPLAYED) == [("eve", 1, None)]
    assert (boards.get_board(db, "double"), ranks(db), audit_log.entries(db, OPERATOR)) == before


def test_of_a_long_list_the_first_are_named_and_all_are_counted(db, judged) -> None:
    for number in range(4):
        judged(f"user{number}", 1000 + 100 * number, trust=TrustLevel.SELF_MEASURED)
    (found,) = rank_changes(db, OPERATOR, "double", now=NOW, changes=REPLAYED, most=2)
    assert ([each.user for each in found.moves], found.changing) == (["user0", "user1"], 4)


def test_a_device_that_goes_takes_its_ranking_along(db, judged) -> None:
    judged("ada", 1000)
    judged("bob", 1000, device="A100")
    (found,) = rank_changes(db, OPERATOR, "double", now=NOW, changes=BoardChanges(devices=["H100"]))
    assert (found.device, found.leaving) == ("A100", 1)


def test_a_new_task_empties_the_ranking_and_the_task_of_before_fills_it_again(db, judged) -> None:
    before = boards.get_task(db, "double")
    judged("ada", 1000)
    task = make_task(benchmarks=[{"size": 4096, "seed": 3}])
    assert moves(db, task=task) == [("ada", 1, None)]
    update_board(db, OPERATOR, "double", task=task, now=NOW)
    assert moves(db, task=before) == [("ada", None, 1)]
    assert moves(db, changes=BoardChanges(pseudonymous=True)) == []


def test_strangers_are_told_nothing(db, judged) -> None:
    with pytest.raises(Forbidden):
        rank_changes(db, make_actor(db, "eve", role=Role.CREATOR), "double", now=NOW, changes=REPLAYED)
