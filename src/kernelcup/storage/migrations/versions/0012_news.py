"""News, webhooks, what is left of deleted reviews, and events of leaderboards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "deleted_reviews",
        sa.Column("review_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("score_s", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("opened_by", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("decision", sa.String(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_deleted_reviews_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_deleted_reviews_user_id_users"),
        sa.PrimaryKeyConstraint("review_id", name="pk_deleted_reviews"),
    )
    op.create_index(
        "ix_deleted_reviews_leaderboard_id_review_id",
        "deleted_reviews",
        ["leaderboard_id", "review_id"],
        unique=False,
    )
    op.create_index("ix_deleted_reviews_user_id", "deleted_reviews", ["user_id"], unique=False)
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_error", sa.String(), server_default="", nullable=False),
        sa.Column("succeeded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_webhooks_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhooks_leaderboard_id", "webhooks", ["leaderboard_id"], unique=False)
    op.create_table(
        "news",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), server_default="", nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=True),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("score_s", sa.Double(), nullable=True),
        sa.Column("tied", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("other_id", sa.Integer(), nullable=True),
        sa.Column("other_submission_id", sa.Integer(), nullable=True),
        sa.Column("recipient_id", sa.Integer(), nullable=True),
        sa.Column("moment", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_news_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["other_id"], ["users.id"], name="fk_news_other_id_users", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["recipient_id"], ["users.id"], name="fk_news_recipient_id_users", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
            name="fk_news_submission_id_submissions",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_news_user_id_users", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_news"),
        sa.UniqueConstraint("key", name="uq_news_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_news_leaderboard_id_id", "news", ["leaderboard_id", "id"], unique=False)
    op.create_index("ix_news_other_id", "news", ["other_id"], unique=False)
    op.create_index("ix_news_recipient_id_id", "news", ["recipient_id", "id"], unique=False)
    op.create_index("ix_news_submission_id", "news", ["submission_id"], unique=False)
    op.create_index("ix_news_user_id", "news", ["user_id"], unique=False)
    op.create_table(
        "webhook_deliveries",
        sa.Column("webhook_id", sa.Integer(), nullable=False),
        sa.Column("news_id", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["news_id"], ["news.id"], name="fk_webhook_deliveries_news_id_news", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name="fk_webhook_deliveries_webhook_id_webhooks",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("webhook_id", "news_id", name="pk_webhook_deliveries"),
    )
    op.create_index("ix_webhook_deliveries_news_id", "webhook_deliveries", ["news_id"], unique=False)
    op.add_column("leaderboards", sa.Column("event", sa.String(), server_default="", nullable=False))
