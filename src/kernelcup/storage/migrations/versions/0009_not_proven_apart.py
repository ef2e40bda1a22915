"""What is not proven ranks below what is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None

APART = 2.0**60
KEPT = ("run_id", "submission_id", "score_s", "low_s", "high_s", "raw_s", "at_floor", "duel")
WHOSE = ("leaderboard_id", "device", "user_id")
BESTS = sa.table("bests", *map(sa.column, (*WHOSE, *KEPT)))
FROZEN = sa.table("frozen_bests", *map(sa.column, (*WHOSE, *KEPT)))
BOARDS = sa.table("leaderboards", *map(sa.column, ("id", "judging", "duel", "trust")))
RUNS = sa.table(
    "runs",
    *map(
        sa.column, ("id", "job_id", "counted", "score_s", "trust", "judging", "score_low_s", "score_high_s")
    ),
    *map(sa.column, ("score_raw_s", "at_floor", "rank_s", "duel")),
)
JOBS = sa.table("jobs", *map(sa.column, ("id", "submission_id", "device", "state")))
SUBMISSIONS = sa.table("submissions", *map(sa.column, ("id", "leaderboard_id", "user_id")))


def upgrade() -> None:
    """Apply: bests that are not proven give way to proven ones of the same user, or stand apart."""
    connection = op.get_bind()
    unproven = sa.select(RUNS.c.id).where(RUNS.c.trust == "bounded")
    # What was frozen is shown as it stood; its order alone follows the rule.
    moved = {name: FROZEN.c[name] * APART for name in ("score_s", "low_s", "high_s")}
    connection.execute(sa.update(FROZEN).where(FROZEN.c.run_id.in_(unproven)).values(moved))
    boards = sa.select(BESTS.c.leaderboard_id).where(BESTS.c.run_id.in_(unproven)).distinct()
    for (board_id,) in connection.execute(boards).all():
        connection.execute(sa.delete(BESTS).where(BESTS.c.leaderboard_id == board_id))
        connection.execute(sa.insert(BESTS).from_select([*WHOSE, *KEPT], _bests(board_id)))


def _bests(board_id: int) -> sa.Select[tuple[object, ...]]:
    """Return the best of each user by the new rule."""
    behind = sa.and_(BOARDS.c.duel, RUNS.c.rank_s.is_not(None))
    apart = sa.case((RUNS.c.trust == "bounded", APART), else_=1.0)
    score_s = sa.case((behind, RUNS.c.rank_s), else_=RUNS.c.score_s) * apart
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
    return sa.select(*(each.c[name] for name in (*WHOSE, *KEPT))).where(each.c.place == 1)
