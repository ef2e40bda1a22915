"""Results that stand directly behind another, because they won no duel against it.

A run keeps what it was measured by, which submission it stands behind, and what it is ranked by instead
(``rank_s``). The latter follows from the other's result, which may be judged again, put aside or deleted.
Is there none any more, whoever stood behind it passes nobody by that who stood before them: they stand
behind who is first among these now. Only without such a one they stand by what was measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kernelcup.domain import DuelOutcome
from kernelcup.storage import candidates
from kernelcup.storage.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow

BEHIND = tuple(outcome.value for outcome in DuelOutcome if outcome.is_behind)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Result:
    """One that ranks."""

    run_id: int
    user_id: int
    device: str
    score_s: float
    rank_s: float | None
    rival: tuple[int, str] | None
    """Behind whose result it stands, by submission and device."""


def after(ranked_s: float) -> float:
    """Return what is ranked directly behind a time, in its band."""
    return math.nextafter(ranked_s, math.inf)


def place_anew(session: Session, *, board_id: int, device: str | None = None) -> set[tuple[str, int]]:
    """Place all results of a leaderboard that stand behind others anew; on one device, or on all.

    Returns:
        Device and user of those that are ranked by another time than before. Their bests are to be chosen anew.
    """
    asks = select(LeaderboardRow.id).where(LeaderboardRow.id == board_id, LeaderboardRow.duel)
    if session.execute(asks).first() is None:
        return set()
    found = _results(session, board_id, device)
    _find_heirs(session, board_id, found)
    ranked: dict[tuple[int, str], float] = {}
    moved = set()
    for key, result in sorted(found.items(), key=lambda item: item[0]):
        _place(key, found, ranked, ())
        rank_s = ranked[key] if ranked[key] != result.score_s else None
        if rank_s != result.rank_s:
            session.execute(update(RunRow).where(RunRow.id == result.run_id).values(rank_s=rank_s))
            moved.add((result.device, result.user_id))
    return moved


def _find_heirs(session: Session, board_id: int, found: dict[tuple[int, str], _Result]) -> None:
    """Let those whose rival ranks no more stand behind who is first of those before them."""
    for key, result in list(found.items()):
        if result.rival is None or result.rival in found or result.rank_s is None:
            continue
        query = (
            candidates.ranking(board_id)
            .with_only_columns(RunRow.id, JobRow.submission_id, SubmissionRow.user_id, RunRow.score_s)
            .where(JobRow.device == result.device, SubmissionRow.user_id != result.user_id)
            .where(RunRow.duel.not_in(BEHIND), result.rank_s > candidates.RANKED_S)
            .order_by(RunRow.score_s, JobRow.submission_id)
            .limit(1)
        )
        heir = session.execute(query).first()
        if heir is None or heir.score_s is None:
            continue
        values = {"rival_id": heir.submission_id, "duel": DuelOutcome.MISSED.value}
        session.execute(update(RunRow).where(RunRow.id == result.run_id).values(**values))
        rival = (heir.submission_id, result.device)
        found[key] = dataclasses.replace(result, rival=rival)
        found.setdefault(
            rival,
            _Result(
                run_id=heir.id,
                user_id=heir.user_id,
                device=result.device,
                score_s=heir.score_s,
                rank_s=None,
                rival=None,
            ),
        )


def _place(
    key: tuple[int, str],
    found: Mapping[tuple[int, str], _Result],
    ranked: dict[tuple[int, str], float],
    waiting: tuple[tuple[int, str], ...],
) -> None:
    """Find what a result is ranked by, after whom it stands behind."""
    if key in ranked:
        return
    result = found[key]
    # Rejudged in turns, several may stand behind each other in a circle: one begins it.
    rival = None if result.rival in waiting or result.rival not in found else result.rival
    if rival is None:
        ranked[key] = result.score_s
        return
    _place(rival, found, ranked, (*waiting, key))
    # What is slower than the other by now stands behind it without that.
    ranked[key] = after(ranked[rival]) if result.score_s < ranked[rival] else result.score_s


def _results(session: Session, board_id: int, device: str | None) -> dict[tuple[int, str], _Result]:
    """Return what ranks and stands behind something, and what that is, by submission and device."""
    behind = (
        select(RunRow.rival_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.leaderboard_id == board_id, RunRow.counted, RunRow.duel.in_(BEHIND))
    )
    columns = (JobRow.device, SubmissionRow.user_id, RunRow.score_s, RunRow.rank_s, RunRow.rival_id)
    query = (
        candidates.ranking(board_id)
        .with_only_columns(RunRow.id, JobRow.submission_id, RunRow.duel, *columns)
        .where(RunRow.duel.in_(BEHIND) | JobRow.submission_id.in_(behind))
    )
    if device is not None:
        query = query.where(JobRow.device == device)
    return {
        (submission_id, on): _Result(
            run_id=run_id,
            user_id=user_id,
            device=on,
            score_s=score_s,
            rank_s=rank_s,
            rival=(rival_id, on) if duel in BEHIND and rival_id is not None else None,
        )
        for run_id, submission_id, duel, on, user_id, score_s, rank_s, rival_id in session.execute(query)
        if score_s is not None
    }
