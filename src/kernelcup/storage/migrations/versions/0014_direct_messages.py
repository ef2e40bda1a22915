"""Users can do without direct messages about their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column(
        "users", sa.Column("direct_messages", sa.Boolean(), nullable=False, server_default=sa.true())
    )
