from __future__ import annotations

import pytest

from builders import NOW, make_board, make_case, make_report, make_stage, make_submission, make_task
from kernelcup import errors
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.freezes import freeze
from kernelcup.app.results.leader import beside
from kernelcup.app.results.reviews import quarantine
from kernelcup.app.results.standings import personal_best, standings, standings_apart
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, Ruling, TrustRule
from kernelcup.reporting.insights import Best
from kernelcup_harness.protocol import Backend, Mode, RunReport, Timing, TrustLevel, Verdict


@pytest.fixture
def board(db):
    return make_board(db, devices=["H100", "A100"])


@pytest.fixture
def judged(db, clock, board):
    """Return a function that submits and judges at once."""

    def judge(time_ns: float = 1000.0, *, device: str = "H100", report=None, **overrides):
        submission = make_submission(db, **({"devices": [device], "now": clock()} | overrides))
        lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=[device], now=clock())
        found = report or make_report([time_ns])
        lifecycle.finish(db, lease, report=found, harness_hash="", machine="box", now=clock())
        clock.advance(1)
        return submission

    return judge


def ranking(db, device: str = "H100") -> list[tuple[int, str, float]]:
    return [(place.rank, place.user, round(place.score_s * 1e9)) for place in standings(db, "double", device)]


def test_standings_show_the_best_of_each_user(db, judged) -> None:
    judged(3000, user="ada")
    judged(1000, user="ada")
    judged(2000, user="ada")
    judged(1500, user="bob")
    assert ranking(db) == [(1, "ada", 1000), (2, "bob", 1500)]


def test_each_device_has_a_ranking_of_its_own(db, judged) -> None:
    judged(1000, user="ada")
    judged(500, user="bob", device="A100")
    assert ranking(db) == [(1, "ada", 1000)]
    assert ranking(db, "a100") == [(1, "bob", 500)]


def test_an_equal_score_does_not_replace_the_earlier_submission(db, judged) -> None:
    first = judged(1000)
    judged(1000)
    assert personal_best(db, "double", "h100", "ADA").submission_id == first.id


def test_a_personal_best_has_the_rank_of_the_standings(db, judged) -> None:
    for user, time_ns in {"ada": 2000, "bob": 1000, "cyn": 2000, "dan": 3000}.items():
        judged(time_ns, user=user)
    everybody = standings(db, "double", "H100")
    assert [place.rank for place in everybody] == [1, 2, 2, 4]
    assert [personal_best(db, "double", "H100", place.user) for place in everybody] == everybody
    assert standings(db, "double", "H100", limit=2) == everybody[:2]
    assert personal_best(db, "double", "H100", "nobody") is None


def spread(time_ns: float, share: float = 0.01):
    """Return a ranked run whose samples scatter."""
    samples = [time_ns * (1 + share * ((number % 5) - 2)) for number in range(20)]
    return make_report(stages=[make_stage([make_case(timing=Timing(samples_ns=samples))])])


def test_who_cannot_be_told_apart_shares_a_rank_on_every_page(db, judged) -> None:
    for number in range(9):
        judged(report=spread(1000 * 1.004**number), user=f"user-{number}")
    everybody = standings(db, "double", "H100")
    ranks = [place.rank for place in everybody]
    assert len(set(ranks)) > 1
    assert all(place.tied == (ranks.count(place.rank) > 1) for place in everybody)
    for offset in range(9):
        for limit in (1, 2, 5):
            page = standings(db, "double", "H100", limit=limit, offset=offset)
            assert page == everybody[offset : offset + limit]
    assert [personal_best(db, "double", "H100", place.user) for place in everybody] == everybody


def test_a_standing_has_its_interval_and_what_the_clock_read(db, judged) -> None:
    timing = Timing(samples_ns=[1000.0, 1010.0] * 10, offset_ns=200.0)
    judged(report=make_report(stages=[make_stage([make_case(timing=timing)])]))
    (place,) = standings(db, "double", "H100")
    assert place.score.low_s is not None
    assert place.score.high_s is not None
    assert place.score.low_s < place.score_s < place.score.high_s
    assert place.score_s == pytest.approx(805e-9)
    assert place.score.raw_s == pytest.approx(1005e-9)
    assert not place.tied


