"""Submissions with their results as a viewer may see them, and what stands beside these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from kernelcup.app.boards.boards import visible_task
from kernelcup.app.operation import BOARD, After, Given, Limit, OnDevice, SubmissionId, operation
from kernelcup.app.queue.estimates import with_waiting
from kernelcup.app.results.leader import beside
from kernelcup.app.submissions.submissions import get_code, list_views, show_submission
from kernelcup.domain import Actor, Filters
from kernelcup.engine import Database
from kernelcup.reporting.results import SubmissionInfo
from kernelcup.reporting.sections import Section, texts
from kernelcup_harness.protocol import SourceTree, Verdict

MOST_TOGETHER, MOST_ALONE = 3_000, 30_000
"""Characters of a section that are shown beside others, and by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportSection:
    """A part of the report of a job."""

    device: str
    section: Section
    text: str
    left_out: int
    """Characters at the end of the text that are not shown."""


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


@operation("GET", "/submissions", subject="submissions", is_paged=True, tool="submissions")
def newest(
    db: Database,
    viewer: Actor,
    *,
    board: Annotated[str | None, Given(key=BOARD, help="Only submissions to this leaderboard.")] = None,
    user: Annotated[str | None, Given(longest=100, help="`me` for your own.")] = None,
    tag: Annotated[str | None, Given(longest=100, help="A tag of a second opinion; for managers.")] = None,
    verdict: Annotated[Verdict | None, Given(help="Only with this verdict; for managers.")] = None,
    device: Annotated[str | None, Given(longest=100, help="Only on this device.")] = None,
    since: Annotated[datetime | None, Given(help="Only those sent from this time on.")] = None,
    until: Annotated[datetime | None, Given(help="Only those sent until this time.")] = None,
    before_id: After = None,
    limit: Limit = 50,
) -> list[SubmissionInfo]:
    """List submissions, newest first: your own, and others' ranked ones."""
    filters = Filters(tag=tag, verdict=verdict, device=device, since=since, until=until)
    name = viewer.name if user == "me" and viewer.user_id is not None else user
    found = list_views(
        db, viewer=viewer, user=name, board=board, filters=filters, before_id=before_id, limit=limit
    )
    return [replace(each, jobs=tuple(replace(job, report=None) for job in each.jobs)) for each in found]


@operation("GET", "/submissions/{submission_id}", subject="submissions")
def show(db: Database, viewer: Actor, submission_id: SubmissionId, *, now: datetime) -> SubmissionInfo:
    """Show a submission: the state of its jobs, and their reports as far as you may see them."""
    found = beside(db, show_submission(db, submission_id, viewer=viewer), viewer=viewer)
    return with_waiting(db, found, now)


@operation("GET", "/submissions/{submission_id}/report", subject="submissions", tool="report")
def show_report(
    db: Database,
    viewer: Actor,
    submission_id: SubmissionId,
    section: Annotated[Section | None, Given(help="Only this one, at greater length.")] = None,
    device: OnDevice = None,
    *,
    now: datetime,
) -> list[ReportSection]:
    """Show a report as short text: verdict, cause, cases with times, what a profile says, output, the next step."""
    found = show(db, viewer, submission_id, now=now)
    ranking_by = visible_task(db, found.leaderboard, viewer).task.ranking_by
    most = MOST_TOGETHER if section is None else MOST_ALONE
    return [
        ReportSection(device=job.device, section=name, text=text[:most], left_out=max(0, len(text) - most))
        for job in found.jobs
        if device is None or job.device.lower() == device.lower()
        for name, text in texts(job, ranking_by).items()
        if section in (None, name)
    ]


@operation("GET", "/submissions/{submission_id}/code", subject="submissions")
def show_code(db: Database, viewer: Actor, submission_id: SubmissionId, *, now: datetime) -> Code:
    """Show the code: your own, and others' if the leaderboard publishes it."""
    code = get_code(db, submission_id, viewer=viewer, now=now)
    return Code(submission=submission_id, entry=code.entry, files=code.in_order)
