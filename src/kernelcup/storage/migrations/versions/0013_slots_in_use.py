"""Dispatchers tell which of their slots others use."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("dispatchers", sa.Column("in_use", sa.JSON(), nullable=False, server_default="{}"))
