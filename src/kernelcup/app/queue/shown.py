"""Submissions with their results as a viewer may see them, and what stands beside these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app.operation import BOARD, After, Given, Limit, SubmissionId, operation
from kernelcup.app.queue.estimates import waiting_of
from kernelcup.app.results.leader import Beside, beside
from kernelcup.app.submissions.submissions import (
    JobView,
    SubmissionView,
    get_code,
    list_views,
    show_submission,
)
from kernelcup.domain import Actor, DuelOutcome
from kernelcup.engine import Database
from kernelcup.reporting.results import JobInfo, SubmissionInfo, Waiting
from kernelcup_harness.protocol import SourceTree


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The files of a submission."""

    submission: int
    entry: str
    """The only file, or the one that has the kernel."""
    files: dict[str, str]
    """Texts by file name."""

    @property
    def tree(self) -> SourceTree:
        """The same for the harness."""
        return SourceTree(entry=self.entry, files=self.files)


@operation("GET", "/submissions", subject="submissions", is_paged=True)
def newest(
    db: Database,
    viewer: Actor,
    *,
    board: Annotated[str | None, Given(key=BOARD, help="Only submissions to this leaderboard.")] = None,
    user: Annotated[str | None, Given(longest=100, help="`me` for your own.")] = None,
    tag: Annotated[str | None, Given(longest=100, help="A tag of a second opinion; for managers.")] = None,
    before_id: After = None,
    limit: Limit = 50,
) -> list[SubmissionInfo]:
    """List submissions, newest first: your own, and others' ranked ones."""
    name = viewer.name if user == "me" and viewer.user_id is not None else user
    views = list_views(db, viewer=viewer, user=name, board=board, tag=tag, before_id=before_id, limit=limit)
    return [shown(view, with_reports=False) for view in views]


@operation("GET", "/submissions/{submission_id}", subject="submissions")
def show(db: Database, viewer: Actor, submission_id: SubmissionId, *, now: datetime) -> SubmissionInfo:
    """Show a submission: the state of its jobs, and their reports as far as you may see them."""
    view = show_submission(db, submission_id, viewer=viewer)
    known = {} if view.ended else waiting_of(db, submission_id, now)
    return shown(view, beside(db, view, viewer=viewer), known)


@operation("GET", "/submissions/{submission_id}/code", subject="submissions")
def show_code(db: Database, viewer: Actor, submission_id: SubmissionId, *, now: datetime) -> Code:
    """Show the code: your own, and others' if the leaderboard publishes it."""
    code = get_code(db, submission_id, viewer=viewer, now=now)
    return Code(submission=submission_id, entry=code.entry, files=code.in_order)


def shown(
    view: SubmissionView,
    beside: Mapping[int, Beside] | None = None,
    waiting: Mapping[int, Waiting] | None = None,
    *,
    with_reports: bool = True,
) -> SubmissionInfo:
    """Return a submission with what stands beside its results, and what its jobs wait for, by the job's id."""
    found, notes, waits = view.submission, beside or {}, waiting or {}
    return SubmissionInfo(
        id=found.id,
        leaderboard=found.leaderboard,
        user=found.user,
        mode=found.mode,
        file_name=found.file_name,
        devices=found.devices,
        created_at=found.created_at,
        withdrawn_at=found.withdrawn_at,
        ended=view.ended,
        jobs=tuple(
            _job(each, notes.get(each.job.id), waits.get(each.job.id), with_report=with_reports)
            for each in view.jobs
        ),
    )


def _job(view: JobView, beside: Beside | None, waiting: Waiting | None, *, with_report: bool) -> JobInfo:
    job, run = view.job, view.run
    return JobInfo(
        id=job.id,
        device=job.device,
        state=job.state,
        attempt=job.attempt,
        reason=job.reason,
        position=view.position,
        run=run.id if run is not None else None,
        verdict=run.verdict if run is not None else None,
        score=run.score if run is not None else None,
        report=run.report if run is not None and with_report else None,
        waiting=waiting,
        trust=run.report.trust if run is not None else None,
        host_class=run.host_class if run is not None else None,
        duel=run.duel if run is not None else DuelOutcome.NONE,
        remark=beside.remark if beside is not None else "",
        best=beside.best if beside is not None else None,
    )
