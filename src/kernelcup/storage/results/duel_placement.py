"""Place results directly behind another, if they did not win the duel against it.

A run keeps its measured score, the submission that it stands behind, and the time that it is ranked by
instead (``rank_s``). That time follows from the rival's result, which may be judged again, quarantined or
deleted. If the rival's result is gone, the run moves behind the next-best result that already outranked it.
Only if there is none is it ranked by its measured score.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kernelcup.domain import DuelOutcome
from kernelcup.storage.results import ranking_query
from kernelcup.storage.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow

BEHIND = tuple(outcome.value for outcome in DuelOutcome if outcome.is_behind)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Result:
    """A result that ranks."""

    run_id: int
    user_id: int
    device: str
    score_s: float
    rank_s: float | None
    rival: tuple[int, str] | None
    """The submission and device of the result that it stands behind."""


def after(ranked_s: float) -> float:
    """Return the time that ranks directly behind another, in the same band, in seconds."""
    return math.nextafter(ranked_s, math.inf)


def place_anew(session: Session, *, board_id: int, device: str | None = None) -> set[tuple[str, int]]:
    """Recompute the places of all results of a leaderboard that stand behind others, on one device or on all.

    Returns:
        Device and user of the results that are now ranked by another time. Their bests have to be chosen again.
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
    """Place results whose rival no longer ranks behind the best result that still outranks them."""
    for key, result in list(found.items()):
        if result.rival is None or result.rival in found or result.rank_s is None:
            continue
        query = (
            ranking_query.ranking(board_id)
            .with_only_columns(RunRow.id, JobRow.submission_id, SubmissionRow.user_id, RunRow.score_s)
            .where(JobRow.device == result.device, SubmissionRow.user_id != result.user_id)
            .where(RunRow.duel.not_in(BEHIND), result.rank_s > ranking_query.RANKED_S)
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
    """Find the time that a result is ranked by, after that of its rival."""
    if key in ranked:
        return
    result = found[key]
    # After several rejudges, results may stand behind each other in a circle, which is cut at one of them.
    rival = None if result.rival in waiting or result.rival not in found else result.rival
    if rival is None:
        ranked[key] = result.score_s
        return
    _place(rival, found, ranked, (*waiting, key))
    # A result that is slower than its rival by now is ranked by its own score.
    ranked[key] = after(ranked[rival]) if result.score_s < ranked[rival] else result.score_s


def _results(session: Session, board_id: int, device: str | None) -> dict[tuple[int, str], _Result]:
    """Return the ranking results that stand behind a rival, and the rivals, by submission and device."""
    behind = (
        select(RunRow.rival_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.leaderboard_id == board_id, RunRow.counted, RunRow.duel.in_(BEHIND))
    )
    columns = (JobRow.device, SubmissionRow.user_id, RunRow.score_s, RunRow.rank_s, RunRow.rival_id)
    query = (
        ranking_query.ranking(board_id)
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
