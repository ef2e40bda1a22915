"""Who takes the first place where that needs a duel, and comparisons that somebody asks for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete

from builders import make_actor, make_board, make_case, make_report, make_stage, make_task, make_wall_report
from fakes import FakeClock, FakeLauncher, work_off
from hand_judging import Judging
from kernelcup.app.boards.boards import delete_board, get_board
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.rank_changes import rank_changes
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue.attempt import Attempt
from kernelcup.app.results import comparisons, duels, places, reviews
from kernelcup.app.results.freezes import freeze
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.results.standings import personal_best, standings
from kernelcup.app.results.table import history
from kernelcup.app.rules import limits
from kernelcup.app.submissions.queries import submissions
from kernelcup.app.submissions.submissions import list_views, show_submission
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR, Device, DuelOutcome, JobState, Role
from kernelcup.engine.database import Database
from kernelcup.errors import (
    Forbidden,
    InvalidValue,
    NotFound,
    RateLimited,
    SignInNeeded,
    UnknownDevice,
)
from kernelcup.reporting.phrases import duel_remark, remark
from kernelcup.tables import BestRow
from kernelcup_harness.protocol import (
    Backend,
    DuelResult,
    Mismatch,
    Mode,
    Timing,
    Verdict,
)

FASTER = DuelResult(ratio=0.97, low=0.96, high=0.98, verdict="faster", blocks=20)
TIED = DuelResult(ratio=1.0, low=0.99, high=1.01, verdict="tied", blocks=20)
SLOWER = DuelResult(ratio=1.03, low=1.02, high=1.04, verdict="slower", blocks=20)
MISMATCH = Mismatch(where="output", wrong=77, total=77, largest_error=None, first=[], rule="!=")
NOT_HELD = DuelResult(verdict="not_held", rival_message="the rival: its calls wait for the device")
FAILED = DuelResult(verdict="", rival_message="it was wrong")
SPOILT = DuelResult(verdict="failed", rival_message="in turns the submission's answers are wrong")
OWN = Device(name="H100", backend=Backend.CUDA)


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    make_board(db, duel=True)
    return Judging(db, clock)


def rival_of(judging: Judging, lease) -> int | None:
    """Return whom a dispatcher would have the job measured against."""
    submission = show_submission(judging.db, lease.job.submission_id)
    with judging.db.read() as session:
        found = duels.find_rival(session, lease.job, submission, get_board(judging.db, "double"))
    return None if found is None else found.submission_id


def enter(judging: Judging, time_ns: float, user: str, duel: DuelResult | None = None, **overrides):
    """Submit and judge, against whom the board wants it to meet."""
    submission = judging.submit(user)
    lease = judging.claim()
    rival = rival_of(judging, lease)
    judging.clock.advance(1)
    values = {"report": make_report([time_ns], duel=duel), "rival": rival} | overrides
    run = judging.finish(lease, **values)
    return submission, run


def ranking(judging: Judging) -> list[tuple[int, str, int, str]]:
    return [
        (place.rank, place.user, round(place.score_s * 1e9), place.duel.value)
        for place in standings(judging.db, "double", "H100")
    ]


def test_who_wins_the_duel_is_first(judging) -> None:
    first, _ = enter(judging, 1000, "ada")
    _, run = enter(judging, 970, "bob", FASTER)
    assert (run.duel, run.rival) == (DuelOutcome.WON, first.id)
    assert ranking(judging) == [(1, "bob", 970, "won"), (2, "ada", 1000, "")]


def test_a_tied_result_shares_the_rank_of_the_leader(judging) -> None:
    enter(judging, 1000, "ada")
    enter(judging, 1001, "cyn")
    submission, run = enter(judging, 900, "bob", TIED)
    assert run.rank_s == pytest.approx(1e-6)
    assert ranking(judging) == [(1, "ada", 1000, ""), (1, "bob", 900, "tied"), (3, "cyn", 1001, "")]
    assert personal_best(judging.db, "double", "H100", "bob").submission_id == submission.id


@pytest.mark.parametrize(("duel", "outcome"), [(SLOWER, "lost"), (SPOILT, "failed")])
def test_a_slower_or_failing_result_ranks_directly_below_the_leader(judging, duel, outcome) -> None:
    enter(judging, 1000, "ada")
    enter(judging, 1050, "cyn")
    submission, run = enter(judging, 900, "bob", duel)
    assert run.rank_s == pytest.approx(1e-6 * duel.ratio)
    assert ranking(judging) == [(1, "ada", 1000, ""), (2, "bob", 900, outcome), (3, "cyn", 1050, "")]
    assert personal_best(judging.db, "double", "H100", "bob").submission_id == submission.id


def test_an_older_submission_that_is_judged_again_does_not_pass_without_a_duel(judging) -> None:
    old, _ = enter(judging, 1100, "bob")
    enter(judging, 1000, "ada", FASTER)
    rejudge_submission(judging.db, OPERATOR, old.id, now=judging.clock())
    lease = judging.claim()
    judging.finish(lease, report=make_report([900], duel=TIED), rival=rival_of(judging, lease))
    assert [each[1] for each in ranking(judging)] == ["ada", "bob"]


def test_a_result_below_the_leader_stays_there_when_the_ranking_is_long(judging, monkeypatch) -> None:
    monkeypatch.setattr(places, "NEAR", 0)
    enter(judging, 1000, "ada")
    enter(judging, 900, "bob", SLOWER)
    assert [each[:2] for each in ranking(judging)] == [(1, "ada"), (2, "bob")]


def test_a_leader_that_fails_in_turns_blocks_no_challenger(judging) -> None:
    enter(judging, 1000, "ada")
    enter(judging, 900, "bob", FAILED)
    assert ranking(judging) == [(1, "bob", 900, "unanswered"), (2, "ada", 1000, "")]


def timed(time_ns: float, *, by_wall: bool = True, **values):
    """A report whose duel could not be held."""
    return (
        make_wall_report(time_ns, duel=NOT_HELD, **values)
        if by_wall
        else make_report([time_ns], duel=NOT_HELD)
    )


@pytest.mark.parametrize("leads_by_wall", [True, False])
def test_a_duel_that_was_not_held_is_decided_by_intervals(judging, leads_by_wall) -> None:
    first, _ = enter(judging, 0, "ada", report=timed(3.6e6, by_wall=leads_by_wall))
    _, run = enter(judging, 0, "bob", report=timed(2.88e6, by_wall=not leads_by_wall))
    assert (run.duel, run.rank_s, run.rival) == (DuelOutcome.INTERVALS, None, first.id)
    assert [each[1:] for each in ranking(judging)] == [
        ("bob", 2_880_000, "intervals"),
        ("ada", 3_600_000, ""),
    ]
    assert f"takes the place of #{first.id}" in duel_remark(run.duel, run.rival)


ONE_SAMPLE = make_report(stages=[make_stage([make_case(timing=Timing(samples_ns=[2.88e6]))])], duel=NOT_HELD)


@pytest.mark.parametrize("report", [timed(3.25e6), ONE_SAMPLE], ids=["they overlap", "one has none"])
def test_a_duel_that_was_not_held_leaves_a_result_behind_unless_intervals_tell(judging, report) -> None:
    enter(judging, 0, "ada", report=timed(3.6e6, by_wall=False))
    enter(judging, 0, "bob", report=report)
    assert [each[1::2] for each in ranking(judging)] == [("ada", ""), ("bob", "missed")]


def test_who_would_not_be_first_needs_to_win_nothing(judging) -> None:
    enter(judging, 1000, "ada")
    _, run = enter(judging, 1100, "bob", SLOWER)
    assert (run.duel, run.rank_s) == (DuelOutcome.NONE, None)


def test_the_first_improves_without_a_duel(judging) -> None:
    enter(judging, 1000, "ada")
    submission = judging.submit("ada")
    lease = judging.claim()
    assert rival_of(judging, lease) is None
    judging.finish(lease, 900)
    assert personal_best(judging.db, "double", "H100", "ada").submission_id == submission.id


def test_a_result_that_met_an_earlier_leader_goes_by_the_intervals_of_its_time_and_the_leaders(
    judging,
) -> None:
    first, _ = enter(judging, 1000, "ada")
    judging.submit("bob")
    lease = judging.claim()
    enter(judging, 950, "cyn", FASTER)
    judging.finish(lease, report=make_report([900], duel=FASTER), rival=first.id)
    assert ranking(judging) == [(1, "bob", 900, "intervals"), (2, "cyn", 950, "won"), (3, "ada", 1000, "")]


def judge_again(judging: Judging, submission, time_ns: float, duel: DuelResult | None = None) -> None:
    rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    lease = judging.claim()
    judging.clock.advance(1)
    judging.finish(lease, report=make_report([time_ns], duel=duel), rival=rival_of(judging, lease))


def test_who_stands_behind_the_first_follows_when_that_is_judged_again(judging) -> None:
    """Else a change that makes all times half as long leaves them behind everybody."""
    ada, _ = enter(judging, 1000, "ada")
    cyn, _ = enter(judging, 1050, "cyn", SLOWER)
    bob, _ = enter(judging, 1100, "bob", SLOWER)
    dan, _ = enter(judging, 1400, "dan", SLOWER)
    judge_again(judging, bob, 550, SLOWER)
    judge_again(judging, cyn, 525, SLOWER)
    assert ranking(judging)[:3] == [(1, "ada", 1000, ""), (2, "cyn", 525, "lost"), (2, "bob", 550, "lost")]
    judge_again(judging, ada, 500)
    judge_again(judging, dan, 700, SLOWER)
    assert ranking(judging) == [
        (1, "ada", 500, ""),
        (2, "cyn", 525, ""),
        (3, "bob", 550, ""),
        (4, "dan", 700, ""),
    ]
    judge_again(judging, ada, 540)
    assert ranking(judging)[:3] == [(1, "ada", 540, ""), (2, "cyn", 525, "lost"), (2, "bob", 550, "lost")]


def test_a_result_that_lost_to_one_that_is_deleted_does_not_pass_the_one_that_won(judging) -> None:
    """Otherwise two who know each other could pass: one loses, the other goes."""
    ada, _ = enter(judging, 1000, "ada")
    bob, _ = enter(judging, 900, "bob", SLOWER)
    enter(judging, 950, "cyn", FASTER)
    delete_submission(judging.db, ada.id, by=OPERATOR, now=judging.clock())
    assert ranking(judging) == [(1, "cyn", 950, "won"), (2, "bob", 900, "lost")]
    assert (
        told(judging, bob) == f"It ranks below #{ada.id}, which was first: measured in turns, it is slower."
    )


def test_who_stands_behind_one_that_is_put_aside_does_so_again_when_that_is_released(judging) -> None:
    root = make_actor(judging.db, "root", Role.ADMIN)
    ada, _ = enter(judging, 1000, "ada")
    enter(judging, 900, "bob", SLOWER)
    (job,) = show_submission(judging.db, ada.id).jobs
    review = reviews.quarantine(judging.db, root, job.id, reason="looks odd", now=judging.clock())
    assert ranking(judging) == [(1, "bob", 900, "")]
    reviews.decide(
        judging.db, root, review.id, decision=reviews.RELEASED, note="looked at", now=judging.clock()
    )
    assert ranking(judging) == [(1, "ada", 1000, ""), (2, "bob", 900, "lost")]


@pytest.mark.jobs
def test_those_behind_one_that_stands_behind_another_come_after_both(judging) -> None:
    ada, _ = enter(judging, 1000, "ada")
    enter(judging, 900, "bob", SLOWER)
    with judging.db.write() as session:
        session.execute(delete(BestRow).where(BestRow.user_id != actor_of(judging.db, "bob").user_id))
    enter(judging, 800, "cyn", TIED)  # while bob was the only one
    judge_again(judging, ada, 1100)
    assert [each[1:] for each in ranking(judging)] == [
        ("ada", 1100, ""),
        ("bob", 900, "lost"),
        ("cyn", 800, "tied"),
    ]


def test_a_leaderboard_that_asks_for_no_duels_any_more_ranks_by_what_was_measured(judging) -> None:
    enter(judging, 1000, "ada")
    submission, _ = enter(judging, 900, "bob", SLOWER)

    def change(duel: bool) -> None:
        update_board(judging.db, OPERATOR, "double", now=judging.clock(), changes=BoardChanges(duel=duel))

    change(False)
    enter(judging, 950, "cyn")
    assert ranking(judging) == [(1, "bob", 900, ""), (2, "cyn", 950, ""), (3, "ada", 1000, "")]
    assert told(judging, submission) == ""
    wanted = BoardChanges(duel=True)
    (changed,) = rank_changes(judging.db, OPERATOR, "double", now=judging.clock(), changes=wanted)
    assert [(each.user, each.old_rank, each.new_rank) for each in changed.moves] == [
        ("bob", 1, 3),
        ("cyn", 2, 1),
        ("ada", 3, 2),
    ]
    change(True)
    assert ranking(judging) == [(1, "cyn", 950, ""), (2, "ada", 1000, ""), (3, "bob", 900, "lost")]
    assert told(judging, submission) == "It ranks below #1, which was first: measured in turns, it is slower."


def told(judging: Judging, submission) -> str:
    """Return the remark on a submission's only result."""
    (view,) = show_submission(judging.db, submission.id).jobs
    return remark(view, get_board(judging.db, "double"))


