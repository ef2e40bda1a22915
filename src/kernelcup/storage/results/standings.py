"""Standings by page, live or frozen, and their history."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from kernelcup.domain import DuelOutcome, JobState, Run
from kernelcup.scoring import Entry, Span
from kernelcup.storage.results import standings_queries
from kernelcup.storage.results.ranking_query import JUDGED_ALIKE
from kernelcup.storage.tables import (
    BestRow,
    JobRow,
    LeaderboardRow,
    OlderBestRow,
    RecordRow,
    RunRow,
    SubmissionRow,
    UserRow,
)
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, RunReport, TrustLevel, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """An entry with its user's id."""

    user_id: int
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The submission that is a user's best, and the values that decide its rank."""

    user_id: int
    submission_id: int
    span: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Leader:
    """The first place of a ranking."""

    user_id: int
    submission_id: int
    ranked_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a ranking, as a range of the times that entries are ranked by."""

    at_least_s: float | None = None
    below_s: float | None = None


WHOLE = Part()


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A value that changes whenever a ranking does, computed from its index."""

    entries: int
    scores: float
    submissions: int
    newest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """An improvement of a user's best."""

    id: int
    user_id: int
    user: str
    submission_id: int
    score_s: float
    """The measured score; after a duel that was not won, the result ranks by another time."""
    at: datetime


