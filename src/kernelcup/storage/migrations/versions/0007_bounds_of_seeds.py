"""Which seeds a leaderboard draws where its task does not say."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("leaderboards", sa.Column("seeds_below", sa.BigInteger(), nullable=True))