def test_other_modes_and_boards_ask_for_no_duel(judging) -> None:
    enter(judging, 1000, "ada")
    judging.submit("bob", mode=Mode.BENCHMARK)
    assert rival_of(judging, judging.claim()) is None
    make_board(judging.db, name="plain")
    judging.submit("bob", board="plain")
    lease = judging.claim()
    submission = show_submission(judging.db, lease.job.submission_id)
    with judging.db.read() as session:
        board = get_board(judging.db, "plain")
        assert duels.find_rival(session, lease.job, submission, board) is None


def attempt(judging: Judging, launcher: FakeLauncher, *, max_attempts: int = 1) -> None:
    """Have the next job done as a dispatcher does it."""
    work = Attempt(
        judging.db,
        judging.claim(),
        device=OWN,
        launcher=launcher,
        tell=lambda _: None,
        clock=judging.clock,
        max_attempts=max_attempts,
    )
    work_off(work, launcher)


def test_an_attempt_carries_the_code_of_who_is_first(judging) -> None:
    enter(judging, 1000, "ada")
    judging.submit("bob", content=b"custom_kernel = 1\n")
    launcher = FakeLauncher(make_report([900], duel=FASTER))
    attempt(judging, launcher)
    (spec,) = launcher.specs
    assert spec.submission.code == "custom_kernel = 1\n"
    assert spec.rival.code == judging_code(judging, 1)
    assert ranking(judging)[0][1:] == ("bob", 900, "won")


