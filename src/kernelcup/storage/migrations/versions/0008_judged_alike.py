"""Only results that were judged alike rank together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from kernelcup.domain import Task
from kernelcup_harness.protocol import HarnessKind

revision = "0008"
down_revision = "0006"
branch_labels = None
depends_on = None

BOARDS = sa.table("leaderboards", *map(sa.column, ("id", "task_hash", "harness", "judging", "duel", "trust")))
RUNS = sa.table(
    "runs",
    *map(sa.column, ("id", "job_id", "task_hash", "counted", "score_s", "trust", "judging")),
    *map(sa.column, ("score_low_s", "score_high_s", "score_raw_s", "at_floor", "rank_s", "duel")),
    sa.column("report", sa.JSON()),
)
JOBS = sa.table("jobs", *map(sa.column, ("id", "submission_id", "device", "mode", "state")))
SUBMISSIONS = sa.table("submissions", *map(sa.column, ("id", "leaderboard_id", "user_id")))
VERSIONS = sa.table("task_versions", sa.column("hash"), sa.column("body", sa.JSON()))
KEPT = (
    "leaderboard_id",
    "device",
    "user_id",
    "run_id",
    "submission_id",
    "score_s",
    "low_s",
    "high_s",
    "raw_s",
)
BESTS = sa.table("bests", *map(sa.column, (*KEPT, "at_floor", "duel")))


def upgrade() -> None:
    """Apply."""
    for table in ("leaderboards", "runs"):
        op.add_column(table, sa.Column("judging", sa.String(), nullable=False, server_default=""))
    fill(op.get_bind())


def fill(connection: sa.Connection) -> None:
    """Say of each leaderboard and ranked run how it is judged, and end standings that mix versions."""
    for task_hash, body in connection.execute(sa.select(VERSIONS.c.hash, VERSIONS.c.body)).all():
        task = Task.from_json(body)
        for kind in HarnessKind:
            _name(connection, task_hash, kind, task.judging(kind))
    for (board_id,) in connection.execute(_mixed()).all():
        connection.execute(sa.delete(BESTS).where(BESTS.c.leaderboard_id == board_id))
        connection.execute(sa.insert(BESTS).from_select([*KEPT, "at_floor", "duel"], _bests(board_id)))


def _name(connection: sa.Connection, task_hash: str, kind: HarnessKind, judging: str) -> None:
    board = (BOARDS.c.task_hash == task_hash, BOARDS.c.harness == kind.value)
    connection.execute(sa.update(BOARDS).where(*board).values(judging=judging))
    ranked = sa.select(JOBS.c.id).where(JOBS.c.mode == "leaderboard")
    connection.execute(
        sa.update(RUNS)
        .where(RUNS.c.task_hash == task_hash, RUNS.c.report["harness"].as_string() == kind.value)
        .where(RUNS.c.job_id.in_(ranked))
        .values(judging=judging)
    )


def _mixed() -> sa.Select[int]:
    """Return the leaderboards where results of several versions rank together."""
    return (
        sa.select(BESTS.c.leaderboard_id)
        .join(RUNS, RUNS.c.id == BESTS.c.run_id)
        .join(BOARDS, BOARDS.c.id == BESTS.c.leaderboard_id)
        .where(RUNS.c.judging != BOARDS.c.judging)
        .distinct()
    )


def _bests(board_id: int) -> sa.Select[tuple[object, ...]]:
    """Return the best of each user among what was judged as the leaderboard judges now."""
    behind = sa.and_(BOARDS.c.duel, RUNS.c.rank_s.is_not(None))
    score_s = sa.case((behind, RUNS.c.rank_s), else_=RUNS.c.score_s)
    by = score_s / RUNS.c.score_s
    place = sa.func.row_number().over(
        partition_by=(JOBS.c.device, SUBMISSIONS.c.user_id), order_by=(score_s, JOBS.c.submission_id)
    )
    each = (
        sa.select(SUBMISSIONS.c.leaderboard_id, JOBS.c.device, SUBMISSIONS.c.user_id)
        .add_columns(RUNS.c.id.label("run_id"), JOBS.c.submission_id, score_s.label("score_s"))
        .add_columns((RUNS.c.score_low_s * by).label("low_s"), (RUNS.c.score_high_s * by).label("high_s"))
        .add_columns(RUNS.c.score_raw_s.label("raw_s"), RUNS.c.at_floor)
        .add_columns(sa.case((BOARDS.c.duel, RUNS.c.duel), else_="").label("duel"), place.label("place"))
        .join(JOBS, JOBS.c.id == RUNS.c.job_id)
        .join(SUBMISSIONS, SUBMISSIONS.c.id == JOBS.c.submission_id)
        .join(BOARDS, BOARDS.c.id == SUBMISSIONS.c.leaderboard_id)
        .where(SUBMISSIONS.c.leaderboard_id == board_id, JOBS.c.state != "quarantined")
        .where(RUNS.c.counted, RUNS.c.score_s.is_not(None), RUNS.c.judging == BOARDS.c.judging)
        .where(sa.or_(BOARDS.c.trust == "any", RUNS.c.trust == "audited"))
        .subquery()
    )
    return sa.select(*(each.c[name] for name in (*KEPT, "at_floor", "duel"))).where(each.c.place == 1)
