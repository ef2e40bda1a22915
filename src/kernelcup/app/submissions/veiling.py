"""Runs as a viewer may see them: redacted, or veiled until a freeze or a deadline is over."""

from __future__ import annotations

import dataclasses

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.queue.queries import comparisons
from kernelcup.app.results.queries import frozen_standings, ruling
from kernelcup.app.submissions.queries import submissions
from kernelcup.app.submissions.redaction import evidence, outline, redact, without_duel
from kernelcup.domain import (
    Actor,
    DuelOutcome,
    Job,
    JobState,
    Leaderboard,
    Role,
    Run,
)
from kernelcup.engine import Session
from kernelcup_harness.protocol import Mode


def redacted_run(
    session: Session, board: Leaderboard, job: Job, run: Run | None, viewer: Actor
) -> Run | None:
    """Return a run without what this viewer may not see of it."""
    if run is None:
        return None
    report = redact(
        run.report,
        sees_all=access.inspects_board(viewer, board),
        done=job.state is JobState.DONE,
        is_own_rival=_is_own_rival(session, job, run, viewer),
    )
    shown = dataclasses.replace(run, report=report, machine=machine_of(run, viewer))
    return veiled_run(session, board, job, shown, viewer)


def machine_of(run: Run, viewer: Actor) -> str:
    """Return the host that judged, for admins; empty for others."""
    return run.machine if viewer.role is Role.ADMIN else ""


def with_evidence(run: Run) -> Run:
    """Return a run with the part of its report that everybody may see."""
    shown = evidence(run.report) if run.score_s is not None else outline(run.report)
    return dataclasses.replace(run, report=shown, machine="")


def _is_own_rival(session: Session, job: Job, run: Run, viewer: Actor) -> bool:
    """Return whether the rival of a comparison also belongs to the viewer."""
    pair = comparisons.find(session, job.id) if run.report.duel is not None else None
    rival = None if pair is None or pair.second_id is None else submissions.find(session, pair.second_id)
    return rival is not None and rival.user_id == viewer.user_id


def veiled_run(session: Session, board: Leaderboard, job: Job, run: Run, viewer: Actor) -> Run:
    """Return the viewer's own run without anything that reveals the leader after the leaderboard froze."""
    since = visibility.hidden_since(board, viewer)
    if job.mode is not Mode.LEADERBOARD or since is None:
        return run
    if ruling.is_shown(run.finished_at, since):
        if not (run.duel.is_behind and frozen_standings.is_kept(session, board.id)):
            return run
        # The rival that it was placed behind may have been judged again since.
        return dataclasses.replace(run, rank_s=frozen_standings.ranked_s(session, run.id))
    report = without_duel(run.report)
    return dataclasses.replace(run, duel=DuelOutcome.NONE, rival=None, rank_s=None, report=report)