def judging_code(judging: Judging, submission_id: int) -> str:
    from kernelcup.app.submissions.submissions import get_code

    return get_code(judging.db, submission_id).code


# ---- comparisons


@pytest.fixture
def pair(judging: Judging):
    """Return two submissions by ada."""
    return enter(judging, 1000, "ada")[0], judging.submit("ada", mode=Mode.TEST, content=b"x = 1\n")


def start(judging: Judging, first, second, who: str = "ada", **options):
    actor = make_actor(judging.db, who) if who == "eve" else actor_of(judging.db, who)
    return comparisons.start(judging.db, actor, first.id, second.id, now=judging.clock(), **options)


def test_a_comparison_is_measured_like_a_ranked_run_and_ranks_nowhere(judging, pair) -> None:
    first, second = pair
    made = start(judging, first, second)
    assert (made.first, made.second, made.device, made.state) == (
        first.id,
        second.id,
        "H100",
        JobState.QUEUED,
    )
    before = ranking(judging)
    judging.finish(judging.claim())  # the test comes first
    launcher = FakeLauncher(make_report([100], duel=FASTER))
    attempt(judging, launcher)
    (spec,) = launcher.specs
    assert (spec.mode, spec.submission.code, spec.rival.code) == (
        Mode.LEADERBOARD,
        judging_code(judging, first.id),
        "x = 1\n",
    )
    done = comparisons.show(judging.db, made.id, viewer=actor_of(judging.db, "ada"))
    assert (done.state, done.verdict, done.duel) == (JobState.DONE, Verdict.ACCEPTED, FASTER)
    assert done.sentence.startswith(f"#{first.id} is 3.1 % faster than #{second.id}")
    assert ranking(judging) == before


