"""Two submissions against each other: for the first place, or because somebody asked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy.orm import Session

from kernelcup.domain import DuelOutcome, Job, Leaderboard, Submission, is_proven
from kernelcup.errors import RivalDeleted
from kernelcup.scoring import Score
from kernelcup.storage import behind, comparisons, ranking, submissions
from kernelcup_harness.protocol import DuelResult, HarnessKind, Mode, RunReport

_BEHIND = {"tied": DuelOutcome.TIED, "slower": DuelOutcome.LOST}
_AHEAD = {"faster": DuelOutcome.WON, "": DuelOutcome.UNANSWERED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """A submission that is measured in turns with another."""

    submission_id: int
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """What a duel makes of a result."""

    outcome: DuelOutcome = DuelOutcome.NONE
    rank_s: float | None = None
    """What it is ranked by instead of its score, where it stays behind who was first."""
    behind: int | None = None
    """The submission that it stays behind."""


def find_rival(session: Session, job: Job, submission: Submission, board: Leaderboard) -> Rival | None:
    """Return whom a job's submission is measured against, None for nobody.

    That is the other one of a comparison, or who is first where the leaderboard asks for duels: the
    incumbent's own next entry needs none. Raise ``RivalDeleted`` if the other one was deleted.
    """
    pair = comparisons.find(session, job.id)
    if pair is not None:
        return _rival(session, pair.second_id)
    if not board.duel or job.mode is not Mode.LEADERBOARD or board.harness is not HarnessKind.STANDARD:
        return None
    first = ranking.leader(session, board_id=board.id, device=job.device)
    if first is None or first.user_id == submission.user_id:
        return None
    with suppress(RivalDeleted):  # just now; whoever is first when the result comes was not met
        return _rival(session, first.submission_id)
    return None


def settle(
    session: Session,
    *,
    board: Leaderboard,
    submission: Submission,
    job: Job,
    score: Score,
    report: RunReport,
    rival: int | None,
) -> Settled:
    """Say whether a result takes the first place, in the transaction that stores it, under the board's lock.

    What would be first and has not won its duel against who is first now stands directly behind them,
    in the same band. So does what met somebody else, because the first place changed meanwhile. A result
    that the leaderboard does not take is treated alike: it may be taken one day.
    """
    if not board.duel or not is_proven(report.trust):
        return Settled()
    first = ranking.leader(session, board_id=board.id, device=job.device)
    if first is None or first.user_id == submission.user_id or score.score_s >= first.ranked_s:
        return Settled()
    met = report.duel if rival == first.submission_id else None
    outcome = DuelOutcome.MISSED if met is None else _outcome(met)
    if outcome in _AHEAD.values():
        return Settled(outcome=outcome)
    return Settled(outcome=outcome, rank_s=behind.after(first.ranked_s), behind=first.submission_id)


def _outcome(duel: DuelResult) -> DuelOutcome:
    return _AHEAD.get(duel.verdict) or _BEHIND.get(duel.verdict, DuelOutcome.MISSED)


def _rival(session: Session, submission_id: int | None) -> Rival:
    code = None if submission_id is None else submissions.find_code(session, submission_id)
    if submission_id is None or code is None:
        raise RivalDeleted("the submission to compare with was deleted")
    return Rival(submission_id=submission_id, code=code)
