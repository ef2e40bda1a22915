"""What the static screen found in a submission."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. Submissions that are there already have no row: nobody has looked at them."""
    op.create_table(
        "screenings",
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("rules_version", sa.String(), nullable=False),
        sa.Column("left_out", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
            name="fk_screenings_submission_id_submissions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("submission_id", name="pk_screenings"),
    )
    op.create_table(
        "screening_findings",
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("line_number", sa.Integer(), nullable=False),
        sa.Column("column_number", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("explanation", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["screenings.submission_id"],
            name="fk_screening_findings_submission_id_screenings",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("submission_id", "position", name="pk_screening_findings"),
    )
    op.create_index(
        "ix_screening_findings_tag_submission_id",
        "screening_findings",
        ["tag", "submission_id"],
        unique=False,
    )
