"""Finals: duels of a closed leaderboard's best, and the official order that is stored."""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import final_duels
from builders import make_actor, make_board, make_report, make_task
from fakes import FakeClock, FakeLauncher, work_off
from final_duels import duel_of, pair_of
from hand_judging import Judging
from kernelcup.app.boards.late_exceptions import grant_late
from kernelcup.app.news import stream
from kernelcup.app.people.queries import audit_log
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.attempt import Attempt
from kernelcup.app.results import finals
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.app.results.standings import standings
from kernelcup.app.rules import limits
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission, delete_submission
from kernelcup.domain import (
    NOBODY,
    OPERATOR,
    Actor,
    Compared,
    Device,
    Final,
    NewsKind,
    Role,
    Scope,
    Submission,
)
from kernelcup.engine.database import Database
from kernelcup.errors import (
    Conflict,
    DeviceNeeded,
    Forbidden,
    InvalidValue,
    LeaderboardOpen,
    NotFound,
    UnknownDevice,
)
from kernelcup_harness.protocol import Backend, DuelResult, Mode, TrustLevel, Verdict

CLOSES_IN = timedelta(hours=1)
OWN = Device(name="H100", backend=Backend.CUDA)


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    make_board(db, deadline=clock() + CLOSES_IN)
    return Judging(db, clock)


def enter(judging: Judging, *times_ns: float) -> list[Submission]:
    """Have users submit, each with a code of their own, and let the deadline pass."""
    users = ("ada", "bob", "cyn", "dan", "eve")
    made = [
        judging.judge(time_ns, user, content=f"# {user}\n".encode())
        for user, time_ns in zip(users, times_ns, strict=False)
    ]
    judging.clock.advance(CLOSES_IN.total_seconds() + 1)
    return made


def start(judging: Judging, **options) -> Final:
    values = {"actor": actor_of(judging.db, "grace"), "board": "double", "now": judging.clock()} | options
    return finals.start(judging.db, **values)


def shown(judging: Judging, **options) -> Final:
    found = finals.show(judging.db, "double", **({"now": judging.clock()} | options))
    assert found is not None
    return found


def hold(judging: Judging, true_ns: dict[int, float]) -> Final:
    judging.clock.advance(1)
    return final_duels.hold(judging.db, "double", "H100", true_ns, judging.clock())


def order(final: Final) -> list[tuple[int, str]]:
    return [(each.place, each.user) for each in final.places]


def test_the_official_order_follows_from_duels(judging) -> None:
    ada, bob, cyn = enter(judging, 1000, 1010, 1020)
    begun = start(judging)
    assert (begun.ended_at, begun.places, begun.entries) == (None, [], 3)
    assert pair_of(judging.db, begun.waiting) == (ada.id, bob.id)
    done = hold(judging, {ada.id: 1030, bob.id: 1010, cyn.id: 1020})
    assert order(done) == [(1, "bob"), (2, "cyn"), (3, "ada")]
    assert [each.rank for each in done.places] == [2, 3, 1]
    assert done.ended_at == judging.clock()
    assert judging.ranking() == [("ada", 1000), ("bob", 1010), ("cyn", 1020)]  # as before
    assert {each.by for each in done.meetings} == {Compared.DUEL}
    assert [(each.first, each.second, each.faster) for each in done.meetings] == [
        (ada.id, bob.id, bob.id),
        (ada.id, cyn.id, cyn.id),
        (bob.id, cyn.id, bob.id),
    ]


def told(judging: Judging) -> list[str]:
    """The news of official orders, as anybody reads them."""
    return [item.text for item in stream.items(judging.db, NOBODY) if item.kind is NewsKind.OFFICIAL]


def test_the_official_order_is_news(judging) -> None:
    ada, bob = enter(judging, 1000, 1010)
    start(judging)
    assert told(judging) == []
    hold(judging, {ada.id: 1030, bob.id: 1010})
    assert told(judging) == ["The official order of double on H100 is published: bob is first."]
    start(judging, again=True)
    hold(judging, {ada.id: 1000, bob.id: 1000})
    assert told(judging)[1:] == [
        "The official order of double on H100 is published: ada shares the first place."
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("1/day", {"mode_group": "practice", "per_user": False}),
        pytest.param("1 gpu-seconds/day", {"device": "H100"}, marks=pytest.mark.jobs),
    ],
)
def test_duels_of_finals_count_against_no_limit(judging, text, options) -> None:
    ada, bob, cyn = enter(judging, 1000, 1010, 1020)
    judging.clock.advance(timedelta(days=9).total_seconds())
    grace = actor_of(judging.db, "grace")
    limits.add_limit(judging.db, grace, text=text, board="double", now=judging.clock(), **options)
    begun = start(judging)
    used = [used_by(judging, grace)]
    hold(judging, {ada.id: 1030, bob.id: 1010, cyn.id: 1020})
    used.append(used_by(judging, grace))
    delete_submission(judging.db, begun.waiting, by=OPERATOR, now=judging.clock())
    assert [*used, used_by(judging, grace)] == [0, 0, 0]


