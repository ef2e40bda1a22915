"""Runs, and the best of each user.

A run ranks while it counts for its job, has a score, and its job is not put aside. That alone keeps out
results that wait for a review or were rejected: a rejected job stays rejected, its run stays as it
was measured, and only finished jobs can be judged again.

A transaction that changes ``bests`` locks the leaderboard, calls ``frozen_standings.keep`` before and
``standings.revise`` after the change. Without the lock two results of one user that are stored at once would each
choose the best without the other, and a change of the ranking rules would miss a concurrent quarantine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import delete, literal, select, tuple_, update
from sqlalchemy import insert as insert_into
from sqlalchemy.orm import Session

from kernelcup.app.events.queries import teams
from kernelcup.app.results.queries import duel_placement, frozen_standings, ranking_query, standings
from kernelcup.app.results.queries.ranking_query import score_of
from kernelcup.app.results.queries.ruling import CURRENT, without
from kernelcup.clocks import clock_of
from kernelcup.domain import ASIDE, DuelOutcome, Job, Leaderboard, Ruling, Run, Score, split_count
from kernelcup.engine import file_store
from kernelcup.engine.database import files_of, upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    BestRow,
    FrozenBestRow,
    JobRow,
    RecordRow,
    RunRow,
    SubmissionRow,
    table_of,
)
from kernelcup_harness.protocol import (
    Backend,
    CapturedOutput,
    HarnessKind,
    Mode,
    ProtocolError,
    RunReport,
    TrustLevel,
    Verdict,
    from_json,
    to_json,
)

LARGEST_MESSAGE = 10_000
"""Characters of a large report's message in its row."""


def insert(
    session: Session,
    *,
    job: Job,
    report: RunReport,
    score: Score | None,
    started_at: datetime,
    finished_at: datetime,
    harness_hash: str,
    machine: str,
    counted: bool = True,
    rank_s: float | None = None,
    duel: DuelOutcome = DuelOutcome.NONE,
    rival: int | None = None,
    judging: str = "",
    lent: bool = False,
    host_class: str = "",
    price_per_hour: float = 0.0,
) -> Run:
    """Store a run, by default the one that counts for its job.

    A report that is too large for a row has to be in the file store already: nothing slow happens here.

    Args:
        score: Its score, None if it earns none.
        rank_s: The time that it is ranked by after a duel that it did not win, in seconds.
        duel: The outcome of the duel.
        rival: The submission that it was measured against, or that it stands behind.
        judging: The hash of everything that judging it depended on; it ranks only if its leaderboard's is equal.
        lent: Whether the operator does not vouch for the machine.
        host_class: The machine's hardware and driver.
        price_per_hour: What one of its GPUs costs.
    """
    body = to_json(report)
    whole = file_store.large_json(body)
    gpu_hours = (finished_at - started_at).total_seconds() / 3600 * split_count(job.device)[1]
    row = RunRow(
        job_id=job.id,
        attempt=job.attempt,
        task_hash=job.task_hash,
        counted=counted,
        verdict=report.verdict.value,
        **({} if score is None else dataclasses.asdict(score)),
        rank_s=rank_s,
        duel=duel.value,
        rival_id=rival,
        judging=judging,
        clock=clock_of(report).value,
        trust=report.trust.value,
        backend=report.backend.value,
        started_at=started_at,
        finished_at=finished_at,
        harness_hash=harness_hash,
        machine=machine,
        lent=lent,
        isolation="provider" if report.environment.get("isolation") else "",
        host_class=host_class,
        cost=max(gpu_hours, 0.0) * price_per_hour,
        report=body if whole is None else to_json(beginning(report)),
        report_file=None if whole is None else hashlib.sha256(whole).hexdigest(),
    )
    session.add(row)
    session.flush()
    return _run(row, report)


def uncount(session: Session, job_id: int) -> bool:
    """Stop counting the run that counts for a job; return whether there was one."""
    changed = update(RunRow).where(RunRow.job_id == job_id, CURRENT).values(counted=False)
    return session.execute(changed.returning(RunRow.id)).first() is not None


def counted(session: Session, job_ids: Sequence[int]) -> dict[int, Run]:
    """Return the counted run of each job that has one, by the job's id."""
    rows = session.scalars(select(RunRow).where(RunRow.job_id.in_(job_ids), CURRENT))
    return {row.job_id: _run(row, report_of(session, row)) for row in rows}


Known = TypeVar("Known", bound=StrEnum)


