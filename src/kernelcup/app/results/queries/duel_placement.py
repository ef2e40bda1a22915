"""The times that results rank by while they stand behind the leader of their duel.

A run keeps its measured score, the outcome of its duel, and the submission that it stands behind. A tied one ranks by
that submission's time, so it shares the rank; a slower one ranks by that time and the ratio of the duel. While the
other result is put aside, judged again or in another class's ranking, the run ranks by its own score. If the other is
deleted, the time stays: otherwise its author could free the way for a result that has lost.
"""

from __future__ import annotations

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kernelcup.app.machines.queries import agreements
from kernelcup.app.results.queries import ranking_query
from kernelcup.domain import DuelOutcome
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow

BEHIND = tuple(outcome.value for outcome in DuelOutcome if outcome.is_behind)
AFTER = 1 + 1e-12
"""A result comes after the leader that it stands behind; see :data:`kernelcup.scoring.NO_DIFFERENCE`."""


def time_behind(outcome: DuelOutcome, leader_s: float, ratio: float | None) -> float:
    """Return the time that ranks a result behind the leader, in seconds; ``ratio`` is that of its duel."""
    return leader_s * (max(AFTER, ratio or 0.0) if outcome.is_below else AFTER)


def place_again(session: Session, *, board_id: int, device: str | None = None) -> set[tuple[str, int]]:
    """Recompute the times of all results of a leaderboard that stand behind others, on one device or on all.

    Returns:
        Device and user of the results that are now ranked by another time. Their bests have to be chosen again.
    """
    asks = select(LeaderboardRow.id).where(LeaderboardRow.id == board_id, LeaderboardRow.duel)
    if session.execute(asks).first() is None:
        return set()
    ratio = RunRow.report["duel"]["ratio"].as_float().label("ratio")
    its_class = ranking_query.host_class(agreements.groups(session)).label("its_class")
    own_s = ranking_query.OWN_RANK_S.label("own_s")
    columns = (SubmissionRow.user_id, own_s, RunRow.rank_s, RunRow.rival_id)
    ranking = ranking_query.ranking(board_id)
    if device is not None:
        ranking = ranking.where(JobRow.device == device)
    key = (JobRow.submission_id, JobRow.device, its_class)
    query = ranking.with_only_columns(RunRow.id, *key, RunRow.duel, ratio, *columns)
    results = session.execute(query.where(RunRow.duel.in_(BEHIND)).order_by(RunRow.id)).all()
    rivals = {each.rival_id for each in results}
    query = ranking.with_only_columns(*key, own_s).where(JobRow.submission_id.in_(rivals))
    times = {tuple(its): time_s for *its, time_s in session.execute(query)}
    there = set(session.scalars(select(SubmissionRow.id).where(SubmissionRow.id.in_(rivals))))
    moved = set()
    # The older first: the leader was placed before.
    for each in results:
        if each.rival_id not in there:
            continue
        leader_s = times.get((each.rival_id, each.device, each.its_class))
        rank_s = None if leader_s is None else time_behind(DuelOutcome(each.duel), leader_s, each.ratio)
        # A result that is slower than its rival by now is ranked by its own time.
        rank_s = rank_s if rank_s is not None and each.own_s < rank_s else None
        its = (each.submission_id, each.device, each.its_class)
        if its in times:
            times[its] = rank_s or each.own_s
        if rank_s != each.rank_s:
            session.execute(update(RunRow).where(RunRow.id == each.id).values(rank_s=rank_s))
            moved.add((each.device, each.user_id))
    return moved