def used_by(judging: Judging, actor: Actor) -> float:
    """What counts against the actor's one limit."""
    (left,) = limits.budget(judging.db, actor, board="double", device="H100", now=judging.clock())
    return left.used


def test_entries_that_cannot_be_told_apart_share_a_place(judging) -> None:
    ada, bob, cyn = enter(judging, 1000, 1010, 1020)
    start(judging)
    done = hold(judging, {ada.id: 1000, bob.id: 1001, cyn.id: 1020})
    assert [(each.place, each.tied) for each in done.places] == [(1, True), (1, True), (3, False)]
    assert [each.faster for each in done.meetings] == [None, bob.id]


def test_each_duel_has_its_part_of_the_error_and_the_hidden_cases(db, clock) -> None:
    hidden = [{"size": 77, "seed": 3}]
    task = make_task(hidden_tests=hidden, hidden_benchmarks=hidden)
    make_board(db, task=task, deadline=clock() + CLOSES_IN)
    judging = Judging(db, clock)
    enter(judging, 1000, 1010, 1020, 1030)
    start(judging)
    launcher = FakeLauncher(make_report([1000], duel=duel_of(0.9)))
    lease = judging.claim()
    options = {"tell": lambda _: None, "clock": clock, "max_attempts": 1}
    work_off(Attempt(db, lease, device=OWN, launcher=launcher, **options), launcher)
    (spec,) = launcher.specs
    assert (spec.mode, spec.submission.code, spec.rival.code) == (Mode.LEADERBOARD, "# ada\n", "# bob\n")
    assert spec.rival_error == pytest.approx(finals.ERROR / 6)
    assert spec.hidden_benchmarks == hidden
    assert pair_of(judging.db, shown(judging).waiting) == (2, 3)


def test_the_top_and_results_that_share_its_last_rank_take_part(judging) -> None:
    enter(judging, 1000, 1010, 1010, 1020, 1030)
    assert start(judging, top=2).entries == 3


def test_a_final_is_only_what_is_stored(judging) -> None:
    """A new process, and a duel whose machine was lost, change nothing."""
    ada, bob, cyn = enter(judging, 1000, 1010, 1020)
    start(judging)
    lease = judging.claim()
    judging.clock.advance(3600)
    assert lifecycle.reclaim(judging.db, now=judging.clock(), gone=lambda _: False) == [lease.job.id]
    assert shown(judging).waiting == lease.job.submission_id
    again = Judging(judging.db, judging.clock)
    assert len(order(hold(again, {ada.id: 1000, bob.id: 1010, cyn.id: 1020}))) == 3


def test_of_two_that_begin_a_final_at_once_one_begins_it(judging) -> None:
    enter(judging, 1000, 1010)
    with ThreadPoolExecutor(4) as pool:
        begun = [pool.submit(start, judging) for _ in range(4)]
    assert [type(each.exception()) for each in begun].count(Conflict) == 3
    (made,) = [each.result().id for each in begun if each.exception() is None]
    assert made == shown(judging).id


@pytest.mark.parametrize("again", [False, True])
def test_a_second_final_is_refused_while_one_is_under_way(judging, again) -> None:
    enter(judging, 1000, 1010)
    begun = start(judging)
    with pytest.raises(Conflict, match="holds its final on H100 since") as refused:
        start(judging, again=again)
    assert refused.value.__notes__ == ["kernelcup board final double --gpu H100   (shows how far it is)"]
    assert shown(judging) == begun


def test_another_final_has_to_be_asked_for(judging) -> None:
    ada, bob = enter(judging, 1000, 1010)
    start(judging)
    hold(judging, {ada.id: 1000, bob.id: 1010})
    with pytest.raises(Conflict, match="has had its final on H100") as refused:
        start(judging)
    assert refused.value.__notes__ == [
        "kernelcup board final double --gpu H100 --again   (holds another one)"
    ]
    start(judging, again=True)
    assert shown(judging).places == []
    assert order(hold(judging, {ada.id: 1020, bob.id: 1010})) == [(1, "bob"), (2, "ada")]


def test_a_duel_that_was_deleted_is_held_again_when_the_final_is_begun_again(judging) -> None:
    ada, bob = enter(judging, 1000, 1010)
    lost = start(judging).waiting
    delete_submission(judging.db, lost, by=OPERATOR, now=judging.clock())
    assert shown(judging).waiting is None
    assert start(judging).waiting not in (None, lost)
    assert order(hold(judging, {ada.id: 1000, bob.id: 1010})) == [(1, "ada"), (2, "bob")]


