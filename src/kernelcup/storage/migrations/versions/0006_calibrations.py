"""What devices can do, and their canaries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "device_calibrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine", sa.String(), nullable=False),
        sa.Column("gpu", sa.String(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fits", sa.Boolean(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("vouched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_device_calibrations"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_device_calibrations_machine_gpu_device_id",
        "device_calibrations",
        ["machine", "gpu", "device", "id"],
        unique=False,
    )
    op.create_table(
        "canaries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("calibration_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("canary_ns", sa.Double(), nullable=False),
        sa.Column("fits", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["calibration_id"],
            ["device_calibrations.id"],
            name="fk_canaries_calibration_id_device_calibrations",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_canaries"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_canaries_calibration_id", "canaries", ["calibration_id"], unique=False)
    op.add_column("runs", sa.Column("calibration_id", sa.Integer(), nullable=True))