def test_two_of_ones_own_may_be_compared_and_any_by_managers(judging, pair) -> None:
    first, second = pair
    root = make_actor(judging.db, "root", Role.ADMIN)
    assert comparisons.start(judging.db, root, first.id, second.id, now=judging.clock()).id
    other = judging.submit("bob")
    with pytest.raises(Forbidden, match="another user"):
        start(judging, first, other)
    with pytest.raises(Forbidden):
        start(judging, first, second, "eve")
    with pytest.raises(SignInNeeded):
        comparisons.start(judging.db, OPERATOR, first.id, second.id, now=judging.clock())


@pytest.fixture
def rivals(judging: Judging):
    """Return the results of ada, who is first, and bob."""
    return judging.judge(1000, "ada", content=b"adas = 1\n"), judging.judge(
        1100, "bob", content=b"bobs = 1\n"
    )


def test_whoever_has_a_place_may_compare_their_own_with_any_result_that_ranks(judging, rivals) -> None:
    adas, bobs = rivals
    before = ranking(judging)
    for pair in ((bobs, adas), (adas, bobs)):
        made = start(judging, *pair, "bob")
        assert (made.first, made.second) == (bobs.id, adas.id)
        assert judging_code(judging, made.id) == "bobs = 1\n"
        launcher = FakeLauncher(make_report([1100], duel=SLOWER))
        attempt(judging, launcher)
        (spec,) = launcher.specs
        assert (spec.submission.code, spec.rival.code) == ("bobs = 1\n", "adas = 1\n")
        done = comparisons.show(judging.db, made.id, viewer=actor_of(judging.db, "bob"))
        assert done.sentence.startswith(f"#{adas.id} is 3.0 % faster than #{bobs.id}")
        (case,) = done.cases
        assert (case.first_ns, case.second_ns) == (pytest.approx(1100), pytest.approx(1000))
    assert ranking(judging) == before


