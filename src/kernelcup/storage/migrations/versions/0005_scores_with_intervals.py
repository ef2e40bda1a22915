"""Intervals of scores, what must be proven to rank, duels and comparisons."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. Runs from before have no interval: they tie only with equal scores."""
    for name in ("score_low_s", "score_high_s", "score_raw_s", "rank_s"):
        op.add_column("runs", sa.Column(name, sa.Double(), nullable=True))
    op.add_column("runs", sa.Column("at_floor", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("runs", sa.Column("duel", sa.String(), server_default="", nullable=False))
    op.add_column("runs", sa.Column("rival_id", sa.Integer(), nullable=True))
    for table in ("bests", "frozen_bests"):
        for name in ("low_s", "high_s", "raw_s"):
            op.add_column(table, sa.Column(name, sa.Double(), nullable=True))
        op.add_column(table, sa.Column("at_floor", sa.Boolean(), server_default=sa.false(), nullable=False))
        op.add_column(table, sa.Column("duel", sa.String(), server_default="", nullable=False))
    op.add_column("leaderboards", sa.Column("trust", sa.String(), server_default="any", nullable=False))
    op.add_column("leaderboards", sa.Column("duel", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "comparisons",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("first_id", sa.Integer(), nullable=True),
        sa.Column("second_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_comparisons_job_id_jobs", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["first_id"],
            ["submissions.id"],
            name="fk_comparisons_first_id_submissions",
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["second_id"],
            ["submissions.id"],
            name="fk_comparisons_second_id_submissions",
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_comparisons"),
    )
    op.create_index("ix_comparisons_first_id", "comparisons", ["first_id"], unique=False)
    op.create_index("ix_comparisons_second_id", "comparisons", ["second_id"], unique=False)
