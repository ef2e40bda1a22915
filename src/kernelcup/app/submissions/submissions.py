"""Show submissions.

Authors and managers of the leaderboard see all details of a submission; others see the public facts of ranked
ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import boards, late_exceptions
from kernelcup.app.courses.queries import members
from kernelcup.app.people.queries import users
from kernelcup.app.queue.queries import backlog, jobs
from kernelcup.app.results.queries import ruling, runs
from kernelcup.app.submissions.queries import screenings, submissions
from kernelcup.app.submissions.redaction import redacted_run, veiled_run, with_evidence
from kernelcup.domain import (
    ASIDE,
    NO_FILTERS,
    OPEN,
    OPERATOR,
    Actor,
    Filters,
    Job,
    JobState,
    Leaderboard,
    Role,
    Ruling,
    Run,
    Scope,
    Submission,
    UserName,
    Visibility,
)
from kernelcup.engine import Database, Session
from kernelcup.errors import Forbidden, NotFound, SignInNeeded
from kernelcup.reporting.results import JobInfo, SubmissionInfo
from kernelcup.screen.findings import Screening
from kernelcup_harness.protocol import Mode, SourceTree


def show_submission(
    db: Database,
    submission_id: int,
    *,
    viewer: Actor = OPERATOR,
) -> SubmissionInfo:
    """Return a submission with its results, as the viewer may see it.

    Args:
        submission_id: The submission's number.
        viewer: The actor who looks. The author sees everything but hidden cases and output printed while it was
            ranked, managers of the leaderboard see everything, others the outcome of a ranked submission
            and the evidence of a result that ranks.

    Raises:
        NotFound: It does not exist for the viewer.
        Forbidden: It belongs to another user, and is not ranked or not judged yet.
    """
    with db.read() as session:
        submission, board = find_visible(session, submission_id, viewer)
        found = jobs.of_submission(session, submission_id)
        is_full = _sees_all_of(submission, board, viewer)
        if not is_full:
            done = runs.counted(session, [job.id for job in found])
            shown = {number: with_evidence(run) for number, run in done.items()}
            view = _masked_view(session, submission, board, found, shown, viewer)
            if submission.mode is not Mode.LEADERBOARD or not view.ended:
                raise Forbidden(
                    f"Submission {submission_id} belongs to another user: only ranked ones are shown, once judged."
                )
            return view
        done, since = runs.counted(session, [job.id for job in found]), visibility.hidden_since(board, viewer)
        shown_jobs = [
            JobInfo.of(
                job,
                redacted_run(session, board, job, done.get(job.id), viewer),
                ruling.of_job(job, done.get(job.id), board, since),
                position=backlog.position(session, job),
            )
            for job in found
        ]
    return SubmissionInfo.of(submission, shown_jobs, is_followed=True)


def fresh_view(db: Database, submission: Submission) -> SubmissionInfo:
    """Return the viewer's own submission with the states of its jobs, without results."""
    found: Sequence[Job] = submission.new_jobs
    if not found:
        with db.read() as session:
            found = jobs.of_submission(session, submission.id)
    return SubmissionInfo.of(submission, [JobInfo.of(job, None) for job in found])


def has_ended(db: Database, submission_id: int, *, or_halted: bool = False) -> bool:
    """Return whether no job of a submission is waiting or running, even if it does not exist."""
    states = {*OPEN} - ({JobState.HALTED} if or_halted else set())
    with db.read() as session:
        return not any(job.state in states for job in jobs.of_submission(session, submission_id))


def list_views(
    db: Database,
    *,
    viewer: Actor = OPERATOR,
    user: str | None = None,
    board: str | None = None,
    filters: Filters = NO_FILTERS,
    before_id: int | None = None,
    limit: int = 50,
) -> list[SubmissionInfo]:
    """Return a page of submissions with the outlines of their results, newest first.

    Args:
        viewer: The actor who looks: they see other users' ranked submissions, and all on leaderboards that they
            manage.
        user: Return only submissions of the user whom the viewer sees under this name.
        board: Return only submissions to this leaderboard.
        filters: Return only these; by tag or verdict only those on leaderboards that the viewer manages.
        before_id: Return only submissions that are older than this one.
        limit: The maximum number of submissions.

    Raises:
        NotFound: The leaderboard does not exist for the viewer.
    """
    with db.read() as session:
        target = None if board is None else find_board(session, board, viewer)
        user_id = None if user is None else _find_user(session, user, target, viewer)
        if user is not None and user_id is None:
            return []
        inside = filters.tag is not None or filters.verdict is not None
        found = submissions.newest(
            session,
            user_id=user_id,
            board_id=None if target is None else target.id,
            filters=filters,
            before_id=before_id,
            limit=limit,
            seen=_seen(session, target, viewer, of_user=user_id, only_managed=inside),
        )
        return _outlines(session, found, viewer, target)