def test_only_ranked_users_compare_and_only_results_that_rank(judging, rivals) -> None:
    adas, bobs = rivals
    practice = judging.submit("ada", mode=Mode.TEST)
    judging.finish(judging.claim())
    worse = judging.judge(1200, "ada", content=b"worse = 1\n")
    unranked = judging.submit("eve", mode=Mode.TEST)
    judging.finish(judging.claim())
    for pair, who, told in (
        ((bobs, practice), "bob", "is not ranked"),
        ((bobs, worse), "bob", "has no place"),
        ((unranked, adas), "eve", "You have no place"),
        ((adas, bobs), "eve", "one of the two has to be yours"),
    ):
        with pytest.raises(Forbidden, match=told):
            start(judging, *pair, who)
    lifted = judging.judge(900, "ada", content=b"lifted = 1\n")
    reviews.quarantine(
        judging.db, OPERATOR, judging.job(lifted).id, reason="too fast", evidence={}, now=judging.clock()
    )
    with pytest.raises(Forbidden, match="has no place"):
        start(judging, bobs, lifted, "bob")


def test_a_frozen_leaderboard_compares_with_nothing_from_after_its_freeze(judging, rivals) -> None:
    adas, bobs = rivals
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    late = judging.judge(900, "ada", content=b"late = 1\n")
    with pytest.raises(Forbidden, match="has no place"):
        start(judging, bobs, late, "bob")
    assert start(judging, bobs, adas, "bob").second == adas.id


def test_comparisons_with_rivals_count_as_practice(judging, rivals) -> None:
    limits.add_limit(
        judging.db, OPERATOR, text="1/hour", board="double", mode_group="practice", now=judging.clock()
    )
    start(judging, *rivals, "bob")
    with pytest.raises(RateLimited):
        start(judging, *rivals, "bob")


def test_what_cannot_be_compared_is_refused(judging, pair) -> None:
    first, second = pair
    make_board(judging.db, name="other")
    elsewhere = judging.submit("ada", board="other")
    with pytest.raises(InvalidValue, match="different leaderboards"):
        start(judging, first, elsewhere)
    with pytest.raises(InvalidValue, match="with itself"):
        start(judging, first, first)
    with pytest.raises(UnknownDevice):
        start(judging, first, second, device="MI300")
    with pytest.raises(NotFound):
        comparisons.start(judging.db, actor_of(judging.db, "ada"), first.id, 99, now=judging.clock())