@pytest.mark.jobs
def test_submissions_that_are_deleted_while_duels_end_do_not_disturb_the_final(judging) -> None:
    made = enter(judging, 1000, 1010, 1020, 1030, 1040)
    start(judging)

    def delete() -> None:
        for each in made[1:4]:
            delete_submission(judging.db, each.id, by=OPERATOR, now=judging.clock())

    def judge() -> None:
        while (lease := judging.claim()) is not None:
            judging.finish(lease, report=make_report(duel=duel_of(0.9)))

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(delete), pool.submit(judge)]:
            each.result()
    judge()
    done = shown(judging)
    assert (done.ended_at, done.waiting) == (judging.clock(), None)
    assert [user for _, user in order(done) if user] == ["ada", "eve"]


# ---- what cannot be measured in turns


def finish(judging: Judging, **overrides) -> None:
    judging.clock.advance(1)
    judging.finish(judging.claim(), **overrides)


def test_a_rival_that_fails_is_placed_by_the_ranked_times(judging) -> None:
    ada, bob = enter(judging, 1000, 1100)
    start(judging)
    failed = DuelResult(verdict="", rival_message="a secret case failed")
    finish(judging, report=make_report([1000.0], duel=failed))
    done = shown(judging)
    assert order(done) == [(1, "ada"), (2, "bob")]
    (meeting,) = done.meetings
    assert (meeting.by, meeting.faster) == (Compared.INTERVALS, ada.id)
    assert meeting.why == f"#{bob.id} could not be measured in their duel"
    assert meeting.ratio == pytest.approx(1000 / 1100)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (make_report(verdict=Verdict.WRONG_ANSWER, stages=[]), '#1 ended with "wrong answer" in their duel'),
        (make_report(), '#1 ended with "accepted" in their duel'),
        (
            make_report(duel=DuelResult(low=0.0, high=math.inf)),
            "their duel gave no times that can be compared",
        ),
    ],
)
def test_a_duel_without_times_is_said_to_decide_nothing(judging, report, why) -> None:
    enter(judging, 1000, 1100)
    start(judging)
    finish(judging, report=report)
    (meeting,) = shown(judging).meetings
    assert (meeting.by, meeting.why) == (Compared.INTERVALS, why)


def test_a_cancelled_duel_does_not_stop_the_final(judging) -> None:
    enter(judging, 1000, 1100)
    cancel_submission(judging.db, start(judging).waiting, by=OPERATOR, now=judging.clock())
    assert shown(judging).meetings[0].why == "their duel was cancelled"
    assert order(shown(judging)) == [(1, "ada"), (2, "bob")]


def by_wall(judging: Judging, user: str, time_ns: float) -> Submission:
    made = judging.submit(user)
    report = make_report([time_ns], trust=TrustLevel.WALL_CLOCK)
    judging.finish(judging.claim(), report=report)
    return made


def test_calls_by_the_wall_clock_have_no_duel(judging) -> None:
    wall = by_wall(judging, "zoe", 1500)
    ada, bob = enter(judging, 1000, 1010)
    start(judging)
    done = hold(judging, {ada.id: 1000, bob.id: 1010})
    assert order(done) == [(1, "ada"), (2, "bob"), (3, "zoe")]
    assert [each.by for each in done.meetings] == [Compared.DUEL, Compared.INTERVALS]
    assert done.meetings[1].why == (
        f"#{wall.id} cannot be measured in turns with another: its calls go by the wall clock"
    )


def test_a_final_without_duels_ends_at_once(judging) -> None:
    by_wall(judging, "zoe", 1500)
    enter(judging, 1000)
    assert order(start(judging)) == [(1, "ada"), (2, "zoe")]


def test_a_submission_that_was_deleted_leaves_the_final(judging) -> None:
    ada, bob, cyn = enter(judging, 1000, 1010, 1020)
    start(judging)
    delete_submission(judging.db, bob.id, by=OPERATOR, now=judging.clock())
    assert hold_one_that_is_gone(judging)
    assert order(hold(judging, {ada.id: 1000, cyn.id: 1020})) == [(1, "ada"), (2, "cyn")]


def hold_one_that_is_gone(judging: Judging) -> bool:
    """Have a dispatcher find that a rival was deleted; return whether the final goes on."""
    lease = judging.claim()
    options = {"tell": lambda _: None, "clock": judging.clock, "max_attempts": 1}
    launcher = FakeLauncher()
    work_off(Attempt(judging.db, lease, device=OWN, launcher=launcher, **options), launcher)
    return shown(judging).waiting not in (None, lease.job.submission_id)


