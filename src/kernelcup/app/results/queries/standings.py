"""Standings by page, live or frozen, and their history."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy import Row, and_, func, or_, select
from sqlalchemy.orm import Session

from kernelcup.app.machines.queries import agreements
from kernelcup.app.results.queries import standings_queries
from kernelcup.app.results.queries.ranking_query import ORDER, RANKS_TIMES, order
from kernelcup.app.results.queries.ruling import counts, only
from kernelcup.app.results.queries.standings_queries import entry_of
from kernelcup.domain import OPEN, DuelOutcome, Record, Ruling
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.scoring import Entry, Order, Placed
from kernelcup.tables import BestRow, JobRow, LeaderboardRow, RecordRow, RunRow, UserRow, new_revision


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """An entry with the ids of its user and its run."""

    user_id: int
    run_id: int
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Stand(Ranked):
    """An entry with its ranking."""

    board_id: int
    device: str
    host_class: str
    is_split: bool
    """Whether the device has rankings of other classes, too."""
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The submission that is a user's best, and the values that decide its rank."""

    user_id: int
    host_class: str
    submission_id: int
    score_s: float
    placed: Placed


@dataclass(frozen=True, kw_only=True, slots=True)
class Leader:
    """The first place of a ranking, or another one."""

    user_id: int
    order: Order
    """Of its result."""

    @property
    def ranked_s(self) -> float:
        """The seconds that give its result the place."""
        return self.order[0]

    @property
    def submission_id(self) -> int:
        """Its submission."""
        return self.order[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a ranking, as a range of the times that entries are ranked by."""

    at_least_s: float | None = None
    below_s: float | None = None


WHOLE = Part()


class Key(TypedDict):
    """What identifies a ranking."""

    board_id: int
    device: str
    host_class: str


@once
def entries(
    session: Session,
    *,
    board_id: int,
    device: str,
    host_class: str | None = None,
    frozen: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> list[Ranked]:
    """Return the bests of one (leaderboard, device, class), fastest first.

    Without a class they are the bests of all classes, one after the other.
    """
    wanted = {"board_id": board_id, "device": device, "host_class": host_class}
    page = {"limit": standings_queries.ALL if limit is None else limit, "offset": offset}
    query = standings_queries.entries(frozen, of_class=host_class is not None)
    return [_entry(row) for row in session.execute(query, wanted | page)]


@once
def classes(session: Session, *, board_id: int, device: str, frozen: bool = False) -> list[str]:
    """Return the classes of machines that have a ranking of their own, in their order; none without a result."""
    _, first, last = _state(session, board_id=board_id, device=device, frozen=frozen)
    if first == last:
        return [] if first is None else [first]
    wanted = {"board_id": board_id, "device": device}
    return list(session.scalars(standings_queries.classes(frozen), wanted))


@once
def stands(
    session: Session,
    *,
    user_id: int | None = None,
    submission_id: int | None = None,
    board_id: int | None = None,
    device: str | None = None,
    frozen: bool = False,
) -> list[Stand]:
    """Return the bests of a user, or that are a submission's, one for each class, everywhere or on one device."""
    wanted = {"user_id": user_id, "submission_id": submission_id, "board_id": board_id, "device": device}
    query = standings_queries.stands(frozen, on_device=device is not None, of_one=submission_id is not None)
    return [made_of(row, Stand, entry=entry_of(row)) for row in session.execute(query, wanted)]


def apart(
    session: Session, *, board_id: int, device: str, why: Ruling, since: datetime | None, limit: int
) -> list[Ranked]:
    """Return each user's best in each class among results that would rank but for one reason."""
    query = standings_queries.apart(board_id, device, agreements.groups(session), why, since).limit(limit)
    return [_entry(row) for row in session.execute(query)]


def count_waiting(session: Session, *, board_id: int, device: str, under_way: bool = False) -> int:
    """Return how many users have no place although a result from before the task or harness changed would rank.

    It reads the history of the ranking only where something changed. With ``under_way`` only those are counted whose
    result is being judged again.
    """
    query = (
        select(func.count(RecordRow.user_id.distinct()))
        .join(RunRow, RunRow.id == RecordRow.run_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(LeaderboardRow, LeaderboardRow.id == RecordRow.leaderboard_id)
        .outerjoin(
            BestRow,
            and_(
                BestRow.leaderboard_id == RecordRow.leaderboard_id,
                BestRow.device == RecordRow.device,
                BestRow.user_id == RecordRow.user_id,
            ),
        )
        .where(RecordRow.leaderboard_id == board_id, RecordRow.device == device)
        .where(RecordRow.at <= LeaderboardRow.judging_since, BestRow.user_id.is_(None))
        .where(only(Ruling.OUTDATED))
    )
    if under_way:
        query = query.where(JobRow.state.in_([each.value for each in OPEN]))
    return session.execute(query).scalar_one()


@once
def scores(
    session: Session,
    *,
    board_id: int,
    device: str,
    host_class: str,
    frozen: bool = False,
    part: Part = WHOLE,
    limit: int | None = None,
) -> list[Placed]:
    """Return the scores that decide about ties of a ranking, in its order.

    Args:
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        host_class: The class of machines.
        frozen: As it was when the leaderboard froze.
        part: Only this part of it.
        limit: At most that many.
    """
    wanted = {
        "board_id": board_id,
        "device": device,
        "host_class": host_class,
        "limit": standings_queries.ALL if limit is None else limit,
    }
    found = session.execute(standings_queries.scores(frozen, *_ends(part)), wanted | dataclasses.asdict(part))
    return [_placed(row) for row in found]


def bests(session: Session, *, board_id: int, device: str) -> list[Best]:
    """Return the current bests of users of one (leaderboard, device): class by class, in the order of the ranking."""
    query = (
        select(BestRow, RunRow.score_s)
        .join(RunRow, RunRow.id == BestRow.run_id)
        .where(BestRow.leaderboard_id == board_id, BestRow.device == device)
        .order_by(BestRow.host_class, *order(BestRow))
    )
    return [
        Best(
            user_id=row.user_id,
            host_class=row.host_class,
            submission_id=row.submission_id,
            score_s=score_s or row.score_s,
            placed=_placed(row),
        )
        for row, score_s in session.execute(query)
    ]


@once
def count(
    session: Session,
    *,
    board_id: int,
    device: str,
    host_class: str | None = None,
    frozen: bool = False,
    above: Order | None = None,
) -> int:
    """Return how many places a ranking has, or without a class all rankings of the device.

    Args:
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        host_class: The class of machines.
        frozen: As it was when the leaderboard froze.
        above: Count only places above the one of this order.
    """
    wanted: dict[str, Any] = {"board_id": board_id, "device": device, "host_class": host_class}
    if above is not None:
        wanted |= zip(ORDER, above, strict=True)
    query = standings_queries.count(frozen, host_class is not None, above is not None)
    return int(session.execute(query, wanted).scalar_one())


def above(session: Session, of: Stand) -> int:
    """Return how many places are above an entry in its ranking."""
    key: Key = {"board_id": of.board_id, "device": of.device, "host_class": of.host_class}
    return count(session, **key, above=of.entry.order)


def revise(
    session: Session, board_id: int, device: str | None = None, *, frozen: bool = False, copied: bool = False
) -> None:
    """Give the rankings of a leaderboard, or of one device, another revision: it has to follow each change of bests.

    The leaderboard is locked, so on PostgreSQL no two transactions wait for each other's row. The revision is random,
    or of a copied ranking that of the live one.
    """
    wanted = {"board_id": board_id, "its_device": device, "new": new_revision()}
    session.execute(standings_queries.revise(frozen, of_device=device is not None, copied=copied), wanted)


def revision(session: Session, *, board_id: int, device: str, frozen: bool = False) -> int:
    """Return the revision of the rankings of a leaderboard's device: the same one means the same places."""
    return _state(session, board_id=board_id, device=device, frozen=frozen)[0]


@once
def _state(
    session: Session, *, board_id: int, device: str, frozen: bool
) -> tuple[int, str | None, str | None]:
    """Return a ranking's revision, and the first and the last class of machines in it: most pages ask for both."""
    wanted = {"board_id": board_id, "device": device}
    number, first, last = session.execute(standings_queries.state(frozen), wanted).one()
    return int(number), first, last


def sums(
    session: Session, *, board_id: int, device: str, host_class: str, frozen: bool, part: Part
) -> Row[Any]:
    """Return the number of entries of a part of a ranking, and sums that tell whether it has changed."""
    wanted = {"board_id": board_id, "device": device, "host_class": host_class} | dataclasses.asdict(part)
    return session.execute(standings_queries.sums(frozen, *_ends(part)), wanted).one()


def _ends(part: Part) -> tuple[bool, bool]:
    """Return whether a part has a lower and an upper end."""
    return part.at_least_s is not None, part.below_s is not None


def _entry(row: Any) -> Ranked:
    return Ranked(user_id=row.user_id, run_id=row.run_id, entry=entry_of(row))


def _placed(row: Any) -> Placed:
    is_below = DuelOutcome(row.duel).is_below
    return Placed(score_s=row.score_s, low_s=row.low_s, high_s=row.high_s, is_below=is_below)


def leader(session: Session, *, board_id: int, device: str, host_class: str) -> Leader | None:
    """Return the current leader of one (leaderboard, device, class), None while no result is ranked."""
    wanted = {"board_id": board_id, "device": device, "host_class": host_class}
    found = session.execute(standings_queries.leader(), wanted).first()
    return None if found is None else Leader(user_id=found[0], order=tuple(found[1:]))


def leader_and(
    session: Session, *, board_id: int, device: str, host_class: str, user_id: int
) -> tuple[Leader | None, Leader | None]:
    """Return who leads one (leaderboard, device, class), and where a user stands there; None for no result."""
    wanted = {"board_id": board_id, "device": device, "host_class": host_class, "user_id": user_id}
    found = {
        is_first: Leader(user_id=user, order=tuple(its))
        for is_first, user, *its in session.execute(standings_queries.leader_and(), wanted)
    }
    return found.get(1), found.get(0)


def leaders(
    session: Session, *, board_id: int, device: str, among: Collection[str] | None = None
) -> list[Leader]:
    """Return the current leaders of one (leaderboard, device), one for each class of machines, or of some classes."""
    every = classes(session, board_id=board_id, device=device)
    every = [each for each in every if among is None or each in among]
    found = [leader(session, board_id=board_id, device=device, host_class=each) for each in every]
    return [each for each in found if each is not None]


def history(
    session: Session,
    *,
    board_id: int,
    device: str,
    user_id: int | None = None,
    before_id: int | None = None,
    limit: int = 100,
    until: datetime | None = None,
    always: int | None = None,
) -> list[Record]:
    """Return the improvements of the bests of one (leaderboard, device), newest first.

    Only runs that rank now, by their time, are included: a result that was put aside leaves the history with the
    ranking.

    Args:
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        user_id: Return only records of this user.
        before_id: Return only records that are older than this one.
        limit: The maximum number of records.
        until: Return no records after this time.
        always: Include all records of this user, even after ``until``.
    """
    query = (
        select(RecordRow, UserRow.name, RunRow.score_s, RunRow.speedup)
        .join(UserRow, UserRow.id == RecordRow.user_id)
        .join(RunRow, RunRow.id == RecordRow.run_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(LeaderboardRow, LeaderboardRow.id == RecordRow.leaderboard_id)
        .where(RecordRow.leaderboard_id == board_id, RecordRow.device == device)
        .where(counts(), RANKS_TIMES)
        .order_by(RecordRow.id.desc())
        .limit(limit)
    )
    if user_id is not None:
        query = query.where(RecordRow.user_id == user_id)
    if before_id is not None:
        query = query.where(RecordRow.id < before_id)
    if until is not None:
        query = query.where(or_(RecordRow.at <= until, RecordRow.user_id == always))
    return [
        Record(
            id=row.id,
            user_id=row.user_id,
            user=name,
            submission_id=row.submission_id,
            score_s=score_s or row.score_s,
            speedup=speedup,
            at=row.at,
        )
        for row, name, score_s, speedup in session.execute(query)
    ]