def test_a_comparison_is_seen_by_who_asked_and_managers(judging, pair) -> None:
    made = start(judging, *pair)
    with pytest.raises(Forbidden):
        comparisons.show(judging.db, made.id, viewer=make_actor(judging.db, "bob"))
    assert comparisons.show(judging.db, made.id, viewer=OPERATOR).id == made.id
    with pytest.raises(NotFound):
        comparisons.show(judging.db, pair[0].id, viewer=OPERATOR)


# ---- what is told to whom


def hers(judging: Judging, submission, who: str):
    """Return the run of a submission as somebody sees it."""
    return show_submission(judging.db, submission.id, viewer=actor_of(judging.db, who)).jobs[0].counted


def test_why_somebody_elses_code_failed_in_a_duel_is_told_to_managers_only(judging) -> None:
    enter(judging, 1000, "ada")
    submission, _ = enter(judging, 900, "bob", FAILED)
    assert "wrong" not in hers(judging, submission, "bob").report.duel.rival_message
    assert show_submission(judging.db, submission.id).jobs[0].counted.report.duel == FAILED


def test_why_ones_own_code_failed_in_a_comparison_is_told(judging, pair) -> None:
    made = start(judging, *pair)
    judging.finish(judging.claim())
    attempt(judging, FakeLauncher(make_report([100], duel=FAILED)))
    done = comparisons.show(judging.db, made.id, viewer=actor_of(judging.db, "ada"))
    assert done.duel == FAILED
    assert done.sentence == f"#{pair[1].id} could not be measured: it was wrong."


@pytest.fixture
def veiled(judging: Judging):
    """A leaderboard that froze with ada first; then cyn came first, and bob's duel was lost to her."""
    enter(judging, 1000, "ada")
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    enter(judging, 950, "cyn", FASTER)
    return enter(judging, 900, "bob", SLOWER)[0]


def test_a_frozen_leaderboard_does_not_tell_who_was_met_in_a_duel(judging, veiled) -> None:
    run = hers(judging, veiled, "bob")
    assert (run.score_s, run.duel, run.rival, run.rank_s) == (
        pytest.approx(9e-7),
        DuelOutcome.NONE,
        None,
        None,
    )
    assert run.report.duel is None
    (listed,) = list_views(judging.db, viewer=actor_of(judging.db, "bob"), user="bob")
    assert (listed.jobs[0].counted.duel, listed.jobs[0].counted.rival) == (DuelOutcome.NONE, None)
    assert show_submission(judging.db, veiled.id).jobs[0].counted.duel is DuelOutcome.LOST


def test_ones_own_place_on_a_frozen_leaderboard_does_not_tell_of_a_duel(judging, veiled) -> None:
    bob = actor_of(judging.db, "bob")
    assert personal_best(judging.db, "double", "H100", "bob", viewer=bob) is None
    assert personal_best(judging.db, "double", "H100", "bob").duel is DuelOutcome.LOST


def test_what_was_told_of_a_duel_before_the_freeze_stays(judging) -> None:
    enter(judging, 1000, "ada")
    submission, _ = enter(judging, 900, "bob", SLOWER)
    judging.clock.advance(1)
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    enter(judging, 2000, "cyn")
    bob = actor_of(judging.db, "bob")
    assert hers(judging, submission, "bob").duel is DuelOutcome.LOST
    mine = personal_best(judging.db, "double", "H100", "bob", viewer=bob)
    assert (mine.rank, mine.duel) == (2, DuelOutcome.LOST)


def test_what_becomes_of_the_first_after_the_freeze_is_not_told_by_who_stands_behind(judging) -> None:
    ada, _ = enter(judging, 1000, "ada")
    submission, _ = enter(judging, 900, "bob", SLOWER)
    judging.clock.advance(1)
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judge_again(judging, ada, 950)
    assert show_submission(judging.db, submission.id).jobs[0].counted.rank_s == pytest.approx(
        9.5e-7 * SLOWER.ratio
    )
    assert hers(judging, submission, "bob").rank_s == pytest.approx(1e-6 * SLOWER.ratio)
    (listed,) = list_views(judging.db, viewer=actor_of(judging.db, "bob"), user="bob")
    assert listed.jobs[0].counted.rank_s == pytest.approx(1e-6 * SLOWER.ratio)
    judge_again(judging, ada, 850)  # slower than that by now, which would tell as much
    assert hers(judging, submission, "bob").rank_s == pytest.approx(1e-6 * SLOWER.ratio)