def report_of(session: Session, row: Any) -> RunReport:
    """Return the report of a row with ``report`` and ``report_file``; its beginning if the file was deleted.

    One that cannot be read, as of another program's import, says so in its message: pages go on.
    """
    whole = None if row.report_file is None else files_of(session).get(row.report_file)
    try:
        return from_json(RunReport, row.report if whole is None else json.loads(whole))
    except (ProtocolError, ValueError) as error:
        return unreadable(row.report, str(error))


def unreadable(stored: Any, why: str) -> RunReport:
    """Return what stands for a report that cannot be read: of the stored one what is known by itself."""

    def known(kind: type[Known], key: str, otherwise: Known) -> Known:
        try:
            return kind(stored[key])
        except (KeyError, TypeError, ValueError):
            return otherwise

    return RunReport(
        job_id="",
        mode=known(Mode, "mode", Mode.LEADERBOARD),
        backend=known(Backend, "backend", Backend.CUDA),
        harness=known(HarnessKind, "harness", HarnessKind.STANDARD),
        verdict=Verdict.INTERNAL_ERROR,
        message=f"report unreadable: {why}",
    )


def report_files(session: Session, job_ids: Sequence[int]) -> list[str]:
    """Return the hashes of the reports of jobs that are in files."""
    query = select(RunRow.report_file).where(RunRow.job_id.in_(job_ids), RunRow.report_file.is_not(None))
    return [each for each in session.scalars(query) if each is not None]


def files_of_bests(session: Session) -> set[str]:
    """Return the hashes of the files, and of the large reports, of all runs that stand in a ranking."""
    bests = select(BestRow.run_id).union(select(FrozenBestRow.run_id))
    query = select(RunRow.report["files"], RunRow.report_file).where(RunRow.id.in_(bests))
    found = session.execute(query).all()
    hashes = {each["sha256"] for files, _ in found for each in files or ()}
    return hashes | {whole for _, whole in found if whole is not None}


def ranked_of(session: Session, submission_id: int, device: str) -> Run | None:
    """Return the run that counts for a submission's ranked job on a device.

    None without one, while a review keeps it aside, and for one of a lent machine: its owner may have forged it.
    """
    query = (
        select(RunRow)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .where(JobRow.submission_id == submission_id, JobRow.device == device)
        .where(JobRow.mode == Mode.LEADERBOARD.value, RunRow.lent.is_(False))
        .where(without(*ASIDE, Ruling.REPLACED))
    )
    row = session.scalars(query).first()
    return None if row is None else _run(row, report_of(session, row))


def beginning(report: RunReport) -> RunReport:
    """Return what is kept of a large report in its row."""
    message = report.message[:LARGEST_MESSAGE]
    return dataclasses.replace(
        report,
        message=message,
        stages=[],
        stdout=CapturedOutput(),
        stderr=CapturedOutput(),
        counters=None,
        ran=[],
        environment={},
        extra={},
    )


def counted_without_reports(session: Session, job_ids: list[int]) -> dict[int, Run]:
    """Return each job's counted run with only the identifying fields of its report."""
    names = [each.key for each in RunRow.__mapper__.column_attrs if each.key != "report"]
    query = (
        select(*(getattr(RunRow, name) for name in names))
        # Not as text: PostgreSQL would read the whole report for that, and older reports may contain a NUL.
        .add_columns(*(RunRow.report[key].label(f"its_{key}") for key in _KEPT))
        .where(RunRow.job_id.in_(job_ids), CURRENT)
    )
    return {row.job_id: _run(row, _identity(row)) for row in session.execute(query)}


_KEPT = ("job_id", "mode", "backend", "harness")


def _identity(row: Any) -> RunReport:
    if None in (row.its_job_id, row.its_mode, row.its_backend, row.its_harness):
        return unreadable({"mode": row.its_mode, "backend": row.backend}, "it names no job")
    return RunReport(
        job_id=row.its_job_id,
        mode=Mode(row.its_mode),
        backend=Backend(row.its_backend),
        harness=HarnessKind(row.its_harness),
        verdict=Verdict(row.verdict),
        trust=TrustLevel(row.trust),
        comparable=row.backend != Backend.EMULATED,
    )


def scores(session: Session, submission_ids: Sequence[int], device: str) -> dict[int, Score]:
    """Return the scores of finished submissions on one device, as measured."""
    query = (
        select(JobRow.submission_id, *(getattr(RunRow, name) for name in ranking_query.SCORE))
        .join(JobRow, JobRow.id == RunRow.job_id)
        .where(JobRow.submission_id.in_(submission_ids), JobRow.device == device)
        .where(without(*ASIDE, Ruling.REPLACED, Ruling.NO_TIME))
    )
    return {row.submission_id: score_of(row) for row in session.execute(query)}


