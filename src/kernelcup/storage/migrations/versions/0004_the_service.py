"""Accounts, rules, the queue's order, events, reviews, the audit log: what the service needs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor_id", sa.Integer(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_target_id", "audit", ["target", "id"], unique=False)
    op.create_table(
        "dispatchers",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("machine", sa.String(), nullable=False),
        sa.Column("devices", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_dispatchers"),
    )
    op.create_table(
        "paces",
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("mean_s", sa.Double(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("device", "mode", name="pk_paces"),
    )
    op.create_table(
        "pauses",
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_pauses"),
    )
    op.create_table(
        "device_logins",
        sa.Column("device_code_hash", sa.String(), nullable=False),
        sa.Column("user_code", sa.String(), nullable=False),
        sa.Column("client", sa.String(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("polled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("denied", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_device_logins_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("device_code_hash", name="pk_device_logins"),
        sa.UniqueConstraint("user_code", name="uq_device_logins_user_code"),
    )
    op.create_index("ix_device_logins_user_id", "device_logins", ["user_id"], unique=False)
    op.create_table(
        "identities",
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("login", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_identities_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("provider", "subject", name="pk_identities"),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"], unique=False)
    op.create_table(
        "invites",
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("pseudonym", sa.String(), nullable=True),
        sa.Column("created_by", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_by", sa.Integer(), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["claimed_by"], ["users.id"], name="fk_invites_claimed_by_users", ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name="fk_invites_created_by_users", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("code", name="pk_invites"),
    )
    op.create_index("ix_invites_claimed_by", "invites", ["claimed_by"], unique=False)
    op.create_index("ix_invites_created_by", "invites", ["created_by"], unique=False)
    op.create_table(
        "login_links",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_login_links_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("hash", name="pk_login_links"),
    )
    op.create_index("ix_login_links_user_id", "login_links", ["user_id"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_tokens_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"], unique=False)
    op.create_table(
        "deadline_exceptions",
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_deadline_exceptions_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_deadline_exceptions_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("leaderboard_id", "user_id", name="pk_deadline_exceptions"),
    )
    op.create_index("ix_deadline_exceptions_user_id", "deadline_exceptions", ["user_id"], unique=False)
    op.create_table(
        "invite_boards",
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["code"], ["invites.code"], name="fk_invite_boards_code_invites", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_invite_boards_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("code", "leaderboard_id", name="pk_invite_boards"),
    )
    op.create_index("ix_invite_boards_leaderboard_id", "invite_boards", ["leaderboard_id"], unique=False)
    op.create_table(
        "limits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=True),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("device", sa.String(), nullable=True),
        sa.Column("mode_group", sa.String(), nullable=True),
        sa.Column("per_user", sa.Boolean(), nullable=False),
        sa.Column("quantity", sa.String(), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("window_s", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_limits_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_limits_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_limits"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_limits_leaderboard_id", "limits", ["leaderboard_id"], unique=False)
    op.create_index("ix_limits_user_id", "limits", ["user_id"], unique=False)
    op.create_table(
        "members",
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("pseudonym", sa.String(), nullable=True),
        sa.Column("joined_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_members_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_members_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("leaderboard_id", "user_id", name="pk_members"),
        sa.UniqueConstraint("leaderboard_id", "pseudonym", name="uq_members_leaderboard_id_pseudonym"),
    )
    op.create_index("ix_members_user_id", "members", ["user_id"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
            name="fk_events_submission_id_submissions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_submission_id_id", "events", ["submission_id", "id"], unique=False)
    op.create_table(
        "frozen_bests",
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("score_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_frozen_bests_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_frozen_bests_run_id_runs", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_frozen_bests_user_id_users"),
        sa.PrimaryKeyConstraint("leaderboard_id", "device", "user_id", name="pk_frozen_bests"),
    )
    op.create_index(
        "ix_frozen_bests_leaderboard_id_device_score_s_submission_id",
        "frozen_bests",
        ["leaderboard_id", "device", "score_s", "submission_id"],
        unique=False,
    )
    op.create_index("ix_frozen_bests_run_id", "frozen_bests", ["run_id"], unique=False)
    op.create_index("ix_frozen_bests_user_id", "frozen_bests", ["user_id"], unique=False)
    op.create_table(
        "records",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("score_s", sa.Double(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_records_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_records_run_id_runs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_records_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_records"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_records_leaderboard_id_device_id", "records", ["leaderboard_id", "device", "id"], unique=False
    )
    op.create_index("ix_records_run_id", "records", ["run_id"], unique=False)
    op.create_index("ix_records_user_id", "records", ["user_id"], unique=False)
    op.create_table(
        "reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("opened_by", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("decision", sa.String(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_reviews_job_id_jobs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_reviews_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reviews_job_id", "reviews", ["job_id"], unique=False)
    op.create_index("ix_reviews_run_id", "reviews", ["run_id"], unique=False)
    op.add_column("jobs", sa.Column("user_id", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("priority", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("turn", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("first_attempt", sa.Integer(), server_default="1", nullable=False))
    op.add_column("jobs", sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True))
    op.drop_index("ix_jobs_state_device_id", table_name="jobs")
    op.create_index(
        "ix_jobs_quarantined",
        "jobs",
        ["id"],
        unique=False,
        sqlite_where=sa.text("state = 'quarantined'"),
        postgresql_where=sa.text("state = 'quarantined'"),
    )
    op.create_index(
        "ix_jobs_queue",
        "jobs",
        ["device", "priority", "turn", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_jobs_queue_of_user",
        "jobs",
        ["user_id", "device", "priority", "turn"],
        unique=False,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_jobs_running",
        "jobs",
        ["device", "lease_until"],
        unique=False,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.add_column(
        "leaderboards", sa.Column("visibility", sa.String(), server_default="public", nullable=False)
    )
    op.add_column(
        "leaderboards", sa.Column("pseudonymous", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    op.add_column(
        "leaderboards", sa.Column("code_policy", sa.String(), server_default="never", nullable=False)
    )
    op.add_column("leaderboards", sa.Column("freeze_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("leaderboards", sa.Column("frozen_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("leaderboards", sa.Column("max_file_bytes", sa.Integer(), nullable=True))
    op.add_column("leaderboards", sa.Column("review_tags", sa.String(), server_default="", nullable=False))
    op.add_column("runs", sa.Column("task_hash", sa.String(), server_default="", nullable=False))
    op.create_index("ix_runs_task_hash", "runs", ["task_hash"], unique=False)
    op.add_column("submissions", sa.Column("client", sa.String(), server_default="", nullable=False))
    op.add_column("submissions", sa.Column("idempotency_key", sa.String(), nullable=True))
    op.add_column("submissions", sa.Column("request_hash", sa.String(), nullable=True))
    op.create_index(
        "ix_submissions_leaderboard_id_created_at",
        "submissions",
        ["leaderboard_id", "created_at"],
        unique=False,
    )
    op.create_index(
        "ix_submissions_user_id_created_at", "submissions", ["user_id", "created_at"], unique=False
    )
    op.create_index(
        "uq_submissions_user_id_idempotency_key", "submissions", ["user_id", "idempotency_key"], unique=True
    )
    op.add_column("users", sa.Column("role", sa.String(), server_default="participant", nullable=False))
    op.add_column("users", sa.Column("banned_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("users", sa.Column("ban_reason", sa.String(), server_default="", nullable=False))

    op.execute(
        "UPDATE jobs SET queued_at = created_at, priority = CASE mode WHEN 'leaderboard' THEN 0 ELSE 1 END, "
        "user_id = (SELECT user_id FROM submissions WHERE submissions.id = jobs.submission_id)"
    )
    op.execute("UPDATE runs SET task_hash = (SELECT task_hash FROM jobs WHERE jobs.id = runs.job_id)")
