"""Finals: duels of a closed ranking's best, and the official order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from kernelcup.storage.engine.columns import UtcDateTime

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "finals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("contestants", sa.JSON(), nullable=False),
        sa.Column("error", sa.Double(), nullable=False),
        sa.Column("started_by", sa.String(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_finals_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_finals"),
        sqlite_autoincrement=True,
    )
    key = ["leaderboard_id", "device", "id"]
    op.create_index(f"ix_finals_{'_'.join(key)}", "finals", key)
    op.create_table(
        "final_duels",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("final_id", sa.Integer(), nullable=False),
        sa.Column("first_id", sa.Integer(), nullable=False),
        sa.Column("second_id", sa.Integer(), nullable=False),
        sa.Column("error", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_final_duels_job_id_jobs", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["final_id"], ["finals.id"], name="fk_final_duels_final_id_finals", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_final_duels"),
    )
    op.create_index("ix_final_duels_final_id", "final_duels", ["final_id"])
