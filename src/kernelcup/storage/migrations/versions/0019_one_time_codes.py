"""One table of one-time codes. What the earlier two hold lasts 15 minutes and is dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from kernelcup.storage.engine.columns import UtcDateTime

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.drop_table("device_logins")
    op.drop_table("login_links")
    op.create_table(
        "one_time_codes",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("user_code", sa.String(), nullable=True),
        sa.Column("client", sa.String(), nullable=True),
        sa.Column("scopes", sa.String(), nullable=True),
        sa.Column("polled_at", UtcDateTime(), nullable=True),
        sa.Column("denied", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_one_time_codes_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("hash", name="pk_one_time_codes"),
        sa.UniqueConstraint("user_code", name="uq_one_time_codes_user_code"),
    )
    op.create_index("ix_one_time_codes_user_id", "one_time_codes", ["user_id"])
