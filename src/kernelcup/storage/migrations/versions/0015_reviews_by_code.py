"""What was decided about a text is found by the text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

CODE = """
SELECT submissions.code_hash FROM jobs JOIN submissions ON submissions.id = jobs.submission_id
WHERE jobs.id = reviews.job_id
"""


def upgrade() -> None:
    """Apply."""
    op.add_column("reviews", sa.Column("code_hash", sa.String(), server_default="", nullable=False))
    op.execute(f"UPDATE reviews SET code_hash = ({CODE})")
    op.create_index("ix_reviews_code_hash", "reviews", ["code_hash"])
