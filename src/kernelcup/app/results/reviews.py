"""Reviews of quarantined results: opened with evidence, and decided by a person.

A quarantined job's result is kept and does not rank. A released result counts as if it had never been
quarantined; a rejected one stays out, and no rejudge brings it back. What a person says of a result holds for
all results of equal code on the leaderboard, see :func:`_of_code`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from kernelcup.app import access
from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import boards
from kernelcup.app.operation import BOARD, Given, Limit, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results import news as news_of_results
from kernelcup.app.results.queries import reviews, ruling, runs
from kernelcup.app.results.stored import Stored
from kernelcup.app.submissions import review_evidence as evidence_of
from kernelcup.app.submissions.queries import events, screenings, submissions
from kernelcup.app.submissions.review_evidence import Held
from kernelcup.domain import ASIDE, OPEN, Actor, Job, Leaderboard, Role, Ruling, Run, Scope, Submission
from kernelcup.domain.answers import Review
from kernelcup.domain.results import RELEASED, RULE
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue, NotFound
from kernelcup.screen.findings import NO_ANSWER, Remark
from kernelcup_harness.protocol import RunReport

REJECTED = "rejected"


ReviewId = Annotated[int, Given(metavar="ID", least=1, help="Number of the review.")]


def _decision(text: str, _now: datetime) -> str:
    word = text.lower()
    if word not in (RELEASED, REJECTED):
        raise InvalidValue(f"Decision {text!r}: expected released or rejected.")
    return word


def _note(text: str, _now: datetime) -> str:
    if not text.strip():
        raise InvalidValue("--note: expected a reason")
    return text


@operation("POST", "/jobs/{job_id}/quarantine", subject="administration")
def quarantine(
    db: Database,
    actor: Actor,
    job_id: Annotated[int, Given(least=1, help="Number of the job.")],
    *,
    reason: Annotated[str, Given(help="Reason, shown to the author.", longest=500)],
    evidence: Annotated[dict[str, Any] | None, Given(help="What made the reviewer look.")] = None,
    now: datetime,
) -> Review:
    """Take a result out of the ranking until a review decides. A rejudge of it ends.

    Raises:
        NotFound: The job does not exist for the actor.
        SignInNeeded, Forbidden, ScopeMissing: The actor does not manage its leaderboard.
        Conflict: It has no result, or a review of it is already open.
    """
    with db.write(durable=True) as session:
        job, submission, board = _find_job(session, actor, job_id)
        run = runs.counted(session, [job_id]).get(job_id)
        if run is None:
            raise Conflict(f"Job {job_id} has no result yet to review.")
        if ruling.are_held([job]):
            raise Conflict(f"A review of job {job_id} is open already.")
        jobs.lock(session, reviews.jobs_of_code(session, submission))
        boards.lock(session, board.name)
        held = Held(reason=reason, evidence=evidence or {})
        review_id = _hold(session, job, run, submission, held, by=actor.name, now=now)
        # Those that were rejected are looked at again, too.
        _hold_others(session, submission, Ruling.HELD, now=now)
        detail = {"review": review_id, "job": job_id, "submission": submission.id, "reason": reason}
        audit_log.record(session, actor, "review.open", f"board:{board.name}", detail, now)
        return _find(session, review_id)


@operation("GET", "/reviews", "admin reviews list", subject="administration", is_paged=True)
def open_reviews(
    db: Database,
    actor: Actor,
    board: Annotated[
        str | None,
        Given(options=("--board", "-b"), key=BOARD, help="Only reviews of this leaderboard."),
    ] = None,
    *,
    decided: bool = False,
    after_id: Annotated[
        int | None, Given(options=("--after",), key="after", help="Only reviews with an id above this one.")
    ] = None,
    limit: Limit = 50,
) -> list[Review]:
    """List the results that wait for a decision, oldest first.

    Admins see all of them, creators those of their own leaderboards.

    Args:
        decided: Return decided reviews instead.
    """
    access.require(actor, Scope.INSPECT, role=Role.CREATOR)
    with db.read() as session:
        board_id = None
        if board is not None:
            found = find_board(session, board)
            access.check_inspects_board(session, actor, found)
            board_id = found.id
        return reviews.page(
            session,
            board_id=board_id,
            creator_id=None if actor.role is Role.ADMIN else actor.user_id,
            is_open=not decided,
            after_id=after_id,
            limit=limit,
        )


@operation("GET", "/reviews/{review_id}", "admin reviews show", subject="administration")
def get_review(db: Database, actor: Actor, review_id: ReviewId) -> Review:
    """Show a review with its evidence.

    Raises:
        NotFound: It does not exist for the actor.
    """
    with db.read() as session:
        review = _find(session, review_id)
        _check_inspects(session, actor, review)
        return review


@operation("POST", "/reviews/{review_id}/decision", "admin reviews decide", subject="administration")
def decide(
    db: Database,
    actor: Actor,
    review_id: ReviewId,
    decision: Annotated[
        str,
        Given(
            metavar="DECISION",
            choices=(RELEASED, REJECTED),
            parse=_decision,
            help="released (it ranks again) or rejected.",
        ),
    ],
    *,
    note: Annotated[str, Given(options=("--note",), parse=_note, longest=2000, help="Why.")],
    now: datetime,
) -> Review:
    """Release a result into the ranking, or reject it for good.

    Raises:
        NotFound: The review does not exist for the actor.
        SignInNeeded, Forbidden, ScopeMissing: The actor does not manage its leaderboard.
        InvalidValue: The decision is unknown.
        Conflict: It was already decided. A rejected result can be quarantined again, for another review.
    """
    decision = _decision(decision, now)
    with db.write(durable=True) as session:
        review = _find(session, review_id)
        board = _check_inspects(session, actor, review)
        access.require(actor, Scope.MANAGE)
        submission = submissions.get(session, review.submission_id)
        jobs.lock(session, [review.job_id, *reviews.jobs_of_code(session, submission)])
        boards.lock(session, board.name)
        # Read again: another person may have decided meanwhile, or deleted the submission.
        review = _find(session, review_id)
        if review.decision is not None:
            raise Conflict(f"Review {review_id} was already decided: {review.decision}.")
        store = partial(reviews.decide, session, decision=decision, by=actor.name, note=note, now=now)
        store(review_id)
        if decision == REJECTED:
            _hold_others(session, submission, *ASIDE, now=now)
        found = reviews.of_equal_code(session, submission, None)
        others = [each for each in found if _follows(each, review, decision)]
        for each in others:
            store(each.id)
        for each in (review, *others):
            events.record(session, each.submission_id, decision, {}, each.job_id, now)
            _settle(session, board, each, decision, now=now)
        done = _find(session, review_id)
        detail = {"review": review_id, "job": done.job_id, "submission": submission.id, "decision": decision}
        detail |= {"copies": done.same_code} if done.same_code else {}
        audit_log.record(
            session, actor, "review.decide", f"board:{board.name}", {**detail, "note": note}, now
        )
        return done


def flags(
    session: Session, job: Job, report: RunReport, submission: Submission, board: Leaderboard
) -> Held | None:
    """Return why a result must be reviewed before it counts, None if it need not.

    The reasons are findings of its measurement, what a person says of its code, and tags in its code that the
    leaderboard wants to review. Code that a person has released is not held again for its tags; each measurement
    is judged separately.
    """
    last = reviews.last_of_code(session, submission)
    is_released = last is not None and last.decision == RELEASED
    looks = (
        evidence_of.of_report(report),
        None if is_released else _screened(session, job, board),
        _of_code(last),
    )
    found = [each for each in looks if each is not None]
    if not found:
        return None
    evidence = {name: value for each in found for name, value in each.evidence.items()}
    return Held(reason="; ".join(each.reason for each in found), evidence=evidence)


def hold(session: Session, stored: Stored) -> None:
    """Put a result aside that a rule wants reviewed, and open its review."""
    if stored.held is not None:
        _open(session, stored.job, stored.run, stored.held, by=RULE, now=stored.now)


def _hold(
    session: Session, job: Job, run: Run, submission: Submission, held: Held, *, by: str, now: datetime
) -> int:
    """Put a result aside until a person decides, and return the number of its review."""
    kept = {**evidence_of.figures(run.report), **held.evidence}
    review_id = _open(session, job, run, replace(held, evidence=kept), by=by, now=now)
    _choose_best(session, job, submission, now=now)
    if job.state in OPEN:
        events.record_end(session, submission.id, now)
    return review_id


def _of_code(last: Review | None) -> Held | None:
    """Return why results of a code do not count, by the last review of it; None if they may count.

    Asked when a result arrives, and of the others of its code when a person puts one aside or decides. A rule's
    doubt is about one measurement, a person's about the code.
    """
    if last is None or last.decision == RELEASED:
        return None
    if last.decision == REJECTED:
        return Held(reason="a person rejected the same code before", evidence={"rejected_in_review": last.id})
    return Held(
        reason="its code is that of another result that a person put aside",
        evidence={"same_code_as": last.id},
    )


def _hold_others(session: Session, same: Submission, *but: Ruling, now: datetime) -> None:
    """Ask again of the results of a code, without those of some rulings, what holds about it."""
    found = reviews.jobs_of_code(session, same, *but)
    done = runs.counted(session, found)
    for job in jobs.lock(session, found):
        submission, run = submissions.get(session, job.submission_id), done.get(job.id)
        if run is not None and (held := _of_code(reviews.last_of_code(session, submission))) is not None:
            _hold(session, job, run, submission, held, by=RULE, now=now)


def _follows(other: Review, review: Review, decision: str) -> bool:
    """Return whether a decision about a review is about another one of equal code, too.

    Code is rejected as a whole. It is released but for results whose own measurement is in doubt.
    """
    measured = [each.opened_by == RULE and "findings" in each.evidence for each in (other, review)]
    return decision == REJECTED or not any(measured)


def _settle(session: Session, board: Leaderboard, review: Review, decision: str, *, now: datetime) -> None:
    """Do with a result what was decided about it."""
    if decision == REJECTED:
        jobs.reject(session, review.job_id)
        return
    jobs.release(session, review.job_id)
    submission, run = submissions.get(session, review.submission_id), runs.find(session, review.run_id)
    (job,) = jobs.lock(session, [review.job_id])
    assert run is not None
    if (
        held := _of_code(reviews.last_of_code(session, submission))
    ) is not None:  # its measurement is sound, its code in doubt
        _hold(session, job, run, submission, held, by=RULE, now=now)
        return
    before = news_of_results.look(session, board, job=job, run=run, user_id=submission.user_id)
    _choose_best(session, job, submission, now=now)
    news_of_results.note(session, before, now)


def _screened(session: Session, job: Job, board: Leaderboard) -> Held | None:
    if not board.review_tags:
        return None
    screening = screenings.find(session, job.submission_id)
    # Code that was not screened may have any of the tags.
    unseen = (Remark(tag=NO_ANSWER, line=0, column=0, source="", explanation=""),)
    findings = unseen if screening is None else screening.findings
    found = [finding for finding in findings if finding.tag in (*board.review_tags, NO_ANSWER)]
    if not found:
        return None
    tags = sorted({str(finding.tag) for finding in found})
    lines = sorted({finding.line for finding in found})
    reason = f"a second opinion found {', '.join(tags)}"
    return Held(reason=reason, evidence={"tags": tags, "lines": lines})


def _open(session: Session, job: Job, run: Run, held: Held, *, by: str, now: datetime) -> int:
    jobs.quarantine(session, job.id, reason=held.reason)
    numbers = {"job_id": job.id, "run_id": run.id}
    review_id = reviews.insert(
        session, **numbers, opened_by=by, reason=held.reason, evidence=held.evidence, now=now
    )
    events.record(session, job.submission_id, "quarantined", {"reason": held.reason}, job.id, now)
    return review_id


def _choose_best(session: Session, job: Job, submission: Submission, *, now: datetime) -> None:
    board_id, user_id = submission.leaderboard_id, submission.user_id
    runs.choose_best(session, board_id=board_id, user_id=user_id, devices=[job.device], now=now)


def _find_job(session: Session, actor: Actor, job_id: int) -> tuple[Job, Submission, Leaderboard]:
    locked = jobs.lock(session, [job_id])
    submission = submissions.find(session, locked[0].submission_id) if locked else None
    board = None if submission is None else find_board(session, submission.leaderboard)
    if submission is None or board is None or not access.sees_board(session, actor, board):
        raise NotFound(f"There is no job {job_id}.")  # do not reveal a members-only leaderboard's name
    access.check_manages_board(session, actor, board)
    return locked[0], submission, board


def _find(session: Session, review_id: int) -> Review:
    review = reviews.find(session, review_id)
    if review is None:
        raise NotFound(f"There is no review {review_id}.")
    submission = submissions.get(session, review.submission_id)
    found = reviews.of_equal_code(session, submission, review.decided_at)
    return replace(review, same_code=sorted({each.submission_id for each in found} - {review.submission_id}))


def _check_inspects(session: Session, actor: Actor, review: Review) -> Leaderboard:
    board = find_board(session, review.leaderboard)
    if not access.sees_board(session, actor, board):
        raise NotFound(f"There is no review {review.id}.")
    access.check_inspects_board(session, actor, board)
    return board
