"""The first schema: all tables.

Until release 0.1.0 it is what ``tables`` says. The release writes it out ("Release" in CONTRIBUTING.md):
from then on the tables change by further migrations only.
"""

from __future__ import annotations

from alembic import op

from kernelcup.tables import Base

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    Base.metadata.create_all(op.get_bind())