def test_a_freeze_keeps_bands(db, clock, judged) -> None:
    judged(report=spread(1000), user="ada")
    judged(report=spread(1004), user="bob")
    freeze(db, OPERATOR, "double", clock(), now=clock())
    clock.advance(1)
    judged(500, user="bob")
    seen = [(place.user, place.rank, place.tied) for place in standings(db, "double", "H100", viewer=NOBODY)]
    assert seen == [("ada", 1, True), ("bob", 1, True)]
    live = [(place.user, place.rank) for place in standings(db, "double", "H100")]
    assert live == [("bob", 1), ("ada", 2)]


def test_where_only_replayed_times_rank_others_are_kept_and_shown(db, judged) -> None:
    change(db, trust=TrustRule.REPLAYED)
    judged(report=make_report([3000]), user="ada")
    judged(report=make_report([2000]), user="bob")
    best = judged(report=make_report([1000], trust=TrustLevel.WALL_CLOCK), user="ada")
    assert ranking(db) == [(1, "bob", 2000), (2, "ada", 3000)]
    view = show_submission(db, best.id)
    assert view.jobs[0].counted.score_s == pytest.approx(1e-6)
    assert beside(db, view).jobs[0].remark == (
        "Not ranked: this leaderboard ranks replayed times only, and this one is by the wall clock."
    )


def test_where_only_witnessed_times_rank_replayed_ones_are_kept_and_shown(db, judged) -> None:
    change(db, trust=TrustRule.WITNESSED)
    judged(report=make_report([3000], trust=TrustLevel.WITNESSED), user="ada")
    best = judged(report=make_report([1000], trust=TrustLevel.REPLAYED), user="bob")
    assert ranking(db) == [(1, "ada", 3000)]
    assert unranked(db) == [(1, "bob", 1000)]
    view = show_submission(db, best.id)
    assert beside(db, view).jobs[0].remark == (
        "Not ranked: this leaderboard ranks witnessed times only, and this one is replayed."
    )


def test_witnessed_and_replayed_times_rank_together_where_replayed_ones_do(db, judged) -> None:
    change(db, trust=TrustRule.REPLAYED)
    judged(report=make_report([3000], trust=TrustLevel.WITNESSED), user="ada")
    judged(report=make_report([2000], trust=TrustLevel.REPLAYED), user="bob")
    assert ranking(db) == [(1, "bob", 2000), (2, "ada", 3000)]


def wall(time_ns: float) -> RunReport:
    return make_report([time_ns], trust=TrustLevel.WALL_CLOCK)


def unranked(db, why=Ruling.LEVEL, **options) -> list[tuple[int, str, int]]:
    found = standings_apart(db, "double", "H100", why, **options)
    return [(each.rank, each.user, round(each.score_s * 1e9)) for each in found]


def test_where_only_replayed_times_rank_the_best_of_each_other_user_is_listed(db, clock, judged) -> None:
    change(db, trust=TrustRule.REPLAYED)
    judged(report=make_report([3000]), user="ada")
    for user, time_ns in (("ada", 1000), ("bob", 2500), ("bob", 2000), ("cyn", 2200)):
        judged(report=wall(time_ns), user=user)
    judged(report=wall(900), user="dan", device="A100")
    hidden = judged(report=wall(800), user="eve", content=b"# of her own\n")
    (view,) = show_submission(db, hidden.id).jobs
    quarantine(db, OPERATOR, view.id, reason="looks odd", now=clock())
    assert ranking(db) == [(1, "ada", 3000)]
    assert unranked(db) == [(1, "ada", 1000), (2, "bob", 2000), (3, "cyn", 2200)]
    assert unranked(db, limit=1) == [(1, "ada", 1000)]
    freeze(db, OPERATOR, "double", clock(), now=clock())
    assert unranked(db, viewer=NOBODY) == []
    change(db, trust=TrustRule.ANY)
    assert unranked(db) == []


