"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "code",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_code"),
    )
    op.create_table(
        "task_versions",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("ranking_by", sa.String(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_task_versions"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("name_key", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name_key", name="uq_users_name_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "leaderboards",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("name_key", sa.String(), nullable=False),
        sa.Column("task_hash", sa.String(), nullable=False),
        sa.Column("harness", sa.String(), nullable=False),
        sa.Column("opens_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("creator_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["creator_id"], ["users.id"], name="fk_leaderboards_creator_id_users"),
        sa.ForeignKeyConstraint(
            ["task_hash"], ["task_versions.hash"], name="fk_leaderboards_task_hash_task_versions"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_leaderboards"),
        sa.UniqueConstraint("name_key", name="uq_leaderboards_name_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_leaderboards_creator_id", "leaderboards", ["creator_id"], unique=False)
    op.create_index("ix_leaderboards_task_hash", "leaderboards", ["task_hash"], unique=False)

    op.create_table(
        "leaderboard_devices",
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_leaderboard_devices_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("leaderboard_id", "device", name="pk_leaderboard_devices"),
    )
    op.create_table(
        "submissions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("code_hash", sa.String(), nullable=False),
        sa.Column("file_name", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["code_hash"], ["code.hash"], name="fk_submissions_code_hash_code"),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_submissions_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_submissions_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_submissions_code_hash", "submissions", ["code_hash"], unique=False)
    op.create_index("ix_submissions_leaderboard_id_id", "submissions", ["leaderboard_id", "id"], unique=False)
    op.create_index(
        "ix_submissions_leaderboard_id_user_id_id",
        "submissions",
        ["leaderboard_id", "user_id", "id"],
        unique=False,
    )
    op.create_index("ix_submissions_user_id_id", "submissions", ["user_id", "id"], unique=False)

    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("task_hash", sa.String(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
            name="fk_jobs_submission_id_submissions",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["task_hash"], ["task_versions.hash"], name="fk_jobs_task_hash_task_versions"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("submission_id", "device", name="uq_jobs_submission_id_device"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_state_device_id", "jobs", ["state", "device", "id"], unique=False)
    op.create_index("ix_jobs_task_hash", "jobs", ["task_hash"], unique=False)

    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("score_s", sa.Double(), nullable=True),
        sa.Column("trust", sa.String(), nullable=False),
        sa.Column("comparable", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("harness_hash", sa.String(), nullable=False),
        sa.Column("machine", sa.String(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_runs_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("job_id", "attempt", name="uq_runs_job_id_attempt"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_runs_counted_job",
        "runs",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("counted"),
        postgresql_where=sa.text("counted"),
    )

    op.create_table(
        "bests",
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("score_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_bests_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_bests_run_id_runs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_bests_user_id_users"),
        sa.PrimaryKeyConstraint("leaderboard_id", "device", "user_id", name="pk_bests"),
    )
    op.create_index(
        "ix_bests_leaderboard_id_device_score_s_submission_id",
        "bests",
        ["leaderboard_id", "device", "score_s", "submission_id"],
        unique=False,
    )
    op.create_index("ix_bests_run_id", "bests", ["run_id"], unique=False)
    op.create_index("ix_bests_user_id", "bests", ["user_id"], unique=False)
