"""Results that wait for a person."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from builders import look_at, make_actor, make_audit, make_board, make_case, make_report, make_stage
from hand_judging import Judging
from kernelcup.app.boards.boards import get_board
from kernelcup.app.boards.queries import boards
from kernelcup.app.people import audit_log
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results import reviews
from kernelcup.app.results.leader import beside
from kernelcup.app.results.overview import improvements
from kernelcup.app.results.rejudge import rejudge_board, rejudge_submission
from kernelcup.app.results.table import history
from kernelcup.app.submissions import events
from kernelcup.app.submissions.queries import submissions
from kernelcup.app.submissions.review_evidence import figures
from kernelcup.app.submissions.submissions import (
    list_views,
    screening_of,
    show_submission,
)
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, Job, JobState, Role
from kernelcup.engine import Session
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound, SignInNeeded, StaleLease
from kernelcup.reporting.phrases import remark
from kernelcup.tables import LeaderboardRow
from kernelcup_harness.protocol import (
    Finding,
    Mode,
    RunReport,
    Timing,
    Verdict,
)
from kernelcup_kernelbot.popcorn.failures import failure

FLAGGED = b"import torch\n\n\ndef custom_kernel(data):\n    torch.cuda.Stream()\n    return data * 2\n"


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def quarantine(judging: Judging, submission, actor=OPERATOR, **options):
    values = {"reason": "too good", "evidence": {"factor": 9}, "now": judging.clock()}
    return reviews.quarantine(judging.db, actor, judging.job(submission).id, **(values | options))


def decide(judging: Judging, review, decision: str, actor=OPERATOR, **options):
    return reviews.decide(
        judging.db,
        actor,
        review.id,
        decision=decision,
        now=judging.clock(),
        **{"note": "looked at", **options},
    )


def review_tags_of(judging: Judging, submission) -> list[str]:
    """Have the leaderboard ask for reviews of what the screen finds in this submission."""
    screening = screening_of(judging.db, submission.id) or look_at(judging.db, submission)
    tags = sorted({finding.tag for finding in screening.findings})
    with judging.db.write() as session:
        session.execute(update(LeaderboardRow).values(review_tags=" ".join(tags)))
    return tags


def test_a_quarantined_result_is_out_of_the_ranking_and_kept(judging) -> None:
    submission = judging.judge(1000)
    judging.judge(2000, "bob")
    review = quarantine(judging, submission)
    assert judging.ranking() == [("bob", 2000)]
    assert judging.job(submission).state is JobState.QUARANTINED
    assert judging.run(submission).score_s == pytest.approx(1e-6)
    assert show_submission(judging.db, submission.id).ended
    assert (review.user, review.device, review.leaderboard) == ("ada", "H100", "double")
    assert (review.reason, review.opened_by) == ("too good", "operator")
    assert review.evidence == {"factor": 9, **figures(judging.run(submission).report)}
    assert [each["samples_ns"] for each in review.evidence["cases"]] == [[1000.0] * 10]
    assert (review.submission_id, review.decision) == (submission.id, None)


def suspicious(*codes: str, hidden: bool = False, **overrides) -> RunReport:
    """Return a ranked run whose measurement found something."""
    found = [Finding(code=code, text=f"{code} of a case with size 77", quarantines=True) for code in codes]
    timing = Timing(samples_ns=[2100.0] * 5, audit=make_audit(2100.0, findings=found))
    stage = make_stage([make_case(timing=timing, hidden=hidden)])
    return make_report(stages=[stage], quarantine=found, **overrides)


def test_a_time_that_cannot_be_waits_with_its_evidence(judging) -> None:
    submission = judging.submit()
    run = judging.finish(judging.claim(), report=suspicious("below_floor", "of_a_later_version"))
    assert judging.ranking() == []
    assert run.score_s == pytest.approx(2.1e-6)
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    assert review.opened_by == "kernelcup"
    assert [each["code"] for each in review.evidence["findings"]] == ["below_floor", "of_a_later_version"]
    (case,) = review.evidence["cases"]
    assert (case["score_ns"], case["samples_ns"]) == (2100.0, [2100.0] * 5)
    job = judging.job(submission)
    assert job.state is JobState.QUARANTINED
    assert job.reason == (
        "it is faster than this device can do what the task declares; its measurement found something unusual"
    )


def test_its_author_is_told_why_without_figures_of_hidden_cases(judging) -> None:
    submission = judging.submit()
    judging.finish(judging.claim(), report=suspicious("below_floor"))
    ada = make_actor(judging.db, "ada")
    view = show_submission(judging.db, submission.id, viewer=ada)
    told = beside(judging.db, view, viewer=ada).jobs[0]
    assert told.remark == (
        "A person looks at this result before it counts: "
        "it is faster than this device can do what the task declares."
    )
    report = view.jobs[0].report
    assert report is not None
    assert [(each.code, "77" in each.text) for each in report.quarantine] == [("below_floor", False)]


def test_a_measurement_that_was_released_ranks_and_a_new_one_speaks_for_itself(judging) -> None:
    submission = judging.submit()
    judging.finish(judging.claim(), report=suspicious("below_floor"))
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    decide(judging, review, "released")
    assert judging.ranking() == [("ada", 2100)]
    rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    judging.finish(judging.claim(), report=suspicious("below_floor"))
    assert judging.ranking() == []
    assert len(reviews.open_reviews(judging.db, OPERATOR)) == 1


def test_what_earns_no_score_waits_for_nobody(judging) -> None:
    submission = judging.submit()
    judging.finish(judging.claim(), report=make_report(verdict=Verdict.WRONG_ANSWER))
    assert judging.job(submission).state is JobState.DONE
    assert reviews.open_reviews(judging.db, OPERATOR) == []


@pytest.mark.parametrize("verdict", [Verdict.WRONG_ANSWER, Verdict.INTERNAL_ERROR])
def test_what_an_audit_has_found_waits_for_a_person_however_the_run_ends(judging, verdict) -> None:
    submission = judging.submit()
    judging.finish(judging.claim(), report=suspicious("below_floor", verdict=verdict))
    assert judging.job(submission).state is JobState.QUARANTINED
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    assert [each["code"] for each in review.evidence["findings"]] == ["below_floor"]
    decide(judging, review, "released")
    assert judging.ranking() == []


def test_what_the_audit_of_a_rejudge_found_is_held_although_its_machine_failed(judging) -> None:
    submission = judging.judge(1000)
    rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    judging.finish(judging.claim(), report=suspicious("below_floor", verdict=Verdict.INTERNAL_ERROR))
    assert judging.job(submission).state is JobState.QUARANTINED
    assert len(reviews.open_reviews(judging.db, OPERATOR)) == 1
    assert judging.ranking() == []


def test_the_screen_and_the_clock_may_both_object(judging) -> None:
    submission = judging.submit(content=FLAGGED)
    tags = review_tags_of(judging, submission)
    judging.finish(judging.claim(), report=suspicious("below_floor"))
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    assert review.evidence["tags"] == tags
    assert review.evidence["findings"]
    assert review.reason.startswith("it is faster than")
    assert review.reason.endswith(f"a second opinion found {', '.join(tags)}")


def test_what_is_rejected_never_ranks_again(judging) -> None:
    judging.judge(2000)
    submission = judging.judge(1000)
    decide(judging, quarantine(judging, submission), "rejected")
    assert judging.ranking() == [("ada", 2000)]
    later = judging.judge(1500, content=FLAGGED)
    assert judging.ranking() == [("ada", 1500)]
    delete_submission(judging.db, later.id, by=OPERATOR, now=judging.clock())
    assert judging.ranking() == [("ada", 2000)]
    assert rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock()).jobs == 0
    plan = rejudge_board(judging.db, OPERATOR, "double", now=judging.clock())
    assert (plan.jobs, plan.left_out) == (1, {"rejected in a review": 1})
    assert judging.job(submission).state is JobState.REJECTED


@pytest.mark.jobs
@pytest.mark.parametrize("what", ["quarantine", "decide", "delete", "finish"])
def test_what_stops_ranking_waits_for_who_changes_what_ranks(judging, what) -> None:
    """Else the bests are chosen anew from what is not there any more when both have ended."""
    submission = judging.judge(1000)
    review = quarantine(judging, submission) if what == "decide" else None
    lease = None
    if what == "finish":  # with no score, where there was one
        rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
        lease = judging.claim()

    def act() -> None:
        if what == "quarantine":
            quarantine(judging, submission)
        elif what == "decide":
            decide(judging, review, "released")
        elif what == "delete":
            delete_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock())
        else:
            judging.finish(lease, report=make_report(verdict=Verdict.WRONG_ANSWER))

    with ThreadPoolExecutor(1) as pool:
        with judging.db.write() as session:
            boards.lock(session, "double")
            asked = pool.submit(act)
            with pytest.raises(TimeoutError):
                asked.result(timeout=0.2)
        asked.result()
    assert judging.ranking() == ([("ada", 1000)] if what == "decide" else [])


def test_who_is_first_is_not_compared_with_themselves(judging) -> None:
    first, second = judging.judge(1000), judging.judge(2000)
    shown = [show_submission(judging.db, each.id) for each in (first, second)]
    alone, behind = ([each.best for each in beside(judging.db, view).jobs] for view in shown)
    assert alone == [None]
    assert [each.submission for each in behind] == [first.id]


def test_who_was_rejected_is_not_told_to_wait(judging) -> None:
    submission = judging.judge(1000)
    review = reviews.quarantine(
        judging.db, OPERATOR, judging.job(submission).id, reason="copied from #7", now=judging.clock()
    )
    (view,) = show_submission(judging.db, submission.id).jobs
    board = get_board(judging.db, "double")
    assert remark(view, board) == "A person looks at this result before it counts: copied from #7."
    decide(judging, review, "rejected", note="for us only")
    (view,) = show_submission(judging.db, submission.id).jobs
    assert remark(view, board) == "This result was rejected: copied from #7."
    assert failure(view) == "H100: this result was rejected: copied from #7"


def test_rejected_code_waits_for_a_person_when_it_is_sent_again(judging) -> None:
    first = judging.judge(1000, content=FLAGGED)
    review = quarantine(judging, first)
    decide(judging, review, "rejected", note="replays")
    again = judging.judge(900, user="bob", content=FLAGGED)
    assert judging.job(again).state is JobState.QUARANTINED
    assert judging.job(again).reason == "a person rejected the same code before"
    assert judging.ranking() == []
    held = reviews.open_reviews(judging.db, OPERATOR)[0]
    assert held.evidence == {"rejected_in_review": review.id}
    decide(judging, held, "released")
    judging.judge(800, user="eve")
    assert judging.ranking() == [("eve", 800), ("bob", 900)]


def test_rejected_code_is_only_held_where_it_was_rejected(judging) -> None:
    make_board(judging.db, name="other")
    decide(judging, quarantine(judging, judging.judge(1000, board="double")), "rejected")
    assert judging.job(judging.judge(1000, board="other")).state is JobState.DONE
    assert judging.job(judging.judge(1000, board="double", content=FLAGGED)).state is JobState.DONE


def test_a_decision_is_made_once_and_a_rejected_result_can_be_looked_at_again(judging) -> None:
    submission = judging.judge(1000)
    review = quarantine(judging, submission)
    decide(judging, review, "rejected")
    with pytest.raises(Conflict, match="was already decided: rejected"):
        decide(judging, review, "released")
    decide(judging, quarantine(judging, submission, reason="an appeal"), "released")
    assert judging.ranking() == [("ada", 1000)]


def test_a_review_of_a_submission_that_is_deleted_meanwhile_is_not_found(judging, monkeypatch) -> None:
    submission = judging.judge(1000)
    review, lock = quarantine(judging, submission), jobs.lock

    def deleted_first(session: Session, numbers: Sequence[int]) -> list[Job]:
        submissions.delete_submission(session, submission.id)
        return lock(session, numbers)

    monkeypatch.setattr(jobs, "lock", deleted_first)
    with pytest.raises(NotFound):
        decide(judging, review, "released")


def test_a_result_has_one_open_review(judging) -> None:
    submission = judging.judge()
    quarantine(judging, submission)
    with pytest.raises(Conflict, match="open already"):
        quarantine(judging, submission)


def test_what_has_no_result_cannot_be_put_aside(judging) -> None:
    submission = judging.submit()
    with pytest.raises(Conflict, match="no result yet"):
        quarantine(judging, submission)
    assert judging.claim() is not None


@pytest.mark.parametrize("is_running", [False, True])
def test_a_rejudge_that_is_under_way_ends_when_the_result_is_put_aside(judging, is_running: bool) -> None:
    submission = judging.judge(1000)
    rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    lease = judging.claim() if is_running else None
    before = events.newest_id(judging.db)
    review = quarantine(judging, submission)
    kinds = [event.kind for event in events.since(judging.db, submission.id, before)]
    assert kinds == ["quarantined", "done"]
    assert judging.claim() is None
    if lease is not None:
        with pytest.raises(StaleLease):
            judging.finish(lease)
    assert judging.ranking() == []
    decide(judging, review, "released")
    assert judging.ranking() == [("ada", 1000)]


def test_a_ranked_result_with_a_tag_of_the_leaderboard_waits_for_a_person(judging) -> None:
    tags = review_tags_of(judging, judging.judge(2000, content=FLAGGED))
    submission = judging.judge(1000, content=FLAGGED)
    assert judging.job(submission).state is JobState.QUARANTINED
    assert judging.ranking() == [("ada", 2000)]
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    assert (review.opened_by, review.evidence["tags"]) == ("kernelcup", tags)
    assert review.evidence["lines"]
    assert [event.kind for event in events.since(judging.db, submission.id, 0)][-3:] == [
        "finished",
        "quarantined",
        "done",
    ]
    decide(judging, review, "released")
    assert judging.ranking() == [("ada", 1000)]


def test_only_ranked_results_with_a_score_wait_for_a_person(judging) -> None:
    review_tags_of(judging, judging.judge(content=FLAGGED))
    practice = judging.submit(content=FLAGGED, mode=Mode.TEST)
    wrong = judging.submit(content=FLAGGED)
    clean = judging.submit()
    report = make_report(verdict=Verdict.WRONG_ANSWER)
    judging.finish(judging.claim(), report=report)
    judging.finish(judging.claim())
    judging.finish(judging.claim(), report=make_report((), stages=[], mode=Mode.TEST))
    states = {judging.job(each).state for each in (practice, wrong, clean)}
    assert states == {JobState.DONE}


def test_what_a_person_released_is_not_held_again(judging) -> None:
    first = judging.judge(2000, content=FLAGGED)
    review_tags_of(judging, first)
    rejudge_submission(judging.db, OPERATOR, first.id, now=judging.clock())
    judging.finish(judging.claim(), 1500)
    assert judging.ranking() == []
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    decide(judging, review, "released")
    rejudge_submission(judging.db, OPERATOR, first.id, now=judging.clock())
    judging.finish(judging.claim(), 1400)
    assert judging.ranking() == [("ada", 1400)]


def test_code_that_a_person_released_is_not_held_for_its_tags_when_another_user_sends_it(judging) -> None:
    review_tags_of(judging, judging.judge(2000, content=FLAGGED))
    judging.judge(1500, content=FLAGGED)
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    decide(judging, review, "released")
    judging.judge(1400, "bob", content=FLAGGED)
    assert judging.ranking() == [("bob", 1400), ("ada", 1500)]


def test_creators_see_the_reviews_of_their_own_leaderboards(judging) -> None:
    review = quarantine(judging, judging.judge())
    grace = make_actor(judging.db, "grace", Role.CREATOR)
    eve = make_actor(judging.db, "eve", Role.CREATOR)
    assert reviews.open_reviews(judging.db, grace) == [review]
    assert reviews.open_reviews(judging.db, eve) == []
    assert reviews.get_review(judging.db, grace, review.id) == review
    decide(judging, review, "released", grace)
    assert reviews.open_reviews(judging.db, grace, "double") == []
    assert [each.id for each in reviews.open_reviews(judging.db, grace, "double", decided=True)] == [
        review.id
    ]


@pytest.mark.parametrize(("role", "error"), [(None, SignInNeeded), (Role.CREATOR, Forbidden)])
def test_others_neither_see_nor_decide(judging, role, error) -> None:
    submission = judging.judge()
    review = quarantine(judging, submission)
    actor = NOBODY if role is None else make_actor(judging.db, "eve", role)
    with pytest.raises(error):
        reviews.get_review(judging.db, actor, review.id)
    with pytest.raises(error):
        reviews.open_reviews(judging.db, actor, "double")
    with pytest.raises(error):
        decide(judging, review, "released", actor)
    with pytest.raises(error):
        quarantine(judging, submission, actor)


def test_outsiders_do_not_learn_of_closed_leaderboards(judging) -> None:
    submission = judging.judge()
    review = quarantine(judging, submission)
    with judging.db.write() as session:
        session.execute(update(LeaderboardRow).values(visibility="closed"))
    eve = make_actor(judging.db, "eve", Role.CREATOR)
    with pytest.raises(NotFound, match=r"no review 1\.$"):
        reviews.get_review(judging.db, eve, review.id)
    with pytest.raises(NotFound, match="no job"):
        quarantine(judging, submission, eve)


def test_what_is_not_there_is_not_found_and_decisions_have_names(judging) -> None:
    with pytest.raises(NotFound):
        reviews.get_review(judging.db, OPERATOR, 9)
    review = quarantine(judging, judging.judge())
    with pytest.raises(InvalidValue, match="'perhaps'"):
        decide(judging, review, "perhaps")


def test_both_steps_are_written_down(judging) -> None:
    decide(judging, quarantine(judging, judging.judge()), "rejected", note="replays")
    found = audit_log.entries(judging.db, OPERATOR, target="board:double")
    assert [entry.action for entry in found][:2] == ["review.decide", "review.open"]
    assert (found[0].detail["decision"], found[0].detail["note"]) == ("rejected", "replays")


def times_in_history(judging: Judging) -> list[tuple[str, float]]:
    """Return the users and microseconds of the history, oldest first, as the chart and the API have them."""
    newest_first = history(judging.db, "double", "H100", viewer=NOBODY)
    chart = improvements(judging.db, "double", "H100", viewer=NOBODY).records
    assert [each.id for each in chart] == [each.id for each in newest_first][::-1]
    return [(each.user, round(each.score_s * 1e9)) for each in chart]


@pytest.mark.parametrize("decision", [None, "rejected"])
def test_a_result_that_was_put_aside_leaves_the_history_at_once(judging, decision) -> None:
    judging.judge(3000, "bob")
    cheat = judging.judge(1000, "ada")
    assert times_in_history(judging) == [("bob", 3000), ("ada", 1000)]
    review = quarantine(judging, cheat)
    if decision is not None:
        decide(judging, review, decision)
    assert times_in_history(judging) == [("bob", 3000)]


def test_a_released_result_is_in_the_history_once(judging) -> None:
    submission = judging.judge(1000, "ada")
    decide(judging, quarantine(judging, submission), "released")
    assert times_in_history(judging) == [("ada", 1000)]


def test_an_honest_result_that_was_slower_than_a_rejected_one_enters_the_history(judging) -> None:
    cheat = judging.judge(1000, "ada")
    judging.judge(2000, "ada", content=b"def custom_kernel(data):\n    return data + data\n")
    decide(judging, quarantine(judging, cheat), "rejected")
    assert judging.ranking() == [("ada", 2000)]
    assert times_in_history(judging) == [("ada", 2000)]


def test_others_do_not_see_a_submission_whose_result_waits(judging) -> None:
    submission = judging.judge(1000, "ada")
    review = quarantine(judging, submission)
    ada, bob = make_actor(judging.db, "ada"), make_actor(judging.db, "bob")
    for viewer in (NOBODY, bob):
        with pytest.raises(NotFound):
            show_submission(judging.db, submission.id, viewer=viewer)
        assert list_views(judging.db, viewer=viewer) == []
    assert show_submission(judging.db, submission.id, viewer=ada).jobs[0].run is not None
    assert [each.id for each in list_views(judging.db, viewer=ada)] == [submission.id]
    decide(judging, review, "released")
    assert show_submission(judging.db, submission.id, viewer=bob).jobs[0].run is not None


def test_a_rejected_result_is_shown_to_its_author_only(judging) -> None:
    submission = judging.judge(1000, "ada")
    decide(judging, quarantine(judging, submission), "rejected")
    ada, bob = make_actor(judging.db, "ada"), make_actor(judging.db, "bob")
    assert judging.job(submission).state is JobState.REJECTED
    assert show_submission(judging.db, submission.id, viewer=bob).jobs[0].run is None
    (view,) = list_views(judging.db, viewer=bob)
    assert [(job.state, job.run) for job in view.jobs] == [(JobState.DONE, None)]
    assert show_submission(judging.db, submission.id, viewer=ada).jobs[0].run is not None


def test_a_reviewers_words_do_not_decide_whether_a_result_was_rejected(judging) -> None:
    submission = judging.judge(1000)
    quarantine(judging, submission, reason="a person rejected this result elsewhere")
    job = judging.job(submission)
    assert job.state is JobState.QUARANTINED
    view = show_submission(judging.db, submission.id)
    assert "waits for a review" in (failure(view.jobs[0]) or "")