def test_what_ranks_is_found_anew_when_the_rule_changes(db, judged) -> None:
    judged(report=make_report([3000]), user="ada")
    judged(report=make_report([1000], trust=TrustLevel.SELF_MEASURED), user="ada")
    judged(report=make_report([2000], trust=TrustLevel.SELF_MEASURED), user="bob")
    judged(report=make_report([1500], trust=TrustLevel.SELF_MEASURED), user="bob", device="A100")
    assert ranking(db) == [(1, "ada", 1000), (2, "bob", 2000)]
    change(db, trust=TrustRule.REPLAYED)
    assert ranking(db) == [(1, "ada", 3000)]
    assert ranking(db, "A100") == []
    change(db, trust=TrustRule.ANY)
    assert ranking(db) == [(1, "ada", 1000), (2, "bob", 2000)]
    assert ranking(db, "A100") == [(1, "bob", 1500)]


def change(db, **changes) -> None:
    update_board(db, OPERATOR, "double", changes=BoardChanges(**changes), now=NOW)


def test_a_result_is_shown_beside_the_best_of_each_public_case(db, judged) -> None:
    first = judged(report=make_report([1000, 3000]), user="ada")
    second = judged(report=make_report([2000, 3300]), user="bob")
    view = show_submission(db, second.id)
    best = beside(db, view).jobs[0].best
    assert best == Best(submission=first.id, score_s=pytest.approx(3e-6), cases_ns={0: 1000.0, 1: 3000.0})


def test_times_of_another_task_version_are_not_compared(db, judged) -> None:
    judged(report=make_report([1000]), user="ada")
    task = make_task(description="Another one.")
    update_board(db, OPERATOR, "double", task=task, now=NOW)
    second = judged(report=make_report([2000]), user="bob")
    view = show_submission(db, second.id)
    best = beside(db, view).jobs[0].best
    assert best is not None
    assert (best.score_s, best.cases_ns) == (pytest.approx(1e-6), {})


def test_only_accepted_runs_are_ranked(db, judged) -> None:
    judged(report=make_report(verdict=Verdict.WRONG_ANSWER))
    judged(report=make_report(mode=Mode.BENCHMARK, stages=[]), mode=Mode.BENCHMARK)
    assert ranking(db) == []
    assert personal_best(db, "double", "H100", "ada") is None


def test_a_standing_says_how_far_it_can_be_trusted(db, judged) -> None:
    judged(report=make_report(backend=Backend.EMULATED, comparable=False))
    (place,) = standings(db, "double", "H100")
    assert (place.trust, place.comparable, place.file_name) == ("witnessed", False, "kernel.py")
    assert (place.ranked_by, place.time_s) == ("correctness", None)


def test_when_the_best_is_deleted_the_next_best_stands(db, judged) -> None:
    judged(2000)
    judged(3000)
    best = judged(1000)
    delete_submission(db, best.id, by=actor_of(db, "Ada"), now=NOW)
    assert ranking(db) == [(1, "ada", 2000)]


def test_only_the_author_and_the_operator_touch_a_submission(db, judged) -> None:
    submission = judged(user="ada")
    with pytest.raises(errors.Forbidden):
        get_code(db, submission.id, viewer=actor_of(db, "bob"))
    with pytest.raises(errors.Forbidden):
        delete_submission(db, submission.id, by=actor_of(db, "bob"), now=NOW)
    assert get_code(db, submission.id, viewer=actor_of(db, "ADA")) == get_code(db, submission.id)


def test_hidden_cases_are_shown_to_the_creator_and_not_to_others(db, judged) -> None:
    cases = [make_case(), make_case(index=1, hidden=True, parameters={"size": 31337})]
    submission = judged(report=make_report(stages=[make_stage(cases)]))

    def sizes(name: str | None) -> list[int | None]:
        (view,) = show_submission(db, submission.id, viewer=actor_of(db, name) if name else OPERATOR).jobs
        return [case.parameters.get("size") for case in view.counted.report.stages[0].cases]

    assert sizes("grace") == sizes(None) == [1024, 31337]
    assert sizes("ada") == [1024, None]