def get_code(
    db: Database, submission_id: int, *, viewer: Actor = OPERATOR, now: datetime | None = None
) -> SourceTree:
    """Return a submission's code: for its author and managers of the leaderboard, or for all once published.

    Args:
        submission_id: The submission's number.
        viewer: The actor who asks.
        now: The time; if None, nothing counts as published.

    Raises:
        NotFound: It does not exist for the viewer.
        Forbidden: The viewer may not read it, or not yet.
    """
    with db.read() as session:
        submission, board = find_visible(session, submission_id, viewer)
        if not _sees_all_of(submission, board, viewer) and not (
            submission.mode is Mode.LEADERBOARD
            and submission.withdrawn_at is None
            and is_published(session, board, now=now)
            and ruling.of_submission(session, submission_id).isdisjoint((Ruling.GONE, *ASIDE))
        ):
            told = "was withdrawn" if submission.withdrawn_at is not None else "is not shown to others"
            raise Forbidden(f"The code of submission {submission_id} {told}.")
        return submissions.code(session, submission_id)


def is_published(session: Session, board: Leaderboard, *, now: datetime | None) -> bool:
    """Return whether everyone who sees a leaderboard may read the code of its ranked submissions.

    The code becomes public after the deadline and all late exceptions, if the leaderboard's policy is to publish
    it, and not while the leaderboard is frozen. A pseudonymous leaderboard never publishes code, since code
    reveals its author.

    Args:
        board: The leaderboard.
        now: The time; None for a caller for whom nothing counts as published.
    """
    if not board.publishes_code:
        return False
    if now is None or board.phase(now) != "closed":
        return False
    if board.freeze_at is not None and now >= board.freeze_at:
        return False
    late = late_exceptions.latest(session, board.id)
    return late is None or now > late


def check_follows(
    db: Database,
    submission_id: int,
    *,
    viewer: Actor = OPERATOR,
) -> None:
    """Raise unless the viewer may follow a submission's events: its author and managers may."""
    with db.read() as session:
        submission, board = find_visible(session, submission_id, viewer)
    if not _sees_all_of(submission, board, viewer):
        if viewer.role is Role.NOBODY:
            raise SignInNeeded("Sign in first: only its author may follow a submission.")
        raise Forbidden(f"Submission {submission_id} belongs to another user: only its author may follow it.")


def screening_of(db: Database, submission_id: int, *, viewer: Actor = OPERATOR) -> Screening | None:
    """Return a second opinion's findings, None for a submission that was made before the screen existed.

    Only managers of the leaderboard see them: others could learn how to get around it.
    """
    with db.read() as session:
        _, board = find_visible(session, submission_id, viewer)
        access.check_inspects_board(session, viewer, board)
        return screenings.find(session, submission_id)


def find_visible(session: Session, submission_id: int, viewer: Actor) -> tuple[Submission, Leaderboard]:
    """Return a submission and its leaderboard.

    Raise ``NotFound``, also if the leaderboard is closed to the viewer, or while all results of another user's
    submission wait for a review: it would show the name that the docket hides.
    """
    submission = submissions.find(session, submission_id)
    board = None if submission is None else boards.find(session, submission.leaderboard)
    if submission is None or board is None or not access.sees_board(session, viewer, board):
        raise NotFound(f"There is no submission {submission_id}.")
    sees_all = _sees_all_of(submission, board, viewer)
    if not sees_all and ruling.are_held(jobs.of_submission(session, submission_id)):
        raise NotFound(f"There is no submission {submission_id}.")
    return submission, board


