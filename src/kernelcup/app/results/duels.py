"""Duels of two submissions: for the first place, or as a comparison on request."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from kernelcup.app.events.queries import teams
from kernelcup.app.machines.machines import host_class
from kernelcup.app.machines.queries import machines
from kernelcup.app.queue.queries import comparisons
from kernelcup.app.results.final_order import by_intervals
from kernelcup.app.results.queries import duel_placement, finals, ranking_query, standings
from kernelcup.app.submissions.queries import events, submissions
from kernelcup.domain import DuelOutcome, Job, Leaderboard, Score, Submission
from kernelcup.engine import Session
from kernelcup.errors import RivalDeleted
from kernelcup.scoring import UNTIMED_S, order, own_rank_s
from kernelcup_harness.protocol import DuelVerdict, HarnessKind, Mode, RunReport, SourceTree

_OUTCOMES = {
    DuelVerdict.FASTER: DuelOutcome.WON,
    DuelVerdict.RIVAL_FAILED: DuelOutcome.UNANSWERED,
    DuelVerdict.TIED: DuelOutcome.TIED,
    DuelVerdict.SLOWER: DuelOutcome.LOST,
    DuelVerdict.FAILED: DuelOutcome.FAILED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """The submission that another one is measured in turns with."""

    submission_id: int
    code: SourceTree
    error: float | None = None
    """How often equal submissions may be found different in a duel of a final; None for other duels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """The consequence of a duel for a result."""

    outcome: DuelOutcome = DuelOutcome.NONE
    rank_s: float | None = None
    """The time it is ranked by instead of its score, if it stays behind the leader, in seconds."""
    behind: int | None = None
    """The submission that it stays behind."""


def find_rival(session: Session, job: Job, submission: Submission, board: Leaderboard) -> Rival | None:
    """Return the submission that a job's submission is measured against, None if there is none.

    That is the other submission of a comparison, or the current leader if the leaderboard asks for duels; the
    leader's own next entry needs none. Raise ``RivalDeleted`` if the other submission of a comparison was
    deleted.
    """
    pair = comparisons.find(session, job.id)
    if pair is not None:
        rival, final = _rival(session, pair.second_id), finals.of_job(session, job.id)
        return rival if final is None else dataclasses.replace(rival, error=final[1])
    may_lead = job.mode is Mode.LEADERBOARD and not job.practice
    if not board.duel or not may_lead or board.harness is not HarnessKind.STANDARD:
        return None
    # Which machine will judge it is not known yet: if that is of another class, the intervals decide.
    serving = _serving_classes(session, board, job.device)
    leaders = standings.leaders(session, board_id=board.id, device=job.device, among=serving)
    first = min(leaders, key=lambda each: each.order, default=None)
    if first is None or first.ranked_s == UNTIMED_S:
        return None
    if first.user_id == teams.competitor(session, board.id, submission.user_id):
        return None
    with suppress(RivalDeleted):  # just now: the duel will count as missed against the next leader
        return _rival(session, first.submission_id)
    return None


def _serving_classes(session: Session, board: Leaderboard, device: str) -> set[str] | None:
    """Return the classes of the machines that may rank a leaderboard on a device; None if no machine is known."""
    named = machines.ranking(session).get(board.id)
    found = {
        ranking_query.class_of(session, host_class(each), device)
        for each in machines.every(session)
        if each.slots_for(device) > 0 and (named is None or each.name in named)
    }
    return found or None


def queue(
    session: Session,
    *,
    board: Leaderboard,
    user_id: int,
    first: int,
    second: int,
    device: str,
    client: str = "compare",
    now: datetime,
) -> tuple[int, int]:
    """Queue a duel as a submission of its own, and return the numbers of the submission and of its job.

    Args:
        session: The transaction. The user and the two submissions are locked in it.
        board: The leaderboard of the two.
        user_id: The user who will own it.
        first: The submission whose code it copies.
        second: The submission that it is measured against.
        device: The device, as the leaderboard writes it.
        client: Where it came from.
    """
    code = submissions.code(session, first)
    if len(code.files) == 1:
        code = SourceTree.of(code.code, f"{client}-{first}-{second}{PurePosixPath(code.entry).suffix}")
    made, (job,) = submissions.insert(
        session,
        board=board,
        user_id=user_id,
        code=code,
        mode=Mode.BENCHMARK,
        devices=[device],
        now=now,
        client=client,
    )
    comparisons.insert(session, job_id=job.id, first_id=first, second_id=second)
    accepted = {"devices": [device], "mode": Mode.BENCHMARK.value}
    events.record_first(session, made, "accepted", accepted, None, now)
    return made, job.id


def settle(
    session: Session,
    *,
    board: Leaderboard,
    submission: Submission,
    job: Job,
    score: Score,
    report: RunReport,
    rival: int | None,
    host_class: str,
) -> Settled:
    """Decide whether a result takes the first place among those of its machine's class.

    It is called in the transaction that stores it, under the board's lock.

    A result that would be first meets the leader in a duel. If it is faster, or the leader fails in turns, it takes the
    place; if they tie it shares the leader's rank; if it is slower or fails in turns itself it ranks directly below.
    If no duel counts, because one of the two goes by the wall clock or the first place has changed meanwhile, the
    intervals of both times decide. A result that the leaderboard does not take is treated in the same way: the
    leaderboard may take it later.
    """
    if not board.duel or not board.ranks_times(report.backend):
        return Settled()
    of: standings.Key = {
        "board_id": board.id,
        "device": job.device,
        "host_class": ranking_query.class_of(session, host_class, job.device),
    }
    first = standings.leader(session, **of)
    mine = order(own_rank_s(score), report.trust, submission.id)
    if first is None or first.user_id == submission.user_id or mine > first.order:
        return Settled()
    met = report.duel if rival == first.submission_id else None
    if met is None or met.verdict == DuelVerdict.NOT_HELD:
        (leader,) = standings.entries(session, **of, limit=1)
        is_faster = by_intervals(score, leader.entry.score).winner == 0
        outcome = DuelOutcome.INTERVALS if is_faster else DuelOutcome.MISSED
    else:
        outcome = _OUTCOMES[met.verdict]
    if not outcome.is_behind:
        return Settled(outcome=outcome)
    ratio = None if met is None else met.ratio
    rank_s = duel_placement.time_behind(outcome, first.ranked_s, ratio)
    return Settled(outcome=outcome, rank_s=rank_s, behind=first.submission_id)


def _rival(session: Session, submission_id: int | None) -> Rival:
    code = None if submission_id is None else submissions.find_code(session, submission_id)
    if submission_id is None or code is None:
        raise RivalDeleted("the submission to compare with was deleted")
    return Rival(submission_id=submission_id, code=code)