def entries(
    session: Session,
    *,
    board_id: int,
    device: str,
    frozen: bool = False,
    user_id: int | None = None,
    submission_id: int | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[Ranked]:
    """Return the bests of one (leaderboard, device), or only one user's or one submission's, fastest first."""
    wanted = {"board_id": board_id, "device": device, "user_id": user_id, "submission_id": submission_id}
    page = {"limit": standings_queries.ALL if limit is None else limit, "offset": offset}
    query = standings_queries.entries(frozen, of_user=user_id is not None, of_one=submission_id is not None)
    return [Ranked(user_id=row.user_id, entry=_entry(row)) for row in session.execute(query, wanted | page)]


def entries_of_user(session: Session, user_id: int) -> dict[tuple[int, str], Ranked]:
    """Return a user's current bests, by leaderboard and device."""
    return {
        (row.leaderboard_id, row.device): Ranked(user_id=row.user_id, entry=_entry(row))
        for row in session.execute(standings_queries.entries_of_user(), {"user_id": user_id})
    }


def older(session: Session, *, board_id: int, device: str, limit: int) -> list[Ranked]:
    """Return the bests that an older clock timed and that were not judged again since, fastest first."""
    query = (
        select(OlderBestRow.user_id, OlderBestRow.ranked_s, OlderBestRow.submission_id, UserRow.name)
        .add_columns(SubmissionRow.created_at, SubmissionRow.file_name, RunRow.trust, RunRow.comparable)
        .add_columns(RunRow.score_s, RunRow.score_raw_s.label("raw_s"), RunRow.at_floor, RunRow.duel)
        # As in a best, the interval belongs to the time that it was ranked by.
        .add_columns((RunRow.score_low_s * OlderBestRow.ranked_s / RunRow.score_s).label("low_s"))
        .add_columns((RunRow.score_high_s * OlderBestRow.ranked_s / RunRow.score_s).label("high_s"))
        .join(UserRow, UserRow.id == OlderBestRow.user_id)
        .join(RunRow, RunRow.id == OlderBestRow.run_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == OlderBestRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == OlderBestRow.leaderboard_id)
        .where(OlderBestRow.leaderboard_id == board_id, OlderBestRow.device == device)
        .where(RunRow.counted, RunRow.judging == LeaderboardRow.judging)
        .where(JobRow.state != JobState.QUARANTINED.value)
        .order_by(OlderBestRow.ranked_s, OlderBestRow.submission_id)
        .limit(limit)
    )
    return [Ranked(user_id=row.user_id, entry=_entry(row)) for row in session.execute(query)]


def _entry(row: Any) -> Entry:
    moved = row.score_s / row.ranked_s  # the stored interval belongs to the ranked time
    return Entry(
        user=row.name,
        score_s=row.score_s,
        submission_id=row.submission_id,
        submitted_at=row.created_at,
        file_name=row.file_name,
        trust=row.trust,
        comparable=row.comparable,
        low_s=None if row.low_s is None else row.low_s * moved,
        high_s=None if row.high_s is None else row.high_s * moved,
        raw_s=row.raw_s,
        at_floor=row.at_floor,
        rank_s=None if row.ranked_s == row.score_s else row.ranked_s,
        duel=DuelOutcome(row.duel),
    )


def spans(
    session: Session,
    *,
    board_id: int,
    device: str,
    frozen: bool = False,
    part: Part = WHOLE,
    limit: int | None = None,
) -> list[Span]:
    """Return the spans that decide about ties of one (leaderboard, device), in the order of the ranking.

    Args:
        session: The transaction.
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        frozen: As it was when the leaderboard froze.
        part: Only this part of it.
        limit: At most that many.
    """
    wanted = {
        "board_id": board_id,
        "device": device,
        "limit": standings_queries.ALL if limit is None else limit,
    }
    found = session.execute(standings_queries.spans(frozen, *_ends(part)), wanted | dataclasses.asdict(part))
    return [
        Span(score_s=score_s, low_s=low_s, high_s=high_s, at_floor=at_floor)
        for score_s, low_s, high_s, at_floor in found
    ]


def bests(session: Session, *, board_id: int, device: str) -> list[Best]:
    """Return the current best of each user of one (leaderboard, device), in the order of the ranking."""
    query = (
        select(BestRow.user_id, BestRow.submission_id)
        .add_columns(BestRow.score_s, BestRow.low_s, BestRow.high_s, BestRow.at_floor)
        .where(BestRow.leaderboard_id == board_id, BestRow.device == device)
        .order_by(BestRow.score_s, BestRow.submission_id)
    )
    return [
        Best(
            user_id=row.user_id,
            submission_id=row.submission_id,
            span=Span(score_s=row.score_s, low_s=row.low_s, high_s=row.high_s, at_floor=row.at_floor),
        )
        for row in session.execute(query)
    ]


def count(
    session: Session,
    *,
    board_id: int,
    device: str,
    frozen: bool = False,
    above: tuple[float, int] | None = None,
) -> int:
    """Return how many users have a place in one (leaderboard, device).

    Args:
        session: The transaction.
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        frozen: As it was when the leaderboard froze.
        above: Count only places above this one: the time that it is ranked by, and its submission.
    """
    wanted: dict[str, Any] = {"board_id": board_id, "device": device}
    if above is not None:
        wanted |= {"score_s": above[0], "submission_id": above[1]}
    found: int = session.execute(standings_queries.count(frozen, above is not None), wanted).scalar_one()
    return found


def state(session: Session, *, board_id: int, device: str, frozen: bool = False, part: Part = WHOLE) -> State:
    """Return the state of a ranking or of a part of it, from sums that the database computes quickly."""
    wanted = {"board_id": board_id, "device": device} | dataclasses.asdict(part)
    entries, scores, total, newest = session.execute(
        standings_queries.state(frozen, *_ends(part)), wanted
    ).one()
    return State(entries=entries, scores=scores or 0.0, submissions=int(total or 0), newest=newest or 0)


def _ends(part: Part) -> tuple[bool, bool]:
    """Return whether a part has a lower and an upper end."""
    return part.at_least_s is not None, part.below_s is not None


def of_user(session: Session, user_id: int) -> list[tuple[int, str]]:
    """Return each (leaderboard, device) where a user has a place, newest leaderboards first."""
    where = select(BestRow.leaderboard_id, BestRow.device).where(BestRow.user_id == user_id)
    found = session.execute(where.order_by(BestRow.leaderboard_id.desc(), BestRow.device))
    return [(row.leaderboard_id, row.device) for row in found]


def leader(session: Session, *, board_id: int, device: str) -> Leader | None:
    """Return the current leader of one (leaderboard, device), None while no proven result is ranked."""
    found = session.execute(standings_queries.leader(), {"board_id": board_id, "device": device}).first()
    if found is None:
        return None
    user_id, submission_id, ranked_s = found
    return Leader(user_id=user_id, submission_id=submission_id, ranked_s=ranked_s)


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

    Only runs that were judged as the leaderboard judges now are included: other times cannot be compared.

    Args:
        session: The transaction.
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        user_id: Return only records of this user.
        before_id: Return only records that are older than this one.
        limit: The maximum number of records.
        until: Return no records after this time.
        always: Include all records of this user, even after ``until``.
    """
    query = (
        select(RecordRow, UserRow.name, RunRow.score_s)
        .join(UserRow, UserRow.id == RecordRow.user_id)
        .join(RunRow, RunRow.id == RecordRow.run_id)
        .join(LeaderboardRow, LeaderboardRow.id == RecordRow.leaderboard_id)
        .where(RecordRow.leaderboard_id == board_id, RecordRow.device == device)
        .where(JUDGED_ALIKE)
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
            at=row.at,
        )
        for row, name, score_s in session.execute(query)
    ]


def results(session: Session, job_ids: list[int]) -> dict[int, Run]:
    """Return each job's counted run with only the identifying fields of its report."""
    plain = [RunRow.id, RunRow.job_id, RunRow.attempt, RunRow.task_hash, RunRow.verdict, RunRow.score_s]
    query = (
        select(*plain, RunRow.trust, RunRow.comparable, RunRow.started_at, RunRow.finished_at)
        .add_columns(RunRow.harness_hash, RunRow.machine, RunRow.rank_s, RunRow.duel, RunRow.rival_id)
        .add_columns(RunRow.judging, RunRow.clock)
        .add_columns(RunRow.score_low_s, RunRow.score_high_s, RunRow.score_raw_s, RunRow.at_floor)
        # Not as text: PostgreSQL would read the whole report for that, and older reports may contain a NUL.
        .add_columns(*(RunRow.report[key].label(f"its_{key}") for key in _KEPT))
        .where(RunRow.job_id.in_(job_ids), RunRow.counted)
    )
    return {
        row.job_id: Run(
            id=row.id,
            job_id=row.job_id,
            attempt=row.attempt,
            task_hash=row.task_hash,
            verdict=Verdict(row.verdict),
            score_s=row.score_s,
            started_at=row.started_at,
            finished_at=row.finished_at,
            harness_hash=row.harness_hash,
            machine=row.machine,
            low_s=row.score_low_s,
            high_s=row.score_high_s,
            raw_s=row.score_raw_s,
            at_floor=row.at_floor,
            rank_s=row.rank_s,
            duel=DuelOutcome(row.duel),
            rival=row.rival_id,
            judging=row.judging,
            clock=row.clock,
            report=RunReport(
                job_id=row.its_job_id,
                mode=Mode(row.its_mode),
                backend=Backend(row.its_backend),
                harness=HarnessKind(row.its_harness),
                verdict=Verdict(row.verdict),
                trust=TrustLevel(row.trust),
                comparable=row.comparable,
            ),
        )
        for row in session.execute(query)
    }


_KEPT = ("job_id", "mode", "backend", "harness")