def _sees_all_of(submission: Submission, board: Leaderboard, viewer: Actor) -> bool:
    return viewer.user_id == submission.user_id or access.inspects_board(viewer, board)


def _find_user(session: Session, name: str, board: Leaderboard | None, viewer: Actor) -> int | None:
    if board is not None:
        return visibility.find_shown(session, board, name, viewer)
    found = users.find_name(session, name)
    return None if found is None else found[0]


def _seen(
    session: Session, board: Leaderboard | None, viewer: Actor, *, of_user: int | None, only_managed: bool
) -> submissions.Seen | None:
    """Return which submissions a list may show to the viewer, None for all."""
    if viewer.role is Role.ADMIN and Scope.INSPECT in viewer.scopes:
        return None
    if board is not None:
        inspects = access.inspects_board(viewer, board)
        hidden = {board.id} if only_managed and not inspects else set()
        return submissions.Seen(
            user_id=viewer.user_id, hidden=hidden, managed={board.id} if inspects else set()
        )
    every = boards.doors(session)
    joined = set() if viewer.user_id is None else members.boards_of(session, viewer.user_id)
    own = {each.id for each in every if access.manages_board(viewer, each)}
    managed = {each.id for each in every if access.inspects_board(viewer, each)}
    closed = {each.id for each in every if each.visibility is not Visibility.PUBLIC}
    hidden = closed - joined - own
    if of_user is not None and of_user != viewer.user_id:
        # Otherwise the list of a user's submissions would reveal their pseudonym.
        hidden |= {each.id for each in every if each.pseudonymous and each.id not in managed}
    if only_managed:
        hidden |= {each.id for each in every if each.id not in managed}
    return submissions.Seen(user_id=viewer.user_id, hidden=hidden, managed=managed)


def _outlines(
    session: Session, found: Sequence[Submission], viewer: Actor, board: Leaderboard | None
) -> list[SubmissionInfo]:
    """Return views of many submissions, all to one leaderboard if given, with only the public part of their reports."""
    all_jobs = jobs.of_submissions(session, [each.id for each in found])
    done = runs.counted_without_reports(session, [job.id for some in all_jobs.values() for job in some])
    by_id = (
        boards.some(session, {each.leaderboard_id for each in found}) if board is None else {board.id: board}
    )
    views = []
    for submission in found:
        board, some = by_id[submission.leaderboard_id], all_jobs.get(submission.id, [])
        if _sees_all_of(submission, board, viewer):
            runs_of = ((job, done.get(job.id)) for job in some)
            since = visibility.hidden_since(board, viewer)
            plain = (
                JobInfo.of(
                    job,
                    run and veiled_run(session, board, job, run, viewer),
                    ruling.of_job(job, run, board, since),
                )
                for job, run in runs_of
            )
            views.append(SubmissionInfo.of(submission, plain))
        else:
            views.append(_masked_view(session, submission, board, some, done, viewer))
    return views


def _masked_view(
    session: Session,
    submission: Submission,
    board: Leaderboard,
    found: Sequence[Job],
    done: dict[int, Run],
    viewer: Actor,
) -> SubmissionInfo:
    """Return a submission as users other than its author and managers may see it."""
    masked = visibility.is_masked(board, viewer)
    name, author = UserName(submission.user, submission.shown_name), submission.user_id
    if masked:
        name = visibility.shown_names(session, board, {author: submission.user}, viewer)[author]
    since = visibility.hidden_since(board, viewer)
    ruled = [(job, ruling.of_job(job, done.get(job.id), board, since)) for job in found]
    return SubmissionInfo.of(
        submission,
        (_masked_job(job, done.get(job.id), of) for job, of in ruled if of is not Ruling.HELD),
        **dataclasses.asdict(name),
        user_id=0 if masked else submission.user_id,
        file_name="" if masked else submission.file_name,
        code_hash="",
        client="",
    )


def _masked_job(job: Job, run: Run | None, of: Ruling) -> JobInfo:
    shown = dataclasses.replace(job, state=JobState.DONE if of in ASIDE else job.state, reason="")
    if run is None or of in (Ruling.HIDDEN, *ASIDE):
        return JobInfo.of(shown, None)
    return JobInfo.of(shown, dataclasses.replace(run, machine=""), of)
