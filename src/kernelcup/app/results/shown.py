"""A submission's results for those who show them, put together from what a viewer may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelcup.app.submissions.submissions import JobView, SubmissionView
from kernelcup.domain import DuelOutcome
from kernelcup.reporting.results import JobInfo, SubmissionInfo, Waiting

if TYPE_CHECKING:
    from kernelcup.app.results.leader import Beside


def shown(
    view: SubmissionView,
    beside: Mapping[int, Beside] | None = None,
    waiting: Mapping[int, Waiting] | None = None,
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
        jobs=tuple(_job(each, notes.get(each.job.id), waits.get(each.job.id)) for each in view.jobs),
    )


def _job(view: JobView, beside: Beside | None, waiting: Waiting | None) -> JobInfo:
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
        report=run.report if run is not None else None,
        waiting=waiting,
        trust=run.report.trust if run is not None else None,
        host_class=run.host_class if run is not None else None,
        duel=run.duel if run is not None else DuelOutcome.NONE,
        remark=beside.remark if beside is not None else "",
        best=beside.best if beside is not None else None,
    )