def test_the_history_tells_what_was_measured_not_the_time_of_who_won_the_duel(judging, veiled) -> None:
    told = history(judging.db, "double", "H100", viewer=actor_of(judging.db, "bob"), user="bob")
    assert [each.score_s for each in told] == [pytest.approx(9e-7)]


# ---- comparisons and what else happens


def test_a_comparison_measures_no_hidden_cases(db: Database, clock: FakeClock) -> None:
    """Else it would try the hidden cases with any code, by the limits of practice."""
    hidden = [{"size": 77, "seed": 3}]
    make_board(db, task=make_task(hidden_tests=hidden, hidden_benchmarks=hidden))
    judging = Judging(db, clock)
    first, second = judging.judge(), judging.judge(content=b"x = 1\n")
    start(judging, first, second)
    launcher = FakeLauncher(make_report([100], duel=FASTER))
    attempt(judging, launcher)
    (spec,) = launcher.specs
    assert (spec.hidden_tests, spec.hidden_benchmarks, spec.hidden_work) == ([], [], [])
    assert spec.benchmarks


def test_a_comparison_with_a_submission_that_was_deleted_is_cancelled_at_once(judging, pair) -> None:
    first, second = pair
    made = start(judging, first, second)
    delete_submission(judging.db, second.id, by=OPERATOR, now=judging.clock())
    launcher = FakeLauncher()
    attempt(judging, launcher, max_attempts=3)
    assert launcher.specs == []
    view = show_submission(judging.db, made.id)
    assert view.jobs[0].state is JobState.CANCELLED
    assert "was deleted" in view.jobs[0].reason
    done = comparisons.show(judging.db, made.id, viewer=OPERATOR)
    assert (done.second, done.verdict, done.sentence) == (None, None, "")


@pytest.mark.jobs
def test_a_submission_that_is_deleted_meanwhile_is_not_compared(judging, pair) -> None:
    """Whoever asks waits until somebody else's transaction for the same user has ended."""
    first, second = pair
    ada = actor_of(judging.db, "ada")
    with ThreadPoolExecutor(1) as pool:
        with judging.db.write() as session:
            submissions.find_author(session, ada.user_id, lock=True)
            asked = pool.submit(start, judging, first, second)
            with pytest.raises(TimeoutError):
                asked.result(timeout=0.3)
            submissions.delete_submission(session, second.id)
        with pytest.raises(NotFound):
            asked.result()


def test_a_leaderboard_with_comparisons_can_be_deleted(judging, pair) -> None:
    made = start(judging, *pair)
    delete_board(judging.db, "double", confirm="double", now=judging.clock())
    with pytest.raises(NotFound):
        comparisons.show(judging.db, made.id, viewer=OPERATOR)


@pytest.mark.parametrize("ranked", [True, False])
def test_a_comparison_without_a_duel_goes_by_the_intervals_of_stored_scores(judging, ranked) -> None:
    first = judging.submit("ada", mode=Mode.LEADERBOARD)
    judging.finish(judging.claim(), report=make_wall_report(2.88e6))
    second = judging.submit("ada", mode=Mode.LEADERBOARD, content=b"x = 1\n")
    report = make_wall_report(3.6e6) if ranked else make_report(verdict=Verdict.WRONG_ANSWER)
    judging.finish(judging.claim(), report=report)
    made = start(judging, first, second)
    judging.finish(judging.claim(), report=timed(2.88e6))
    found = comparisons.show(judging.db, made.id, viewer=actor_of(judging.db, "ada"))
    if ranked:
        assert f"by their times, #{first.id} is 25.0 % faster than #{second.id}" in found.sentence
    else:
        assert f"#{first.id} and #{second.id} could not be compared" in found.sentence
