"""News of results, recorded in the transaction that changes a ranking.

While a leaderboard is frozen nothing is recorded, so nothing can leak. When it is unveiled, the first places
that changed meanwhile and official orders are announced at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelcup import scoring
from kernelcup.app.events.queries import teams
from kernelcup.app.news.queries import news
from kernelcup.app.news.queries.news import Fact
from kernelcup.app.results.places import PLACES, Ranking
from kernelcup.app.results.queries import finals, frozen_standings, runs, standings
from kernelcup.app.results.queries.finals import StoredFinal
from kernelcup.app.results.queries.ranking_query import class_of
from kernelcup.app.results.queries.standings import Key, Leader, Ranked
from kernelcup.app.results.stored import Stored
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import Job, Leaderboard, NewsKind, RankedBy, Run
from kernelcup.engine import Session
from kernelcup.scoring import Order
from kernelcup_harness.protocol import Mode, Verdict

TOP = 10
"""The owners of this many top places are notified when they are overtaken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """The state of a ranking before a result changed it."""

    board: Leaderboard
    device: str
    host_class: str
    """The class of machines among whose results the new one ranks."""
    user_id: int
    leader: Leader | None
    order: Order | None
    """Of the user's own best."""


def enter(session: Session, stored: Stored) -> None:
    """Enter a result into the ranking, and record what that changes and, for its author's bell, that it is there."""
    news.add_all(session, [*_entered(session, stored), *_for_author(stored)], stored.now)


def _entered(session: Session, stored: Stored) -> list[Fact]:
    """Enter a result; if it replaces another, its user's best may become worse."""
    board, submission, job, now = stored.board, stored.submission, stored.job, stored.now
    if stored.replaces and job.mode is Mode.LEADERBOARD:  # to judge the same submission again is not news
        user_id = submission.user_id
        runs.choose_best(session, board_id=board.id, user_id=user_id, devices=[job.device], now=now)
    elif stored.counts:
        author = submission.user_id
        user_id = teams.competitor(session, board.id, author) if board.event else author
        before = look(session, board, job=job, run=stored.run, user_id=user_id)
        device, host_class = before.device, before.host_class
        if runs.offer(session, board, stored.run, device, host_class, user_id=user_id, now=now):
            return _noted(session, before, now)
    return []


def _for_author(stored: Stored) -> list[Fact]:
    again = stored.job.first_attempt > 1
    if again and stored.run.verdict is Verdict.INTERNAL_ERROR:
        return []  # the result before it stays
    fact = Fact(
        key=f"verdict:{stored.run.id}",
        kind=NewsKind.REJUDGED if again else NewsKind.VERDICT,
        at=stored.now,
        board_id=stored.board.id,
        device=stored.job.device,
        submission_id=stored.submission.id,
        recipient_id=stored.submission.user_id,
        verdict=stored.run.verdict.value,
    )
    return [fact]


def note_task(session: Session, board: Leaderboard, now: datetime) -> None:
    """Record that a leaderboard's task was changed."""
    key = f"task:{board.id}:{board.task_hash}:{now.isoformat()}"
    news.add(session, Fact(key=key, kind=NewsKind.TASK_CHANGED, at=now, board_id=board.id), now)


def look(session: Session, board: Leaderboard, *, job: Job, run: Run, user_id: int) -> Before:
    """Return the state of the ranking that a job's run may enter.

    The leaderboard has to stay locked until :func:`note` is called.
    """
    host_class = class_of(session, run.host_class, job.device)
    of: Key = {"board_id": board.id, "device": job.device, "host_class": host_class}
    leader, mine = standings.leader_and(session, **of, user_id=user_id)
    return Before(
        board=board,
        device=job.device,
        host_class=host_class,
        user_id=user_id,
        leader=leader,
        order=None if mine is None else mine.order,
    )


def note(session: Session, before: Before, now: datetime) -> None:
    """Record whether a user's new result is first, and which of the top places it overtook, by its time."""
    news.add_all(session, _noted(session, before, now), now)


def _noted(session: Session, before: Before, now: datetime) -> list[Fact]:
    board, device = before.board, before.device
    if is_frozen(board, now):
        return []
    of: Key = {"board_id": board.id, "device": device, "host_class": before.host_class}
    top = standings.entries(session, **of, limit=TOP + 1)
    place = next((at for at, each in enumerate(top) if each.user_id == before.user_id), None)
    if place is None or top[place].entry.ranked_by is RankedBy.CORRECTNESS:
        return []
    if before.order is not None and top[place].entry.order >= before.order:
        return []
    ranks = list(scoring.band_heads(each.entry.placed for each in top))
    facts = [_first_place(before, top[0], ranks, now)] if place == 0 and not _led(before) else []
    for at in range(place + 1, len(top)):
        stood_ahead = before.order is None or top[at].entry.order < before.order
        if stood_ahead and ranks[at] > ranks[place]:
            facts.append(_overtaken(session, board, device, by=top[place], whom=top[at], now=now))
    return facts