def test_the_order_outlives_a_submission_but_not_its_users_name(judging) -> None:
    ada, bob = enter(judging, 1000, 1010)
    start(judging)
    hold(judging, {ada.id: 1000, bob.id: 1010})
    delete_submission(judging.db, ada.id, by=OPERATOR, now=judging.clock())
    assert order(shown(judging)) == [(1, ""), (2, "bob")]


# ---- who may, and when


def test_a_leaderboard_that_is_open_has_no_final(judging) -> None:
    judging.judge(1000, "ada")
    judging.judge(1010, "bob")
    with pytest.raises(LeaderboardOpen, match="closes at") as refused:
        start(judging)
    assert refused.value.code == "leaderboard_open"


def test_a_leaderboard_without_a_deadline_has_no_final(judging, db) -> None:
    make_board(db, name="endless")
    with pytest.raises(LeaderboardOpen, match="has no deadline"):
        start(judging, board="endless")


def test_a_final_comes_after_the_last_late_exception(judging) -> None:
    enter(judging, 1000, 1010)
    until = judging.clock() + timedelta(hours=1)
    grant_late(judging.db, OPERATOR, "double", "ada", until, now=judging.clock())
    with pytest.raises(LeaderboardOpen, match="late submissions until"):
        start(judging)


def test_a_final_waits_for_the_last_ranked_submission(judging) -> None:
    judging.judge(1000, "ada")
    judging.judge(1010, "bob")
    judging.submit("cyn")
    enter(judging)
    with pytest.raises(Conflict, match="1 ranked submission is still being judged on H100"):
        start(judging)


def test_a_final_needs_two(judging) -> None:
    enter(judging, 1000)
    with pytest.raises(InvalidValue, match="at least two"):
        start(judging)


def test_how_many_take_part_is_bounded(judging) -> None:
    for top in (1, 31):
        with pytest.raises(InvalidValue, match="expected 2 to 30"):
            start(judging, top=top)


def test_a_final_needs_a_device_that_the_leaderboard_has(judging, db) -> None:
    make_board(db, name="two", devices=["H100", "MI300"])
    with pytest.raises(DeviceNeeded):
        start(judging, board="two")
    with pytest.raises(UnknownDevice):
        start(judging, device="L4")


def test_only_managers_begin_a_final(judging) -> None:
    enter(judging, 1000, 1010)
    with pytest.raises(Forbidden):
        start(judging, actor=actor_of(judging.db, "ada"))
    with pytest.raises(Forbidden):
        start(judging, actor=make_actor(judging.db, "other", Role.CREATOR))
    assert start(judging, actor=OPERATOR).started_by == "operator"
    with judging.db.read() as session:
        entries = audit_log.page(
            session, target="board:double", action="board.final", before_id=None, limit=9, of_creator=None
        )
    assert [each.detail for each in entries] == [{"device": "H100", "submissions": [1, 2]}]


def test_a_duel_belongs_to_the_creator_and_shows_others_nothing(judging) -> None:
    enter(judging, 1000, 1010)
    waiting = start(judging, actor=OPERATOR).waiting
    view = show_submission(judging.db, waiting)
    assert (view.user, view.client) == ("grace", "final")
    assert view.file_name == "final-1-2.py"
    with pytest.raises((Forbidden, NotFound)):
        get_code(judging.db, waiting, viewer=actor_of(judging.db, "bob"))
    assert [place.user for place in standings(judging.db, "double", "H100")] == ["ada", "bob"]


def test_a_freeze_hides_the_official_order_until_it_is_unveiled(judging) -> None:
    ada, bob = judging.judge(1000, "ada"), judging.judge(1010, "bob")
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    enter(judging)
    grace = actor_of(judging.db, "grace")
    narrow = dataclasses.replace(grace, scopes=frozenset({Scope.READ, Scope.MANAGE}))
    assert start(judging, actor=narrow).waiting is not None
    assert finals.show(judging.db, "double", viewer=actor_of(judging.db, "ada"), now=judging.clock()) is None
    assert shown(judging, viewer=grace).waiting is not None
    hold(judging, {ada.id: 1000, bob.id: 1020})
    assert told(judging) == []
    unveil(judging.db, OPERATOR, "double", now=judging.clock())
    assert told(judging) == ["The official order of double on H100 is published: ada is first."]


def test_a_pseudonymous_leaderboard_shows_no_names_in_the_official_order(db, clock) -> None:
    make_board(db, deadline=clock() + CLOSES_IN, pseudonymous=True)
    judging = Judging(db, clock)
    ada, bob = enter(judging, 1000, 1010)
    start(judging)
    hold(judging, {ada.id: 1000, bob.id: 1010})
    seen = shown(judging, viewer=actor_of(db, "bob"))
    assert order(seen) == [(1, f"participant {ada.id}"), (2, "bob")]