def find(session: Session, run_id: int) -> Run | None:
    """Return one run, counted or not."""
    row = session.get(RunRow, run_id)
    return None if row is None else _run(row, report_of(session, row))


def offer(
    session: Session,
    board: Leaderboard,
    run: Run,
    device: str,
    host_class: str,
    *,
    user_id: int,
    now: datetime,
) -> bool:
    """Make a ranking run the best of who competes with it, among those of a class of machines, if it is better.

    Return whether it is.
    """
    if board.freeze_at is not None and board.freeze_at <= now:
        frozen_standings.keep(session, board.id, now)
    key = _key(board.id, device, user_id)
    mine = ranking_query.ranking(board.id).where(RunRow.id == run.id).subquery().c
    columns = table_of(BestRow).c
    whose = {**key, "host_class": host_class}
    names = [*whose, *ranking_query.COLUMNS]
    new = select(
        *(literal(value, columns[name].type) for name, value in whose.items()),
        *(mine[name] for name in ranking_query.COLUMNS),
    )
    # SQLite reads ON CONFLICT after a SELECT without a condition as one of a join.
    row = upsert(session, BestRow).from_select(names, new.where(mine.run_id == run.id))
    better = tuple_(*ranking_query.order(row.excluded)) < tuple_(*ranking_query.order(BestRow))
    kept = {name: row.excluded[name] for name in ranking_query.COLUMNS}
    improved = row.on_conflict_do_update(index_elements=list(whose), set_=kept, where=better)
    improved = improved.returning(BestRow.run_id, BestRow.submission_id, BestRow.score_s)
    best = session.execute(improved, execution_options=_NO_SYNC).first()
    if best is not None:
        _record(session, key, best._asdict(), now)
        standings.revise(session, board.id, device)
    return best is not None


def choose_best(
    session: Session, *, board_id: int, user_id: int, devices: Sequence[str], now: datetime
) -> None:
    """Choose a user's bests again, after one of their runs stopped ranking, was replaced or is gone.

    They may be worse. Before a deletion, ``frozen_standings.keep`` has to be called.
    """
    frozen_standings.keep(session, board_id, now)
    competitor = teams.competitor(session, board_id, user_id)
    for device in devices:
        _choose(session, _key(board_id, device, competitor), now)
        for moved in sorted(duel_placement.place_again(session, board_id=board_id, device=device)):
            _choose(session, _key(board_id, moved[0], teams.competitor(session, board_id, moved[1])), now)
        standings.revise(session, board_id, device)


def _choose(session: Session, key: dict[str, Any], now: datetime) -> None:
    session.execute(delete(BestRow).filter_by(**key))
    mates = teams.mates(session, key["leaderboard_id"], key["user_id"])
    mine = (SubmissionRow.user_id.in_(mates), JobRow.device == key["device"])
    for row in session.execute(ranking_query.bests(session, key["leaderboard_id"], *mine)).all():
        best = row._asdict()
        session.execute(insert_into(BestRow).values(**best))
        # It may have been slower than a result that does not rank any more, so that no record was made of it.
        has_record = select(RecordRow.id).where(RecordRow.run_id == best["run_id"]).limit(1)
        if session.execute(has_record).first() is None:
            _record(session, key, best, now)


def choose_all(session: Session, *, board_id: int, now: datetime) -> None:
    """Choose all bests of a leaderboard again, after its ranking rules changed."""
    frozen_standings.keep(session, board_id, now)
    duel_placement.place_again(session, board_id=board_id)
    session.execute(delete(BestRow).where(BestRow.leaderboard_id == board_id))
    names = [*ranking_query.KEY, *ranking_query.COLUMNS]
    session.execute(insert_into(table_of(BestRow)).from_select(names, ranking_query.bests(session, board_id)))
    standings.revise(session, board_id)


_NO_SYNC = {"synchronize_session": False}


def _record(session: Session, key: dict[str, Any], best: dict[str, Any], now: datetime) -> None:
    kept = {name: best[name] for name in ("run_id", "submission_id", "score_s")}
    session.add(RecordRow(**key, **kept, at=now))
    session.flush()


def _key(board_id: int, device: str, user_id: int) -> dict[str, Any]:
    return {"leaderboard_id": board_id, "device": device, "user_id": user_id}


def _run(row: Any, report: RunReport) -> Run:
    score = None if row.score_s is None else score_of(row)
    return made_of(row, Run, score=score, report=report, rival=row.rival_id)