def choose_all(session: Session, board: Leaderboard, now: datetime) -> None:
    """Choose all bests again after a change of the leaderboard, and record whose place it took."""
    before = {device: _submissions(session, board, device) for device in board.devices}
    runs.choose_all(session, board_id=board.id, now=now)
    if is_frozen(board, now):
        return
    for device, places in before.items():
        after = _submissions(session, board, device)
        for user_id, submission_id in places.items():
            if user_id not in after:
                news.add(session, _rank_lost(session, board, device, user_id, submission_id, now), now)


def unveil(session: Session, board: Leaderboard, now: datetime) -> None:
    """Record that a freeze ends, and who became first during it. The frozen copy must still exist."""
    if not is_frozen(board, now):
        return
    assert board.freeze_at is not None
    key = f"unveiled:{board.id}:{board.freeze_at.isoformat()}"
    news.add(session, Fact(key=key, kind=NewsKind.UNVEILED, at=now, board_id=board.id), now)
    for device in board.devices:
        final = finals.newest(session, board_id=board.id, device=device)
        if final is not None:
            note_order(session, final, now)
    if not frozen_standings.is_kept(session, board.id):
        return
    for device in board.devices:
        for host_class in standings.classes(session, board_id=board.id, device=device):
            _unveil_first(session, board, device, host_class, now)


def note_order(session: Session, final: StoredFinal, now: datetime) -> None:
    """Record the official order of a final that has ended. Do not call this while the leaderboard is frozen."""
    if final.outcome is None or not final.outcome.places:
        return
    first, *others = final.outcome.places
    winner = submissions.find(session, first.submission_id)
    fact = Fact(
        key=f"official:{final.id}",
        kind=NewsKind.OFFICIAL,
        at=now,
        board_id=final.leaderboard_id,
        device=final.device,
        submission_id=None if winner is None else winner.id,
        user_id=None if winner is None else winner.user_id,
        tied=any(each.place == first.place for each in others),
    )
    news.add(session, fact, now)


def is_frozen(board: Leaderboard, now: datetime) -> bool:
    """Return whether a leaderboard is frozen for everyone but its managers."""
    return board.freeze_at is not None and board.freeze_at <= now


def _unveil_first(session: Session, board: Leaderboard, device: str, host_class: str, now: datetime) -> None:
    of: Key = {"board_id": board.id, "device": device, "host_class": host_class}
    shown = standings.entries(session, **of, frozen=True, limit=1)
    top = standings.entries(session, **of, limit=2)
    leader = standings.leader(session, **of)
    is_known = shown and leader is not None and shown[0].user_id == leader.user_id
    if not top or leader is None or is_known or top[0].entry.ranked_by is RankedBy.CORRECTNESS:
        return
    ranks = PLACES.ranks(Ranking(session=session, **of), until=len(top) + 1)
    old = Leader(user_id=shown[0].user_id, order=shown[0].entry.order) if shown else None
    before = Before(
        board=board,
        device=device,
        host_class=host_class,
        user_id=leader.user_id,
        leader=old,
        order=None,
    )
    news.add(session, _first_place(before, top[0], ranks, now), now)
    if shown:
        news.add(session, _overtaken(session, board, device, by=top[0], whom=shown[0], now=now), now)


def _led(before: Before) -> bool:
    return before.leader is not None and before.leader.user_id == before.user_id


def _first_place(before: Before, first: Ranked, ranks: Sequence[int], now: datetime) -> Fact:
    old = before.leader
    return Fact(
        key=f"first:{before.board.id}:{before.device}:{first.entry.submission_id}:{now.isoformat()}",
        kind=NewsKind.FIRST_PLACE,
        at=now,
        board_id=before.board.id,
        device=before.device,
        submission_id=first.entry.submission_id,
        user_id=first.user_id,
        score_s=first.entry.score_s,
        speedup=first.entry.score.speedup,
        tied=list(ranks).count(1) > 1,
        other_id=None if old is None else old.user_id,
    )


def _overtaken(
    session: Session, board: Leaderboard, device: str, *, by: Ranked, whom: Ranked, now: datetime
) -> Fact:
    pair = f"{by.entry.submission_id}:{whom.entry.submission_id}"
    return Fact(
        key=f"overtaken:{board.id}:{device}:{pair}:{now.isoformat()}",
        kind=NewsKind.OVERTAKEN,
        at=now,
        board_id=board.id,
        device=device,
        submission_id=by.entry.submission_id,
        user_id=by.user_id,
        score_s=by.entry.score_s,
        speedup=by.entry.score.speedup,
        other_id=whom.user_id,
        recipient_id=teams.reader(session, board.id, whom.user_id) if board.event else whom.user_id,
    )


def _rank_lost(
    session: Session, board: Leaderboard, device: str, user_id: int, submission_id: int, now: datetime
) -> Fact:
    return Fact(
        key=f"lost:{board.id}:{device}:{submission_id}:{now.isoformat()}",
        kind=NewsKind.RANK_LOST,
        at=now,
        board_id=board.id,
        device=device,
        submission_id=submission_id,
        other_id=user_id,
        recipient_id=teams.reader(session, board.id, user_id) if board.event else user_id,
    )


def _submissions(session: Session, board: Leaderboard, device: str) -> dict[int, int]:
    """Return the submission that stands for each user by id."""
    found = standings.bests(session, board_id=board.id, device=device)
    return {each.user_id: each.submission_id for each in found}
